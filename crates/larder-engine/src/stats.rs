//! Counters of a cache, and the two small instruments that every part of Larder measures itself with.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

pub use crate::histogram::{Histogram, HistogramSnapshot};

/// What a cache has done since it was built, and what it holds now.
///
/// The counters are plain fields in each shard, changed under its lock and summed on demand, so they cost nothing to
/// leave on and are exact once the cache is at rest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Reads that found a live entry.
    pub hits: u64,
    /// Reads that did not.
    pub misses: u64,
    /// Values stored, new and replacing.
    pub inserts: u64,
    /// Values that were too heavy to be stored.
    pub refused: u64,
    /// Loads that ended with a value.
    pub loads: u64,
    /// Loads that ended with a failure or were abandoned.
    pub load_failures: u64,
    /// Time spent in the loads that ended with a value.
    pub load_time: Duration,
    /// Entries that left because their time was over.
    pub expired: u64,
    /// Entries that left because room was needed.
    pub evicted: u64,
    /// Entries that left because their key was removed.
    pub invalidated: u64,
    /// Entries that left with `clear`, `retain` or `drain`.
    pub purged: u64,
    /// Entries whose value was replaced.
    pub replaced: u64,
    /// Entries held now, among them such as have expired and are not reclaimed yet.
    pub entries: u64,
    /// The sum of their weights.
    pub weight: u64,
    /// The total weight allowed.
    pub capacity: u64,
}

impl Stats {
    /// Hits among all reads, from 0 to 1; 0 when there was none.
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

/// A count that many threads may raise and anybody may read.
#[derive(Debug, Default)]
pub struct Counter(AtomicU64);

impl Counter {
    /// A counter at zero.
    pub const fn new() -> Self {
        Counter(AtomicU64::new(0))
    }

    /// Raises the count by `n`. Cost: one relaxed atomic addition.
    pub fn add(&self, n: u64) {
        self.0.fetch_add(n, Ordering::Relaxed);
    }

    /// The count so far.
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
