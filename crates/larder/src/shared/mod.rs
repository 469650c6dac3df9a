//! Bytes that nodes share through Redis, for a caller that keeps its copies in a store of its own. It is the protocol of
//! a view without the memory tier: the same lookups, leases, stores, stamps and proofs.
//!
//! ```text
//!  hit:    the caller's store has a copy ─► validity ─ Valid ──────────► serve it: atomic reads only
//!                                             ├ Unknown ─► revalidate: one short read of Redis
//!                                             └ Dead ────► drop it
//!  miss:   fetch ─ Found ─► the caller stores the bytes with their copy
//!            └ Lease ─► the caller loads ─► commit ─► the caller stores its bytes with the copy
//! ```
//!
//! - [`copy`]: what judges the bytes that the caller keeps; [`lookup`]: fetches and comparisons.
//! - [`lease`]: the right to load, and the end of a load.

mod copy;
mod lease;
mod lookup;

pub use copy::{SharedCopy, SharedMoment};
pub use lease::{Committed, SharedLease};
pub use lookup::{SharedFetch, SharedReload, SharedValue};

use crate::coherence::Coordinator;
use crate::coherence::mutation::spawn_mutation;
use crate::key::{KeyBuf, MemoryKeyRef};
use crate::node::Node;
use crate::node::key_counts::{KeyCounts, MANY};
use crate::node::ledger::Invalidation;
use crate::node::listeners::{Listener, RemoteInvalidation};
use crate::node::view_config::ViewConfig;
use crate::policy::Policy;
use crate::report::error::CacheError;
use crate::report::reach::{Reach, Removal};
use crate::value::codec::Raw;
use crate::value::schema;
use std::sync::Arc;
use tokio::sync::Mutex;

/// How many comparisons with Redis run at the same time.
const COMPARISONS: usize = 64;

/// Bytes that nodes share through Redis. The caller keeps its own copies, each with a [`SharedCopy`] that tells whether
/// it may be served. Made by [`Cache::shared`](crate::Cache::shared). Cheap to clone.
///
/// The [promise](crate#the-promise) covers copies as it covers memory: an invalidation of a key or a tag, and a clear, by
/// any node and through any view, reaches every copy within `max_lag`, and a load that began before it is not stored.
/// Without Redis each node is alone; so it is if the server lacks commands that coherent nodes need.
///
/// Concurrent fetches of one key by one node are not combined: the caller's store does that.
///
/// # Examples
/// ```
/// use larder::{Cache, Committed, SharedCopy, SharedFetch, Validity, WriteOptions};
/// use std::collections::HashMap;
/// use std::time::Duration;
///
/// # tokio::runtime::Runtime::new()?.block_on(async {
/// let cache = Cache::builder("shop").ttl(Duration::from_secs(300)).build()?;
/// let shared = cache.shared("page");
/// // The store of the caller.
/// let mut pages: HashMap<&str, (Vec<u8>, SharedCopy)> = HashMap::new();
///
/// match shared.fetch(b"/apples").await {
///     SharedFetch::Found(value) => {
///         pages.insert("/apples", (value.bytes().to_vec(), value.into_copy()));
///     }
///     SharedFetch::Lease(lease) => {
///         let page = b"<h1>Apples</h1>".to_vec();
///         let options = WriteOptions::new().ttl(Duration::from_secs(60)).tag("apples");
///         if let Committed::Everywhere(copy) | Committed::Here(copy) = lease.commit(page.clone(), &options).await {
///             pages.insert("/apples", (page, copy));
///         }
///     }
/// }
///
/// assert_eq!(shared.validity(&pages["/apples"].1), Validity::Valid);
/// assert!(cache.invalidate_tags(["apples"], Default::default()).await?.is_everywhere());
/// assert_eq!(shared.validity(&pages["/apples"].1), Validity::Dead);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct SharedView(Arc<SharedState>);

struct SharedState {
    coordinator: Arc<Coordinator>,
    config: ViewConfig<Vec<u8>>,
    /// The tag of all entries of this view.
    own_tag: Box<str>,
    /// Each combines the comparisons of some keys: concurrent callers need one reply.
    comparisons: Box<[Mutex<()>]>,
}

impl SharedView {
    pub(crate) fn new(
        coordinator: Arc<Coordinator>,
        name: String,
        number: u32,
        mut tags: Vec<Box<str>>,
    ) -> Self {
        coordinator.node.key_invalidations.get_or_init(|| KeyCounts::new(MANY));
        let own_tag: Box<str> = format!("shared:{name}").into();
        tags.push(own_tag.clone());
        // The commit decides how long the bytes are fresh, on whatever node.
        let mut config =
            ViewConfig::new(name, number, Arc::new(Raw), schema::of_name::<Vec<u8>>(), Policy::new());
        config.tags = tags;
        let comparisons = (0..COMPARISONS).map(|_| Mutex::new(())).collect();
        SharedView(Arc::new(SharedState { coordinator, config, own_tag, comparisons }))
    }

