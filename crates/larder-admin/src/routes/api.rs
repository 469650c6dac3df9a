//! The JSON of `GET /api/stats`, for scripts, tests and the dashboard. The shape is stable: fields may be added, but
//! not renamed or removed without a new `version`. Unknown values are omitted.
//!
//! ```json
//! {
//!   "version": 1,
//!   "server": {
//!     "version": "0.1.0", "started_at": 1795000000.0, "uptime_seconds": 12.5, "open_files": 40, "max_open_files": 1024
//!   },
//!   "parts": [ {
//!     "part": "links", "kind": "cache", "state": "degraded", "restarts": 1, "last_failure": "…",
//!     "degradations": [ { "name": "redis", "since": 1795000000.0, "seconds": 35.5, "ready": true, "meaning": "…" } ],
//!     "can_purge": true, "purge_targets": [ "tag", "uri", "prefix", "principal", "all" ], "soft_purges": true,
//!     "tiers": [ {
//!       "tier": "memory",
//!       "lookups": { "hit": 90, "miss": 10 },
//!       "miss_causes": { "first": 8, "evicted": 2 },
//!       "operations": { "get": 100 },
//!       "hit_ratio": 0.9,
//!       "latency": {
//!         "count": 100, "sum_seconds": 0.001, "p50_seconds": 9e-6, "p99_seconds": 2e-5, "p999_seconds": 2e-5,
//!         "max_seconds": 2e-5, "buckets": [[1.1e-5, 60], [1.6e-5, 100]]
//!       },
//!       "entries": 10, "bytes": 4096, "capacity_bytes": 65536
//!     } ],
//!     "top": { "slugs": [ { "name": "abc", "count": 4096, "error": 512 } ] },
//!     "reasons": { "bypass": { "cookie": 3 } },
//!     "figures": [ { "name": "connections", "unit": "count", "total": false, "value": 4.0, "help": "…" } ],
//!     "notes": { "coherence": "full: …" }
//!   } ]
//! }
//! ```
//!
//! A part with `degradations` runs and lacks what they name: `since` is in seconds since 1970, and `ready` is whether it answers
//! its requests all the same. The field is missing if there are none.
//!
//! `can_purge` is false and `purge_targets` are missing also if there is no admin token.
//!
//! Counts are totals since the start; those of `miss_causes` are estimates from one key in sixteen, and those of `top` from
//! a sample of uses. A rate is the difference of two samples. `latency.buckets` are pairs of an upper bound in seconds and
//! the number of durations up to it, so that the difference of two samples is the histogram of the time between them. Bounds
//! at which the number does not change are omitted.

use std::collections::BTreeMap;
use std::time::Duration;

use larder_engine::stats::HistogramSnapshot;
use serde::Serialize;

use crate::moment::since_1970;
use crate::open_files::OpenFiles;
use crate::parts::degradation::Degradation;
use crate::parts::sample::PartSample;
use crate::parts::sample::{Figure, Tier, TopEntry};

/// The version of the shape.
pub const VERSION: u32 = 1;

/// The bound of the first bucket. Each further bound is √2 times the previous one.
const FIRST_BOUND_NANOS: f64 = 250.0;
/// The number of bounds; the last is about 17 seconds.
const BOUNDS: i32 = 53;

#[derive(Serialize)]
pub(crate) struct StatsView<'a> {
    version: u32,
    server: ServerView,
    parts: Vec<PartView<'a>>,
}

#[derive(Serialize)]
struct ServerView {
    version: &'static str,
    /// In seconds since 1970, by the clock of that time: it tells a process from the one before.
    started_at: f64,
    uptime_seconds: f64,
    #[serde(flatten)]
    files: Option<OpenFiles>,
}

#[derive(Serialize)]
struct PartView<'a> {
    part: &'a str,
    kind: &'a str,
    state: &'static str,
    restarts: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_failure: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    degradations: Vec<DegradationView<'a>>,
    can_purge: bool,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    purge_targets: Vec<&'static str>,
    #[serde(skip_serializing_if = "is_false")]
    soft_purges: bool,
    tiers: Vec<TierView<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    top: BTreeMap<&'a str, &'a [TopEntry]>,
    reasons: BTreeMap<&'a str, BTreeMap<&'a str, u64>>,
    figures: Vec<FigureView<'a>>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    notes: BTreeMap<&'a str, &'a str>,
}

#[derive(Serialize)]
struct DegradationView<'a> {
    name: &'a str,
    /// In seconds since 1970.
    since: f64,
    seconds: f64,
    ready: bool,
    meaning: &'a str,
}

#[derive(Serialize)]
struct TierView<'a> {
    tier: &'a str,
    lookups: BTreeMap<&'a str, u64>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    miss_causes: BTreeMap<&'a str, u64>,
    operations: BTreeMap<&'a str, u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    hit_ratio: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    latency: Option<LatencyView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    entries: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    capacity_bytes: Option<u64>,
}

#[derive(Serialize)]
struct LatencyView {
    count: u64,
    sum_seconds: f64,
    p50_seconds: f64,
    p99_seconds: f64,
    p999_seconds: f64,
    max_seconds: f64,
    buckets: Vec<(f64, u64)>,
}

