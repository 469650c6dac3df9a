//! The one budget of a cache: how much weight is free, shared by all shards.
//!
//! Weight is taken from here before an entry is stored and given back after one has left, so the sum over all shards
//! never exceeds the capacity, whatever the shards do at the same time.

use crate::sync::{AtomicU64, Ordering};

#[derive(Debug)]
pub(crate) struct Budget {
    capacity: AtomicU64,
    free: AtomicU64,
}

impl Budget {
    pub(crate) fn new(capacity: u64) -> Self {
        Budget { capacity: AtomicU64::new(capacity), free: AtomicU64::new(capacity) }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Acquire)
    }

    /// What is taken.
    pub(crate) fn used(&self) -> u64 {
        self.capacity().saturating_sub(self.free.load(Ordering::Acquire))
    }

    /// Takes `weight` if that much is free.
    pub(crate) fn take(&self, weight: u64) -> bool {
        let taken =
            self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(weight));
        taken.is_ok()
    }

    /// Gives `weight` back.
    pub(crate) fn give(&self, weight: u64) {
        if weight > 0 {
            self.free.fetch_add(weight, Ordering::AcqRel);
        }
    }

    /// Raises the capacity by `weight`, which is free at once.
    pub(crate) fn grow(&self, weight: u64) {
        self.capacity.fetch_add(weight, Ordering::AcqRel);
        self.give(weight);
    }

    /// Lowers the capacity by `weight`, which the caller has taken before.
    pub(crate) fn shrink(&self, weight: u64) {
        self.capacity.fetch_sub(weight, Ordering::AcqRel);
    }
}
