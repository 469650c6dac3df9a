//! The loads under way of a shard, by key.

use super::flight::Flight;
use hashbrown::{Equivalent, HashTable};
use std::sync::Arc;

/// A load under way: its hash, its key, and the state that its leader and followers share.
pub(crate) type LoadUnderWay<K, V> = (u64, K, Arc<Flight<V>>);

/// How many loads an empty table keeps room for, so that its memory does not stay after a stall.
const KEPT_CAPACITY: usize = 28;

/// At most one load per key. Each step takes the same time however many there are: an origin that stalls must not slow
/// down the misses of other keys.
///
/// The caller drops what is removed after the shard is unlocked.
#[derive(Debug)]
pub(crate) struct Flights<K, V> {
    loads: HashTable<LoadUnderWay<K, V>>,
    examined: Examined,
}

impl<K, V> Flights<K, V> {
    pub(crate) fn new() -> Self {
        Flights { loads: HashTable::new(), examined: Examined::default() }
    }

    /// The load of `key`.
    pub(crate) fn get<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<Flight<V>>> {
        let found =
            self.loads.find(hash, |load| self.examined.count(load.0 == hash && key.equivalent(&load.1)));
        found.map(|(_, _, flight)| flight)
    }

    /// Adds the load of a key that has none.
    pub(crate) fn insert(&mut self, hash: u64, key: K, flight: Arc<Flight<V>>) {
        self.loads.insert_unique(hash, (hash, key, flight), |(hash, _, _)| *hash);
    }

    /// Voids the load of `key`, if there is one: it can no longer commit, because the key changes.
    #[inline]
    pub(crate) fn remove<Q>(&mut self, hash: u64, key: &Q) -> Option<LoadUnderWay<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        if self.loads.is_empty() {
            return None;
        }
        self.remove_where(hash, |load| load.0 == hash && key.equivalent(&load.1))
    }

    /// Removes this load; `None` if it was voided.
    pub(crate) fn remove_flight(&mut self, hash: u64, flight: &Arc<Flight<V>>) -> Option<LoadUnderWay<K, V>> {
        self.remove_where(hash, |load| Arc::ptr_eq(&load.2, flight))
    }

    /// Voids all loads.
    pub(crate) fn take(&mut self) -> HashTable<LoadUnderWay<K, V>> {
        std::mem::take(&mut self.loads)
    }

    fn remove_where(
        &mut self,
        hash: u64,
        mut is_it: impl FnMut(&LoadUnderWay<K, V>) -> bool,
    ) -> Option<LoadUnderWay<K, V>> {
        let examined = &self.examined;
        let found = self.loads.find_entry(hash, |load| examined.count(is_it(load)));
        let (load, _) = found.ok()?.remove();
        if self.loads.is_empty() && self.loads.capacity() > KEPT_CAPACITY {
            self.loads = HashTable::new();
        }
        Some(load)
    }
}

/// Counts comparisons in tests.
#[derive(Debug, Default)]
struct Examined(#[cfg(test)] std::cell::Cell<usize>);

impl Examined {
    #[inline]
    fn count(&self, result: bool) -> bool {
        #[cfg(test)]
        self.0.set(self.0.get() + 1);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::Leader;
    use std::hash::BuildHasher;
    use std::time::Duration;

    #[test]
    fn steps_with_many_loads_under_way_examine_few() {
        const LOADS: usize = 20_000;
        let hasher = crate::shard::Hasher::new();
        let flight = || Arc::new(Flight::<u32>::new(Duration::ZERO, Leader::Async));
        let mut flights = Flights::new();
        let mut under_way = Vec::new();
        for key in 0..LOADS {
            assert!(flights.get(hasher.hash_one(key), &key).is_none());
            under_way.push(flight());
            flights.insert(hasher.hash_one(key), key, under_way[key].clone());
        }
        for (key, own) in under_way.iter().enumerate() {
            let hash = hasher.hash_one(key);
            assert!(flights.get(hash, &key).is_some_and(|found| Arc::ptr_eq(found, own)));
            assert!(flights.remove_flight(hash, &flight()).is_none(), "another load of the key");
            let removed = match key % 2 {
                0 => flights.remove(hash, &key),
                _ => flights.remove_flight(hash, own),
            };
            assert!(removed.is_some_and(|(_, of, found)| of == key && Arc::ptr_eq(&found, own)));
            assert!(flights.remove(hash, &key).is_none());
        }
        let examined = flights.examined.0.get();
        assert!(examined < 6 * LOADS, "{examined} loads examined in {} steps", 5 * LOADS);
        assert!(flights.loads.capacity() <= KEPT_CAPACITY, "the memory of a stall is released");
        assert!(flights.take().is_empty());
    }
}
