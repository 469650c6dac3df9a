//! The statistics of a cache, and the counter and histogram that every part of Larder uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub(crate) mod histogram;
mod top_keys;

pub use self::top_keys::{Sampled, TopKey, TopKeys};
pub use crate::layout::array::mapped_bytes;
pub use crate::stats::histogram::{Histogram, HistogramSnapshot};

/// The counters of a cache since it was built, and its present size.
///
/// The counters are plain fields of each shard, updated under its lock and summed on demand, so they are always on. They
/// are exact when no operation is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that found a live entry.
    pub hits: u64,
    /// Reads that found no entry. A read that waits for a load counts once, however the load ends.
    pub misses: u64,
    /// The reasons of these misses.
    pub miss_causes: MissCauses,
    /// Values stored, new and replacing.
    pub inserts: u64,
    /// Values that were not stored because they were too heavy or no room could be made.
    pub refused: u64,
    /// Loads that ended with a value.
    pub loads: u64,
    /// Loads that failed or were abandoned.
    pub load_failures: u64,
    /// Time spent in the loads that ended with a value.
    pub load_time: Duration,
    /// Entries removed because their time was over.
    pub expired: u64,
    /// Entries removed to make room.
    pub evicted: u64,
    /// Entries removed by their key.
    pub invalidated: u64,
    /// Entries removed by `clear`, `retain` or `drain`.
    pub purged: u64,
    /// Entries whose value was replaced.
    pub replaced: u64,
    /// Entries held now, including expired ones that are not reclaimed yet.
    pub entries: u64,
    /// The sum of their weights.
    pub weight: u64,
    /// The total weight allowed.
    pub capacity: u64,
}

impl Stats {
    /// The share of reads that were hits, from 0 to 1; 0 if there were no reads.
    pub fn hit_ratio(&self) -> f64 {
        let reads = self.hits + self.misses;
        if reads == 0 { 0.0 } else { self.hits as f64 / reads as f64 }
    }

    pub(crate) fn add(&mut self, other: &Stats) {
        self.hits += other.hits;
        self.misses += other.misses;
        self.miss_causes.add(&other.miss_causes);
        self.inserts += other.inserts;
        self.refused += other.refused;
        self.loads += other.loads;
        self.load_failures += other.load_failures;
        self.load_time += other.load_time;
        self.expired += other.expired;
        self.evicted += other.evicted;
        self.invalidated += other.invalidated;
        self.purged += other.purged;
        self.replaced += other.replaced;
        self.entries += other.entries;
    }
}

/// The reasons why reads found no live entry: an estimate from a sample of one key in sixteen.
///
/// The sum is about the number of misses. It differs if few keys miss often, since the sample is of keys and not of reads.
/// The reason of a removal is remembered for about as many keys as the cache has entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MissCauses {
    /// The key was read for the first time.
    pub first: u64,
    /// The time of the entry was over.
    pub expired: u64,
    /// The entry was removed to make room.
    pub evicted: u64,
    /// The entry was removed by its key.
    pub invalidated: u64,
    /// The entry was removed with others.
    pub purged: u64,
    /// Nothing was stored since the last miss: the load is running, has failed, or its value was not stored.
    pub not_stored: u64,
    /// The key was read for the first time, or it was removed so long ago that the cause is forgotten.
    pub unknown: u64,
}

impl MissCauses {
    /// The causes by name, also causes that did not occur.
    pub fn counts(&self) -> [(&'static str, u64); 7] {
        [
            ("first", self.first),
            ("expired", self.expired),
            ("evicted", self.evicted),
            ("invalidated", self.invalidated),
            ("purged", self.purged),
            ("not_stored", self.not_stored),
            ("unknown", self.unknown),
        ]
    }

    fn add(&mut self, other: &MissCauses) {
        self.first += other.first;
        self.expired += other.expired;
        self.evicted += other.evicted;
        self.invalidated += other.invalidated;
        self.purged += other.purged;
        self.not_stored += other.not_stored;
        self.unknown += other.unknown;
    }
}

/// The present entries of one [partition](crate::Builder::partitions) of a cache, including expired entries that are not
/// reclaimed yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionStats {
    /// Entries.
    pub entries: u64,
    /// Entries that have a time to live.
    pub with_deadline: u64,
}

impl PartitionStats {
    pub(crate) fn add(&mut self, other: PartitionStats) {
        self.entries += other.entries;
        self.with_deadline += other.with_deadline;
    }
}

/// A counter shared by many threads.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Adds `n`. Cost: one relaxed atomic addition.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
