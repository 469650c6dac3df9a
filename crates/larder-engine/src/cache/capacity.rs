//! The capacity of a cache, which may change, and which entries may be evicted to keep it.

use super::removals::Removals;
use super::{Cache, room};
use crate::lock::Guard;
use crate::policy::Evictable;
use crate::shard::Shard;
use crate::sync::thread;
use std::hash::Hash;
use std::sync::atomic::Ordering;

impl<K: Hash + Eq, V> Cache<K, V> {
    /// The sum of the weights, including weight that a write has reserved and not used yet.
    pub fn weight(&self) -> u64 {
        self.inner.budget.used()
    }

    /// The total weight allowed.
    pub fn capacity(&self) -> u64 {
        self.inner.budget.capacity()
    }

    /// Changes the total weight allowed, and evicts the excess as far as entries [may be evicted](Evictable). If several
    /// calls overlap, the last one wins: the others end at once, also a call whose listener makes the last one.
    ///
    /// # Panics
    /// If `capacity` is zero or above 2^62.
    pub fn set_capacity(&self, capacity: u64) {
        self.resize(capacity);
        while self.evict_excess_of(usize::MAX, |index| Some(self.inner.shards.lock(index))) {
            // What is missing is in the hands of writes that other threads have to complete.
            thread::yield_now();
        }
    }

    /// As [`Cache::set_capacity`], but evicts nothing: call [`Cache::evict_excess`] until it returns false. Until then the
    /// weight may exceed the capacity.
    ///
    /// # Panics
    /// If `capacity` is zero or above 2^62.
    pub fn resize(&self, capacity: u64) {
        assert!((1..=1 << 62).contains(&capacity), "capacity is {capacity}; it must be from 1 to 2^62");
        self.inner.budget.resize(capacity);
    }

    /// Evicts up to `count` entries, or fewer if the weight does not exceed the capacity any more: of each shard one in
    /// turn. Returns whether it does and more entries may be evicted. A shard that another thread holds for longer than most
    /// operations take is skipped, and may have more: call this again later.
    ///
    /// The weight exceeds the capacity after [`Cache::resize`], and after operations on [`raw`](crate::raw) that are not
    /// refused.
    pub fn evict_excess(&self, count: usize) -> bool {
        self.evict_excess_of(count, |index| self.inner.shards.lock_without_sleep(index))
    }

    /// As [`Cache::evict_excess`], of the shards that `lock` acquires.
    fn evict_excess_of<'a>(
        &'a self,
        count: usize,
        lock: impl Fn(usize) -> Option<Guard<'a, Shard<K, V>>>,
    ) -> bool {
        let shards = &self.inner.shards;
        // Since the last eviction: shards without entries to evict, and those that were skipped.
        let (mut empty, mut skipped) = (0, 0);
        let mut evicted = 0;
        let mut next = self.inner.next_victim.load(Ordering::Relaxed);
        let now = self.now();
        let Some(search) = self.begin_search(now) else { return false };
        while self.inner.budget.excess() > 0 {
            if evicted == count {
                self.inner.next_victim.store(next, Ordering::Relaxed);
                return true;
            }
            if empty + skipped == shards.len() {
                if skipped > 0 {
                    return true;
                }
                self.end_in_vain(search);
                return self.evicts_all();
            }
            let mut removed = Removals::new(self);
            let shard = lock(next % shards.len());
            next = next.wrapping_add(1);
            let Some(mut shard) = shard else {
                skipped += 1;
                continue;
            };
            let freed = shard.evict(0, None, now, &mut removed);
            drop(shard);
            // Before a listener runs, which may change the capacity.
            self.release_weight(freed.unwrap_or(0));
            drop(removed);
            match freed {
                Some(_) => (evicted, empty, skipped) = (evicted + 1, 0, 0),
                None => empty += 1,
            }
        }
        false
    }

    /// Changes which entries may be evicted. Evicts nothing: see [`Cache::evict_excess`].
    ///
    /// Cost: one lock per shard; to and from the choices that need a deadline, also a visit of each entry.
    pub fn set_evictable(&self, evictable: Evictable) {
        let _changing = self.inner.changing_evictable.lock();
        let evicts_all = evictable == Evictable::All;
        // A write waits for room only while every shard evicts.
        if !evicts_all {
            self.inner.evicts_all.store(false, Ordering::Release);
        }
        self.inner.shards.each().for_each(|mut shard| shard.set_evictable(evictable));
        self.inner.searched_in_vain.store(room::NO_SEARCH, Ordering::Relaxed);
        if evicts_all {
            self.inner.evicts_all.store(true, Ordering::Release);
        }
    }
}
