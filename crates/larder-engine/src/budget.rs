//! The weight budget of a cache, shared by all shards.
//!
//! Weight is reserved before an entry is stored and released after an entry was removed, so the sum over all shards
//! never exceeds the capacity, whatever the shards do concurrently.

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

    /// The weight that is reserved.
    pub(crate) fn used(&self) -> u64 {
        self.capacity().saturating_sub(self.free.load(Ordering::Acquire))
    }

    /// Reserves `weight` if that much is free.
    pub(crate) fn reserve(&self, weight: u64) -> bool {
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, |free| free.checked_sub(weight)).is_ok()
    }

    /// Releases `weight`.
    pub(crate) fn release(&self, weight: u64) {
        if weight > 0 {
            self.free.fetch_add(weight, Ordering::AcqRel);
        }
    }

    /// Raises the capacity by `weight`, which is free immediately.
    pub(crate) fn grow(&self, weight: u64) {
        self.capacity.fetch_add(weight, Ordering::AcqRel);
        self.release(weight);
    }

    /// Lowers the capacity by `weight`, which the caller has reserved.
    pub(crate) fn shrink(&self, weight: u64) {
        self.capacity.fetch_sub(weight, Ordering::AcqRel);
    }
}
