//! The JSON of `GET /api/history`: the last hour, for the dashboard. `?after=LAST` omits what an earlier answer had.
//!
//! ```json
//! {
//!   "version": 1,
//!   "now": 1795000000.5,
//!   "last": 721,
//!   "intervals": [ {
//!     "ended_at": 1795000000.0, "seconds": 5.0,
//!     "tiers": [ {
//!       "part": "links", "tier": "memory", "hits": 90, "misses": 10, "failures": 0, "unreadable": 0, "operations": 100,
//!       "p99_seconds": 2e-5
//!     } ]
//!   } ],
//!   "events": [ { "at": 1795000000.0, "part": "server", "text": "restarted: address in use" } ]
//! }
//! ```
//!
//! Times are seconds since 1970. The end of an interval is `now` minus its age, so that a clock that was set meanwhile moves
//! all intervals and makes neither a gap nor an overlap; an event has the time of the clock when it happened. A tier is
//! missing in an interval in which its part was restarted. `failures` are operations that failed or were not sent, and
//! `unreadable` lookups that found a value which cannot be used.

use serde::{Deserialize, Serialize};

use crate::history::Records;
use crate::moment::Moment;
use crate::routes::api::VERSION;

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
    failures: u64,
    unreadable: u64,
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
    pub(crate) fn new(records: &'a Records, after: u64, now: Moment) -> HistoryView<'a> {
        let intervals = records.intervals.iter().filter(|interval| interval.number > after);
        let events = records.events.iter().filter(|event| event.number > after);
        HistoryView {
            version: VERSION,
            now: now.wall,
            last: records.last,
            intervals: intervals
                .map(|interval| IntervalView {
                    ended_at: now.wall - now.instant.saturating_duration_since(interval.ended).as_secs_f64(),
                    seconds: interval.length.as_secs_f64(),
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
            failures: tier.failures,
            unreadable: tier.unreadable,
            operations: tier.operations,
            p99_seconds: tier.p99,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::History;
    use crate::parts::registry::Registry;
    use crate::parts::sample::{Sample, Tier};
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
    use std::time::{Duration, Instant};

    #[test]
    fn intervals_are_spaced_by_the_time_that_passed_whatever_the_clock_was_set_to() {
        let (history, start) = (History::default(), Instant::now());
        let at = |seconds: u64, wall| Moment { instant: start + Duration::from_secs(seconds), wall };
        // Set back by an hour after the second sample, and forth by two after the third.
        for now in [at(0, 10_000.0), at(5, 10_005.0), at(10, 6_410.0), at(15, 13_615.0)] {
            history.record(&[], now);
        }
        let records = history.records();
        let view = HistoryView::new(&records, 0, at(16, 13_616.0));
        let intervals: Vec<_> = view.intervals.iter().map(|own| (own.ended_at, own.seconds)).collect();
        assert_eq!(intervals, [(13_605.0, 5.0), (13_610.0, 5.0), (13_615.0, 5.0)]);
    }

    #[test]
    fn lookups_that_failed_or_found_nothing_usable_are_in_the_history() {
        let (history, registry, now) = (History::default(), Registry::new(), Moment::now());
        let count = AtomicU64::new(0);
        registry.register("shop", "cache", move || {
            let n = count.fetch_add(1, Relaxed);
            let lookups = [("hit", 0), ("error", n), ("skipped", 14 * n), ("unreadable", 2 * n)];
            Sample::running().tier(Tier::new("redis").lookups(lookups))
        });
        for at in [now.before(Duration::from_secs(5)), now] {
            history.record(&registry.sample(), at);
        }
        let records = history.records();
        let view = serde_json::to_value(HistoryView::new(&records, 0, now)).unwrap();
        let tier = &view["intervals"][0]["tiers"][0];
        assert_eq!((&tier["failures"], &tier["unreadable"]), (&15.into(), &2.into()), "{view}");
    }
}
