//! What a lookup or a store will read, prefetched step by step: the group, then the record. Nothing is changed.

use super::{Record, Shard};
use crate::layout::prefetch::LINE_BYTES;
use crate::layout::table::{GROUP_SLOTS, rank};
use std::hash::Hash;

/// The most lines that a lookup prefetches before the tags have chosen one record: those of 16 records up to 32 bytes.
const MAX_LINES_AHEAD: usize = 8;

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Prefetches what storing a value under this hash will read.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        self.table.prefetch(hash);
        self.queues.prefetch(rank(hash));
    }

    /// Prefetches where an entry with this hash will be written. A write that waits for its line delays the next lock, which
    /// waits for all writes.
    #[inline]
    pub(crate) fn prefetch_place(&self, hash: u64) {
        if let Some(id) = self.table.free_at_home(hash) {
            self.records.prefetch(id);
            self.slots.prefetch(id);
        }
    }

    /// Prefetches the group in which a lookup of this hash begins.
    #[inline]
    pub(crate) fn prefetch_group(&self, hash: u64) {
        self.table.prefetch(hash);
    }

    /// Prefetches the records of that group, if they are short: they arrive while the tags do. Otherwise a lookup waits twice
    /// if both are in no cache of the processor.
    #[inline]
    pub(super) fn prefetch_home_records(&self, hash: u64) {
        let lines = (GROUP_SLOTS * size_of::<Record<K, V>>()).div_ceil(LINE_BYTES);
        if lines <= MAX_LINES_AHEAD {
            self.records.prefetch_lines(self.table.home_slot(hash), lines);
        }
    }

    /// Prefetches the group and its records.
    #[inline]
    pub(crate) fn prefetch_home(&self, hash: u64) {
        self.table.prefetch(hash);
        self.prefetch_home_records(hash);
    }

    /// Prefetches the record and the deadline that a lookup of this hash will most likely find: the tag matches, the key is not
    /// compared.
    #[inline]
    pub(crate) fn prefetch_record(&self, hash: u64) {
        if let Some(id) = self.candidate(hash) {
            self.records.prefetch(id);
        }
    }

    /// The same record, whose slot [`prefetch_home`](Self::prefetch_home) has prefetched.
    #[inline]
    pub(crate) fn prefetch_candidate(&self, hash: u64) -> Option<&Record<K, V>> {
        // SAFETY: the table gave out the slot, so it is in use.
        self.candidate(hash).map(|id| unsafe { self.records.get(id) })
    }

    /// The slot of the candidate, whose deadline is prefetched.
    #[inline]
    fn candidate(&self, hash: u64) -> Option<u32> {
        let id = self.table.find(hash, |_| true)?;
        if let Some(timing) = &self.timing {
            timing.deadlines.prefetch(id);
        }
        Some(id)
    }
}
