//! The samples in the Prometheus text format 0.0.4: each family once, with its help and type, followed by its lines.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::time::Duration;

use crate::open_files::OpenFiles;
use crate::parts::sample::PartSample;
use crate::parts::sample::{Figure, State, Tier, Unit};
use crate::routes::health;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

const HELP_LATENCY: &str =
    "Duration of operations. Where there are many, an estimate: one in several is measured.";

/// The bounds of the latency histogram in microseconds: 1, 2.5 and 5 times each power of ten.
const BOUNDS_MICROS: [f64; 22] = [
    1.0, 2.5, 5.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1e3, 2.5e3, 5e3, 1e4, 2.5e4, 5e4, 1e5, 2.5e5, 5e5,
    1e6, 2.5e6, 5e6, 1e7,
];

/// The page `/metrics`. `started` is the start of the process in seconds since 1970. Ratios are left to queries, which know
/// the time between two scrapes.
pub(crate) fn exposition(parts: &[PartSample], started: f64) -> String {
    let mut page = Page { text: String::with_capacity(4096), families: HashSet::new() };
    page.family("larder_build_info", "gauge", "The version of the program, as a label.");
    page.line("larder_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
    page.family("larder_start_time_seconds", "gauge", "When the process started, in seconds since 1970.");
    page.line("larder_start_time_seconds", &[], started);
    page.open_files();
    page.parts(parts);
    page.tiers(parts);
    page.figures(parts);
    page.text
}

struct Page {
    text: String,
    /// The names of its families.
    families: HashSet<String>,
}

impl Page {
    /// With the names that all exporters of processes have.
    fn open_files(&mut self) {
        let Some(files) = OpenFiles::now() else { return };
        self.family("process_open_fds", "gauge", "Open file descriptors of the process.");
        self.line("process_open_fds", &[], files.open as f64);
        self.family("process_max_fds", "gauge", "The limit on them.");
        self.line("process_max_fds", &[], files.limit as f64);
    }

    fn parts(&mut self, parts: &[PartSample]) {
        self.family(
            "larder_part_state",
            "gauge",
            "1 for the current state of a part, 0 for the other states.",
        );
        for part in parts {
            for state in State::ALL {
                let labels = [("part", part.name.as_str()), ("kind", part.kind), ("state", state.as_str())];
                self.line("larder_part_state", &labels, f64::from(u8::from(part.sample.state == state)));
            }
        }
        let help = "For how long a part has lacked what the cause names. Missing while it lacks nothing.";
        if parts.iter().any(|part| !part.sample.degradations.is_empty()) {
            self.family("larder_part_degraded_seconds", "gauge", help);
        }
        for part in parts {
            for own in &part.sample.degradations {
                let labels = [("part", part.name.as_str()), ("cause", own.name)];
                self.line("larder_part_degraded_seconds", &labels, own.lasting.as_secs_f64());
            }
        }
        self.family(
            "larder_ready",
            "gauge",
            "1 if every part answers its requests, as /readyz says, 0 if not.",
        );
        self.line("larder_ready", &[], f64::from(u8::from(parts.iter().all(health::is_ready))));
        self.family("larder_part_restarts_total", "counter", "Restarts of a part.");
        for part in parts {
            self.line("larder_part_restarts_total", &[("part", &part.name)], part.sample.restarts as f64);
        }
        if parts.iter().any(|part| !part.sample.reasons.is_empty()) {
            self.family(
                "larder_uncached_responses_total",
                "counter",
                "Responses that did not come from the cache (bypass) or were not stored (unstored), by reason.",
            );
        }
        for part in parts {
            for reasons in &part.sample.reasons {
                for (reason, count) in &reasons.counts {
                    let labels =
                        [("part", part.name.as_str()), ("outcome", reasons.outcome), ("reason", reason)];
                    self.line("larder_uncached_responses_total", &labels, *count as f64);
                }
            }
        }
    }

    fn tiers(&mut self, parts: &[PartSample]) {
        let counts = |tier: &Tier| tier.lookups.clone();
        self.counts(parts, "larder_tier_lookups_total", "Lookups by outcome.", "outcome", counts);
        let counts = |tier: &Tier| tier.miss_causes.clone();
        let help = "Misses by cause, estimated from one key in sixteen.";
        self.counts(parts, "larder_tier_misses_by_cause_total", help, "cause", counts);
        let counts = |tier: &Tier| tier.operations.clone();
        self.counts(parts, "larder_tier_operations_total", "Operations by name.", "operation", counts);
        self.values(parts, "larder_tier_entries", "Entries in the tier.", |tier| Some(tier.entries? as f64));
        self.values(parts, "larder_tier_bytes", "Bytes in the tier.", |tier| Some(tier.bytes? as f64));
        self.values(parts, "larder_tier_capacity_bytes", "Maximum number of bytes in the tier.", |tier| {
            Some(tier.capacity_bytes? as f64)
        });
        self.latencies(parts);
    }

    fn counts(
        &mut self,
        parts: &[PartSample],
        name: &str,
        help: &str,
        label: &str,
        of: impl Fn(&Tier) -> Vec<(&'static str, u64)>,
    ) {
        let mut has_header = false;
        for (part, tier) in tiers(parts) {
            for (key, count) in of(tier) {
                if !std::mem::replace(&mut has_header, true) {
                    self.family(name, "counter", help);
                }
                self.line(name, &[("part", &part.name), ("tier", tier.name), (label, key)], count as f64);
            }
        }
    }

    fn values(&mut self, parts: &[PartSample], name: &str, help: &str, of: impl Fn(&Tier) -> Option<f64>) {
        let mut has_header = false;
        for (part, tier) in tiers(parts) {
            if let Some(value) = of(tier) {
                if !std::mem::replace(&mut has_header, true) {
                    self.family(name, "gauge", help);
                }
                self.line(name, &[("part", &part.name), ("tier", tier.name)], value);
            }
        }
    }

    fn latencies(&mut self, parts: &[PartSample]) {
        let name = "larder_tier_latency_seconds";
        let mut has_header = false;
        for (part, tier) in tiers(parts) {
            let Some(latency) = &tier.latency else { continue };
            if !std::mem::replace(&mut has_header, true) {
                self.family(name, "histogram", HELP_LATENCY);
            }
            let labels = [("part", part.name.as_str()), ("tier", tier.name)];
            for micros in BOUNDS_MICROS {
                let count = latency.count_up_to(Duration::from_nanos((micros * 1e3) as u64));
                let bound = (micros / 1e6).to_string();
                let labels = [labels[0], labels[1], ("le", &bound)];
                self.line("larder_tier_latency_seconds_bucket", &labels, count as f64);
            }
            let all = [labels[0], labels[1], ("le", "+Inf")];
            self.line("larder_tier_latency_seconds_bucket", &all, latency.count() as f64);
            self.line("larder_tier_latency_seconds_sum", &labels, latency.sum().as_secs_f64());
            self.line("larder_tier_latency_seconds_count", &labels, latency.count() as f64);
        }
    }

    /// Figures of the same name are one family, also if they are from different parts; it has the help of the first.
    fn figures(&mut self, parts: &[PartSample]) {
        let mut written: Vec<String> = Vec::new();
        for figure in parts.iter().flat_map(|part| &part.sample.figures) {
            let family = family_name(figure);
            if written.contains(&family) {
                continue;
            }
            // A family of its own, also if it has the name of one that every part has.
            let mut name = family.clone();
            while self.families.contains(&name) {
                name = name.replacen("larder_", "larder_figure_", 1);
            }
            self.family(&name, if figure.total { "counter" } else { "gauge" }, figure.help);
            for part in parts {
                let figures = part.sample.figures.iter().filter(|own| family_name(own) == family);
                for (n, own) in figures.enumerate() {
                    // Two series of the same labels would make the page invalid.
                    let number = (n + 1).to_string();
                    let labels = [("part", part.name.as_str()), ("number", &number)];
                    self.line(&name, if n == 0 { &labels[..1] } else { &labels }, own.value);
                }
            }
            written.push(family);
        }
    }

    fn family(&mut self, name: &str, kind: &str, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        self.families.insert(name.to_owned());
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
    }

    fn line(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        self.text.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let open = if n == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.text, "{open}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
        let _ = writeln!(self.text, " {value}");
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::registry::Registry;
    use crate::parts::sample::Sample;
    use larder_engine::stats::Histogram;

    fn page() -> String {
        let histogram = Histogram::new();
        histogram.record_n(Duration::from_micros(20), 3);
        let latency = histogram.snapshot();
        let registry = Registry::new();
        registry.register("li\"nks\\\n", "cache", move || {
            let memory = Tier::new("memory").lookups([("hit", 9), ("miss", 1)]).latency(latency.clone());
            let memory = memory.miss_causes([("first", 16), ("evicted", 0)]);
            Sample { restarts: 2, ..Sample::running() }
                .tier(memory.entries(7).bytes(10, 20))
                .tier(Tier::new("redis").lookups([("hit", 1)]).operations([("get", 5)]))
                .reasons("bypass", [("cookie", 4)])
                .reasons("unstored", [("cookie", 3)])
                .figure(Figure::current("queue", Unit::Bytes, 1.5, "Waiting."))
        });
        registry.register("other", "server", || {
            Sample::running()
                .figure(Figure::current("queue", Unit::Bytes, 2.0, "Waiting."))
                .figure(Figure::total("commands", Unit::Count, 8, "Done."))
        });
        exposition(&registry.sample(), 1500.25)
    }

    #[test]
    fn exposition_has_a_line_for_each_value() {
        let page = page();
        let name = r#"part="li\"nks\\\n""#;
        for line in [
            "larder_start_time_seconds 1500.25".to_owned(),
            format!("larder_part_state{{{name},kind=\"cache\",state=\"running\"}} 1"),
            format!("larder_part_state{{{name},kind=\"cache\",state=\"stopped\"}} 0"),
            format!("larder_part_restarts_total{{{name}}} 2"),
            format!("larder_uncached_responses_total{{{name},outcome=\"bypass\",reason=\"cookie\"}} 4"),
            format!("larder_uncached_responses_total{{{name},outcome=\"unstored\",reason=\"cookie\"}} 3"),
            format!("larder_tier_lookups_total{{{name},tier=\"memory\",outcome=\"hit\"}} 9"),
            format!("larder_tier_misses_by_cause_total{{{name},tier=\"memory\",cause=\"first\"}} 1"),
            format!("larder_tier_operations_total{{{name},tier=\"redis\",operation=\"get\"}} 5"),
            format!("larder_tier_misses_by_cause_total{{{name},tier=\"memory\",cause=\"evicted\"}} 0"),
            format!("larder_tier_entries{{{name},tier=\"memory\"}} 7"),
            format!("larder_tier_bytes{{{name},tier=\"memory\"}} 10"),
            format!("larder_tier_capacity_bytes{{{name},tier=\"memory\"}} 20"),
            format!("larder_tier_latency_seconds_bucket{{{name},tier=\"memory\",le=\"0.00001\"}} 0"),
            format!("larder_tier_latency_seconds_bucket{{{name},tier=\"memory\",le=\"0.000025\"}} 3"),
            format!("larder_tier_latency_seconds_bucket{{{name},tier=\"memory\",le=\"+Inf\"}} 3"),
            format!("larder_tier_latency_seconds_sum{{{name},tier=\"memory\"}} 0.00006"),
            format!("larder_tier_latency_seconds_count{{{name},tier=\"memory\"}} 3"),
            format!("larder_queue_bytes{{{name}}} 1.5"),
            "larder_queue_bytes{part=\"other\"} 2".to_owned(),
            "larder_commands_total{part=\"other\"} 8".to_owned(),
        ] {
            assert!(page.lines().any(|own| own == line), "no line {line}\n{page}");
        }
    }

    #[test]
    fn exposition_groups_lines_by_family() {
        let page = page();
        let mut seen = std::collections::HashSet::new();
        let mut family = "";
        for line in page.lines() {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                family = rest.split(' ').next().unwrap();
                assert!(seen.insert(family), "{family} twice");
            } else if !line.starts_with('#') {
                assert!(line.starts_with(family), "{line} outside of {family}");
            }
        }
        assert!(page.ends_with('\n'));
    }

    /// One name made the page invalid, and with it the figures of all parts.
    #[test]
    fn figures_of_any_name_are_families_of_their_own() {
        let registry = Registry::new();
        registry.register("own", "cache", || {
            Sample::running()
                .tier(Tier::new("memory").entries(7))
                .figure(Figure::current("queue depth-é", Unit::Count, 1.0, "Waiting."))
                .figure(Figure::current("tier_entries", Unit::Count, 2.0, "Tiers."))
        });
        let page = exposition(&registry.sample(), 0.0);
        for line in [
            "larder_queue_depth__{part=\"own\"} 1",
            "larder_figure_tier_entries{part=\"own\"} 2",
            "larder_tier_entries{part=\"own\",tier=\"memory\"} 7",
        ] {
            assert!(page.lines().any(|own| own == line), "no line {line}\n{page}");
        }
        assert_eq!(page.matches("# TYPE larder_tier_entries ").count(), 1, "{page}");
    }

    /// Two series of the same labels made the page invalid, and with it the figures of all parts.
    #[test]
    fn names_that_repeat_within_a_part_make_no_series_twice() {
        let registry = Registry::new();
        registry.register("own", "cache", || {
            let histogram = Histogram::new();
            histogram.record(Duration::from_micros(20));
            let memory = || {
                let tier = Tier::new("memory").lookups([("hit", 1), ("miss", 50), ("hit", 2)]);
                let tier =
                    tier.miss_causes([("first", 16), ("first", 16)]).operations([("get", 1), ("get", 4)]);
                tier.latency(histogram.snapshot()).entries(7).bytes(10, 20)
            };
            Sample::running()
                .tier(memory())
                .tier(memory())
                .reasons("bypass", [("cookie", 4), ("cookie", 1)])
                .reasons("bypass", [("cookie", 3)])
                .figure(Figure::current("coherent", Unit::Count, 1.0, "One."))
                .figure(Figure::current("coherent", Unit::Count, 0.0, "Two."))
                .figure(Figure::current("figure_tier_entries", Unit::Count, 3.0, "Three."))
                .figure(Figure::current("tier_entries", Unit::Count, 4.0, "Four."))
        });
        let page = exposition(&registry.sample(), 0.0);
        let mut seen = HashSet::new();
        for line in page.lines() {
            let key = match line.starts_with('#') {
                true => line.split(' ').take(3).collect::<Vec<_>>().join(" "),
                false => line.rsplit_once(' ').unwrap().0.to_owned(),
            };
            assert!(seen.insert(key), "{line} is a repetition\n{page}");
        }
        for line in [
            r#"larder_tier_lookups_total{part="own",tier="memory",outcome="hit"} 6"#,
            r#"larder_tier_misses_by_cause_total{part="own",tier="memory",cause="first"} 64"#,
            r#"larder_tier_operations_total{part="own",tier="memory",operation="get"} 10"#,
            r#"larder_tier_entries{part="own",tier="memory"} 14"#,
            r#"larder_tier_capacity_bytes{part="own",tier="memory"} 40"#,
            r#"larder_tier_latency_seconds_count{part="own",tier="memory"} 2"#,
            r#"larder_uncached_responses_total{part="own",outcome="bypass",reason="cookie"} 8"#,
            r#"larder_coherent{part="own"} 1"#,
            r#"larder_coherent{part="own",number="2"} 0"#,
        ] {
            assert!(page.lines().any(|own| own == line), "no line {line}\n{page}");
        }
    }

    #[test]
    fn exposition_has_no_family_without_lines() {
        let page = exposition(&[], 0.0);
        assert!(!page.contains("larder_tier"), "{page}");
    }
}
