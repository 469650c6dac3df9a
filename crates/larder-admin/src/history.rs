//! What the parts did in the last hour: the activity of each tier in intervals of five seconds, and events. It is kept
//! here, and not by the page, so that a page that is opened after an incident still shows it. A thread of `routes::state`
//! takes a sample every second: a failover may last two seconds only.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use larder_engine::stats::HistogramSnapshot;

use crate::moment::Moment;
use crate::parts::degradation::Degradation;
use crate::parts::sample::{PartSample, State, Tier};

/// The time between two samples.
pub(crate) const SAMPLED_EVERY: Duration = Duration::from_secs(1);
const INTERVAL: Duration = Duration::from_secs(5);
/// An hour.
const MAX_INTERVALS: usize = 720;
const MAX_EVENTS: usize = 200;
/// The longest text of an event in bytes: a reason may have any length.
const MAX_TEXT: usize = 300;

/// The last hour of all parts.
#[derive(Debug, Default)]
pub(crate) struct History(Mutex<Records>);

#[derive(Debug, Default)]
pub(crate) struct Records {
    /// Oldest first.
    pub(crate) intervals: VecDeque<Interval>,
    /// Oldest first.
    pub(crate) events: VecDeque<Event>,
    /// The number of the last interval or event; they are numbered together, from 1.
    pub(crate) last: u64,
    /// The last sample, and its time.
    parts: Vec<PartTotals>,
    sampled_at: Option<Instant>,
    interval_start: Option<IntervalStart>,
}

/// The tiers of each part when the present interval began.
#[derive(Debug)]
struct IntervalStart {
    at: Instant,
    parts: Vec<(String, Vec<TierTotals>)>,
}

/// What the tiers did between two samples.
#[derive(Debug)]
pub(crate) struct Interval {
    pub(crate) number: u64,
    pub(crate) ended: Instant,
    pub(crate) length: Duration,
    pub(crate) tiers: Vec<TierActivity>,
}

#[derive(Debug, PartialEq)]
pub(crate) struct TierActivity {
    pub(crate) part: String,
    pub(crate) tier: &'static str,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    /// Operations that failed or were not sent.
    pub(crate) failures: u64,
    /// Lookups that found a value which cannot be used.
    pub(crate) unreadable: u64,
    pub(crate) operations: u64,
    /// The 99th percentile in seconds.
    pub(crate) p99: Option<f64>,
}

/// Something that happened to a part.
#[derive(Debug, PartialEq)]
pub(crate) struct Event {
    pub(crate) number: u64,
    /// In seconds since 1970, by the clock of that time.
    pub(crate) at: f64,
    pub(crate) part: String,
    pub(crate) text: String,
}

/// The totals of a part at the last sample.
#[derive(Debug)]
struct PartTotals {
    name: String,
    state: State,
    restarts: u64,
    degradations: Vec<Degradation>,
    servers: Vec<String>,
}

#[derive(Debug)]
struct TierTotals {
    tier: &'static str,
    hits: u64,
    misses: u64,
    failures: u64,
    unreadable: u64,
    operations: u64,
    latency: Option<HistogramSnapshot>,
}

impl PartTotals {
    fn of(part: &PartSample) -> PartTotals {
        let sample = &part.sample;
        PartTotals {
            name: part.name.clone(),
            state: sample.state,
            restarts: sample.restarts,
            degradations: sample.degradations.clone(),
            servers: sample.servers.clone(),
        }
    }

    /// The event of a restart or of another state since an earlier sample.
    fn change_since(&self, earlier: &PartTotals, failure: Option<&str>) -> Option<String> {
        let is_alive = self.state.is_alive();
        let happened = match (self.restarts > earlier.restarts, self.state) {
            (true, _) if is_alive => "restarted".to_owned(),
            (true, state) => format!("failed; now {}", state.as_str()),
            // What it lacks is an event of its own.
            (false, _) if is_alive && earlier.state.is_alive() => return None,
            (false, _) if is_alive => return Some(State::Running.as_str().to_owned()),
            (false, state) if state != earlier.state => state.as_str().to_owned(),
            (false, _) => return None,
        };
        Some(failure.map_or_else(|| happened.clone(), |failure| format!("{happened}: {failure}")))
    }

