//! The samples as families of metrics: what the page `/metrics`, a registry of prometheus-client and OpenTelemetry show alike.

use std::collections::HashSet;
use std::time::Duration;

use larder_engine::stats::HistogramSnapshot;

use crate::open_files::OpenFiles;
use crate::parts::sample::{Figure, PartSample, State, Tier, Unit};

const HELP_LATENCY: &str =
    "Duration of operations. Where there are many, an estimate: one in several is measured.";

/// The bounds of the latency histogram in microseconds: 1, 2.5 and 5 times each power of ten.
const BOUNDS_MICROS: [f64; 22] = [
    1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 2.5e4, 5e4, 1e5, 2.5e5, 5e5,
    1e6, 2.5e6, 5e6, 1e7,
];

/// Metrics of one name.
#[derive(Debug)]
pub(crate) struct Family {
    /// The name in Prometheus, with the unit, and with `_total` if it is a total.
    pub(crate) name: String,
    pub(crate) kind: Kind,
    pub(crate) help: &'static str,
    pub(crate) series: Vec<Series>,
}

/// The kind of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Counter,
    Gauge,
    Histogram,
}

impl Kind {
    /// The name in Prometheus.
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram => "histogram",
        }
    }
}

/// One metric: its labels, and its value.
#[derive(Debug)]
pub(crate) struct Series {
    pub(crate) labels: Vec<(&'static str, String)>,
    pub(crate) value: Value,
}

/// The value of a metric.
#[derive(Debug)]
pub(crate) enum Value {
    Number(f64),
    Histogram(Buckets),
}

/// A histogram in the buckets that metrics have.
#[derive(Debug)]
pub(crate) struct Buckets {
    /// The upper bounds in seconds with the counts up to each; infinity is not among them.
    pub(crate) cumulative: Vec<(f64, u64)>,
    pub(crate) count: u64,
    pub(crate) sum: f64,
}

impl Buckets {
    fn of(latency: &HistogramSnapshot) -> Self {
        let up_to = |micros: f64| latency.count_up_to(Duration::from_nanos((micros * 1e3) as u64));
        Buckets {
            cumulative: BOUNDS_MICROS.iter().map(|micros| (micros / 1e6, up_to(*micros))).collect(),
            count: latency.count(),
            sum: latency.sum().as_secs_f64(),
        }
    }
}

/// The families of the process, which started so many seconds after the begin of 1970.
pub(crate) fn of_process(started: f64) -> Vec<Family> {
    let mut families = Families(Vec::new());
    families.process(started);
    families.0
}

/// The families of all samples, each once. Ratios are left to queries, which know the time between two scrapes. A family
/// that no part has a value for has no series.
pub(crate) fn of_parts(parts: &[PartSample]) -> Vec<Family> {
    let mut families = Families(Vec::new());
    families.build();
    families.parts(parts);
    families.tiers(parts);
    families.figures(parts);
    families.0
}

struct Families(Vec<Family>);

impl Families {
    fn build(&mut self) {
        self.family("larder_build_info", Kind::Gauge, "The version of the program, as a label.");
        self.number(vec![("version", env!("CARGO_PKG_VERSION").to_owned())], 1.0);
    }

    fn process(&mut self, started: f64) {
        self.family(
            "larder_start_time_seconds",
            Kind::Gauge,
            "When the process started, in seconds since 1970.",
        );
        self.number(Vec::new(), started);
        // With the names that all exporters of processes have.
        let Some(files) = OpenFiles::now() else { return };
        self.family("process_open_fds", Kind::Gauge, "Open file descriptors of the process.");
        self.number(Vec::new(), files.open as f64);
        self.family("process_max_fds", Kind::Gauge, "The limit on them.");
        self.number(Vec::new(), files.limit as f64);
    }

    fn parts(&mut self, parts: &[PartSample]) {
        let help = "1 for the current state of a part, 0 for the other states.";
        self.family("larder_part_state", Kind::Gauge, help);
        for part in parts {
            for state in State::ALL {
                let labels = [("kind", part.kind), ("state", state.as_str())];
                self.number(labels_of(part, labels), f64::from(u8::from(part.sample.state == state)));
            }
        }
        let help = "For how long a part has lacked what the cause names. Missing while it lacks nothing.";
        self.family("larder_part_degraded_seconds", Kind::Gauge, help);
        for part in parts {
            for own in &part.sample.degradations {
                self.number(labels_of(part, [("cause", own.name)]), own.lasting.as_secs_f64());
            }
        }
        let help = "1 if every part answers its requests, as /readyz says, 0 if not.";
        self.family("larder_ready", Kind::Gauge, help);
        self.number(Vec::new(), f64::from(u8::from(parts.iter().all(PartSample::is_ready))));
        self.family("larder_part_restarts_total", Kind::Counter, "Restarts of a part.");
        for part in parts {
            self.number(labels_of(part, []), part.sample.restarts as f64);
        }
        let help =
            "Responses that did not come from the cache (bypass) or were not stored (unstored), by reason.";
        self.family("larder_uncached_responses_total", Kind::Counter, help);
        for part in parts {
            for reasons in &part.sample.reasons {
                for (reason, count) in &reasons.counts {
                    let labels = [("outcome", reasons.outcome), ("reason", reason)];
                    self.number(labels_of(part, labels), *count as f64);
                }
            }
        }
    }

