//! The handle of a cache: it makes views and counters, invalidates tags, and shows what the cache does.

use crate::coherence::Coordinator;
use crate::coherence::mutation::spawn_mutation;
use crate::coherence::status::Coherence;
use crate::handle::fn_views::FnViews;
use crate::node::ledger::Invalidation;
use crate::node::view_config::ViewConfig;
use crate::report::error::CacheError;
use crate::report::events::Event;
use crate::report::reach::{Reach, Removal};
use crate::report::stats::CacheStats;
use crate::shared::SharedView;
use crate::value::absence;
use crate::value::codec::Codec;
use crate::value::envelope::MAX_TAG_BYTES;
use crate::value::schema;
use crate::view::View;
use crate::view::raw::{Counters, RawView};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

/// A namespace with its tiers. Cheap to clone: clones are handles of the same cache.
#[derive(Clone, Debug)]
pub struct Cache {
    coordinator: Arc<Coordinator>,
    /// The part of the namespace that this handle is for.
    space: Option<Arc<Space>>,
    /// The views of cached functions that this handle and its clones were passed to.
    fn_views: Arc<FnViews>,
}

/// A part of a namespace: its views have their own names, and its entries tags.
#[derive(Debug)]
struct Space {
    /// The prefix of the names of its views: the names of the spaces from the namespace down, each with a [`SEPARATOR`].
    prefix: String,
    /// The tag of each space from the namespace down. The last one is that of this space.
    tags: Vec<Box<str>>,
}

/// Separates the names of spaces and views. No name contains it, so no two paths are the same text.
const SEPARATOR: char = '/';

/// The prefix of the tag of a space, before its path.
const SPACE_TAG: &str = "space:";
/// The longest path of a space.
const MAX_PATH_BYTES: usize = MAX_TAG_BYTES - SPACE_TAG.len();

impl Cache {
    pub(crate) fn new(coordinator: Coordinator) -> Self {
        Cache { coordinator: Arc::new(coordinator), space: None, fn_views: Arc::default() }
    }

    /// A part of this namespace, or of this part: the same tiers and capacity, and its own views. [`Cache::clear`] on
    /// it reaches the parts below and leaves the others alone. Each level is a tag of its entries, of which there may
    /// be 64.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`, or if it and the names of the spaces above it, with a `/` between
    /// them, are longer than 249 bytes.
    pub fn space(&self, name: &str) -> Cache {
        let path = self.full_name(name);
        // Its tag would be too long for any entry.
        let bytes = path.len();
        assert!(
            bytes <= MAX_PATH_BYTES,
            "the path of a space has {bytes} bytes; it must be from 1 to {MAX_PATH_BYTES}"
        );
        let mut tags = self.tags();
        tags.push(format!("{SPACE_TAG}{path}").into());
        let space = Space { prefix: format!("{path}{SEPARATOR}"), tags };
        Cache {
            coordinator: self.coordinator.clone(),
            space: Some(Arc::new(space)),
            fn_views: Arc::default(),
        }
    }

    /// A typed window onto this cache. Views of the same name share their entries and must have the same types: a
    /// value of another type is a miss, and so is a value that an older program wrote before the fields of its type
    /// changed.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`.
    pub fn view<K: ?Sized, V, E>(&self, name: &str) -> View<K, V, E>
    where
        V: Serialize + DeserializeOwned + 'static,
    {
        let view = self.view_of(name, self.coordinator.node.settings.format, schema::of_shape::<V>());
        view.with_none(absence::is_none)
    }

    /// The same with a codec, for values without serde or with another encoding than the cache's.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`.
    pub fn view_with_codec<K: ?Sized, V, E>(&self, name: &str, codec: impl Codec<V>) -> View<K, V, E>
    where
        V: 'static,
    {
        self.view_of(name, codec, schema::of_name::<V>())
    }