    /// The events of what the part lacks, or has again, since an earlier sample, which was taken so long ago.
    fn degradations_since(&self, earlier: Option<&PartTotals>, ago: Duration) -> Vec<String> {
        let before = earlier.map_or(&[][..], |earlier| &earlier.degradations);
        let is_new = |own: &&Degradation| before.iter().all(|known| known.name != own.name);
        let is_over = |known: &&Degradation| self.degradations.iter().all(|own| own.name != known.name);
        let begun = self.degradations.iter().filter(is_new);
        let over = before.iter().filter(is_over);
        let begun = begun.map(|own| format!("degraded by {}: {}", own.name, own.meaning));
        let over = over.map(|known| {
            format!("no longer degraded by {}, after {} s", known.name, (known.lasting + ago).as_secs())
        });
        begun.chain(over).collect()
    }

    /// The event of other servers behind the part than in an earlier sample. One that knows none has nothing to compare.
    fn servers_since(&self, earlier: &PartTotals) -> Option<String> {
        let (now, then) = (&self.servers, &earlier.servers);
        let missing = |from: &[String], of: &[String]| {
            from.iter().filter(|own| !of.contains(own)).cloned().collect::<Vec<_>>().join(", ")
        };
        let (new, gone) = (missing(now, then), missing(then, now));
        match (new.as_str(), gone.as_str()) {
            _ if now.is_empty() || then.is_empty() => None,
            ("", "") => None,
            (new, "") => Some(format!("uses {new} too")),
            ("", gone) => Some(format!("does not use {gone} any more")),
            (new, gone) => Some(format!("uses {new} instead of {gone}")),
        }
    }
}

impl TierTotals {
    fn of(tier: &Tier) -> TierTotals {
        let (hits, misses) = tier.hits_and_misses();
        let counted = if tier.operations.is_empty() { &tier.lookups } else { &tier.operations };
        TierTotals {
            tier: tier.name,
            hits,
            misses,
            failures: tier.failures(),
            unreadable: tier.unreadable(),
            operations: counted.iter().map(|(_, count)| count).sum(),
            latency: tier.latency.clone(),
        }
    }

    /// The activity since an earlier sample; `None` if the part was restarted in between and counts from zero.
    fn since(&self, earlier: &TierTotals, part: &str) -> Option<TierActivity> {
        let latency = match (&self.latency, &earlier.latency) {
            (Some(now), Some(then)) => Some(now.since(then)?),
            (now, _) => now.clone(),
        };
        Some(TierActivity {
            part: part.to_owned(),
            tier: self.tier,
            hits: self.hits.checked_sub(earlier.hits)?,
            misses: self.misses.checked_sub(earlier.misses)?,
            failures: self.failures.checked_sub(earlier.failures)?,
            unreadable: self.unreadable.checked_sub(earlier.unreadable)?,
            operations: self.operations.checked_sub(earlier.operations)?,
            p99: latency.filter(|own| own.count() > 0).map(|own| own.quantile(0.99).as_secs_f64()),
        })
    }
}

impl History {
    pub(crate) fn records(&self) -> MutexGuard<'_, Records> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an event of now.
    pub(crate) fn add_event(&self, part: &str, text: impl Into<String>) {
        self.records().add_event(Moment::now().wall, part, text.into());
    }

    /// Adds a sample: what has happened to the parts since the last one, and the interval, if it ends.
    pub(crate) fn record(&self, parts: &[PartSample], at: Moment) {
        let mut records = self.records();
        let ago =
            records.sampled_at.map_or(Duration::ZERO, |then| at.instant.saturating_duration_since(then));
        let totals: Vec<PartTotals> = parts.iter().map(PartTotals::of).collect();
        let mut events = Vec::new();
        for (part, now) in parts.iter().zip(&totals) {
            let then = records.parts.iter().find(|then| then.name == now.name);
            let degradations = now.degradations_since(then, ago);
            events.extend(degradations.into_iter().map(|text| (now.name.clone(), text)));
            let Some(then) = then else { continue };
            let changes =
                [now.servers_since(then), now.change_since(then, part.sample.last_failure.as_deref())];
            events.extend(changes.into_iter().flatten().map(|text| (now.name.clone(), text)));
        }
        for (part, text) in events {
            records.add_event(at.wall, &part, text);
        }
        (records.parts, records.sampled_at) = (totals, Some(at.instant));
        records.end_interval(parts, at.instant);
    }
}

