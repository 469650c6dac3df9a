//! Atomic operations on several keys: their shards are locked together, so that no reader sees a partial change.

use super::{Cache, Entry, Key, Record, UpdateOp};
use crate::cache::KeyLocation;
use crate::cache::removals::Removals;
use crate::cache::room::ROUNDS_BEFORE_REFUSAL;
use crate::cache::write::{Shortage, StoreResult, Write};
use crate::entry::{Cause, Refusal, Ttl};
use crate::lock::Guard;
use crate::shard::Shard;
use crate::shard::budget::InHand;
use crate::sync::back_off;
use crate::time::timestamps::NEVER;
use std::collections::VecDeque;
use std::convert::Infallible;

/// The shards of some keys, locked until this is dropped. Made by [`Cache::lock_all`].
///
/// The listener is called, and removed or refused records are dropped, after the locks are released, also if a closure
/// panics. The weigher runs under them.
///
/// It stays on its thread, because a lock stores the thread that holds it:
///
/// ```compile_fail,E0277
/// fn move_to_another_thread(_: impl Send) {}
/// let cache: larder_engine::raw::Cache = larder_engine::raw::Cache::builder().entries(10).build()?;
/// move_to_another_thread(cache.lock_all([]));
/// # Ok::<(), larder_engine::BuildError>(())
/// ```
#[derive(Debug)]
pub struct Locked<'a, O = Infallible> {
    pub(super) cache: &'a Cache<O>,
    /// The indices of the locked shards, ascending.
    numbers: Vec<usize>,
    pub(super) shards: Vec<Guard<'a, Shard<Record<O>, ()>>>,
    /// Declared after the shards, so that they are unlocked before the listener is called.
    pub(super) removed: Removals<'a, Record<O>, ()>,
    /// Kept only to be dropped after the locks are released.
    refused: Vec<Record<O>>,
}

impl<O> Cache<O> {
    /// Locks the shards of these keys, for a few short operations on them.
    ///
    /// Cost: one lock per shard that has a key. If one of them is held for long, the others are released meanwhile, so that
    /// such calls cannot deadlock.
    pub fn lock_all<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> Locked<'_, O> {
        let mut numbers: Vec<usize> = keys.into_iter().map(|key| self.locate(&key).shard).collect();
        numbers.sort_unstable();
        numbers.dedup();
        self.lock_shards(numbers)
    }

    /// Locks shards, whose indices ascend.
    pub(super) fn lock_shards(&self, numbers: Vec<usize>) -> Locked<'_, O> {
        let shards = self.shards().lock_ascending(&numbers);
        Locked { cache: self, numbers, shards, removed: Removals::new(self), refused: Vec::new() }
    }
}

