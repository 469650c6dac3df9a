//! The sample of a part: plain data that the part fills in and the pages show.

use larder_engine::stats::HistogramSnapshot;
use serde::Serialize;

use crate::parts::degradation::Degradation;
use crate::parts::purge::TargetKind;

/// The state of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum State {
    /// It is running.
    #[default]
    Running,
    /// It is running and lacks something that it needs: see [`Sample::degradations`].
    Degraded,
    /// It failed and is being restarted.
    Restarting,
    /// It ended and is not restarted.
    Stopped,
    /// The state is unknown, because the source panicked.
    Unknown,
}

impl State {
    /// The name of the state in JSON, metrics and the dashboard.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Degraded => "degraded",
            State::Restarting => "restarting",
            State::Stopped => "stopped",
            State::Unknown => "unknown",
        }
    }

    pub(crate) const ALL: [State; 5] =
        [State::Running, State::Degraded, State::Restarting, State::Stopped, State::Unknown];

    /// Whether the part serves requests.
    pub(crate) const fn is_alive(self) -> bool {
        matches!(self, State::Running | State::Degraded)
    }
}

/// The figures of one part at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// The state of the part. One that is running and lacks something is shown as degraded.
    pub state: State,
    /// What it needs and does not have now.
    pub degradations: Vec<Degradation>,
    /// The addresses of the servers that the part uses now, as far as it knows them. Others than in the sample before are an
    /// event of the history.
    pub servers: Vec<String>,
    /// The number of restarts since the start of the process.
    pub restarts: u64,
    /// Why it was restarted last, in one sentence.
    pub last_failure: Option<String>,
    /// Its tiers, the fastest first. Those of one name are shown as one: their values are added, and so are counts of one
    /// name within a tier.
    pub tiers: Vec<Tier>,
    /// Why requests were not answered from the cache, or their responses not stored.
    pub reasons: Vec<Reasons>,
    /// What was used most.
    pub top: Vec<TopList>,
    /// Further figures.
    pub figures: Vec<Figure>,
    /// What the part says of its condition, in words: a name and a sentence.
    pub notes: Vec<(&'static str, String)>,
}

impl Sample {
    /// A running part without figures.
    pub fn running() -> Sample {
        Sample::default()
    }

    /// Adds a tier.
    pub fn tier(mut self, tier: Tier) -> Sample {
        self.tiers.push(tier);
        self
    }

    /// Adds what the part needs and does not have now.
    pub fn degraded(mut self, degradation: Degradation) -> Sample {
        self.degradations.push(degradation);
        self
    }

    /// Adds what was used most, by the most frequent: names with their estimated counts and the errors of these. A name whose
    /// error is as large as its count may not have been used at all; it is left out, as is an empty list.
    pub fn top(
        mut self,
        title: &'static str,
        entries: impl IntoIterator<Item = (String, u64, u64)>,
    ) -> Sample {
        let entries = entries.into_iter().filter(|(_, count, error)| error < count);
        let entries = entries.map(|(name, count, error)| TopEntry { name, count, error });
        let list = TopList { title, entries: entries.collect() };
        self.top.extend(Some(list).filter(|list| !list.entries.is_empty()));
        self
    }

    /// Adds a figure.
    pub fn figure(mut self, figure: Figure) -> Sample {
        self.figures.push(figure);
        self
    }

    /// Adds what the part says of its condition: a name such as `coherence`, and a sentence for people.
    pub fn note(mut self, name: &'static str, sentence: impl Into<String>) -> Sample {
        self.notes.push((name, sentence.into()));
        self
    }

    /// Adds why requests had this outcome, such as `bypass` or `unstored`, with the number of occurrences since the start.
    /// Reasons that never occurred may be omitted.
    pub fn reasons(
        mut self,
        outcome: &'static str,
        counts: impl IntoIterator<Item = (&'static str, u64)>,
    ) -> Sample {
        self.reasons.push(Reasons { outcome, counts: counts.into_iter().collect() });
        self
    }
}

/// What was used most, the most frequent first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TopList {
    /// What is listed: `slugs`, `paths`.
    pub title: &'static str,
    /// The entries.
    pub entries: Vec<TopEntry>,
}

/// A name in a [`TopList`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TopEntry {
    /// The name.
    pub name: String,
    /// How often it was used, as an estimate.
    pub count: u64,
    /// How far the estimate may be off.
    pub error: u64,
}

/// Why requests had one outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reasons {
    /// The outcome: `bypass`, `unstored`.
    pub outcome: &'static str,
    /// The reasons, with the number of occurrences since the start.
    pub counts: Vec<(&'static str, u64)>,
}

/// The outcomes of lookups that count as hits.
pub const HIT_OUTCOMES: [&str; 4] = ["hit", "shared", "disk", "stale"];

/// The outcomes of lookups that count as misses.
pub const MISS_OUTCOMES: [&str; 3] = ["validated", "miss", "collapsed"];

