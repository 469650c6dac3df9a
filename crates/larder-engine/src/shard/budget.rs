//! The weight budget of a cache, shared by all shards.
//!
//! Weight is reserved before an entry is stored and released after an entry was removed, so the sum over all shards
//! never exceeds the capacity, whatever the shards do concurrently. What is free is negative while the capacity was
//! lowered below the sum, and after a write that may not be refused has exceeded it: then nothing can be reserved until
//! enough was released.

use crate::sync::{AtomicI64, AtomicU64, Mutex, Ordering};

/// How far writes that may not be refused exceed the capacity: 2^62, as the largest capacity, so that no sum of weights
/// overflows, whatever a weigher returns.
const MAX_EXCESS: i64 = 1 << 62;

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

    /// Whether nothing is free.
    #[inline]
    pub(crate) fn is_exhausted(&self) -> bool {
        self.free.load(Ordering::Acquire) <= 0
    }

    /// Reserves `weight` if that much is free.
    pub(crate) fn reserve(&self, weight: u64) -> bool {
        let Ok(weight) = i64::try_from(weight) else { return false };
        let less = |free: i64| (free >= weight).then(|| free - weight);
        self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, less).is_ok()
    }

    /// Reserves `weight`, whether it is free or not, up to the largest excess. Returns how much it has reserved.
    fn exceed(&self, weight: u64) -> u64 {
        let less = |free: i64| free.saturating_sub_unsigned(weight).max(free.min(-MAX_EXCESS));
        let reserve = |free| Some(less(free));
        let before = self.free.fetch_update(Ordering::AcqRel, Ordering::Acquire, reserve);
        let before = before.expect("it always has a new value");
        before.abs_diff(less(before))
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

    /// As [`InHand::keep`], after reserving what is missing, whether it is free or not. Returns what it has passed on: less
    /// than `needed` only at the largest excess.
    pub(crate) fn keep_or_exceed(mut self, needed: u64) -> u64 {
        self.weight += self.budget.exceed(needed.saturating_sub(self.weight));
        let kept = needed.min(self.weight);
        self.keep(kept);
        kept
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_that_do_not_fit_into_an_i64_are_not_reserved() {
        let budget = Budget::new(10);
        for weight in [11, 1 << 63, u64::MAX] {
            assert!(!budget.reserve(weight) && !InHand::new(&budget).reserve_rest(weight), "{weight}");
        }
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn excess_ends_where_sums_could_overflow() {
        let budget = Budget::new(10);
        let kept = [1 << 61, u64::MAX, 5].map(|weight| InHand::new(&budget).keep_or_exceed(weight));
        assert_eq!(kept, [1 << 61, (1 << 61) + 10, 0]);
        assert_eq!(budget.excess(), 1 << 62);
        kept.into_iter().for_each(|weight| budget.release(weight));
        assert_eq!((budget.used(), budget.reserve(10)), (0, true));
    }
}
