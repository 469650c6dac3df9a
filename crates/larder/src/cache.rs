//! The untyped handle: one namespace, its tiers and its counters.

use crate::builder::Builder;
use crate::codec::{Codec, Format};
use crate::compression::Packing;
use crate::stats::{CacheStats, Counts, TierStats};
use crate::tier::memory::Memory;
use crate::tier::plain::RedisTier;
use crate::view::View;
use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::sync::Arc;
use std::time::Duration;

/// A namespace with its tiers. Cheap to clone: clones are handles to the same cache.
#[derive(Clone, Debug)]
pub struct Cache {
    pub(crate) inner: Arc<Inner>,
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) namespace: String,
    pub(crate) memory: Memory,
    pub(crate) redis: Option<RedisTier>,
    pub(crate) ttl: Duration,
    /// How views encode what they have no codec of their own for.
    format: Format,
    pub(crate) packing: Packing,
    pub(crate) counts: Counts,
    /// The names of the views; a view's number is its place here.
    views: Mutex<Vec<String>>,
}

impl Cache {
    /// Starts the options of a cache. The namespace separates it from others on the same Redis: a name without `:`.
    pub fn builder(namespace: &str) -> Builder {
        Builder::new(namespace)
    }

    pub(crate) fn new(
        namespace: String,
        memory: Memory,
        ttl: Duration,
        redis: Option<RedisTier>,
        format: Format,
        packing: Packing,
    ) -> Self {
        let views = Mutex::new(Vec::new());
        let counts = Counts::default();
        Cache { inner: Arc::new(Inner { namespace, memory, redis, ttl, format, packing, counts, views }) }
    }

    /// A typed window onto this cache. Views of the same name share their entries and must agree on the types: a value
    /// of another type is a miss.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn view<K: ?Sized, V, E>(&self, name: &str) -> View<K, V, E>
    where
        V: Serialize + DeserializeOwned + 'static,
    {
        self.view_with_codec(name, self.inner.format)
    }

    /// The same for values that have no serde, or are to be encoded otherwise than the cache's other values.
    ///
    /// # Panics
    /// If the name is empty or has a `:` in it.
    pub fn view_with_codec<K: ?Sized, V, E>(&self, name: &str, codec: impl Codec<V>) -> View<K, V, E>
    where
        V: 'static,
    {
        assert!(
            !name.is_empty() && !name.contains(':'),
            "view name is {name:?}; it must be a name without ':'"
        );
        let mut views = self.inner.views.lock();
        let number = views.iter().position(|known| known == name).unwrap_or_else(|| {
            views.push(name.to_owned());
            views.len() - 1
        });
        View::new(self.clone(), name, number as u32, Arc::new(codec))
    }

    /// The counters so far.
    pub fn stats(&self) -> CacheStats {
        let memory = self.inner.memory.stats();
        let counts = &self.inner.counts;
        CacheStats {
            memory: TierStats {
                hits: memory.hits,
                misses: memory.misses,
                evicted: memory.evicted,
                expired: memory.expired,
                entries: Some(memory.entries),
                bytes: Some(memory.weight),
                capacity: Some(memory.capacity),
                latency: counts.memory_latency.snapshot(),
                ..TierStats::default()
            },
            redis: self.redis_stats(),
            loads: counts.load_latency.snapshot().count(),
            load_failures: counts.load_failures.get(),
            coalesced: counts.coalesced.get(),
            load_latency: counts.load_latency.snapshot(),
        }
    }

    fn redis_stats(&self) -> Option<TierStats> {
        self.inner.redis.as_ref().map(|redis| TierStats {
            hits: redis.counts.hits.get(),
            misses: redis.counts.misses.get(),
            errors: redis.counts.errors.get(),
            skipped: redis.counts.skipped.get(),
            unreadable: redis.counts.unreadable.get(),
            latency: redis.latency.snapshot(),
            ..TierStats::default()
        })
    }
}
