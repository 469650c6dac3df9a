//! The counters of a cache, and their snapshot.

use larder_engine::stats::{Counter, Histogram, HistogramSnapshot, MissCauses, Sampled, TopKey, TopKeys};

use crate::status::{Outcome, Reason};

/// The most paths in [`Stats::top_paths`], routes in [`Stats::top_routes`] and tags in [`Stats::top_tags`].
pub const MAX_TOP: usize = 10;

/// The counters of one cache. They are relaxed: counting orders no other memory access.
#[derive(Debug)]
pub(crate) struct Counters {
    hits: Counter,
    shared_hits: Counter,
    disk_hits: Counter,
    stale_hits: Counter,
    validated: Counter,
    misses: Counter,
    collapsed: Counter,
    bypassed: Box<[Counter]>,
    unstored: Box<[Counter]>,
    pub(crate) stores: Counter,
    pub(crate) refreshes: Counter,
    pub(crate) not_modified: Counter,
    pub(crate) purges: Counter,
    /// Lookups that found a purged entry.
    pub(crate) purged_lookups: Counter,
    /// The paths, routes and tags of hits.
    paths: TopKeys,
    routes: TopKeys,
    tags: TopKeys,
    pub(crate) hit_time: Histogram,
    pub(crate) miss_time: Histogram,
}

impl Counters {
    pub(crate) fn new() -> Counters {
        let by_reason = || Reason::ALL.iter().map(|_| Counter::default()).collect();
        Counters {
            hits: Counter::default(),
            shared_hits: Counter::default(),
            disk_hits: Counter::default(),
            stale_hits: Counter::default(),
            validated: Counter::default(),
            misses: Counter::default(),
            collapsed: Counter::default(),
            bypassed: by_reason(),
            unstored: by_reason(),
            stores: Counter::default(),
            refreshes: Counter::default(),
            not_modified: Counter::default(),
            purges: Counter::default(),
            purged_lookups: Counter::default(),
            paths: TopKeys::new(),
            routes: TopKeys::new(),
            tags: TopKeys::new(),
            hit_time: Histogram::new(),
            miss_time: Histogram::new(),
        }
    }

    /// Counts one request. Call it once per request.
    pub(crate) fn count(&self, outcome: Outcome) {
        match outcome {
            Outcome::Hit { .. } => self.hits.add(1),
            Outcome::Shared { .. } => self.shared_hits.add(1),
            Outcome::Disk { .. } => self.disk_hits.add(1),
            Outcome::Stale { .. } => self.stale_hits.add(1),
            Outcome::Validated => self.validated.add(1),
            Outcome::Miss { collapsed: true, .. } => self.collapsed.add(1),
            Outcome::Miss { unstored, .. } => {
                self.misses.add(1);
                if let Some(reason) = unstored.filter(|reason| *reason != Reason::Streaming) {
                    self.count_unstored(reason);
                }
            }
            Outcome::Bypass(reason) | Outcome::Rejected(reason) => self.bypassed[reason as usize].add(1),
        }
    }

    /// Counts a response that was not stored.
    pub(crate) fn count_unstored(&self, reason: Reason) {
        self.unstored[reason as usize].add(1);
    }

    /// Counts what a sampled hit has used: a path, a route if it is known, and tags.
    pub(crate) fn record_use<'a>(
        &self,
        sampled: Sampled,
        path: &str,
        route: Option<&str>,
        tags: impl Iterator<Item = &'a str>,
    ) {
        self.paths.record_sampled(sampled, path.as_bytes());
        route.into_iter().for_each(|route| self.routes.record_sampled(sampled, route.as_bytes()));
        tags.for_each(|tag| self.tags.record_sampled(sampled, tag.as_bytes()));
    }

    pub(crate) fn snapshot(
        &self,
        store: &larder_engine::Stats,
        body_bytes: u64,
        disk: Option<DiskStats>,
    ) -> Stats {
        let by_reason = |counters: &[Counter]| {
            let counts = Reason::ALL.iter().zip(counters).map(|(reason, counter)| (*reason, counter.get()));
            counts.filter(|(_, count)| *count > 0).collect()
        };
        Stats {
            hits: self.hits.get(),
            shared_hits: self.shared_hits.get(),
            disk_hits: self.disk_hits.get(),
            stale_hits: self.stale_hits.get(),
            validated: self.validated.get(),
            misses: self.misses.get(),
            collapsed: self.collapsed.get(),
            bypassed: by_reason(&self.bypassed),
            unstored: by_reason(&self.unstored),
            stores: self.stores.get(),
            refreshes: self.refreshes.get(),
            not_modified: self.not_modified.get(),
            purges: self.purges.get(),
            miss_causes: MissCauses {
                purged: store.miss_causes.purged + self.purged_lookups.get(),
                ..store.miss_causes
            },
            entries: store.entries,
            bytes: store.weight,
            capacity: store.capacity,
            body_bytes,
            disk,
            top_paths: self.paths.top(MAX_TOP),
            top_routes: self.routes.top(MAX_TOP),
            top_tags: self.tags.top(MAX_TOP),
            hit_time: self.hit_time.snapshot(),
            miss_time: self.miss_time.snapshot(),
        }
    }
}

