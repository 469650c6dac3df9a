//! Baselines without a cache crate: a simple LRU that a cache should beat, and plain maps that it can hardly beat.

use super::{Hasher, Key, Readable, Value, Writable};
use crate::lru::Lru;
use hashbrown::HashMap;
use parking_lot::{Mutex, RwLock};

/// An LRU behind one mutex.
pub(crate) struct MutexLru<K, V>(Mutex<Lru<K, V>>);

impl<K: Key, V: Value> Readable<K, V> for MutexLru<K, V> {
    const NAME: &'static str = "mutex-lru";

    fn new(capacity: usize) -> Self {
        MutexLru(Mutex::new(Lru::new(capacity as u64)))
    }

    fn fill(&mut self, key: K, value: V) {
        self.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.lock().get(key).cloned()
    }
}

impl<K: Key, V: Value> Writable<K, V> for MutexLru<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.lock().insert(key, value, 1);
    }
}

/// A hash map behind one lock for readers and writers. It evicts nothing.
pub(crate) struct LockedMap<K, V>(RwLock<HashMap<K, V, Hasher>>);

impl<K: Key, V: Value> Readable<K, V> for LockedMap<K, V> {
    const NAME: &'static str = "rwlock-map";

    fn new(capacity: usize) -> Self {
        LockedMap(RwLock::new(HashMap::with_capacity_and_hasher(capacity, Hasher::default())))
    }

    fn fill(&mut self, key: K, value: V) {
        self.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.read().get(key).cloned()
    }
}

impl<K: Key, V: Value> Writable<K, V> for LockedMap<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.write().insert(key, value);
    }
}

/// A read-only hash map, which needs no lock.
pub(crate) struct BareMap<K, V>(HashMap<K, V, Hasher>);

impl<K: Key, V: Value> Readable<K, V> for BareMap<K, V> {
    const NAME: &'static str = "bare-map";

    fn new(capacity: usize) -> Self {
        BareMap(HashMap::with_capacity_and_hasher(capacity, Hasher::default()))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key).cloned()
    }
}