impl Records {
    /// Adds the interval that ends now, if it has its length, and begins the next one.
    fn end_interval(&mut self, parts: &[PartSample], now: Instant) {
        let length = |start: &IntervalStart| now.saturating_duration_since(start.at);
        if self.interval_start.as_ref().is_some_and(|start| length(start) < INTERVAL) {
            return;
        }
        let totals = parts.iter().map(|part| {
            (part.name.clone(), part.sample.tiers.iter().map(TierTotals::of).collect::<Vec<_>>())
        });
        let totals: Vec<_> = totals.collect();
        if let Some(start) = &self.interval_start {
            let mut activities = Vec::new();
            for (part, tiers) in &totals {
                let then = start.parts.iter().find(|(name, _)| name == part);
                let then = then.map_or(&[][..], |(_, tiers)| tiers);
                for tier in tiers {
                    let earlier = then.iter().find(|earlier| earlier.tier == tier.tier);
                    activities.extend(earlier.and_then(|earlier| tier.since(earlier, part)));
                }
            }
            let length = length(start);
            if self.intervals.len() == MAX_INTERVALS {
                self.intervals.pop_front();
            }
            self.last += 1;
            let number = self.last;
            self.intervals.push_back(Interval { number, ended: now, length, tiers: activities });
        }
        self.interval_start = Some(IntervalStart { at: now, parts: totals });
    }

