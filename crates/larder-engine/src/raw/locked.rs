//! Several keys in one step: their shards are locked together, so that nobody sees some of them changed and others not.

use super::{Cache, Key, Record};
use crate::cache::Place;
use crate::cache::steps::Write;
use crate::entry::{Cause, Refusal, Ttl};
use crate::lock::Guard;
use crate::shard::{Departed, Shard};

/// The shards of some keys, locked until this is dropped. Made by [`Cache::lock_all`].
///
/// Listener and memory of the entries that leave wait for that moment too.
#[derive(Debug)]
pub struct Locked<'a> {
    cache: &'a Cache,
    /// Shards by their number, ascending.
    numbers: Vec<usize>,
    shards: Vec<Guard<'a, Shard<Record, ()>>>,
    departed: Option<Departed<Record, ()>>,
}

impl Cache {
    /// Locks the shards of these keys, for a few short operations on them.
    ///
    /// Cost: a lock for each shard, at most for all of them. Calls that lock several wait for each other in no circle.
    pub fn lock_all<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Locked<'_> {
        let mut numbers: Vec<usize> = keys.into_iter().map(|key| self.place(&key).shard).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let shards = self.shards().lock_ascending(numbers.iter().copied());
        Locked { cache: self, numbers, shards, departed: Some(Departed::new()) }
    }
}

impl Locked<'_> {
    /// Whether `key`, one of those that were locked, has a live entry.
    ///
    /// # Panics
    /// If it is not among them.
    pub fn contains(&self, key: Key<'_>) -> bool {
        let place = self.cache.place(&key);
        self.shards[self.position(place)].find_live(place.hash, &key, self.cache.now()).is_some()
    }

    /// The value of `key`, one of those that were locked, without an effect on policy or statistics.
    ///
    /// # Panics
    /// If it is not among them.
    pub fn value(&self, key: Key<'_>) -> Option<Vec<u8>> {
        let place = self.cache.place(&key);
        let shard = &self.shards[self.position(place)];
        let id = shard.find_live(place.hash, &key, self.cache.now())?;
        Some(shard.record(id).key.value().to_vec())
    }

    /// Stores a record of a key that was locked; whether the key had no live entry.
    ///
    /// # Errors
    /// Why it was not stored; the former entry is gone then.
    ///
    /// # Panics
    /// If the key is not among those that were locked.
    pub fn insert(&mut self, record: Record, ttl: Ttl) -> Result<bool, Refusal> {
        let place = self.cache.place(&record);
        let (own, now) = (self.position(place), self.cache.now_for(ttl));
        let mut departed = self.departed.take().unwrap_or_else(Departed::new);
        let mut write = Write::of(self.cache, place, record, (), ttl, now);
        let stored = loop {
            match self.cache.store(&mut self.shards[own], write, &mut departed) {
                Ok(replaced) => break Ok(replaced),
                // What could make room may be in the shards that this very call holds.
                Err((record, Refusal::NoRoom)) if self.evict_one(now, &mut departed) => {
                    write = Write::of(self.cache, place, record.key, (), ttl, now);
                }
                Err((_, reason)) => break Err(reason),
            }
        };
        let inserted = stored.map(|replaced| {
            let is_new = replaced.is_none();
            if let Some(replaced) = replaced {
                departed.push(replaced.key, (), Cause::Replaced);
            }
            is_new
        });
        self.departed = Some(departed);
        inserted
    }

    fn evict_one(&mut self, now: u64, departed: &mut Departed<Record, ()>) -> bool {
        let freed = self.shards.iter_mut().find_map(|shard| shard.evict(0, None, now, departed));
        self.cache.give_back(freed.unwrap_or(0));
        freed.is_some()
    }

    fn position(&self, place: Place) -> usize {
        self.numbers.binary_search(&place.shard).expect("the key was locked")
    }
}

impl Drop for Locked<'_> {
    fn drop(&mut self) {
        self.shards.clear();
        if let Some(departed) = self.departed.take() {
            self.cache.depart(departed);
        }
    }
}