    /// Deletes a key, on every node. Running loads of the key can no longer store their bytes.
    ///
    /// The removal continues if the caller is dropped. Cost: one round trip to Redis. A copy of another key with the
    /// same hash of 16 bits is compared with Redis once.
    ///
    /// [`Reach::HereAndQueued`] if Redis did not confirm: no copy of this node is served any more, and the removal is
    /// queued and replayed until Redis confirms it.
    ///
    /// # Errors
    /// [`CacheError::Redis`] if the runtime shuts down.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &[u8]) -> Result<Removal, CacheError> {
        let redis_key = self.redis_key(key);
        self.node().record_key_invalidation(&redis_key);
        let memory_key = MemoryKeyRef { view: self.0.config.number, bytes: key }.into_owned();
        let coordinator = self.coordinator().clone();
        let deletion = async move { Ok(coordinator.delete_keys(vec![(memory_key, redis_key)]).await) };
        let (existed, confirmed) = spawn_mutation(self.node(), deletion).await?;
        Ok(Removal { existed: existed.first() == Some(&true), reach: self.coordinator().reach(confirmed)? })
    }

    /// Invalidates all entries with one of these tags, of this view and of all others, on every node; as
    /// [`Cache::invalidate_tags`](crate::Cache::invalidate_tags).
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
        self.coordinator().invalidate_tags(boxed(tags), how).await
    }

    /// As [`SharedView::invalidate_tags`] without waiting for Redis: in effect on this node when it returns, and elsewhere
    /// soon. If Redis does not confirm, it is queued and replayed.
    ///
    /// # Errors
    /// As [`SharedView::invalidate_tags`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub fn spawn_invalidation<T: AsRef<str>>(
        &self,
        tags: impl IntoIterator<Item = T>,
        how: Invalidation,
    ) -> Result<(), CacheError> {
        self.coordinator().spawn_invalidation(boxed(tags), how)
    }

    /// Invalidates all entries of this view, on every node. Cost: one round trip to Redis.
    ///
    /// # Errors
    /// [`CacheError::Redis`] if the runtime shuts down.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn clear(&self) -> Result<Reach, CacheError> {
        self.invalidate_tags([self.0.own_tag.clone()], Invalidation::Hard).await
    }

    /// Calls a function with each invalidation of this view by another node, before this node can prove again that it is up
    /// to date. [`SharedView::validity`] needs no listener: use one to free memory at once. It is called on the task that
    /// receives announcements and must not block; its panics are caught. Dropping the result ends it.
    ///
    /// The listener does not get keys of other views. It gets all tags, whether this view has entries with them or not.
    pub fn listen(&self, listener: impl Fn(RemoteInvalidation<'_>) + Send + Sync + 'static) -> Listening {
        let prefix = self.redis_key(&[]);
        let own_tag = self.0.own_tag.clone();
        Listening(self.node().listeners.add(move |remote| match remote {
            RemoteInvalidation::Key(redis_key) => {
                if let Some(key) = redis_key.strip_prefix(&prefix[..]) {
                    listener(RemoteInvalidation::Key(key));
                }
            }
            RemoteInvalidation::Tag(tag, how) if *tag == *own_tag => {
                listener(RemoteInvalidation::Everything(how));
            }
            other => listener(other),
        }))
    }

    /// Whether every entry of this view has the tag: it is a tag of the view itself, or of a space above it.
    pub fn has_tag(&self, tag: &str) -> bool {
        self.0.config.tags.iter().any(|own| **own == *tag)
    }

    fn coordinator(&self) -> &Arc<Coordinator> {
        &self.0.coordinator
    }

    fn node(&self) -> &Node {
        &self.coordinator().node
    }

    fn redis_key(&self, key: &[u8]) -> Vec<u8> {
        self.node().keyspace.redis_key(&self.0.config.name, &KeyBuf::of(key))
    }

    fn invalidations(&self) -> &KeyCounts {
        self.node().key_invalidations.get().expect("made with the view")
    }
}

impl std::fmt::Debug for SharedView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SharedView").field("name", &self.0.config.name).finish_non_exhaustive()
    }
}

/// A listener of [`SharedView::listen`]. Dropping it ends the listener.
#[must_use = "dropping it ends the listener"]
pub struct Listening(#[expect(dead_code, reason = "its drop ends the listener")] Arc<Listener>);

impl std::fmt::Debug for Listening {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Listening")
    }
}

fn boxed<T: AsRef<str>>(tags: impl IntoIterator<Item = T>) -> Vec<Box<str>> {
    tags.into_iter().map(|tag| tag.as_ref().into()).collect()
}
