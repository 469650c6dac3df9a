//! What a cache has done, tier by tier.

use crate::cache::Inner;
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
    /// Loaded values that were stored nowhere, because their key was invalidated during the load.
    pub refused: u64,
    /// Times that an old value stood in for one that could not be loaded, or not in time.
    pub stale: u64,
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
    pub(crate) refused: Counter,
    pub(crate) stale: Counter,
    pub(crate) load_latency: Histogram,
    pub(crate) memory_latency: Histogram,
}

impl Inner {
    pub(crate) fn stats(&self) -> CacheStats {
        let memory = self.memory.stats();
        let counts = &self.counts;
        let load_latency = counts.load_latency.snapshot();
        CacheStats {
            memory: TierStats {
                hits: memory.hits,
                misses: memory.misses,
                evicted: memory.evicted,
                expired: memory.expired,
                entries: Some(memory.entries),
                bytes: Some(memory.weight),
                capacity: Some(memory.capacity),
                latency: counts.memory_latency.snapshot(),
                ..TierStats::default()
            },
            redis: self.redis_stats(),
            loads: load_latency.count(),
            load_failures: counts.load_failures.get(),
            coalesced: counts.coalesced.get(),
            refused: counts.refused.get(),
            stale: counts.stale.get(),
            load_latency,
        }
    }

    fn redis_stats(&self) -> Option<TierStats> {
        self.shared.as_ref().map(|shared| TierStats {
            hits: shared.counts.hits.get(),
            misses: shared.counts.misses.get(),
            errors: shared.counts.errors.get(),
            skipped: shared.counts.skipped.get(),
            unreadable: shared.counts.unreadable.get(),
            latency: shared.latency.snapshot(),
            ..TierStats::default()
        })
    }
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
