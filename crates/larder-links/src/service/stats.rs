//! The statistics of the service, for the dashboard and for metrics.

use crate::service::visits::VisitStats;
use larder_engine::stats::{Counter, Histogram, HistogramSnapshot, TopKey, TopKeys};
use std::time::Duration;

/// The service's statistics since it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinksStats {
    /// Redirects by outcome.
    pub redirects: RedirectStats,
    /// The slugs with the most redirects, estimated from a sample: at most [`MAX_TOP_SLUGS`].
    pub top_slugs: Vec<TopKey>,
    /// Time from the request for a slug to its outcome, inside the service.
    pub redirect_latency: HistogramSnapshot,
    /// Visits in memory, written and dropped.
    pub visits: VisitStats,
    /// Links created.
    pub created: u64,
    /// Links deleted.
    pub deleted: u64,
    /// Deleted links that were restored.
    pub restored: u64,
}

/// The most slugs in [`LinksStats::top_slugs`].
pub const MAX_TOP_SLUGS: usize = 10;

/// Redirects by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectStats {
    /// The slug has a target.
    pub found: u64,
    /// The slug has no target.
    pub not_found: u64,
    /// The link has expired, or it was deleted.
    pub gone: u64,
    /// The load from the store failed.
    pub error: u64,
}

/// The counters behind [`LinksStats`].
#[derive(Default)]
pub(crate) struct Counters {
    found: Counter,
    not_found: Counter,
    gone: Counter,
    error: Counter,
    latency: Histogram,
    /// The slugs that redirected.
    pub(crate) slugs: TopKeys,
    pub(crate) created: Counter,
    pub(crate) deleted: Counter,
    pub(crate) restored: Counter,
}

/// The outcome of a redirect.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Found,
    NotFound,
    Gone,
    Error,
}

impl Counters {
    pub(crate) fn record_redirect(&self, outcome: Outcome, elapsed: Duration) {
        match outcome {
            Outcome::Found => self.found.add(1),
            Outcome::NotFound => self.not_found.add(1),
            Outcome::Gone => self.gone.add(1),
            Outcome::Error => self.error.add(1),
        }
        self.latency.record(elapsed);
    }

    pub(crate) fn snapshot(&self, visits: VisitStats) -> LinksStats {
        LinksStats {
            redirects: RedirectStats {
                found: self.found.get(),
                not_found: self.not_found.get(),
                gone: self.gone.get(),
                error: self.error.get(),
            },
            top_slugs: self.slugs.top(MAX_TOP_SLUGS),
            redirect_latency: self.latency.snapshot(),
            visits,
            created: self.created.get(),
            deleted: self.deleted.get(),
            restored: self.restored.get(),
        }
    }
}
