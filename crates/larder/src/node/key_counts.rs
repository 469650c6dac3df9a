//! Counts of what happened to keys, by a hash of the key. A caller that compares the counts of two moments learns
//! whether something happened to its key in between; another key with the same hash may be the reason.

use std::sync::atomic::{AtomicU64, Ordering};
use twox_hash::XxHash3_64;

/// The number of counts: those of writes that `CLIENT TRACKING` reported.
pub(crate) const FEW: usize = 1_024;
/// The number of counts: those of invalidations, each of which makes every copy with the same count suspect.
pub(crate) const MANY: usize = 65_536;

#[derive(Debug)]
pub(crate) struct KeyCounts {
    by_hash: Box<[AtomicU64]>,
    /// Of what happened to any key.
    of_all: AtomicU64,
}

impl KeyCounts {
    pub(crate) fn new(counts: usize) -> Self {
        let by_hash = (0..counts).map(|_| AtomicU64::new(0)).collect();
        KeyCounts { by_hash, of_all: AtomicU64::new(0) }
    }

    pub(crate) fn record(&self, redis_key: &[u8]) {
        self.by_hash[self.index(redis_key)].fetch_add(1, Ordering::AcqRel);
    }

    /// Something happened to any key.
    pub(crate) fn record_all(&self) {
        self.of_all.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn count(&self, redis_key: &[u8]) -> u64 {
        self.count_at(self.index(redis_key))
    }

    /// The index of the count of a key.
    pub(crate) fn index(&self, redis_key: &[u8]) -> usize {
        XxHash3_64::oneshot(redis_key) as usize % self.by_hash.len()
    }

    /// Neither part ever falls, so the sum tells of either.
    #[inline]
    pub(crate) fn count_at(&self, index: usize) -> u64 {
        self.by_hash[index].load(Ordering::Acquire) + self.of_all.load(Ordering::Acquire)
    }
}
