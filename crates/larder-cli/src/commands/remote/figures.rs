//! The figures of a running Larder as `/api/stats` has them, and what happened between two of them.

use larder_admin::{HIT_OUTCOMES, MISS_OUTCOMES};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Counts by name.
pub(super) type Counts = BTreeMap<String, u64>;

/// All figures. What a version of Larder does not have is empty.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Figures {
    pub(super) server: Process,
    pub(super) parts: Vec<Part>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Process {
    pub(super) version: String,
    /// In seconds since 1970.
    pub(super) started_at: f64,
    pub(super) uptime_seconds: f64,
    pub(super) open_files: Option<u64>,
    pub(super) max_open_files: Option<u64>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Part {
    pub(super) part: String,
    pub(super) state: String,
    pub(super) restarts: u64,
    pub(super) last_failure: Option<String>,
    pub(super) degradations: Vec<Degradation>,
    pub(super) tiers: Vec<Tier>,
    pub(super) top: BTreeMap<String, Vec<TopEntry>>,
    pub(super) figures: Vec<Figure>,
    pub(super) notes: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Degradation {
    pub(super) name: String,
    pub(super) seconds: f64,
    pub(super) ready: bool,
    pub(super) meaning: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Tier {
    pub(super) tier: String,
    pub(super) lookups: Counts,
    pub(super) miss_causes: Counts,
    pub(super) operations: Counts,
    pub(super) latency: Latency,
    pub(super) entries: Option<u64>,
    pub(super) bytes: Option<u64>,
    pub(super) capacity_bytes: Option<u64>,
}

/// Durations: their number up to each bound in seconds, without bounds at which it does not change.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Latency {
    pub(super) count: u64,
    pub(super) buckets: Vec<(f64, u64)>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TopEntry {
    pub(super) name: String,
    pub(super) count: u64,
    pub(super) error: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Figure {
    pub(super) name: String,
    pub(super) total: bool,
    pub(super) value: f64,
}

impl Figures {
    /// The figures with the totals since earlier ones. Of a process or a part that was restarted meanwhile, those since its
    /// start.
    pub(super) fn since(&self, earlier: &Figures) -> Figures {
        if self.server.started_at != earlier.server.started_at {
            return self.clone();
        }
        let since = |part: &Part| {
            let before = earlier.parts.iter().find(|before| before.part == part.part);
            before.map_or_else(|| part.clone(), |before| part.since(before))
        };
        Figures { server: self.server.clone(), parts: self.parts.iter().map(since).collect() }
    }

    /// The seconds that [`since`](Self::since) is about.
    pub(super) fn seconds_since(&self, earlier: &Figures) -> f64 {
        match self.server.started_at == earlier.server.started_at {
            true => self.server.uptime_seconds - earlier.server.uptime_seconds,
            false => self.server.uptime_seconds,
        }
    }
}

impl Part {
    fn since(&self, earlier: &Part) -> Part {
        let restarts = self.restarts - earlier.restarts.min(self.restarts);
        let mut part = Part { restarts, ..self.clone() };
        for tier in &mut part.tiers {
            if let Some(before) = earlier.tiers.iter().find(|before| before.tier == tier.tier) {
                tier.subtract(before);
            }
        }
        for figure in part.figures.iter_mut().filter(|figure| figure.total) {
            figure.value -= earlier.figure(&figure.name).unwrap_or(0.0).min(figure.value);
        }
        part
    }

    pub(super) fn tier(&self, name: &str) -> Option<&Tier> {
        self.tiers.iter().find(|tier| tier.tier == name)
    }

    pub(super) fn figure(&self, name: &str) -> Option<f64> {
        Some(self.figures.iter().find(|figure| figure.name == name)?.value)
    }
}

impl Tier {
    fn subtract(&mut self, earlier: &Tier) {
        let counts = [
            (&mut self.lookups, &earlier.lookups),
            (&mut self.miss_causes, &earlier.miss_causes),
            (&mut self.operations, &earlier.operations),
        ];
        for (counts, earlier) in counts {
            for (name, count) in counts {
                *count = count.saturating_sub(earlier.get(name).copied().unwrap_or(0));
            }
        }
        self.latency = self.latency.since(&earlier.latency);
    }

    pub(super) fn hits(&self) -> u64 {
        sum_of(&self.lookups, &HIT_OUTCOMES)
    }

    pub(super) fn misses(&self) -> u64 {
        sum_of(&self.lookups, &MISS_OUTCOMES)
    }

    /// Operations that failed or were not sent.
    pub(super) fn failures(&self) -> u64 {
        sum_of(&self.lookups, &["error", "skipped"])
    }

    /// Hits among the lookups that could have been hits, 0 to 1; `None` without any.
    pub(super) fn hit_ratio(&self) -> Option<f64> {
        share(self.hits(), self.hits() + self.misses())
    }

    /// Operations, or lookups where those are all that is counted.
    pub(super) fn uses(&self) -> u64 {
        let counts = if self.operations.is_empty() { &self.lookups } else { &self.operations };
        counts.values().sum()
    }
}

impl Latency {
    fn since(&self, earlier: &Latency) -> Latency {
        let before = |bound: f64| {
            let up_to = earlier.buckets.iter().take_while(|(other, _)| *other <= bound);
            up_to.last().map_or(0, |(_, count)| *count)
        };
        let bucket = |(bound, count): &(f64, u64)| (*bound, count.saturating_sub(before(*bound)));
        Latency {
            count: self.count.saturating_sub(earlier.count),
            buckets: self.buckets.iter().map(bucket).collect(),
        }
    }

    /// The bound in seconds up to which this share of the durations is; `None` without any.
    pub(super) fn quantile(&self, share: f64) -> Option<f64> {
        let rank = (self.count as f64 * share).ceil() as u64;
        let bucket = self.buckets.iter().find(|(_, count)| *count >= rank.max(1));
        bucket.or(self.buckets.last().filter(|_| self.count > 0)).map(|(bound, _)| *bound)
    }
}

/// The sum of the counts with these names.
pub(super) fn sum_of(counts: &Counts, names: &[&str]) -> u64 {
    names.iter().filter_map(|name| counts.get(*name)).sum()
}

/// A part of a whole, 0 to 1; `None` of nothing.
pub(super) fn share(part: u64, whole: u64) -> Option<f64> {
    (whole > 0).then(|| part as f64 / whole as f64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn figures(started_at: f64, restarts: u64, hits: u64, buckets: &[(f64, u64)]) -> Figures {
        let value = json!({
            "server": { "started_at": started_at, "uptime_seconds": hits },
            "parts": [ {
                "part": "server", "restarts": restarts,
                "tiers": [ {
                    "tier": "memory", "lookups": { "hit": hits, "miss": 10 }, "entries": 7,
                    "latency": { "count": buckets.last().map_or(0, |bucket| bucket.1), "buckets": buckets },
                } ],
                "figures": [
                    { "name": "evicted", "total": true, "value": hits }, { "name": "connections", "value": 4 },
                ],
            } ],
        });
        serde_json::from_value(value).unwrap()
    }

    #[test]
    fn totals_are_those_since_the_earlier_figures() {
        let earlier = figures(1.0, 0, 40, &[(0.1, 3), (0.2, 10)]);
        let now = figures(1.0, 1, 100, &[(0.1, 3), (0.15, 5), (0.2, 14), (0.4, 110)]);
        let since = now.since(&earlier);
        let part = &since.parts[0];
        let tier = part.tier("memory").unwrap();
        assert_eq!((tier.hits(), tier.misses(), tier.entries, part.restarts), (60, 0, Some(7), 1));
        assert_eq!((part.figure("evicted"), part.figure("connections")), (Some(60.0), Some(4.0)));
        assert_eq!(tier.latency.count, 100);
        assert_eq!(
            [0.01, 0.04, 0.05, 1.0].map(|q| tier.latency.quantile(q)),
            [0.15, 0.2, 0.4, 0.4].map(Some)
        );
        assert_eq!(now.seconds_since(&earlier), 60.0);
        assert_eq!(now.since(&now).parts[0].tiers[0].latency.quantile(0.5), None);
    }

    #[test]
    fn totals_of_another_process_are_those_since_its_start() {
        let since = figures(2.0, 0, 30, &[]).since(&figures(1.0, 0, 100, &[]));
        assert_eq!(since.parts[0].tiers[0].hits(), 30);
        assert_eq!(figures(2.0, 0, 30, &[]).seconds_since(&figures(1.0, 0, 100, &[])), 30.0);
    }
}
