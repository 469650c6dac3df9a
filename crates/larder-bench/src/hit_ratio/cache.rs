//! The trait of the caches that are compared, and values whose weight is counted while they live.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source in the rows of our own policies.
pub(super) const OURS: &str = "larder";

/// The options with which every cache is built.
pub(super) struct Setup {
    /// In entries, or in bytes if `weighed`.
    pub(super) capacity: u64,
    pub(super) weighed: bool,
    /// The mean weight of an entry, estimated from the first requests: some peers require an expected number of
    /// entries.
    pub(super) mean_weight: u64,
}

/// Peers allocate their tables for the expected entries. No trace has more keys, and a larger capacity holds all of them.
const MAX_EXPECTED_ENTRIES: u64 = 1 << 24;

impl Setup {
    pub(super) fn expected_entries(&self) -> usize {
        (self.capacity / self.mean_weight).clamp(1, MAX_EXPECTED_ENTRIES) as usize
    }
}

/// A cache through which a trace is replayed.
pub(super) trait ReplayedCache {
    /// Whether the key hits; counts as a use.
    fn get(&mut self, key: u64) -> bool;
    fn insert(&mut self, key: u64, value: Value);
    /// The weight of its entries by its own count, if that is exact.
    fn weight(&self) -> Option<u64> {
        None
    }
}

/// The total weight of all live values.
#[derive(Debug, Default)]
pub(super) struct LiveWeight(AtomicU64);

impl LiveWeight {
    pub(super) fn weight(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value whose weight is counted until its cache drops it.
#[derive(Clone, Debug)]
pub(super) struct Value(Arc<CountedWeight>);

#[derive(Debug)]
struct CountedWeight {
    weight: u64,
    live_weight: Arc<LiveWeight>,
}

impl Value {
    pub(super) fn new(weight: u64, live_weight: &Arc<LiveWeight>) -> Self {
        live_weight.0.fetch_add(weight, Ordering::Relaxed);
        Value(Arc::new(CountedWeight { weight, live_weight: live_weight.clone() }))
    }

    pub(super) fn weight(&self) -> u64 {
        self.0.weight
    }
}

impl Drop for CountedWeight {
    fn drop(&mut self) {
        self.live_weight.0.fetch_sub(self.weight, Ordering::Relaxed);
    }
}
