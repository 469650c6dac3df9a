//! The untyped handle: one namespace, its tiers and its counters.

use crate::builder::Builder;
use crate::codec::{Codec, Format};
use crate::coherence::Changes;
use crate::coherence::announce::Origin;
use crate::coherence::journal::Journal;
use crate::coherence::ledger::{Invalidation, Ledger};
use crate::coherence::status::Coherence;
use crate::coherence::trust::Trust;
use crate::compression::Packing;
use crate::error::CacheError;
use crate::events::{Event, Events};
use crate::fetch::Policy;
use crate::key::{MemoryKey, MemoryKeyRef};
use crate::random::Random;
use crate::raw::{Counters, RawView};
use crate::schema;
use crate::stats::{CacheStats, Counts};
use crate::tier::ServerId;
use crate::tier::guard::Guarded;
use crate::tier::memory::Memory;
use crate::view::{View, detached};
use parking_lot::{Mutex, RwLock};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast};
use tokio::task::JoinHandle;

/// A namespace with its tiers. Cheap to clone: clones are handles to the same cache.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) inner: Arc<Inner>,
    /// The part of the namespace that this handle is for.
    pub(crate) space: Option<Arc<Space>>,
}

/// A part of a namespace: its views have names of their own, and its entries a tag.
#[derive(Debug)]
pub(crate) struct Space {
    name: String,
    pub(crate) tag: Box<str>,
}

pub(crate) struct Inner {
    pub(crate) namespace: String,
    pub(crate) memory: Memory,
    /// The tier behind memory.
    pub(crate) shared: Option<Guarded>,
    pub(crate) trust: Trust,
    pub(crate) ledger: Ledger,
    pub(crate) journal: Journal,
    pub(crate) changes: Changes,
    pub(crate) events: Events,
    pub(crate) on_error: Option<OnError>,
    pub(crate) names: Names,
    pub(crate) origin: Origin,
    /// Where ids and jitter come from.
    pub(crate) random: Random,
    pub(crate) foreign_writers: bool,
    /// How long somebody else's lease is waited for.
    pub(crate) lease_wait: Duration,
    /// The server that this node listened to last.
    pub(crate) server: Mutex<Option<ServerId>>,
    pub(crate) caretaker: Mutex<Option<JoinHandle<()>>>,
    /// Closed once the caretaker has tried to connect. It wakes its waiters in order; a watch channel would not.
    pub(crate) tried: Semaphore,
    /// Held alone by who pays debts, and shared by who changes keys.
    pub(crate) paying: tokio::sync::RwLock<()>,
    /// Locks that keep fills and changes apart where the server does not.
    pub(crate) fills: Box<[tokio::sync::Mutex<()>]>,
    pub(crate) policy: Policy,
    /// How views encode what they have no codec of their own for.
    pub(crate) format: Format,
    pub(crate) packing: Packing,
    pub(crate) counts: Counts,
    /// The names of the views; a view's number is its place here.
    pub(crate) views: RwLock<Vec<String>>,
    pub(crate) off: AtomicBool,
}

pub(crate) type OnError = Box<dyn Fn(&CacheError) + Send + Sync>;

/// Names in Redis that are no entries.
#[derive(Debug)]
pub(crate) struct Names {
    pub(crate) channel: Vec<u8>,
    pub(crate) ledger: Vec<u8>,
}

impl Names {
    /// No view has an empty name, so these are no entries of any.
    pub(crate) fn new(namespace: &str, scope: &str) -> Self {
        Names {
            channel: format!("{namespace}::news:{scope}").into_bytes(),
            ledger: format!("{namespace}::ledger").into_bytes(),
        }
    }
}

impl Cache {
    /// Starts the options of a cache. The namespace separates it from others on the same Redis: a name without `:`.
    pub fn builder(namespace: &str) -> Builder {
        Builder::new(namespace)
    }

    /// A cache that keeps nothing: every fetch loads, every read misses.
    pub fn null() -> Cache {
        Builder::new("null").ttl(Duration::from_secs(1)).enabled(false).build().expect("valid options")
    }

    pub(crate) fn namespace(&self) -> &str {
        &self.inner.namespace
    }

