//! The weight budget of a cache, shared by all shards.
//!
//! Weight is reserved before an entry is stored and released after an entry was removed, so the sum over all shards
//! never exceeds the capacity, whatever the shards do concurrently.

use crate::sync::{AtomicU64, Mutex, Ordering};

#[derive(Debug)]
pub(crate) struct Budget {
    capacity: AtomicU64,
    free: AtomicU64,
    resizing: Mutex<Resizing>,
}

/// The last change of the capacity.
#[derive(Debug, Default)]
struct Resizing {
    number: u64,
    /// How much the capacity has to fall still.
    surplus: u64,
}

impl Budget {
    pub(crate) fn new(capacity: u64) -> Self {
        Budget {
            capacity: AtomicU64::new(capacity),
            free: AtomicU64::new(capacity),
            resizing: Mutex::new(Resizing::default()),
        }
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

    /// Changes the capacity and returns the number of this change. A higher capacity is free at once; for a lower one, call
    /// [`Budget::lower`] until it says no.
    pub(crate) fn resize(&self, capacity: u64) -> u64 {
        let mut resizing = self.resizing.lock();
        let now = self.capacity();
        if capacity > now {
            self.capacity.fetch_add(capacity - now, Ordering::AcqRel);
            self.release(capacity - now);
        }
        resizing.surplus = now.saturating_sub(capacity);
        resizing.number += 1;
        resizing.number
    }

    /// Lowers the capacity by what is in hand and by what is free, as far as change `number` needs it. Returns whether more
    /// has to be freed; not if there was a later change.
    pub(crate) fn lower(&self, number: u64, in_hand: &mut InHand<'_>) -> bool {
        let mut resizing = self.resizing.lock();
        if resizing.number != number {
            return false;
        }
        in_hand.reserve_free(resizing.surplus);
        let step = in_hand.weight.min(resizing.surplus);
        self.capacity.fetch_sub(step, Ordering::AcqRel);
        in_hand.weight -= step;
        resizing.surplus -= step;
        resizing.surplus > 0
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

    /// Reserves what is free, up to `most` in hand.
    fn reserve_free(&mut self, most: u64) {
        let free = self.budget.free.load(Ordering::Acquire);
        let more = free.min(most.saturating_sub(self.weight));
        if self.budget.reserve(more) {
            self.weight += more;
        }
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