/// One tier of a part. All counts are totals since the start of the part.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Its name: `memory`, `redis`, `http`.
    pub name: &'static str,
    /// Lookups by outcome. [`HIT_OUTCOMES`] count as hits, [`MISS_OUTCOMES`] as misses. Others, for example `bypass` and
    /// `error`, are not included in the hit ratio.
    pub lookups: Vec<(&'static str, u64)>,
    /// Why lookups missed, estimated from a sample of keys; empty if that is not known.
    pub miss_causes: Vec<(&'static str, u64)>,
    /// Operations by name. If there are none, the dashboard shows the lookups instead.
    pub operations: Vec<(&'static str, u64)>,
    /// The duration of operations.
    pub latency: Option<HistogramSnapshot>,
    /// The current number of entries.
    pub entries: Option<u64>,
    /// The current number of bytes.
    pub bytes: Option<u64>,
    /// The maximum number of bytes.
    pub capacity_bytes: Option<u64>,
}

impl Tier {
    /// A tier without figures.
    pub fn new(name: &'static str) -> Tier {
        Tier {
            name,
            lookups: Vec::new(),
            miss_causes: Vec::new(),
            operations: Vec::new(),
            latency: None,
            entries: None,
            bytes: None,
            capacity_bytes: None,
        }
    }

    /// Sets the lookups by outcome.
    pub fn lookups(mut self, lookups: impl IntoIterator<Item = (&'static str, u64)>) -> Tier {
        self.lookups = lookups.into_iter().collect();
        self
    }

    /// Sets why lookups missed. Causes that did not occur yet are in the metrics from the start, so that a rate sees the first
    /// occurrence; the other pages leave them out.
    pub fn miss_causes(mut self, causes: impl IntoIterator<Item = (&'static str, u64)>) -> Tier {
        self.miss_causes = causes.into_iter().collect();
        self
    }

    /// Sets the operations by name.
    pub fn operations(mut self, operations: impl IntoIterator<Item = (&'static str, u64)>) -> Tier {
        self.operations = operations.into_iter().collect();
        self
    }

    /// Sets the latency.
    pub fn latency(mut self, latency: HistogramSnapshot) -> Tier {
        self.latency = Some(latency);
        self
    }

    /// Sets the number of entries.
    pub fn entries(mut self, entries: u64) -> Tier {
        self.entries = Some(entries);
        self
    }

    /// Sets the current and the maximum number of bytes.
    pub fn bytes(mut self, bytes: u64, capacity: u64) -> Tier {
        (self.bytes, self.capacity_bytes) = (Some(bytes), Some(capacity));
        self
    }

    /// Hits among the lookups that could have been hits, 0 to 1; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let (hits, misses) = self.hits_and_misses();
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }

    pub(crate) fn hits_and_misses(&self) -> (u64, u64) {
        (self.lookups_with(HIT_OUTCOMES), self.lookups_with(MISS_OUTCOMES))
    }

    /// Operations that failed or were not sent to the tier, lookups among them.
    pub(crate) fn failures(&self) -> u64 {
        self.lookups_with(["error", "skipped"])
    }

    /// Lookups that found a value which cannot be used.
    pub(crate) fn unreadable(&self) -> u64 {
        self.lookups_with(["unreadable"])
    }

    fn lookups_with<const N: usize>(&self, outcomes: [&str; N]) -> u64 {
        let selected = self.lookups.iter().filter(|(outcome, _)| outcomes.contains(outcome));
        selected.map(|(_, count)| count).sum()
    }
}

/// A further figure of a part: a current value, or a total since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// Its name, in lower-case words joined by `_`: `connections`, `queue_depth`. If a part has it twice, the second has
    /// the label `number="2"` in the metrics.
    pub name: &'static str,
    /// Its meaning in one sentence.
    pub help: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether it is a total since the start, which only grows.
    pub total: bool,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// A current value.
    pub fn current(name: &'static str, unit: Unit, value: f64, help: &'static str) -> Figure {
        Figure { name, help, unit, total: false, value }
    }

    /// A total since the start.
    pub fn total(name: &'static str, unit: Unit, value: u64, help: &'static str) -> Figure {
        Figure { name, help, unit, total: true, value: value as f64 }
    }
}

/// The unit of a [`Figure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unit {
    /// A number.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A share, 0 to 1.
    Ratio,
}

impl Unit {
    /// The name of the unit in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
        }
    }
}

/// A sample, and the part that it is from.
pub(crate) struct PartSample {
    pub(crate) name: String,
    pub(crate) kind: &'static str,
    /// What it can be purged by; nothing if it cannot be purged.
    pub(crate) purge_targets: Vec<TargetKind>,
    pub(crate) has_soft_purges: bool,
    pub(crate) sample: Sample,
}

impl PartSample {
    /// Whether the part answers its requests.
    pub(crate) fn is_ready(&self) -> bool {
        self.sample.state.is_alive() && self.sample.degradations.iter().all(|own| own.is_ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_whose_count_may_be_zero_is_not_among_the_most_used() {
        let entries = [("a".to_owned(), 9, 1), ("b".to_owned(), 4_300, 4_760), ("c".to_owned(), 2, 2)];
        let sample = Sample::running().top("keys", entries).top("tags", [("d".to_owned(), 1, 1)]);
        let [list] = &sample.top[..] else { panic!("{:?}", sample.top) };
        assert_eq!(list.entries, [TopEntry { name: "a".to_owned(), count: 9, error: 1 }]);
    }

    #[test]
    fn hit_ratio_excludes_bypasses_and_errors() {
        let tier = Tier::new("http").lookups([
            ("hit", 5),
            ("shared", 1),
            ("stale", 2),
            ("miss", 1),
            ("collapsed", 1),
            ("bypass", 90),
            ("error", 5),
        ]);
        assert_eq!(tier.hit_ratio(), Some(0.8));
        assert_eq!(Tier::new("http").lookups([("bypass", 3)]).hit_ratio(), None);
    }
}
