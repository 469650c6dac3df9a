//! Peers with larger dependency trees, built by the feature `bench-peers`.

use super::{Hasher, Key, Readable, Value, Writable};
use foyer_memory::CacheProperties;

pub(crate) struct MiniMoka<K, V>(mini_moka::sync::Cache<K, V, Hasher>);

impl<K: Key, V: Value> Readable<K, V> for MiniMoka<K, V> {
    const NAME: &'static str = "mini-moka";

    fn new(capacity: usize) -> Self {
        let builder = mini_moka::sync::Cache::builder().max_capacity(capacity as u64);
        MiniMoka(builder.build_with_hasher(Hasher::default()))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }

    fn settle(&self) {
        mini_moka::sync::ConcurrentCacheExt::sync(&self.0);
    }
}

impl<K: Key, V: Value> Writable<K, V> for MiniMoka<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

pub(crate) struct Foyer<K: Key, V: Value>(foyer_memory::Cache<K, V, Hasher, CacheProperties>);

impl<K: Key, V: Value> Readable<K, V> for Foyer<K, V> {
    const NAME: &'static str = "foyer-memory";

    fn new(capacity: usize) -> Self {
        let builder = foyer_memory::CacheBuilder::new(capacity).with_hash_builder(Hasher::default());
        Foyer(builder.build())
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key).map(|entry| entry.value().clone())
    }
}

impl<K: Key, V: Value> Writable<K, V> for Foyer<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

/// It keeps hashes in place of keys.
pub(crate) struct TinyUfo<K, V: Value>(tinyufo::TinyUfo<K, V>);

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
