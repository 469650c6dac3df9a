//! The counters of a cache and of each tier.

use larder_engine::stats::{Counter, Histogram, HistogramSnapshot, MissCauses, Sampled, TopKey, TopKeys};
use std::cell::Cell;
use std::time::Instant;

/// The most tags in [`CacheStats::top_tags`].
pub const MAX_TOP_TAGS: usize = 10;

/// The counters of a [`crate::Cache`] at one moment.
#[derive(Clone, Debug, Default)]
pub struct CacheStats {
    /// The memory tier.
    pub memory: TierStats,
    /// The Redis tier, if there is one.
    pub redis: Option<TierStats>,
    /// Loads that ended with a value.
    pub loads: u64,
    /// Loads that ended without a value: with an error, a panic or a timeout, or unchanged without a stale value.
    pub load_failures: u64,
    /// Fetches that were answered by another caller's load.
    pub coalesced: u64,
    /// Loaded values that were stored nowhere, because their key was invalidated during the load.
    pub refused: u64,
    /// Times that a stale value was served because the load failed or was slow.
    pub stale: u64,
    /// The latency of loads.
    pub load_latency: HistogramSnapshot,
    /// The tags whose values had the most hits in memory, estimated from a sample: at most [`MAX_TOP_TAGS`].
    pub top_tags: Vec<TopKey>,
}

/// The counters of one tier.
#[derive(Clone, Debug, Default)]
pub struct TierStats {
    /// Lookups that found a value.
    pub hits: u64,
    /// Lookups that found none.
    pub misses: u64,
    /// The reasons for misses of memory that found no entry, estimated from one key in sixteen; zero for Redis.
    pub miss_causes: MissCauses,
    /// Misses of memory that found an entry and could not serve it: it is stale, or a tag has invalidated it, or nothing
    /// proves it since Redis is lost. Zero for Redis.
    pub unservable: u64,
    /// Operations that failed.
    pub errors: u64,
    /// Operations that were not sent because the circuit breaker was open.
    pub skipped: u64,
    /// Values that were found and were not readable.
    pub unreadable: u64,
    /// Values that memory did not store, since they weigh more than its capacity; zero for Redis.
    pub too_heavy: u64,
    /// Entries that were evicted to make room.
    pub evicted: u64,
    /// Entries that expired.
    pub expired: u64,
    /// The number of entries, if the tier can tell.
    pub entries: Option<u64>,
    /// Their weight in bytes, if the tier can tell.
    pub bytes: Option<u64>,
    /// The capacity in bytes, if they are bounded.
    pub capacity: Option<u64>,
    /// The capacity in entries, if they are bounded.
    pub max_entries: Option<u64>,
    /// The latency of operations. In memory one in 256 is measured and counts for all of them, since a measurement costs as
    /// much as a hit.
    pub latency: HistogramSnapshot,
}

/// The counters of the cache itself; each tier has its own.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) load_failures: Counter,
    pub(crate) coalesced: Counter,
    pub(crate) refused: Counter,
    pub(crate) stale: Counter,
    pub(crate) load_latency: Histogram,
    pub(crate) memory_latency: Histogram,
    /// Lookups of memory that found an entry and could not serve it.
    pub(crate) unservable: Counter,
    /// Those of them whose entry was served after all: Redis has proved it, or did not reply.
    pub(crate) served_late: Counter,
    /// The tags of hits in memory.
    pub(crate) tags: TopKeys,
}

impl Counts {
    /// Counts the tags of a hit in memory; one without tags costs a comparison.
    #[inline]
    pub(crate) fn record_tags(&self, tags: &[Box<str>]) {
        if tags.is_empty() {
            return;
        }
        if let Some(sampled) = Sampled::draw() {
            tags.iter().for_each(|tag| self.tags.record_sampled(sampled, tag.as_bytes()));
        }
    }
}

/// One in this many memory lookups is measured.
const SAMPLE: u32 = 256;

thread_local! {
    static TICK: Cell<u32> = const { Cell::new(0) };
}

/// Runs a memory lookup, and measures one in [`SAMPLE`], which counts for all of them: so the counts of all tiers can be
/// compared.
#[inline]
pub(crate) fn sampled<R>(latency: &Histogram, lookup: impl FnOnce() -> R) -> R {
    let tick = TICK.get().wrapping_add(1);
    TICK.set(tick);
    if !tick.is_multiple_of(SAMPLE) {
        return lookup();
    }
    let started = Instant::now();
    let result = lookup();
    latency.record_n(started.elapsed(), SAMPLE.into());
    result
}
