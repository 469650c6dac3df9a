//! The weight budget of a cache, shared by all shards.
//!
//! Weight is reserved before an entry is stored and released after an entry was removed, so the sum over all shards
//! never exceeds the capacity, whatever the shards do concurrently. What is free is negative while the capacity was
//! lowered below the sum, and after a write that may not be refused has exceeded it: then nothing can be reserved until
//! enough was released.

use crate::sync::{AtomicI64, AtomicU64, Mutex, Ordering};

#[derive(Debug)]
pub(crate) struct Budget {
    capacity: AtomicU64,
    free: AtomicI64,
    resizing: Mutex<()>,
}

impl Budget {
    pub(crate) fn new(capacity: u64) -> Self {
        Budget {
            capacity: AtomicU64::new(capacity),
            free: AtomicI64::new(capacity.cast_signed()),
            resizing: Mutex::new(()),
        }
    }

    pub(crate) fn capacity(&self) -> u64 {
        self.capacity.load(Ordering::Acquire)
    }

    /// The weight that is reserved. While the capacity is changed it may be less, and never more than the higher capacity
    /// allows: `resize` writes the two numbers in the other order.
    pub(crate) fn used(&self) -> u64 {
        let free = self.free.load(Ordering::Acquire);
        self.capacity().saturating_add_signed(free.saturating_neg())
    }

    /// By how much the reserved weight exceeds the capacity.
    #[inline]
    pub(crate) fn excess(&self) -> u64 {
        self.free.load(Ordering::Acquire).min(0).unsigned_abs()
    }

    /// Reserves `weight` if that much is free.
    pub(crate) fn reserve(&self, weight: u64) -> bool {
        let weight = weight.cast_signed();
        let less = |free: i64| (free >= weight).then(|| free - weight);
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    /// Reserves `weight`, whether it is free or not.
    pub(crate) fn exceed(&self, weight: u64) {
        self.free.fetch_sub(weight.cast_signed(), Ordering::AcqRel);
    }

    /// Releases `weight`.
    pub(crate) fn release(&self, weight: u64) {
        if weight > 0 {
            self.free.fetch_add(weight.cast_signed(), Ordering::AcqRel);
        }
    }

    /// Changes the capacity. A lower one may leave an [excess](Self::excess).
    pub(crate) fn resize(&self, capacity: u64) {
        let _resizing = self.resizing.lock();
        let before = self.capacity();
        self.capacity.store(capacity, Ordering::Release);
        self.free.fetch_add(capacity.cast_signed() - before.cast_signed(), Ordering::AcqRel);
    }
}

/// Weight that an operation has freed or reserved, and has not used. Released when it is dropped, also by a panic.
#[derive(Debug)]
pub(crate) struct InHand<'a> {
    budget: &'a Budget,
    weight: u64,
}

impl<'a> InHand<'a> {
    /// Nothing yet.
    pub(crate) fn new(budget: &'a Budget) -> Self {
        InHand { budget, weight: 0 }
    }

    /// Adds the weight of an entry that was removed.
    pub(crate) fn add(&mut self, weight: u64) {
        self.weight += weight;
    }

    /// Reserves what is missing to `needed`, if that much is free. Returns whether nothing is missing now.
    pub(crate) fn reserve_rest(&mut self, needed: u64) -> bool {
        let missing = needed.saturating_sub(self.weight);
        let complete = missing == 0 || self.budget.reserve(missing);
        if complete {
            self.weight += missing;
        }
        complete
    }

    /// As [`InHand::keep`], after reserving what is missing, whether it is free or not.
    pub(crate) fn keep_or_exceed(mut self, needed: u64) {
        let missing = needed.saturating_sub(self.weight);
        self.budget.exceed(missing);
        self.weight += missing;
        self.keep(needed);
    }

    /// Passes `needed` on to an entry, and releases the rest.
    pub(crate) fn keep(mut self, needed: u64) {
        self.weight -= needed;
    }
}

impl Drop for InHand<'_> {
    fn drop(&mut self) {
        self.budget.release(self.weight);
    }
}
