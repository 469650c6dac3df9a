//! What the service counts about itself, for the dashboard and for metrics.

use crate::visits::VisitStats;
use larder_engine::stats::{Counter, Histogram, HistogramSnapshot};
use std::time::Duration;

/// The service's figures since it was opened.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LinksStats {
    /// Redirects by outcome.
    pub redirects: RedirectStats,
    /// How long redirects took inside the service, whatever their outcome.
    pub redirect_latency: HistogramSnapshot,
    /// Visits on their way into the database.
    pub visits: VisitStats,
    /// Links made.
    pub created: u64,
    /// Links deleted.
    pub deleted: u64,
}

/// Redirects by outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RedirectStats {
    /// The slug led to a target.
    pub found: u64,
    /// The slug led nowhere.
    pub not_found: u64,
    /// The store was needed and failed.
    pub error: u64,
}

/// The counters behind [`LinksStats`].
#[derive(Default)]
pub(crate) struct Counters {
    found: Counter,
    not_found: Counter,
    error: Counter,
    latency: Histogram,
    pub(crate) created: Counter,
    pub(crate) deleted: Counter,
}

/// How a redirect ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Found,
    NotFound,
    Error,
}

impl Counters {
    pub(crate) fn record_redirect(&self, outcome: Outcome, took: Duration) {
        match outcome {
            Outcome::Found => self.found.add(1),
            Outcome::NotFound => self.not_found.add(1),
            Outcome::Error => self.error.add(1),
        }
        self.latency.record(took);
    }

    pub(crate) fn snapshot(&self, visits: VisitStats) -> LinksStats {
        LinksStats {
            redirects: RedirectStats {
                found: self.found.get(),
                not_found: self.not_found.get(),
                error: self.error.get(),
            },
            redirect_latency: self.latency.snapshot(),
            visits,
            created: self.created.get(),
            deleted: self.deleted.get(),
        }
    }
}
