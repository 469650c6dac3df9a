//! The JSON of `GET /api/history`: the last hour, for the dashboard. `?after=LAST` omits what an earlier answer had.
//!
//! ```json
//! {
//!   "version": 1,
//!   "now": 1795000000.5,
//!   "last": 721,
//!   "intervals": [ {
//!     "ended_at": 1795000000.0, "seconds": 5.0,
//!     "tiers": [ { "part": "links", "tier": "memory", "hits": 90, "misses": 10, "operations": 100, "p99_seconds": 2e-5 } ]
//!   } ],
//!   "events": [ { "at": 1795000000.0, "part": "server", "text": "restarted: address in use" } ]
//! }
//! ```
//!
//! Times are seconds since 1970. A tier is missing in an interval in which its part was restarted.

use serde::{Deserialize, Serialize};

use crate::api::VERSION;
use crate::history::Records;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct HistoryQuery {
    pub(crate) after: Option<u64>,
}

#[derive(Serialize)]
pub(crate) struct HistoryView<'a> {
    version: u32,
    now: f64,
    last: u64,
    intervals: Vec<IntervalView<'a>>,
    events: Vec<EventView<'a>>,
}

#[derive(Serialize)]
struct IntervalView<'a> {
    ended_at: f64,
    seconds: f64,
    tiers: Vec<ActivityView<'a>>,
}

#[derive(Serialize)]
struct ActivityView<'a> {
    part: &'a str,
    tier: &'a str,
    hits: u64,
    misses: u64,
    operations: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    p99_seconds: Option<f64>,
}

#[derive(Serialize)]
struct EventView<'a> {
    at: f64,
    part: &'a str,
    text: &'a str,
}

impl<'a> HistoryView<'a> {
    /// What came after the interval or event of a number.
    pub(crate) fn new(records: &'a Records, after: u64, now: f64) -> HistoryView<'a> {
        let intervals = records.intervals.iter().filter(|interval| interval.number > after);
        let events = records.events.iter().filter(|event| event.number > after);
        HistoryView {
            version: VERSION,
            now,
            last: records.last,
            intervals: intervals
                .map(|interval| IntervalView {
                    ended_at: interval.ended_at,
                    seconds: interval.seconds,
                    tiers: interval.tiers.iter().map(ActivityView::new).collect(),
                })
                .collect(),
            events: events
                .map(|event| EventView { at: event.at, part: &event.part, text: &event.text })
                .collect(),
        }
    }
}

impl<'a> ActivityView<'a> {
    fn new(tier: &'a crate::history::TierActivity) -> ActivityView<'a> {
        ActivityView {
            part: &tier.part,
            tier: tier.tier,
            hits: tier.hits,
            misses: tier.misses,
            operations: tier.operations,
            p99_seconds: tier.p99,
        }
    }
}