    pub(crate) fn view_of<K: ?Sized, V: 'static, E>(
        &self,
        name: &str,
        codec: impl Codec<V>,
        schema: u64,
    ) -> View<K, V, E> {
        let (name, number) = self.registered(name);
        let policy = self.coordinator.node.settings.policy;
        let mut config = ViewConfig::new(name, number, Arc::new(codec), schema, policy);
        config.tags = self.tags();
        View::new(self.coordinator.clone(), config)
    }

    /// Counters under keys of type `K`. They are stored in Redis only, or in memory if there is no Redis. No view may have
    /// the same name: its writes would overwrite the counters.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`.
    pub fn counters<K: ?Sized>(&self, name: &str) -> Counters<K> {
        let (name, number) = self.registered(name);
        Counters::new(self.coordinator.clone(), name, number)
    }

    /// Bytes as other programs read and write them. They are stored in Redis only, and no promise covers them. No view may
    /// have the same name: its entries in memory would not follow changes of the bytes.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`.
    pub fn raw<K: ?Sized>(&self, name: &str) -> RawView<K> {
        let (name, _) = self.registered(name);
        RawView::new(self.coordinator.clone(), name)
    }

    /// Bytes that nodes share through Redis, for a caller that keeps its copies in a store of its own. The memory of this
    /// cache does not hold them. No view may have the same name.
    ///
    /// # Panics
    /// If the name is empty or contains a `:` or a `/`.
    pub fn shared(&self, name: &str) -> SharedView {
        let (name, number) = self.registered(name);
        SharedView::new(self.coordinator.clone(), name, number, self.tags())
    }

    pub(crate) fn fn_views(&self) -> &FnViews {
        &self.fn_views
    }

    /// A name with the prefix of the space.
    fn full_name(&self, name: &str) -> String {
        let is_valid = !name.is_empty() && !name.contains([':', SEPARATOR]);
        assert!(is_valid, "the name of a view or space is {name:?}; it must be a name without ':' and '/'");
        format!("{}{name}", self.prefix())
    }

    /// The tags of the space and of those above it.
    fn tags(&self) -> Vec<Box<str>> {
        self.space.as_ref().map_or_else(Vec::new, |space| space.tags.clone())
    }

    fn prefix(&self) -> &str {
        self.space.as_ref().map_or("", |space| &space.prefix)
    }

    /// The full name and the number of a view.
    fn registered(&self, name: &str) -> (String, u32) {
        let name = self.full_name(name);
        let node = &self.coordinator.node;
        // No entry has it, and no call looks for one.
        let number = if node.is_inherited() { 0 } else { node.keyspace.view_number(&name) };
        (name, number)
    }

    /// Invalidates all entries with one of these tags, in both tiers and on every node, hard or soft.
    ///
    /// Cost: one round trip to Redis, however many entries there are.
    ///
    /// [`Reach::HereAndQueued`] if Redis did not confirm: the invalidation is in effect on this node, and is queued and
    /// replayed until Redis confirms it.
    ///
    /// # Errors
    /// If a tag is longer than 255 bytes or there are more than 64: nothing was done.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn invalidate_tags<T: AsRef<str>>(
        &self,
        tags: impl IntoIterator<Item = T>,
        how: Invalidation,
    ) -> Result<Reach, CacheError> {
        let tags = tags.into_iter().map(|tag| tag.as_ref().into()).collect();
        self.coordinator.invalidate_tags(tags, how).await
    }

    /// Invalidates all entries of this namespace, or of this part of it and the parts below, in both tiers and on every
    /// node. Counters and raw values stay.
    ///
    /// Cost: one round trip to Redis. The bytes in Redis expire by their times to live.
    ///
    /// [`Reach::HereAndQueued`] as for [`Cache::invalidate_tags`].
    ///
    /// # Errors
    /// [`CacheError::Redis`] if the runtime shuts down.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn clear(&self) -> Result<Reach, CacheError> {
        let tags = self.tags().pop().map(|own| vec![own]);
        let coordinator = self.coordinator.clone();
        let cleared = spawn_mutation(&self.coordinator.node, async move {
            Ok(coordinator.invalidate(tags, Invalidation::Hard).await)
        })
        .await?;
        self.coordinator.reach(cleared)
    }

    /// Deletes every key whose name without the namespace, `view:key`, matches a glob, in both tiers and on every node.
    /// Returns how many values were in Redis, or in memory if there is no Redis or it did not confirm. Counters and raw
    /// values whose names match are deleted too.
    ///
    /// Cost: a scan of *all* keys of the Redis, including keys of other programs, 1,000 in a round trip; a request for
    /// each 500 that match; and a walk through the memory of each node. An invalidation of a tag takes one round trip.
    ///
    /// The pattern is that of Redis: `*` matches any bytes, `?` one byte, `[a-c]` and `[^a-c]` one byte in or outside of a
    /// class, and `\` makes the next character literal. A character beyond ASCII is several bytes.
    ///
    /// # Errors
    /// [`CacheError::Pattern`] if the nodes and Redis might match differently, or if the comparison of one key may
    /// take long: a class with characters beyond ASCII, more than 1,000 stars or classes, or more than 256 characters
    /// between two stars that are not all literal. Nothing is deleted then. Other errors are those of
    /// [`Cache::invalidate_tags`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete_matched(&self, pattern: &str) -> Result<Removal<u64>, CacheError> {
        if let Err(reason) = larder_glob::Pattern::portable(pattern.as_bytes()) {
            return Err(CacheError::Pattern { pattern: pattern.to_owned(), reason: reason.to_string() });
        }
        let pattern = larder_glob::escape(self.prefix()) + pattern;
        let coordinator = self.coordinator.clone();
        let deletion = async move { Ok(coordinator.delete_matched(&pattern).await) };
        let (existed, confirmed) = spawn_mutation(&self.coordinator.node, deletion).await?;
        Ok(Removal { existed, reach: self.coordinator.reach(confirmed)? })
    }

    /// Connects to Redis now, so that no call waits for it and [`Cache::coherence`] tells from the start whether it can be used.
    /// Without this call the first one connects that needs Redis. Returns after the first attempt; others follow in the
    /// background until one succeeds. Does nothing without Redis, or if the cache is connected.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// A dropped call changes nothing: the attempt goes on.
    pub async fn connect(&self) {
        if self.coordinator.node.check_open().is_ok() {
            self.coordinator.node.tasks.within(self.coordinator.ensure_connected()).await;
        }
    }

    /// Waits until Redis has confirmed every invalidation of this node, at most for `limit`. Returns how many are still
    /// pending. Call it before the process ends. Pending invalidations end with the process, and other nodes may then serve
    /// the invalidated values for the rest of their time to live.
    ///
    /// The cache can be used during the call and after it.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// A dropped call changes nothing.
    pub async fn close(&self, limit: Duration) -> usize {
        self.coordinator.node.tasks.within(self.coordinator.drain(limit)).await
    }

    /// Ends the cache: waits as [`Cache::close`] does, at most for `limit`, then ends its tasks, closes its connections and
    /// empties its memory. Returns how many invalidations are still pending: they are lost.
    ///
    /// From the first poll on every call of this cache, and of all of its handles and views, is an error that says so, as
    /// [`CacheError::ShutDown`] does, or a miss. A load that runs meanwhile answers its callers and may store nothing,
    /// and an invalidation that runs meanwhile may be lost although it says that it is queued.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    ///
    /// # Cancel safety
    /// After a dropped call the connections are open until the last handle is dropped. Call it again.
    pub async fn shutdown(&self, limit: Duration) -> usize {
        self.coordinator.node.tasks.within(self.coordinator.shut_down(limit)).await
    }

    /// The present coherence of this cache with other nodes.
    pub fn coherence(&self) -> Coherence {
        self.coordinator.coherence()
    }

    /// The events of this cache from now on. A slow watcher misses some and learns how many.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        let node = &self.coordinator.node;
        if node.process.has_forked() {
            return node.observers.watch_after_fork();
        }
        node.observers.watch()
    }

    /// Turns the cache off or on. While it is off, every fetch loads, every read misses, and writes only invalidate.
    pub fn set_enabled(&self, enabled: bool) {
        self.coordinator.node.set_enabled(enabled);
    }

    /// The counters so far.
    pub fn stats(&self) -> CacheStats {
        let node = &self.coordinator.node;
        if node.is_inherited() { CacheStats::default() } else { node.stats() }
    }
}
