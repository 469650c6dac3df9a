//! Peers with larger dependency trees, behind the feature `bench-peers`, with one wrapper each for all suites.

use super::{BuildHasher, Hasher, Key, Readable, Value, Writable};
use foyer_memory::CacheProperties;

pub(crate) struct MiniMoka<K, V, S = Hasher>(pub(crate) mini_moka::sync::Cache<K, V, S>);

impl<K: Key, V: Value, S: BuildHasher> Readable<K, V> for MiniMoka<K, V, S> {
    const NAME: &'static str = "mini-moka";

    fn new(capacity: usize) -> Self {
        let builder = mini_moka::sync::Cache::builder().max_capacity(capacity as u64);
        MiniMoka(builder.build_with_hasher(S::default()))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    fn complete_deferred_work(&self) {
        mini_moka::sync::ConcurrentCacheExt::sync(&self.0);
    }
}

impl<K: Key, V: Value, S: BuildHasher> Writable<K, V> for MiniMoka<K, V, S> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

#[derive(Clone)]
pub(crate) struct Foyer<K: Key, V: Value, S: BuildHasher = Hasher>(
    pub(crate) foyer_memory::Cache<K, V, S, CacheProperties>,
);

impl<K: Key, V: Value, S: BuildHasher> Readable<K, V> for Foyer<K, V, S> {
    const NAME: &'static str = "foyer-memory";

    fn new(capacity: usize) -> Self {
        Foyer(foyer_memory::CacheBuilder::new(capacity).with_hash_builder(S::default()).build())
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key).map(|entry| entry.value().clone())
    }
}

impl<K: Key, V: Value, S: BuildHasher> Writable<K, V> for Foyer<K, V, S> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

/// It stores hashes instead of keys.
pub(crate) struct TinyUfo<K, V: Value>(pub(crate) tinyufo::TinyUfo<K, V>);

impl<K: Key, V: Value> Readable<K, V> for TinyUfo<K, V> {
    const NAME: &'static str = "TinyUFO";

    fn new(capacity: usize) -> Self {
        TinyUfo(tinyufo::TinyUfo::new(capacity, capacity))
    }

    fn fill(&mut self, key: K, value: V) {
        self.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }
}

impl<K: Key, V: Value> Writable<K, V> for TinyUfo<K, V> {
    fn insert(&self, key: K, value: V) {
        drop(self.0.put(key, value, 1));
    }
}
