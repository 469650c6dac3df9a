//! The peers that are always built, with one wrapper each for all suites.

use super::{BuildHasher, Expiring, Hasher, Key, Loading, Readable, Value, Writable};
use quick_cache::sync::DefaultLifecycle;
use quick_cache::{UnitWeighter, Weighter};
use std::convert::Infallible;
use std::time::Duration;

pub(crate) struct QuickCache<K, V, W = UnitWeighter, S = Hasher>(
    pub(crate) quick_cache::sync::Cache<K, V, W, S>,
);

impl<K: Key, V: Value, W: Weigh<K, V>, S: BuildHasher> QuickCache<K, V, W, S> {
    /// A cache for a total weight and about `expected_entries` entries.
    pub(crate) fn with_weight(expected_entries: usize, weight: u64) -> Self {
        let (weigher, hasher, lifecycle) = (W::default(), S::default(), DefaultLifecycle::default());
        QuickCache(quick_cache::sync::Cache::with(expected_entries, weight, weigher, hasher, lifecycle))
    }
}

/// How quick_cache weighs entries.
pub(crate) trait Weigh<K, V>: Weighter<K, V> + Clone + Default + Send + Sync + 'static {}
impl<K, V, W: Weighter<K, V> + Clone + Default + Send + Sync + 'static> Weigh<K, V> for W {}

impl<K: Key, V: Value, W: Weigh<K, V>, S: BuildHasher> Readable<K, V> for QuickCache<K, V, W, S> {
    const NAME: &'static str = "quick_cache";

    fn new(capacity: usize) -> Self {
        Self::with_weight(capacity, capacity as u64)
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }
}

impl<K: Key, V: Value, W: Weigh<K, V>, S: BuildHasher> Writable<K, V> for QuickCache<K, V, W, S> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

impl<K: Key, V: Value, W: Weigh<K, V>, S: BuildHasher> Loading<K, V> for QuickCache<K, V, W, S> {
    fn get_or_load(&self, key: &K, load: impl FnOnce() -> V) -> V {
        let Ok(value) = self.0.get_or_insert_with(key, || Ok::<V, Infallible>(load()));
        value
    }
}

#[derive(Clone)]
pub(crate) struct Moka<K, V, S = Hasher>(pub(crate) moka::sync::Cache<K, V, S>);

impl<K: Key, V: Value, S: BuildHasher> Readable<K, V> for Moka<K, V, S> {
    const NAME: &'static str = "moka";

    fn new(capacity: usize) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(capacity as u64);
        Moka(builder.build_with_hasher(S::default()))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    fn complete_deferred_work(&self) {
        self.0.run_pending_tasks();
    }
}

impl<K: Key, V: Value, S: BuildHasher> Writable<K, V> for Moka<K, V, S> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

impl<K: Key, V: Value, S: BuildHasher> Loading<K, V> for Moka<K, V, S> {
    fn get_or_load(&self, key: &K, load: impl FnOnce() -> V) -> V {
        self.0.get_with_by_ref(key, load)
    }
}

impl<K: Key, V: Value, S: BuildHasher> Expiring<K, V> for Moka<K, V, S> {
    fn with_ttl(capacity: usize, ttl: Duration) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(capacity as u64).time_to_live(ttl);
        Moka(builder.build_with_hasher(S::default()))
    }
}
