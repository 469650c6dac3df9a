//! What a part tells about itself: plain data, filled in by the part, shown by the pages.

use larder_engine::stats::HistogramSnapshot;

/// How a part fares.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum State {
    /// It does its work.
    #[default]
    Running,
    /// It failed and is being started again.
    Restarting,
    /// It ended, and nobody starts it again.
    Stopped,
    /// It could not be asked: its source panicked.
    Unknown,
}

impl State {
    /// The state in JSON, metrics and the dashboard.
    pub const fn as_str(self) -> &'static str {
        match self {
            State::Running => "running",
            State::Restarting => "restarting",
            State::Stopped => "stopped",
            State::Unknown => "unknown",
        }
    }

    pub(crate) const ALL: [State; 4] = [State::Running, State::Restarting, State::Stopped, State::Unknown];
}

/// One part at one moment.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// How it fares.
    pub state: State,
    /// How often it was started again since the process began.
    pub restarts: u64,
    /// The tiers that it looks into, fastest first.
    pub tiers: Vec<Tier>,
    /// Why requests bypassed or were not stored, or the like: a reason and how often it occurred since the start.
    pub reasons: Vec<(&'static str, u64)>,
    /// Whatever else is worth showing.
    pub figures: Vec<Figure>,
}

impl Sample {
    /// A part that runs, and has nothing to tell yet.
    pub fn running() -> Sample {
        Sample::default()
    }

    /// Adds a tier.
    pub fn tier(mut self, tier: Tier) -> Sample {
        self.tiers.push(tier);
        self
    }

    /// Adds a figure.
    pub fn figure(mut self, figure: Figure) -> Sample {
        self.figures.push(figure);
        self
    }

    /// Sets the reasons; those that never occurred may be left out.
    pub fn reasons(mut self, reasons: impl IntoIterator<Item = (&'static str, u64)>) -> Sample {
        self.reasons = reasons.into_iter().collect();
        self
    }
}

/// One tier of a part. All counts are totals since the part began.
#[derive(Clone, Debug)]
pub struct Tier {
    /// Its name: `memory`, `redis`, `http`.
    pub name: &'static str,
    /// Lookups by outcome. `hit` and `stale` count as hits, `miss` and `collapsed` as misses; others, such as
    /// `bypass` and `error`, are no part of the hit ratio.
    pub lookups: Vec<(&'static str, u64)>,
    /// Operations by name. Without any, the dashboard takes the lookups for them.
    pub operations: Vec<(&'static str, u64)>,
    /// How long an operation takes.
    pub latency: Option<HistogramSnapshot>,
    /// Entries held now.
    pub entries: Option<u64>,
    /// Bytes held now.
    pub bytes: Option<u64>,
    /// Bytes that may be held.
    pub capacity_bytes: Option<u64>,
}

impl Tier {
    /// A tier of which only the name is known.
    pub fn new(name: &'static str) -> Tier {
        Tier {
            name,
            lookups: Vec::new(),
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

    /// Sets the bytes held and allowed.
    pub fn bytes(mut self, bytes: u64, capacity: u64) -> Tier {
        (self.bytes, self.capacity_bytes) = (Some(bytes), Some(capacity));
        self
    }

    /// Hits among the lookups that could have been hits, 0 to 1; `None` before the first.
    pub fn hit_ratio(&self) -> Option<f64> {
        let sum = |wanted: [&str; 2]| -> u64 {
            let counted = self.lookups.iter().filter(|(outcome, _)| wanted.contains(outcome));
            counted.map(|(_, count)| count).sum()
        };
        let (hits, misses) = (sum(["hit", "stale"]), sum(["miss", "collapsed"]));
        (hits + misses > 0).then(|| hits as f64 / (hits + misses) as f64)
    }
}

/// A further figure of a part: a count of what there is now, or a total since the start.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// What it is, in lower-case words joined by `_`: `connections`, `queue_depth`.
    pub name: &'static str,
    /// What it is, in one sentence.
    pub help: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Whether it only grows, and is a total since the start.
    pub total: bool,
    /// Its value.
    pub value: f64,
}

impl Figure {
    /// A value of now.
    pub fn now(name: &'static str, unit: Unit, value: f64, help: &'static str) -> Figure {
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
    /// A number of things.
    Count,
    /// Bytes.
    Bytes,
    /// Seconds.
    Seconds,
    /// A share, 0 to 1.
    Ratio,
}

impl Unit {
    /// The unit in JSON.
    pub const fn as_str(self) -> &'static str {
        match self {
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::Seconds => "seconds",
            Unit::Ratio => "ratio",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_hit_ratio_leaves_out_what_could_not_hit() {
        let tier = Tier::new("http").lookups([
            ("hit", 6),
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
