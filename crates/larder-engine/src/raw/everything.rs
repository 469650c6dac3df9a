//! Operations on all entries while their shards are locked, and on entries whose keys are not known before.

use super::{Cache, Key, Locked, Record};
use crate::entry::{Cause, EntryRef};
use crate::layout::table::{RANK_END, rank};
use crate::stats::{PartitionStats, Stats};

impl<O> Cache<O> {
    /// Locks all shards. Nobody else can use the cache until the locks are dropped.
    pub fn lock_everything(&self) -> Locked<'_, O> {
        self.lock_shards((0..self.shards().len()).collect())
    }
}

impl<O> Locked<'_, O> {
    /// As [`Cache::peek_with`](crate::Cache::peek_with).
    ///
    /// # Panics
    /// If the shard of `key` is not locked, or `f` calls the same cache.
    pub fn peek_with<R>(&self, key: Key<'_>, f: impl FnOnce(EntryRef<'_, Record<O>, ()>) -> R) -> Option<R> {
        let location = self.cache.locate(&key);
        let shard = &self.shards[self.position(location)];
        let id = shard.find_live(location.hash, &key, self.cache.now())?;
        Some(f(self.cache.entry_ref(shard, id)))
    }

    /// As [`Cache::scan`](crate::Cache::scan). All shards must be locked.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(EntryRef<'_, Record<O>, ()>)) -> u64 {
        let (mut index, mut from) = ((cursor >> 32) as usize, u64::from(rank(cursor)));
        let (mut left, mut slots, now) = (count.max(1), Vec::new(), self.cache.now());
        while let Some(shard) = self.shards.get(index) {
            from = shard.walk(from, left, &mut slots);
            for &id in slots.iter().filter(|&&id| shard.is_live(id, now)) {
                visit(self.cache.entry_ref(shard, id));
            }
            left = left.saturating_sub(slots.len());
            if from == RANK_END {
                (index, from) = (index + 1, 0);
            }
            if left == 0 && index < self.shards.len() {
                return (index as u64) << 32 | from;
            }
        }
        0
    }

    /// Removes every entry of the locked shards for which `keep` returns false, with the cause [`Cause::Purged`].
    pub fn retain(&mut self, mut keep: impl FnMut(&Record<O>) -> bool) {
        let mut slots = Vec::new();
        for shard in &mut self.shards {
            shard.walk(0, usize::MAX, &mut slots);
            for &id in &slots {
                if !keep(&shard.record(id).key) {
                    self.cache.discard(shard, id, Cause::Purged, &mut self.removed);
                }
            }
            shard.shrink_if_empty();
        }
    }

    /// As [`Cache::stats`](crate::Cache::stats), of the locked shards.
    pub fn stats(&self) -> Stats {
        let mut total =
            Stats { capacity: self.cache.capacity(), weight: self.cache.weight(), ..Stats::default() };
        self.shards.iter().for_each(|shard| total.add(&shard.stats()));
        total
    }

    /// As [`Cache::partition_stats`](crate::Cache::partition_stats), of the locked shards.
    pub fn partition_stats(&self, index: usize) -> PartitionStats {
        let mut total = PartitionStats::default();
        self.shards.iter().for_each(|shard| total.add(shard.partition_stats(index)));
        total
    }
}
