//! Our own engine.

use super::{Expiring, Key, Loading, Readable, Value, Writable};
use larder_engine::{Builder, Cache, Policy};
use std::convert::Infallible;
use std::hint::black_box;
use std::time::Duration;

pub(crate) struct Larder<K, V>(Cache<K, V>);

impl<K: Key, V: Value> Larder<K, V> {
    fn build(builder: Builder<K, V>) -> Self {
        Larder(builder.build().expect("the options are in range"))
    }
}

impl<K: Key, V: Value> Larder<K, V> {
    /// Gets several keys at once and returns how many hits there were.
    pub(crate) fn get_many(&self, keys: &[K]) -> u64 {
        let mut hits = 0;
        self.0.get_many_with(keys, |_, value| hits += u64::from(black_box(value.cloned()).is_some()));
        hits
    }
}

impl<K: Key, V: Value> Readable<K, V> for Larder<K, V> {
    const NAME: &'static str = "larder";

    fn new(capacity: usize) -> Self {
        Self::build(Cache::builder().entries(capacity as u64))
    }

    fn fill(&mut self, key: K, value: V) {
        self.insert(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }
}

impl<K: Key, V: Value> Writable<K, V> for Larder<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}

impl<K: Key, V: Value> Loading<K, V> for Larder<K, V> {
    fn get_or_load(&self, key: &K, load: impl FnOnce() -> V) -> V {
        let Ok(value) = self.0.get_or_load(key, || Ok::<V, Infallible>(load()));
        value
    }
}

impl<K: Key, V: Value> Expiring<K, V> for Larder<K, V> {
    fn with_ttl(capacity: usize, ttl: Duration) -> Self {
        Self::build(Cache::builder().entries(capacity as u64).ttl(ttl))
    }
}

/// The same with the policy that does least: what every policy pays.
pub(crate) struct LarderFifo<K, V>(Larder<K, V>);

impl<K: Key, V: Value> Readable<K, V> for LarderFifo<K, V> {
    const NAME: &'static str = "larder, fifo";

    fn new(capacity: usize) -> Self {
        LarderFifo(Larder::build(Cache::builder().entries(capacity as u64).policy(Policy::Fifo)))
    }

    fn fill(&mut self, key: K, value: V) {
        self.0.fill(key, value);
    }

    fn get(&self, key: &K) -> Option<V> {
        self.0.get(key)
    }
}

impl<K: Key, V: Value> Writable<K, V> for LarderFifo<K, V> {
    fn insert(&self, key: K, value: V) {
        self.0.insert(key, value);
    }
}
