//! Giving memory back that records of other sizes have left in pieces.

use super::{Cache, arena};

/// A walk over all records that empties pages of memory which have few: see [`Cache::compact`].
#[derive(Debug)]
pub struct Compaction {
    pages: arena::Compaction,
    shard: usize,
    slot: u32,
}

/// The memory that the process has for the records of all caches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct RecordMemory {
    /// The bytes of pages in use.
    pub used_bytes: usize,
    /// The bytes of them that hold no record.
    pub free_bytes: usize,
    /// The free bytes up to which no [`Compaction`] begins.
    pub tolerated_bytes: usize,
    /// The bytes of empty pages that are not returned to the system, because they are likely to be used soon.
    pub kept_bytes: usize,
}

impl RecordMemory {
    /// That of now. Cost: two reads and a lock.
    pub fn now() -> RecordMemory {
        let (used_bytes, free_bytes) = arena::used_and_free_bytes();
        let (tolerated_bytes, kept_bytes) = (arena::tolerated_bytes(used_bytes), arena::kept_bytes());
        RecordMemory { used_bytes, free_bytes, tolerated_bytes, kept_bytes }
    }
}

impl Compaction {
    /// Begins one, if more than an eighth of the memory for records is free in pieces and none is running in the process.
    ///
    /// Cost: a look at up to 2,048 pages of each size if there is something to do, else two reads.
    pub fn begin() -> Option<Compaction> {
        Some(Compaction { pages: arena::Compaction::begin()?, shard: 0, slot: 0 })
    }

    /// The number of pages that it may empty.
    pub fn pages(&self) -> usize {
        self.pages.len()
    }

    /// The number of pages that are empty by now. If it is low after the last slot, another compaction would not help for a
    /// while: another cache or a thread has the remaining blocks.
    pub fn emptied(&self) -> usize {
        self.pages.emptied()
    }
}

impl<O> Cache<O> {
    /// Looks at `count` slots and moves the records that lie in pages that are to become empty. Returns whether there are more
    /// slots. Drop the compaction after the last one, or at any time before. A shard that another thread holds for longer than
    /// most operations take is skipped: its records stay where they are until the next compaction.
    ///
    /// Cost: one or two reads a slot, and for each record that is moved a copy and a lock, under the lock of its shard.
    pub fn compact(&self, compaction: &mut Compaction, count: usize) -> bool {
        let mut left = u32::try_from(count).unwrap_or(u32::MAX);
        while compaction.shard < self.shards().len() {
            if let Some(mut shard) = self.shards().lock_without_sleep(compaction.shard) {
                let end = compaction.slot.saturating_add(left).min(shard.slots());
                left -= end.saturating_sub(compaction.slot);
                for id in compaction.slot..end {
                    if shard.is_used(id) {
                        shard.record_mut(id).key.compact();
                    }
                }
                if end < shard.slots() {
                    compaction.slot = end;
                    return true;
                }
            }
            (compaction.shard, compaction.slot) = (compaction.shard + 1, 0);
        }
        false
    }
}
