//! The trait of the caches that are compared, and values whose weight is counted while they live.

use crate::trace::Request;
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
    /// Whether values expire.
    pub(super) expires: bool,
}

/// Peers allocate their tables for the expected entries. No trace has more keys, and a larger capacity holds all of them.
const MAX_EXPECTED_ENTRIES: u64 = 1 << 24;

impl Setup {
    pub(super) fn expected_entries(&self) -> usize {
        (self.capacity / self.mean_weight).clamp(1, MAX_EXPECTED_ENTRIES) as usize
    }
}

/// A cache through which a trace is replayed. Time is counted in requests.
pub(super) trait ReplayedCache {
    /// Whether the key hits with a value that is fresh at this time; counts as a use.
    fn get(&mut self, key: u64, now: u64) -> bool;
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

/// A value whose weight is counted until its cache drops it, and which knows when it expires: a cache without times to live
/// keeps it until then, as far as its policy does, and replaces it at its next request.
#[derive(Clone, Debug)]
pub(super) struct Value(Arc<CountedWeight>);

#[derive(Debug)]
struct CountedWeight {
    weight: u64,
    ttl: Option<u32>,
    stored_at: u64,
    live_weight: Arc<LiveWeight>,
}

impl Value {
    pub(super) fn new(request: &Request, now: u64, live_weight: &Arc<LiveWeight>) -> Self {
        let weight = request.bytes.into();
        live_weight.0.fetch_add(weight, Ordering::Relaxed);
        let (ttl, live_weight) = (request.ttl, live_weight.clone());
        Value(Arc::new(CountedWeight { weight, ttl, stored_at: now, live_weight }))
    }

    /// For how many requests it is fresh.
    pub(super) fn ttl(&self) -> Option<u32> {
        self.0.ttl
    }

    pub(super) fn is_fresh(&self, now: u64) -> bool {
        self.0.ttl.is_none_or(|ttl| now < self.0.stored_at + u64::from(ttl))
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
