//! The peers that are always built.

use super::{Expiring, Hasher, Key, Readable, Value, Writable};
use quick_cache::UnitWeighter;
use quick_cache::sync::DefaultLifecycle;
use std::time::Duration;

pub(crate) struct QuickCache<K, V>(quick_cache::sync::Cache<K, V, UnitWeighter, Hasher>);

impl<K: Key, V: Value> Readable<K, V> for QuickCache<K, V> {
    const NAME: &'static str = "quick_cache";

    fn new(capacity: usize) -> Self {
        let (hasher, lifecycle) = (Hasher::default(), DefaultLifecycle::default());
        QuickCache(quick_cache::sync::Cache::with(capacity, capacity as u64, UnitWeighter, hasher, lifecycle))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }
}

impl<K: Key, V: Value> Writable<K, V> for QuickCache<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

pub(crate) struct Moka<K, V>(moka::sync::Cache<K, V, Hasher>);

impl<K: Key, V: Value> Readable<K, V> for Moka<K, V> {
    const NAME: &'static str = "moka";

    fn new(capacity: usize) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(capacity as u64);
        Moka(builder.build_with_hasher(Hasher::default()))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    fn settle(&self) {
        self.0.run_pending_tasks();
    }
}

impl<K: Key, V: Value> Writable<K, V> for Moka<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

impl<K: Key, V: Value> Expiring<K, V> for Moka<K, V> {
    fn expiring(capacity: usize, ttl: Duration) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(capacity as u64).time_to_live(ttl);
        Moka(builder.build_with_hasher(Hasher::default()))
    }
}
