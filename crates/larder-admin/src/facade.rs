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
    use metrics_util::debugging::{DebugValue, DebuggingRecorder};
    use std::time::Duration;

    #[test]
    fn recorder_gets_the_current_figures() {
        let parts = Registry::new();
        parts.register("links", "cache", || {
            let histogram = Histogram::new();
            histogram.record_n(Duration::from_micros(20), 3);
            let memory = Tier::new("memory").lookups([("hit", 9)]).entries(7).latency(histogram.snapshot());
            Sample::running().tier(memory)
        });
        let recorder = DebuggingRecorder::new();
        let snapshotter = recorder.snapshotter();
        metrics::with_local_recorder(&recorder, || parts.record());
        let mut lines: Vec<String> = Vec::new();
        for (key, _, _, value) in snapshotter.snapshot().into_vec() {
            let labels: Vec<String> =
                key.key().labels().map(|label| format!("{}={}", label.key(), label.value())).collect();
            let value = match value {
                DebugValue::Counter(count) => format!("counter {count}"),
                DebugValue::Gauge(gauge) => format!("gauge {gauge}"),
                DebugValue::Histogram(_) => panic!("a histogram"),
            };
            lines.push(format!("{}{{{}}} {value}", key.key().name(), labels.join(",")));
        }
        for line in [
            "larder_tier_lookups_total{part=links,tier=memory,outcome=hit} counter 9",
            "larder_tier_entries{part=links,tier=memory} gauge 7",
            "larder_tier_latency_count{part=links,tier=memory} counter 3",
            "larder_tier_latency_micros{part=links,tier=memory} counter 60",
        ] {
            assert!(lines.iter().any(|own| own == line), "no line {line}\n{lines:#?}");
        }
    }
}
