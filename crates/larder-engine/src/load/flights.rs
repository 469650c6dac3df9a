//! The loads under way of a shard, by key.

use super::flight::Flight;
use hashbrown::{Equivalent, HashTable};
use std::sync::Arc;

/// The loads under way of one key: the one that callers follow, and those that it has overtaken.
#[derive(Debug)]
pub(crate) struct LoadUnderWay<K, V> {
    hash: u64,
    key: K,
    flight: Arc<Flight<V>>,
    /// They may still commit, the oldest first, until one that began later has.
    overtaken: Vec<Arc<Flight<V>>>,
}

/// What is no longer under way.
#[derive(Debug)]
pub(crate) enum Ended<K, V> {
    /// All loads of the key.
    All(LoadUnderWay<K, V>),
    /// Some of them.
    Part(#[expect(dead_code, reason = "dropped after the unlock")] Vec<Arc<Flight<V>>>),
}

/// How many loads an empty table keeps room for, so that its memory does not stay after a stall.
const KEPT_CAPACITY: usize = 28;

/// At most one load per key that callers follow. Each step takes the same time however many there are: an origin that stalls must not slow
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

    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.loads.is_empty()
    }

    /// The load of `key`.
    pub(crate) fn get<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<Flight<V>>> {
        let found =
            self.loads.find(hash, |load| self.examined.count(load.hash == hash && key.equivalent(&load.key)));
        found.map(|load| &load.flight)
    }

    /// Whether this load of `key` may commit.
    pub(crate) fn contains<Q>(&self, hash: u64, key: &Q, flight: &Arc<Flight<V>>) -> bool
    where
        Q: Equivalent<K> + ?Sized,
    {
        let found = self.loads.find(hash, |load| load.hash == hash && key.equivalent(&load.key));
        found.is_some_and(|load| load.contains(flight))
    }

    /// Puts a load in the place of the one that callers follow, which may still commit until this one has. False if that is
    /// another one by now.
    pub(crate) fn overtake(&mut self, hash: u64, older: &Arc<Flight<V>>, flight: &Arc<Flight<V>>) -> bool {
        let Some(load) = self.loads.find_mut(hash, |load| Arc::ptr_eq(&load.flight, older)) else {
            return false;
        };
        load.overtaken.push(std::mem::replace(&mut load.flight, flight.clone()));
        true
    }

    /// Adds the load of a key that has none.
    pub(crate) fn insert(&mut self, hash: u64, key: K, flight: Arc<Flight<V>>) {
        let load = LoadUnderWay { hash, key, flight, overtaken: Vec::new() };
        self.loads.insert_unique(hash, load, |load| load.hash);
    }

    /// Voids the loads of `key`, if there are any: they can no longer commit, because the key changes.
    #[inline]
    pub(crate) fn remove<Q>(&mut self, hash: u64, key: &Q) -> Option<LoadUnderWay<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        if self.loads.is_empty() {
            return None;
        }
        self.remove_where(hash, |load| load.hash == hash && key.equivalent(&load.key))
    }

    /// Ends this load, which commits, and voids those that it has overtaken. `None` if it was voided.
    pub(crate) fn end_committed(&mut self, hash: u64, flight: &Arc<Flight<V>>) -> Option<Ended<K, V>> {
        let examined = &self.examined;
        let load = self.loads.find_mut(hash, |load| examined.count(load.contains(flight)))?;
        match load.overtaken.iter().position(|overtaken| Arc::ptr_eq(overtaken, flight)) {
            Some(index) => Some(Ended::Part(load.overtaken.drain(..=index).collect())),
            None => self.remove_where(hash, |load| Arc::ptr_eq(&load.flight, flight)).map(Ended::All),
        }
    }

    /// Ends this load, which stores nothing. Callers follow the one that it has overtaken, if that is still under way.
    pub(crate) fn end_unstored(&mut self, hash: u64, flight: &Arc<Flight<V>>) -> Option<Ended<K, V>> {
        let examined = &self.examined;
        let load = self.loads.find_mut(hash, |load| examined.count(load.contains(flight)))?;
        if let Some(index) = load.overtaken.iter().position(|overtaken| Arc::ptr_eq(overtaken, flight)) {
            return Some(Ended::Part(vec![load.overtaken.remove(index)]));
        }
        match load.overtaken.pop() {
            Some(older) => Some(Ended::Part(vec![std::mem::replace(&mut load.flight, older)])),
            None => self.remove_where(hash, |load| Arc::ptr_eq(&load.flight, flight)).map(Ended::All),
        }
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

impl<K, V> LoadUnderWay<K, V> {
    fn all(&self) -> impl Iterator<Item = &Arc<Flight<V>>> {
        self.overtaken.iter().chain([&self.flight])
    }

    fn contains(&self, flight: &Arc<Flight<V>>) -> bool {
        self.all().any(|listed| Arc::ptr_eq(listed, flight))
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
            assert!(flights.end_committed(hash, &flight()).is_none(), "another load of the key");
            let removed = match key % 3 {
                0 => flights.remove(hash, &key),
                n => {
                    let ended = match n {
                        1 => flights.end_committed(hash, own),
                        _ => flights.end_unstored(hash, own),
                    };
                    let Some(Ended::All(load)) = ended else { panic!("it is under way") };
                    Some(load)
                }
            };
            assert!(removed.is_some_and(|load| load.key == key && Arc::ptr_eq(&load.flight, own)));
            assert!(flights.remove(hash, &key).is_none());
        }
        let examined = flights.examined.0.get();
        assert!(examined < 8 * LOADS, "{examined} loads examined in {} steps", 5 * LOADS);
        assert!(flights.loads.capacity() <= KEPT_CAPACITY, "the memory of a stall is released");
        assert!(flights.take().is_empty());
    }
}
