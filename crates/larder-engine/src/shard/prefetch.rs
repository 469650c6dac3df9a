//! What a lookup or a store will read, prefetched step by step: the group, then the record. Nothing is changed.

use super::{Record, Shard};
use crate::table::rank;
use std::hash::Hash;

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

    /// Prefetches the same, and the records of the group, if they are as short as pointers of four bytes: then one line has them
    /// all.
    #[inline]
    pub(crate) fn prefetch_home(&self, hash: u64) {
        self.table.prefetch(hash);
        self.records.prefetch(self.table.home_slot(hash));
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