/// The counters of a cache since it was built, and its current size.
///
/// Every request is counted once, as a hit, shared hit, disk hit, stale hit, validated, miss, collapsed or bypassed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Stats {
    /// Requests answered from a fresh entry.
    pub hits: u64,
    /// Requests answered from an entry of another replica, without the handler.
    pub shared_hits: u64,
    /// Requests answered from an entry on disk, without the handler.
    pub disk_hits: u64,
    /// Requests answered from a stale entry, within its grace period.
    pub stale_hits: u64,
    /// Requests answered from an entry that the handler has validated, with a 304.
    pub validated: u64,
    /// Requests for which the handler ran and made a response.
    pub misses: u64,
    /// Requests answered by the fill of another request.
    pub collapsed: u64,
    /// The reasons why the store had no response, estimated from one key in sixteen; exact for purged responses.
    pub miss_causes: MissCauses,
    /// Requests that bypassed the cache or were rejected, by reason; reasons that did not occur are omitted.
    pub bypassed: Vec<(Reason, u64)>,
    /// Responses that were not stored, by reason, including responses of refreshes.
    pub unstored: Vec<(Reason, u64)>,
    /// Responses stored, including responses of refreshes.
    pub stores: u64,
    /// Background refreshes started.
    pub refreshes: u64,
    /// Responses with status 304.
    pub not_modified: u64,
    /// Purges, and invalidations by unsafe methods.
    pub purges: u64,
    /// Entries in the store: responses, and one record for each resource that varies.
    pub entries: u64,
    /// Bytes of keys, headers and bodies in the store.
    pub bytes: u64,
    /// The capacity in bytes.
    pub capacity: u64,
    /// Bytes of all bodies in memory: in the store, in running fills and in replies that are being sent.
    pub body_bytes: u64,
    /// The disk tier, if the cache has one: `Builder::disk`.
    pub disk: Option<DiskStats>,
    /// The paths with the most hits, without queries, estimated from a sample: at most [`MAX_TOP`].
    pub top_paths: Vec<TopKey>,
    /// The same of routes such as `/products/{id}`: axum's `MatchedPath`, with the feature `axum` and a layer in a router or
    /// in front of one, or else the label `route` of the response.
    pub top_routes: Vec<TopKey>,
    /// The same of tags: a hit counts for each tag of its response.
    pub top_tags: Vec<TopKey>,
    /// Time to the head of a response from the store; one hit in sixteen is timed, and counts as sixteen.
    pub hit_time: HistogramSnapshot,
    /// Time to the head of a response from the handler, including the wait for the fill of another request.
    pub miss_time: HistogramSnapshot,
}

/// The disk tier of a cache: what it has, and what it has done since the cache was built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DiskStats {
    /// Entries on disk: responses, and one record for each resource that varies.
    pub entries: u64,
    /// The bytes that they take, in whole blocks. While the folder is read after a start, those that were read.
    pub bytes: u64,
    /// Entries written.
    pub writes: u64,
    /// Writes that failed, for example because the disk was full.
    pub write_errors: u64,
    /// Entries that were not written, because others waited already or writes had failed a moment ago.
    pub dropped_writes: u64,
    /// Whether it is in use. After a failure of the folder it is not, until a new beginning succeeds.
    pub is_on: bool,
}

impl Stats {
    /// Requests that bypassed the cache or were rejected, for any reason.
    pub fn bypassed_total(&self) -> u64 {
        self.bypassed.iter().map(|(_, count)| count).sum()
    }

    /// Hits of all kinds ÷ all requests except bypassed ones, 0 to 1; `None` before the first request.
    pub fn hit_ratio(&self) -> Option<f64> {
        let hits = self.hits + self.shared_hits + self.disk_hits + self.stale_hits;
        let lookups = hits + self.validated + self.misses + self.collapsed;
        (lookups > 0).then(|| hits as f64 / lookups as f64)
    }
}