impl<O> Locked<'_, O> {
    /// Whether the shard of `key` is locked, so that the other operations can use the key.
    pub fn is_locked(&self, key: Key<'_>) -> bool {
        self.numbers.binary_search(&self.cache.locate(&key).shard).is_ok()
    }

    /// Whether `key` has a live entry.
    ///
    /// # Panics
    /// If the shard of `key` is not locked.
    pub fn contains(&self, key: Key<'_>) -> bool {
        let location = self.cache.locate(&key);
        self.shards[self.position(location)].find_live(location.hash, &key, self.cache.now()).is_some()
    }

    /// Calls `f` with the record of `key` and returns its result, without an effect on policy or statistics.
    ///
    /// # Panics
    /// If the shard of `key` is not locked, or `f` calls the same cache.
    pub fn peek<R>(&self, key: Key<'_>, f: impl FnOnce(&Record<O>) -> R) -> Option<R> {
        let location = self.cache.locate(&key);
        let shard = &self.shards[self.position(location)];
        let id = shard.find_live(location.hash, &key, self.cache.now())?;
        Some(f(&shard.record(id).key))
    }

    /// Calls `f` with the record of `key` and returns its result. Counts as a use.
    ///
    /// # Panics
    /// If the shard of `key` is not locked, or `f` calls the same cache.
    pub fn read<R>(&mut self, key: Key<'_>, f: impl FnOnce(&Record<O>) -> R) -> Option<R> {
        let location = self.cache.locate(&key);
        let (own, now) = (self.position(location), self.cache.now());
        self.shards[own].read(location.hash, &key, now).map(|record| f(&record.key))
    }

    /// As [`Cache::update`]; returns the second value of the closure.
    ///
    /// # Errors
    /// As [`Cache::update`].
    ///
    /// # Panics
    /// As [`Cache::update`], and if the shard of `key` is not locked.
    pub fn update<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(Option<Entry<'_, O>>) -> (UpdateOp<O>, R),
    ) -> Result<R, Refusal> {
        let location = self.cache.locate(&key);
        let (own, now) = (self.position(location), self.cache.now_ms());
        let mut to_put = None;
        // A record is stored by `insert`, which makes room in the locked shards, too.
        let update = self.cache.update_locked(
            &mut self.shards[own],
            location,
            key,
            now,
            |entry| {
                let (operation, result) = f(entry);
                match operation {
                    UpdateOp::Put(record, ttl) => {
                        to_put = Some((record, ttl));
                        (UpdateOp::Keep, result)
                    }
                    other => (other, result),
                }
            },
            &mut self.removed,
        );
        let reweighed = update.edited.map_or(Ok(()), |id| self.reweigh(location, id, now));
        let updated = update.outcome.map_err(|(_, reason)| reason)?;
        reweighed?;
        if let Some((record, ttl)) = to_put {
            assert_eq!(record.key(), key, "the record has another key");
            self.insert(record, ttl)?;
        }
        Ok(updated.result)
    }

    /// Weighs a value again that was edited.
    fn reweigh(&mut self, location: KeyLocation, id: u32, now: u64) -> Result<(), Refusal> {
        let (cache, own) = (self.cache, self.position(location));
        let (shard, removed) = (&mut self.shards[own], &mut self.removed);
        let weight = cache.weigh_slot(shard, id);
        if let Some(reweighed) = cache.reweigh_at_once(shard, location, id, weight, now, removed) {
            return reweighed;
        }
        let more = weight.saturating_sub(shard.weight(id));
        let mut room = cache.room();
        let is_complete = self.evict_locked(more, own, Some(id), now, &mut room);
        let (shard, removed) = (&mut self.shards[own], &mut self.removed);
        if is_complete || !cache.evicts_all() {
            cache.reweigh_beyond(shard, id, weight, room);
            return Ok(());
        }
        // A write that waits for its turn must not have weight in hand.
        drop(room);
        cache.reweigh_in_turn(shard, location, id, weight, now, removed)
    }

    /// The deadline of the entry of `key`, in milliseconds on the cache's clock; `Some(None)` if it has none, and `None`
    /// without an entry.
    ///
    /// # Panics
    /// If the shard of `key` is not locked.
    pub fn deadline_ms(&self, key: Key<'_>) -> Option<Option<u64>> {
        let location = self.cache.locate(&key);
        let shard = &self.shards[self.position(location)];
        let id = shard.find_live(location.hash, &key, self.cache.now())?;
        Some(Some(shard.deadline(id)).filter(|at| *at < NEVER))
    }

    /// Takes the record of `key` out, without a call of the listener.
    ///
    /// # Panics
    /// If the shard of `key` is not locked.
    pub fn take(&mut self, key: Key<'_>) -> Option<Record<O>> {
        let location = self.cache.locate(&key);
        let (own, now) = (self.position(location), self.cache.now());
        let shard = &mut self.shards[own];
        let id = shard.find_live(location.hash, &key, now)?;
        let entry = shard.remove(id, Cause::Invalidated);
        self.cache.release_weight(entry.weight);
        Some(entry.key)
    }

    /// Removes the entry of `key`; returns whether there was one.
    ///
    /// # Panics
    /// If the shard of `key` is not locked.
    pub fn remove(&mut self, key: Key<'_>) -> bool {
        let location = self.cache.locate(&key);
        let (own, now) = (self.position(location), self.cache.now());
        let shard = &mut self.shards[own];
        let Some(id) = shard.find_live(location.hash, &key, now) else { return false };
        self.cache.discard(shard, id, Cause::Invalidated, &mut self.removed);
        true
    }

    /// Removes the entry of `key` if it has expired. Other operations do so when they replace it.
    ///
    /// # Panics
    /// If the shard of `key` is not locked.
    pub fn discard_expired(&mut self, key: Key<'_>) {
        let location = self.cache.locate(&key);
        let (own, now) = (self.position(location), self.cache.now());
        self.cache.find_or_discard(&mut self.shards[own], location, &key, now, &mut self.removed);
    }

    /// Stores a record. Returns whether its key had no live entry. If not all entries [may be evicted](crate::Evictable),
    /// it may exceed the capacity, because the last of several changes that belong together must not be refused. Call
    /// [`Locked::make_room`] before the first.
    ///
    /// # Errors
    /// The record alone exceeds the limit, so it was not stored. For the former entry see
    /// [`Inserted::Refused`](crate::Inserted::Refused).
    ///
    /// # Panics
    /// If the shard of the key is not locked.
    pub fn insert(&mut self, record: Record<O>, ttl: Ttl) -> Result<bool, Refusal> {
        let location = self.cache.locate(&record);
        let (own, now) = (self.position(location), self.cache.now_for(ttl));
        let write = Write::of(self.cache, location, record, (), ttl, now);
        let stored = self.store(own, write);
        self.finish(stored)
    }

    fn store(&mut self, own: usize, write: Write<Record<O>, ()>) -> StoreResult<Record<O>, ()> {
        let cache = self.cache;
        let (shard, removed) = (&mut self.shards[own], &mut self.removed);
        let (write, _) = match cache.store_at_once(shard, write, removed) {
            Ok(stored) => return stored,
            Err(postponed) => postponed,
        };
        let former = shard.find(write.location.hash, &write.record.key);
        let more = write.weight.saturating_sub(former.map_or(0, |id| shard.weight(id)));
        let mut room = cache.room();
        let is_complete = self.evict_locked(more, own, former, write.now, &mut room);
        let (shard, removed) = (&mut self.shards[own], &mut self.removed);
        if is_complete || !cache.evicts_all() {
            return Ok(cache.store_beyond(shard, write, room));
        }
        // A write that waits for its turn must not have weight in hand.
        drop(room);
        cache.store_in_turn(shard, write, removed)
    }

    /// As [`Locked::insert`], of a record that was in the cache before. If not all entries [may be
    /// evicted](crate::Evictable), it is stored even if it exceeds the limit of one entry.
    ///
    /// # Errors
    /// As [`Locked::insert`].
    ///
    /// # Panics
    /// If the shard of the key is not locked.
    pub fn restore(&mut self, record: Record<O>, ttl: Ttl) -> Result<bool, Refusal> {
        if self.cache.evicts_all() {
            return self.insert(record, ttl);
        }
        let location = self.cache.locate(&record);
        let (own, now) = (self.position(location), self.cache.now_for(ttl));
        let write = Write::of(self.cache, location, record, (), ttl, now);
        let replaced = self.cache.store_beyond(&mut self.shards[own], write, self.cache.room());
        self.finish(Ok(replaced))
    }

    /// Keeps the record that was replaced or refused until the locks are released. Returns whether the key had none.
    fn finish(&mut self, stored: StoreResult<Record<O>, ()>) -> Result<bool, Refusal> {
        match stored {
            Ok(None) => Ok(true),
            Ok(Some(replaced)) => {
                self.removed.push(replaced.key, (), Cause::Replaced);
                Ok(false)
            }
            Err((refused, reason)) => {
                self.refused.push(refused.key);
                Err(reason)
            }
        }
    }

    /// Evicts entries until `weight` is free, except the entry of `keep`. Returns whether it is free. It reserves nothing:
    /// other writes may use the room. It evicts nothing if `weight` exceeds the capacity. If not all entries [may be
    /// evicted](crate::Evictable), it may evict some before it finds that there are too few.
    ///
    /// # Panics
    /// If the shard of `keep` is not locked.
    pub fn make_room(&mut self, weight: u64, keep: Option<Key<'_>>) -> bool {
        let now = self.cache.now();
        let kept = keep.and_then(|key| {
            let location = self.cache.locate(&key);
            let own = self.position(location);
            Some((own, self.shards[own].find(location.hash, &key)?))
        });
        self.find_room(weight, kept, now)
    }

    /// As [`Locked::make_room`]; `kept` is the position of a shard, and a slot there.
    fn find_room(&mut self, weight: u64, kept: Option<(usize, u32)>, now: u64) -> bool {
        let kept_weight = kept.map_or(0, |(own, id)| self.shards[own].weight(id));
        if weight > self.cache.capacity().saturating_sub(kept_weight) {
            return false;
        }
        let (own, keep) = kept.unzip();
        let mut room = self.cache.room();
        if self.evict_locked(weight, own.unwrap_or(0), keep, now, &mut room) {
            return true;
        }
        let (cache, numbers, removed) = (self.cache, &self.numbers, &mut self.removed);
        let Some(search) = cache.begin_search(now) else { return room.reserve_rest(weight) };
        let mut round = 0;
        while !room.reserve_rest(weight) {
            let others = (0..cache.shards().len()).filter(|number| numbers.binary_search(number).is_err());
            match cache.steal(others, weight, &mut room, now, removed) {
                Ok(()) => return true,
                Err(Shortage::OthersLocked) if round < ROUNDS_BEFORE_REFUSAL => back_off(round),
                Err(Shortage::NothingLeft)
                    if kept.is_none_or(|(own, id)| !self.shards[own].is_evictable(id)) =>
                {
                    cache.end_in_vain(search);
                    return false;
                }
                Err(_) => return false,
            }
            round += 1;
        }
        true
    }

    /// Evicts from the locked shards until `weight` is in hand: one entry of each in turn, so that none loses all of them
    /// while others lose none. Begins behind the position `own`; `keep` is a slot there. Returns whether it is in hand.
    fn evict_locked(
        &mut self,
        weight: u64,
        own: usize,
        keep: Option<u32>,
        now: u64,
        room: &mut InHand<'_>,
    ) -> bool {
        if room.reserve_rest(weight) {
            return true;
        }
        let count = self.shards.len();
        let mut donors: VecDeque<usize> = (1..=count).map(|step| (own + step) % count).collect();
        while !room.reserve_rest(weight) {
            let Some(donor) = donors.pop_front() else { return false };
            let keep = keep.filter(|_| donor == own);
            if let Some(freed) = self.shards[donor].evict(0, keep, now, &mut self.removed) {
                room.add(freed);
                donors.push_back(donor);
            }
        }
        true
    }

    pub(super) fn position(&self, location: KeyLocation) -> usize {
        self.numbers.binary_search(&location.shard).expect("the key was locked")
    }
}
