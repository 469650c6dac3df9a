//! What a cache has done, tier by tier.

use larder_engine::stats::{Counter, Histogram, HistogramSnapshot};
use std::cell::Cell;
use std::time::Instant;

/// The counters of a [`crate::Cache`] at one moment.
#[derive(Clone, Debug, Default)]
pub struct CacheStats {
    /// The memory tier.
    pub memory: TierStats,
    /// The Redis tier, if there is one.
    pub redis: Option<TierStats>,
    /// Loads that ended with a value.
    pub loads: u64,
    /// Loads that ended with an error or a panic.
    pub load_failures: u64,
    /// Fetches that were answered by somebody else's load.
    pub coalesced: u64,
    /// How long loads took.
    pub load_latency: HistogramSnapshot,
}

/// The counters of one tier.
#[derive(Clone, Debug, Default)]
pub struct TierStats {
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations that were not tried because the tier had failed a moment before.
    pub skipped: u64,
    /// Values that were found and could not be read.
    pub unreadable: u64,
    /// Entries that left to make room.
    pub evicted: u64,
    /// Entries that left because their time was over.
    pub expired: u64,
    /// Entries held, where the tier can tell.
    pub entries: Option<u64>,
    /// Their weight in bytes, where the tier can tell.
    pub bytes: Option<u64>,
    /// The weight allowed in bytes, where there is a bound.
    pub capacity: Option<u64>,
    /// How long operations took. In memory one in 256 is measured, for a measurement costs as much as a hit.
    pub latency: HistogramSnapshot,
}

/// The counters that the cache itself keeps; the tiers keep their own.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) load_failures: Counter,
    pub(crate) coalesced: Counter,
    pub(crate) load_latency: Histogram,
    pub(crate) memory_latency: Histogram,
}

/// One in this many memory hits is timed.
const SAMPLE: u32 = 256;

thread_local! {
    static TICK: Cell<u32> = const { Cell::new(0) };
}

/// Runs a lookup in memory and times it if its turn has come.
pub(crate) fn sampled<R>(latency: &Histogram, lookup: impl FnOnce() -> R) -> R {
    let tick = TICK.get().wrapping_add(1);
    TICK.set(tick);
    if !tick.is_multiple_of(SAMPLE) {
        return lookup();
    }
    let began = Instant::now();
    let result = lookup();
    latency.record(began.elapsed());
    result
}