    fn tiers(&mut self, parts: &[PartSample]) {
        let help = "Lookups by outcome.";
        self.counts(parts, "larder_tier_lookups_total", help, "outcome", |tier| &tier.lookups);
        let help = "Misses by cause, estimated from one key in sixteen.";
        self.counts(parts, "larder_tier_misses_by_cause_total", help, "cause", |tier| &tier.miss_causes);
        let help = "Operations by name.";
        self.counts(parts, "larder_tier_operations_total", help, "operation", |tier| &tier.operations);
        self.values(parts, "larder_tier_entries", "Entries in the tier.", |tier| tier.entries);
        self.values(parts, "larder_tier_bytes", "Bytes in the tier.", |tier| tier.bytes);
        let help = "Maximum number of bytes in the tier.";
        self.values(parts, "larder_tier_capacity_bytes", help, |tier| tier.capacity_bytes);
        self.family("larder_tier_latency_seconds", Kind::Histogram, HELP_LATENCY);
        for (part, tier) in tiers(parts) {
            if let Some(latency) = &tier.latency {
                self.series(labels_of(part, [("tier", tier.name)]), Value::Histogram(Buckets::of(latency)));
            }
        }
    }

    fn counts(
        &mut self,
        parts: &[PartSample],
        name: &str,
        help: &'static str,
        label: &'static str,
        of: impl Fn(&Tier) -> &[(&'static str, u64)],
    ) {
        self.family(name, Kind::Counter, help);
        for (part, tier) in tiers(parts) {
            for (key, count) in of(tier) {
                self.number(labels_of(part, [("tier", tier.name), (label, *key)]), *count as f64);
            }
        }
    }

    fn values(
        &mut self,
        parts: &[PartSample],
        name: &str,
        help: &'static str,
        of: impl Fn(&Tier) -> Option<u64>,
    ) {
        self.family(name, Kind::Gauge, help);
        for (part, tier) in tiers(parts) {
            if let Some(value) = of(tier) {
                self.number(labels_of(part, [("tier", tier.name)]), value as f64);
            }
        }
    }

    /// Figures of the same name are one family, also if they are from different parts; it has the help of the first.
    fn figures(&mut self, parts: &[PartSample]) {
        let mut written: HashSet<String> = HashSet::new();
        for figure in parts.iter().flat_map(|part| &part.sample.figures) {
            let family = family_name(figure);
            if !written.insert(family.clone()) {
                continue;
            }
            // A family of its own, also if it has the name of one that every part has.
            let mut name = family.clone();
            while self.0.iter().any(|family| family.name == name) {
                name = name.replacen("larder_", "larder_figure_", 1);
            }
            self.family(&name, if figure.total { Kind::Counter } else { Kind::Gauge }, figure.help);
            for part in parts {
                let figures = part.sample.figures.iter().filter(|own| family_name(own) == family);
                for (n, own) in figures.enumerate() {
                    let mut labels = labels_of(part, []);
                    // Two series of the same labels would make the page invalid.
                    if n > 0 {
                        labels.push(("number", (n + 1).to_string()));
                    }
                    self.number(labels, own.value);
                }
            }
        }
    }

    fn family(&mut self, name: &str, kind: Kind, help: &'static str) {
        self.0.push(Family { name: name.to_owned(), kind, help, series: Vec::new() });
    }

    fn number(&mut self, labels: Vec<(&'static str, String)>, value: f64) {
        self.series(labels, Value::Number(value));
    }

    /// Adds a series to the last family.
    fn series(&mut self, labels: Vec<(&'static str, String)>, value: Value) {
        let family = self.0.last_mut().expect("a family was begun");
        family.series.push(Series { labels, value });
    }
}

fn labels_of<const N: usize>(
    part: &PartSample,
    labels: [(&'static str, &str); N],
) -> Vec<(&'static str, String)> {
    let own = labels.into_iter().map(|(label, text)| (label, text.to_owned()));
    std::iter::once(("part", part.name.clone())).chain(own).collect()
}

fn tiers(parts: &[PartSample]) -> impl Iterator<Item = (&PartSample, &Tier)> {
    parts.iter().flat_map(|part| part.sample.tiers.iter().map(move |tier| (part, tier)))
}

fn family_name(figure: &Figure) -> String {
    let unit = match figure.unit {
        Unit::Count => "",
        Unit::Bytes => "_bytes",
        Unit::Seconds => "_seconds",
        Unit::Ratio => "_ratio",
    };
    let total = if figure.total { "_total" } else { "" };
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let name = figure.name.replace(|c| !is_allowed(c), "_");
    format!("larder_{name}{unit}{total}")
}
