//! The statistics of a cache, and the counter and histogram that every part of Larder uses.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use crate::histogram::{Histogram, HistogramSnapshot};

/// What a cache has done since it was built, and what it holds now.
///
/// The counters are plain fields of each shard, updated under its lock and summed on demand, so they are always on. They
/// are exact when no operation is running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that found a live entry.
    pub hits: u64,
    /// Reads that found none.
    pub misses: u64,
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

/// What a cache holds now in one of its [partitions](crate::Builder::partitions), including expired entries that are not
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
