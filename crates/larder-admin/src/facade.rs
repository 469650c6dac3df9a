//! The parts in the recorder of the facade `metrics`, for services whose other metrics go there.

use metrics::Label;

use crate::families::{self, Family, Kind, Series, Value};
use crate::parts::registry::Registry;

impl Registry {
    /// Records the current figures of all parts with the recorder of the facade `metrics`, under the names of `/metrics`. Call it
    /// before each scrape, or every few seconds. Totals are absolute. The facade takes no histogram whose counts are known
    /// already, so a latency is the counters `…_count` and `…_micros`, the sum of all durations.
    ///
    /// Without a recorder nothing is recorded. Cost: a sample of each part.
    pub fn record(&self) {
        for family in families::of_parts(&self.sample()) {
            family.series.iter().for_each(|series| record(&family, series));
        }
    }
}

fn record(family: &Family, series: &Series) {
    let labels =
        || series.labels.iter().map(|(name, text)| Label::new(*name, text.clone())).collect::<Vec<_>>();
    let count = |name: String, value: u64| metrics::counter!(name, labels()).absolute(value);
    match &series.value {
        Value::Number(number) if family.kind == Kind::Counter => count(family.name.clone(), *number as u64),
        Value::Number(number) => metrics::gauge!(family.name.clone(), labels()).set(*number),
        Value::Histogram(buckets) => {
            let name = family.name.trim_end_matches("_seconds");
            count(format!("{name}_count"), buckets.count);
            count(format!("{name}_micros"), (buckets.sum * 1e6) as u64);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::sample::{Sample, Tier};
    use larder_engine::stats::Histogram;
    use metrics::{Counter, Gauge, Key, KeyName, Metadata, Recorder, SharedString, Unit};
    use std::collections::BTreeMap;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// Keeps the last value of each metric, by its kind, name and labels.
    #[derive(Default)]
    struct Kept(std::sync::Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Kept {
        fn value(&self, kind: &str, key: &Key) -> Arc<AtomicU64> {
            let labels: Vec<String> =
                key.labels().map(|own| format!("{}={}", own.key(), own.value())).collect();
            let name = format!("{kind} {}{{{}}}", key.name(), labels.join(","));
            self.0.lock().expect("no panic").entry(name).or_default().clone()
        }

        fn get(&self, name: &str) -> Option<u64> {
            Some(self.0.lock().expect("no panic").get(name)?.load(Ordering::Relaxed))
        }
    }

    impl Recorder for Kept {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.value("counter", key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.value("gauge", key))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> metrics::Histogram {
            panic!("nothing is a histogram")
        }
    }

    #[test]
    fn recorder_gets_the_current_figures() {
        let parts = Registry::new();
        parts.register("links", "cache", || {
            let histogram = Histogram::new();
            histogram.record_n(Duration::from_micros(20), 3);
            let memory = Tier::new("memory").lookups([("hit", 9)]).entries(7).latency(histogram.snapshot());
            Sample::running().tier(memory)
        });
        let kept = Kept::default();
        metrics::with_local_recorder(&kept, || parts.record());
        let count = |name: &str| kept.get(&format!("counter {name}"));
        assert_eq!(count("larder_tier_lookups_total{part=links,tier=memory,outcome=hit}"), Some(9));
        assert_eq!(count("larder_tier_latency_count{part=links,tier=memory}"), Some(3));
        assert_eq!(count("larder_tier_latency_micros{part=links,tier=memory}"), Some(60));
        let entries = kept.get("gauge larder_tier_entries{part=links,tier=memory}");
        assert_eq!(entries.map(f64::from_bits), Some(7.0));
    }
}