    fn add_event(&mut self, at: f64, part: &str, text: String) {
        if self.events.len() == MAX_EVENTS {
            self.events.pop_front();
        }
        let text = text.chars().take(MAX_TEXT).collect();
        self.last += 1;
        self.events.push_back(Event { number: self.last, at, part: part.to_owned(), text });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::registry::Registry;
    use crate::parts::sample::Sample;
    use larder_engine::stats::Histogram;
    use std::sync::Arc;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

    /// This many seconds after the first sample, by either clock.
    fn after(seconds: u64) -> Moment {
        static START: LazyLock<Moment> = LazyLock::new(Moment::now);
        let (instant, wall) = (START.instant + Duration::from_secs(seconds), START.wall + seconds as f64);
        Moment { instant, wall }
    }

    #[test]
    fn interval_has_what_happened_between_two_samples() {
        let (history, registry) = (History::default(), Registry::new());
        let (hits, latency) = (Arc::new(AtomicU64::new(5)), Arc::new(Histogram::new()));
        let (own_hits, own_latency) = (hits.clone(), latency.clone());
        let lookups = |hits| {
            let others = ["miss", "bypass", "error", "skipped", "unreadable"];
            let others = others.into_iter().zip(1..).map(move |(outcome, n)| (outcome, n * hits));
            std::iter::once(("hit", hits)).chain(others)
        };
        registry.register("shop", "cache", move || {
            let memory = Tier::new("memory").lookups(lookups(own_hits.load(Relaxed)));
            Sample::running().tier(memory.latency(own_latency.snapshot()))
        });
        latency.record(Duration::from_secs(1));
        history.record(&registry.sample(), after(0));
        assert!(history.records().intervals.is_empty());
        hits.store(12, Relaxed);
        latency.record(Duration::from_micros(10));
        history.record(&registry.sample(), after(5));
        hits.store(3, Relaxed);
        history.record(&registry.sample(), after(10));
        let records = history.records();
        let [first, second] = [&records.intervals[0], &records.intervals[1]];
        let ended = (after(5).instant, Duration::from_secs(5));
        assert_eq!((first.ended, first.length, first.tiers.len()), (ended.0, ended.1, 1));
        let activity = &first.tiers[0];
        assert_eq!((activity.hits, activity.misses, activity.operations), (7, 7, 7 * 16));
        // Errors and skipped ones.
        assert_eq!((activity.failures, activity.unreadable), (7 * (3 + 4), 7 * 5));
        assert!((10e-6..11e-6).contains(&activity.p99.unwrap()), "not the second before: {activity:?}");
        assert!(second.tiers.is_empty(), "the counts of a restarted part start at zero");
    }

    #[test]
    fn history_has_a_bound() {
        let history = History::default();
        for n in 0..MAX_INTERVALS + 10 {
            history.record(&[], after(5 * n as u64));
            history.add_event("part", "x".repeat(MAX_TEXT * 2));
        }
        let records = history.records();
        assert_eq!((records.intervals.len(), records.events.len()), (MAX_INTERVALS, MAX_EVENTS));
        assert_eq!(records.events[0].text.len(), MAX_TEXT);
    }

    #[test]
    fn begin_and_end_of_a_degradation_are_events() {
        let (history, registry) = (History::default(), Registry::new());
        let lost = Degradation::new("redis", "every fetch loads").lasting(Duration::from_secs(7));
        for (degradations, at) in [(vec![], 1), (vec![lost.clone()], 2), (vec![lost], 3), (vec![], 4)] {
            let sample = Sample { degradations, ..Sample::running() };
            registry.register("shop", "cache", move || sample.clone());
            history.record(&registry.sample(), after(at));
        }
        let records = history.records();
        let texts: Vec<_> = records.events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(texts, ["degraded by redis: every fetch loads", "no longer degraded by redis, after 8 s"]);
    }

    #[test]
    fn other_servers_are_events() {
        let (history, registry) = (History::default(), Registry::new());
        for servers in [&[][..], &["a:1", "b:1"], &["c:1", "b:1"], &["b:1", "c:1", "d:1"], &["b:1"], &[]] {
            let servers = servers.iter().map(|&server| server.to_owned()).collect();
            let sample = Sample { servers, ..Sample::running() };
            registry.register("shop", "cache", move || sample.clone());
            history.record(&registry.sample(), after(1));
        }
        let records = history.records();
        let texts: Vec<_> = records.events.iter().map(|event| event.text.as_str()).collect();
        let expected = ["uses c:1 instead of a:1", "uses d:1 too", "does not use c:1, d:1 any more"];
        assert_eq!(texts, expected);
    }

    #[test]
    fn interval_ends_after_five_seconds_and_an_event_after_one() {
        let (history, registry) = (History::default(), Registry::new());
        for second in 0..=10 {
            let degradations = (second == 7).then(|| Degradation::new("redis", "lost")).into_iter().collect();
            let sample = Sample { degradations, ..Sample::running() };
            registry.register("shop", "cache", move || sample.clone());
            history.record(&registry.sample(), after(second));
        }
        let records = history.records();
        assert_eq!(records.intervals.iter().map(|one| one.length.as_secs()).collect::<Vec<_>>(), [5, 5]);
        let texts: Vec<_> = records.events.iter().map(|event| event.text.as_str()).collect();
        assert_eq!(texts, ["degraded by redis: lost", "no longer degraded by redis, after 1 s"]);
    }

    #[test]
    fn restarts_and_states_are_events() {
        let (history, registry) = (History::default(), Registry::new());
        let steps = [
            (State::Running, 0),
            (State::Restarting, 1),
            (State::Running, 1),
            (State::Running, 1),
            (State::Running, 2),
            (State::Stopped, 2),
        ];
        for (state, restarts) in steps {
            let last_failure = (restarts > 0).then(|| "address in use".to_owned());
            let sample = Sample { state, restarts, last_failure, ..Sample::running() };
            registry.register("server", "server", move || sample.clone());
            history.record(&registry.sample(), after(1));
        }
        let records = history.records();
        let texts: Vec<_> = records.events.iter().map(|event| event.text.as_str()).collect();
        let expected = [
            "failed; now restarting: address in use",
            "running",
            "restarted: address in use",
            "stopped: address in use",
        ];
        assert_eq!(texts, expected);
    }
}
