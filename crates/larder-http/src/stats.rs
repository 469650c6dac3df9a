//! What the cache counts, and the plain form in which it is read.

use larder_engine::stats::{Counter, Histogram, HistogramSnapshot};

use crate::status::{Outcome, Reason};

/// Counters of one cache; relaxed, so that counting never orders anything.
#[derive(Debug)]
pub(crate) struct Counters {
    hits: Counter,
    stale_hits: Counter,
    misses: Counter,
    collapsed: Counter,
    bypassed: Box<[Counter]>,
    unstored: Box<[Counter]>,
    pub(crate) stores: Counter,
    pub(crate) refreshes: Counter,
    pub(crate) not_modified: Counter,
    pub(crate) purges: Counter,
    pub(crate) hit_time: Histogram,
    pub(crate) miss_time: Histogram,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        let by_reason = || Reason::ALL.iter().map(|_| Counter::default()).collect();
        Counters {
            hits: Counter::default(),
            stale_hits: Counter::default(),
            misses: Counter::default(),
            collapsed: Counter::default(),
            bypassed: by_reason(),
            unstored: by_reason(),
            stores: Counter::default(),
            refreshes: Counter::default(),
            not_modified: Counter::default(),
            purges: Counter::default(),
            hit_time: Histogram::new(),
            miss_time: Histogram::new(),
        }
    }

    /// Counts one request; each is counted once.
    pub(crate) fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Hit { .. } => self.hits.add(1),
            Outcome::Stale { .. } => self.stale_hits.add(1),
            Outcome::Miss { collapsed: true, .. } => self.collapsed.add(1),
            Outcome::Miss { unstored, .. } => {
                self.misses.add(1);
                if let Some(reason) = unstored {
                    self.count_unstored(reason);
                }
            }
            Outcome::Bypass(reason) => self.bypassed[reason as usize].add(1),
        }
    }

    /// Counts a response that was not stored.
    pub(crate) fn count_unstored(&self, reason: Reason) {
        self.unstored[reason as usize].add(1);
    }

    pub(crate) fn snapshot(&self, entries: u64, bytes: u64, capacity: u64) -> Stats {
        let by_reason = |counters: &[Counter]| {
            let counts = Reason::ALL.iter().zip(counters).map(|(reason, counter)| (*reason, counter.get()));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Stats {
            hits: self.hits.get(),
            stale_hits: self.stale_hits.get(),
            misses: self.misses.get(),
            collapsed: self.collapsed.get(),
            bypassed: by_reason(&self.bypassed),
            unstored: by_reason(&self.unstored),
            stores: self.stores.get(),
            refreshes: self.refreshes.get(),
            not_modified: self.not_modified.get(),
            purges: self.purges.get(),
            entries,
            bytes,
            capacity,
            hit_time: self.hit_time.snapshot(),
            miss_time: self.miss_time.snapshot(),
        }
    }
}

/// What a cache did since it was built, and what it holds.
///
/// Every request is counted once, as a hit, stale hit, miss, collapsed or bypassed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Requests answered from a fresh entry.
    pub hits: u64,
    /// Requests answered from an entry past its TTL, within its grace.
    pub stale_hits: u64,
    /// Requests for which the handler ran.
    pub misses: u64,
    /// Requests answered with the response of another one's fill.
    pub collapsed: u64,
    /// Requests that went by the cache, by reason; reasons that did not occur are left out.
    pub bypassed: Vec<(Reason, u64)>,
    /// Responses that were not stored, by reason, those of refreshes included.
    pub unstored: Vec<(Reason, u64)>,
    /// Responses stored, those of refreshes included.
    pub stores: u64,
    /// Background refreshes started.
    pub refreshes: u64,
    /// Answers that were a 304.
    pub not_modified: u64,
    /// Purges asked for, and invalidations by unsafe methods.
    pub purges: u64,
    /// Entries held: responses, and one record for each resource that varies.
    pub entries: u64,
    /// Bytes held, of keys, headers and bodies.
    pub bytes: u64,
    /// Bytes that may be held.
    pub capacity: u64,
    /// Time to the head of a response from the store; one hit in sixteen is timed, and counted sixteenfold.
    pub hit_time: HistogramSnapshot,
    /// Time to the head of a response from the handler, waiting for another request's fill included.
    pub miss_time: HistogramSnapshot,
}

impl Stats {
    /// Requests that bypassed, for whatever reason.
    pub fn bypassed_total(&self) -> u64 {
        self.bypassed.iter().map(|(_, count)| count).sum()
    }

    /// The share of the requests that could be answered from the store and were, 0 to 1; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let hits = self.hits + self.stale_hits;
        let lookups = hits + self.misses + self.collapsed;
        (lookups > 0).then(|| hits as f64 / lookups as f64)
    }
}
