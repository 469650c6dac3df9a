//! The samples in the Prometheus text format 0.0.4: each family once, with its help and type, followed by its lines.

use std::fmt::Write as _;

use crate::families::{self, Family, Series, Value};
use crate::parts::sample::PartSample;

pub(crate) const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The page `/metrics`. `started` is the start of the process in seconds since 1970. Families without series are left out.
pub(crate) fn exposition(parts: &[PartSample], started: f64) -> String {
    let mut page = Page(String::with_capacity(4096));
    let all = families::of_process(started).into_iter().chain(families::of_parts(parts));
    all.filter(|family| !family.series.is_empty()).for_each(|family| page.family(&family));
    page.0
}

struct Page(String);

impl Page {
    fn family(&mut self, family: &Family) {
        let Family { name, kind, help, series } = family;
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
        for Series { labels, value } in series {
            match value {
                Value::Number(number) => self.line(name, labels, *number),
                Value::Histogram(buckets) => {
                    let bucket = format!("{name}_bucket");
                    let bounded = |le| labels.iter().cloned().chain([("le", le)]).collect::<Vec<_>>();
                    for (bound, count) in &buckets.cumulative {
                        self.line(&bucket, &bounded(bound.to_string()), *count as f64);
                    }
                    self.line(&bucket, &bounded("+Inf".to_owned()), buckets.count as f64);
                    self.line(&format!("{name}_sum"), labels, buckets.sum);
                    self.line(&format!("{name}_count"), labels, buckets.count as f64);
                }
            }
        }
    }

    fn line(&mut self, name: &str, labels: &[(&str, String)], value: f64) {
        self.0.push_str(name);
        for (n, (label, text)) in labels.iter().enumerate() {
            let open = if n == 0 { '{' } else { ',' };
            let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
            let _ = write!(self.0, "{open}{label}=\"{text}\"");
        }
        if !labels.is_empty() {
            self.0.push('}');
        }
        let _ = writeln!(self.0, " {value}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::registry::Registry;
    use crate::parts::sample::{Figure, Sample, Tier, Unit};
    use larder_engine::stats::Histogram;
    use std::collections::HashSet;
    use std::time::Duration;

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
