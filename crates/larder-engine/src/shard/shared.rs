//! What the shards of a cache count together.

use std::sync::atomic::{AtomicU64, Ordering};

/// An entry counts for its own shard up to this fraction of a shard's share of the capacity. The rest is its surplus, which
/// all shards bear: else the other entries of its shard would have less room than those of other shards.
const LIGHT_FRACTION: u64 = 4;

#[derive(Debug)]
pub(crate) struct Shared {
    /// How often an entry has become evictable that was not.
    pub(crate) newly_evictable: AtomicU64,
    /// The most that an entry weighs without a surplus.
    light: u64,
    /// The surplus of all entries that the policies of the shards have.
    surplus: AtomicU64,
}

impl Shared {
    /// For so many shards that share this capacity at first.
    pub(crate) fn new(capacity: u64, shards: usize) -> Self {
        Shared {
            newly_evictable: AtomicU64::new(0),
            light: (capacity / shards as u64 / LIGHT_FRACTION).max(1),
            surplus: AtomicU64::new(0),
        }
    }

    /// The surplus of an entry of this weight.
    #[inline]
    pub(super) fn surplus_of(&self, weight: u64) -> u64 {
        weight.saturating_sub(self.light)
    }

    /// Counts surplus that has come and gone.
    pub(super) fn change_surplus(&self, more: u64, less: u64) {
        self.surplus.fetch_add(more.wrapping_sub(less), Ordering::Relaxed);
    }

    /// The surplus of all entries.
    #[inline]
    pub(crate) fn surplus(&self) -> u64 {
        self.surplus.load(Ordering::Relaxed)
    }
}