    /// A part of this namespace: the same tiers and budget, views of its own, and a [`Cache::clear`] that leaves the
    /// rest alone.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn space(&self, name: &str) -> Cache {
        let name = format!("{}{}", self.space.as_ref().map_or("", |space| &space.name), checked(name));
        let tag = format!("space:{name}").into();
        let space = Space { name: name + ".", tag };
        Cache { inner: self.inner.clone(), space: Some(Arc::new(space)) }
    }

    /// A typed window onto this cache. Views of the same name share their entries and must agree on the types: a value of
    /// another type is a miss, and so is what an earlier program wrote of a type whose fields have changed since.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn view<K: ?Sized, V, E>(&self, name: &str) -> View<K, V, E>
    where
        V: Serialize + DeserializeOwned + 'static,
    {
        self.view_of(name, self.inner.format, schema::of_shape::<V>())
    }

    /// The same for values that have no serde, or are to be encoded otherwise than the cache's other values.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn view_with_codec<K: ?Sized, V, E>(&self, name: &str, codec: impl Codec<V>) -> View<K, V, E>
    where
        V: 'static,
    {
        self.view_of(name, codec, schema::of_name::<V>())
    }

    fn view_of<K: ?Sized, V: 'static, E>(
        &self,
        name: &str,
        codec: impl Codec<V>,
        schema: u64,
    ) -> View<K, V, E> {
        let (name, number) = self.named(name);
        View::new(self.clone(), &name, number, Arc::new(codec), schema)
    }

    /// Counters under keys of type `K`. They live in Redis alone, or in memory if there is none.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn counters<K: ?Sized>(&self, name: &str) -> Counters<K> {
        let (name, number) = self.named(name);
        Counters::new(self.clone(), name, number)
    }

    /// Bytes as other programs write and read them. They live in Redis alone, and no promise covers them.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn raw<K: ?Sized>(&self, name: &str) -> RawView<K> {
        let (name, _) = self.named(name);
        RawView::new(self.clone(), name)
    }

    fn named(&self, name: &str) -> (String, u32) {
        let name = format!("{}{}", self.space.as_ref().map_or("", |space| &space.name), checked(name));
        if let Some(number) = self.inner.views.read().iter().position(|known| *known == name) {
            return (name, number as u32);
        }
        let mut views = self.inner.views.write();
        let number = views.iter().position(|known| *known == name).unwrap_or_else(|| {
            views.push(name.clone());
            views.len() - 1
        });
        (name, number as u32)
    }

    /// Invalidates everything that has one of these tags, in both tiers and on every node, hard or soft.
    ///
    /// Cost: one round trip to Redis, however many entries there are.
    ///
    /// # Errors
    /// If Redis did not confirm; it holds on this node all the same, and Redis is told again until it does.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn invalidate_tags<T: Into<Box<str>>>(
        &self,
        tags: impl IntoIterator<Item = T>,
        how: Invalidation,
    ) -> Result<(), CacheError> {
        let tags: Vec<Box<str>> = tags.into_iter().map(Into::into).collect();
        crate::envelope::check_tags(&tags).map_err(CacheError::Encode)?;
        let inner = self.inner.clone();
        detached(async move { inner.invalidate(Some(tags), how).await }).await
    }

    /// Invalidates everything in this namespace, or in this part of it, in both tiers and on every node. Counters and raw
    /// values stay.
    ///
    /// Cost: one round trip to Redis. The bytes in Redis go as their times to live end.
    ///
    /// # Errors
    /// As [`Cache::invalidate_tags`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn clear(&self) -> Result<(), CacheError> {
        let tags = self.space.as_ref().map(|space| vec![space.tag.clone()]);
        let inner = self.inner.clone();
        detached(async move { inner.invalidate(tags, Invalidation::Hard).await }).await
    }

    /// Deletes every key whose name behind the namespace, `view:key`, matches a glob. Returns how many were in Redis, or in
    /// memory if there is no Redis.
    ///
    /// Cost: a walk over *all* keys of the Redis, of other programs too, 1,000 a round trip, with a transaction for each
    /// 500 that match. Tags do this in one round trip.
    ///
    /// # Errors
    /// If Redis did not confirm; what was deleted before is deleted.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete_matched(&self, pattern: &str) -> Result<u64, CacheError> {
        let pattern = format!("{}{pattern}", self.space.as_ref().map_or("", |space| &space.name));
        let inner = self.inner.clone();
        detached(async move { inner.delete_matched(&pattern).await }).await
    }

    /// What of the coherence with other nodes is active, and how old its last proof is.
    pub fn coherence(&self) -> Coherence {
        self.inner.coherence()
    }

    /// What happens in this cache from now on. A watcher that is slow misses some, and learns how many.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        self.inner.events.watch()
    }

    /// Turns the cache off or on. While it is off every fetch loads, every read misses, and writes only invalidate.
    pub fn set_enabled(&self, enabled: bool) {
        self.inner.off.store(!enabled, Ordering::Release);
    }

    /// The counters so far.
    pub fn stats(&self) -> CacheStats {
        self.inner.stats()
    }
}

fn checked(name: &str) -> &str {
    assert!(!name.is_empty() && !name.contains(':'), "view name is {name:?}; it must be a name without ':'");
    name
}

impl Inner {
    pub(crate) fn is_off(&self) -> bool {
        self.off.load(Ordering::Acquire)
    }

    /// Whether Redis was silent a moment ago.
    pub(crate) fn redis_is_lost(&self) -> bool {
        self.shared.as_ref().is_some_and(|shared| shared.breaker.is_open())
    }

    /// The key in memory of a key in Redis, if this node has a view for it.
    pub(crate) fn memory_key_of(&self, redis_key: &[u8]) -> Option<MemoryKey> {
        let rest = redis_key.strip_prefix(self.namespace.as_bytes())?.strip_prefix(b":")?;
        let colon = rest.iter().position(|byte| *byte == b':')?;
        let (view, bytes) = (&rest[..colon], &rest[colon + 1..]);
        let number = self.views.read().iter().position(|name| name.as_bytes() == view)?;
        Some(MemoryKeyRef { view: number as u32, bytes }.into_owned())
    }

    /// The name of a key of memory behind the namespace.
    pub(crate) fn name_of(&self, key: &MemoryKey) -> Vec<u8> {
        let views = self.views.read();
        let view = views.get(key.view as usize).map_or("", |name| name.as_str());
        [view.as_bytes(), b":", &key.bytes].concat()
    }

    pub(crate) fn report(&self, error: &CacheError) {
        if let Some(on_error) = &self.on_error {
            on_error(error);
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(caretaker) = self.caretaker.get_mut().take() {
            caretaker.abort();
        }
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