#[derive(Serialize)]
struct FigureView<'a> {
    name: &'a str,
    unit: &'a str,
    total: bool,
    value: f64,
    help: &'a str,
}

impl<'a> StatsView<'a> {
    /// `purges` is whether purging is enabled; `started_at` is in seconds since 1970.
    pub(crate) fn new(
        parts: &'a [PartSample],
        purges: bool,
        started_at: f64,
        uptime: Duration,
    ) -> StatsView<'a> {
        let (version, uptime_seconds) = (env!("CARGO_PKG_VERSION"), uptime.as_secs_f64());
        StatsView {
            version: VERSION,
            server: ServerView { version, started_at, uptime_seconds, files: OpenFiles::now() },
            parts: parts.iter().map(|part| PartView::new(part, purges)).collect(),
        }
    }
}

fn is_false(value: &bool) -> bool {
    !value
}

impl<'a> PartView<'a> {
    fn new(part: &'a PartSample, purges: bool) -> PartView<'a> {
        let sample = &part.sample;
        let targets = if purges { &*part.purge_targets } else { &[] };
        PartView {
            part: &part.name,
            kind: part.kind,
            state: sample.state.as_str(),
            restarts: sample.restarts,
            last_failure: sample.last_failure.as_deref(),
            degradations: sample.degradations.iter().map(DegradationView::new).collect(),
            can_purge: !targets.is_empty(),
            purge_targets: targets.iter().map(|kind| kind.as_str()).collect(),
            soft_purges: part.has_soft_purges && !targets.is_empty(),
            tiers: sample.tiers.iter().map(TierView::new).collect(),
            top: sample.top.iter().map(|list| (list.title, &*list.entries)).collect(),
            reasons: sample
                .reasons
                .iter()
                .map(|own| (own.outcome, own.counts.iter().copied().collect()))
                .collect(),
            figures: sample.figures.iter().map(FigureView::new).collect(),
            notes: sample.notes.iter().map(|(name, sentence)| (*name, &**sentence)).collect(),
        }
    }
}

impl<'a> DegradationView<'a> {
    fn new(own: &'a Degradation) -> DegradationView<'a> {
        let seconds = own.lasting.as_secs_f64();
        DegradationView {
            name: own.name,
            since: since_1970() - seconds,
            seconds,
            ready: own.is_ready,
            meaning: &own.meaning,
        }
    }
}

impl<'a> TierView<'a> {
    fn new(tier: &'a Tier) -> TierView<'a> {
        TierView {
            tier: tier.name,
            lookups: tier.lookups.iter().copied().collect(),
            miss_causes: tier.miss_causes.iter().copied().filter(|(_, count)| *count > 0).collect(),
            operations: tier.operations.iter().copied().collect(),
            hit_ratio: tier.hit_ratio(),
            latency: tier.latency.as_ref().map(LatencyView::new),
            entries: tier.entries,
            bytes: tier.bytes,
            capacity_bytes: tier.capacity_bytes,
        }
    }
}

impl LatencyView {
    fn new(latency: &HistogramSnapshot) -> LatencyView {
        let seconds = |q| latency.quantile(q).as_secs_f64();
        LatencyView {
            count: latency.count(),
            sum_seconds: latency.sum().as_secs_f64(),
            p50_seconds: seconds(0.5),
            p99_seconds: seconds(0.99),
            p999_seconds: seconds(0.999),
            max_seconds: latency.max().as_secs_f64(),
            buckets: buckets(latency),
        }
    }
}

impl<'a> FigureView<'a> {
    fn new(figure: &'a Figure) -> FigureView<'a> {
        FigureView {
            name: figure.name,
            unit: figure.unit.as_str(),
            total: figure.total,
            value: figure.value,
            help: figure.help,
        }
    }
}

fn buckets(latency: &HistogramSnapshot) -> Vec<(f64, u64)> {
    let mut buckets = Vec::new();
    let mut previous = 0;
    for step in 0..BOUNDS {
        let bound = Duration::from_nanos((FIRST_BOUND_NANOS * 2f64.powf(f64::from(step) / 2.0)) as u64);
        let count = latency.count_up_to(bound);
        if count != previous {
            buckets.push((bound.as_secs_f64(), count));
            previous = count;
        }
    }
    buckets
}

#[cfg(test)]
mod tests {
    use super::*;
    use larder_engine::stats::Histogram;

    #[test]
    fn buckets_are_cumulative_and_skip_unchanged_counts() {
        let histogram = Histogram::new();
        histogram.record_n(Duration::from_micros(10), 3);
        histogram.record(Duration::from_millis(10));
        let buckets = buckets(&histogram.snapshot());
        assert_eq!(buckets.iter().map(|(_, count)| *count).collect::<Vec<_>>(), [3, 4]);
        for ((bound, _), recorded) in buckets.iter().zip([10e-6, 10e-3]) {
            assert!(*bound >= recorded * 0.99 && *bound < recorded * 1.5, "{bound} for {recorded}");
        }
    }
}
