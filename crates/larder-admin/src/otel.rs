//! The parts as instruments of OpenTelemetry, for services that export metrics by it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use crate::families::{self, Family, Kind, Value};
use crate::parts::registry::Registry;

/// A collection asks each instrument in turn: they share samples that are younger than this.
const SHARED_FOR: Duration = Duration::from_millis(500);

impl Registry {
    /// Makes the figures of the parts instruments of a meter, which the service exports. Call it once, after all parts are
    /// registered: a figure whose name appears later has no instrument.
    ///
    /// Names and units are those of `/metrics` as OpenTelemetry writes them, so that Prometheus gets the same names from a
    /// collector: `larder_tier_lookups_total` is `larder.tier.lookups`, and `larder_tier_capacity_bytes` is `larder.tier.capacity`
    /// in `By`. The interface has no histogram whose counts are known already. So a latency is three counters,
    /// `larder.tier.latency.bucket` with the bound in seconds as `le`, `….count` and `….sum`.
    ///
    /// Cost of a collection: a sample of each part.
    pub fn observe(&self, meter: &Meter) {
        let recent = Arc::new(Recent { registry: self.clone(), families: Mutex::default() });
        for family in &*recent.families() {
            let (name, unit) = name_and_unit(&family.name);
            match family.kind {
                Kind::Histogram => {
                    for part in [Part::Bucket, Part::Count, Part::Sum] {
                        let unit = if part == Part::Sum { unit } else { "" };
                        let observed = recent.observed(family, part);
                        let built = meter.f64_observable_counter(format!("{name}.{}", part.name()));
                        built.with_unit(unit).with_description(family.help).with_callback(observed).build();
                    }
                }
                Kind::Counter => {
                    let observed = recent.observed(family, Part::Number);
                    let built = meter.f64_observable_counter(name);
                    built.with_unit(unit).with_description(family.help).with_callback(observed).build();
                }
                Kind::Gauge => {
                    let observed = recent.observed(family, Part::Number);
                    let built = meter.f64_observable_gauge(name);
                    built.with_unit(unit).with_description(family.help).with_callback(observed).build();
                }
            }
        }
    }
}

/// What an instrument has of the values of its family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Number,
    Bucket,
    Count,
    Sum,
}

impl Part {
    /// The end of the name of the instrument.
    const fn name(self) -> &'static str {
        match self {
            Part::Number => "",
            Part::Bucket => "bucket",
            Part::Count => "count",
            Part::Sum => "sum",
        }
    }

    /// The values of a series, each with a bound if it is a bucket.
    fn values(self, value: &Value) -> Vec<(f64, Option<String>)> {
        match (self, value) {
            (Part::Number, Value::Number(number)) => vec![(*number, None)],
            (Part::Count, Value::Histogram(buckets)) => vec![(buckets.count as f64, None)],
            (Part::Sum, Value::Histogram(buckets)) => vec![(buckets.sum, None)],
            (Part::Bucket, Value::Histogram(buckets)) => {
                let bounded =
                    buckets.cumulative.iter().map(|(bound, count)| (*count as f64, bound.to_string()));
                let all = (buckets.count as f64, "+Inf".to_owned());
                bounded.chain([all]).map(|(count, bound)| (count, Some(bound))).collect()
            }
            (Part::Number, Value::Histogram(_)) | (_, Value::Number(_)) => Vec::new(),
        }
    }
}

/// The last samples, which the instruments of one collection share.
struct Recent {
    registry: Registry,
    families: Mutex<Option<(Instant, Arc<Vec<Family>>)>>,
}

impl Recent {
    fn families(&self) -> Arc<Vec<Family>> {
        let mut last = self.families.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((at, families)) = &*last
            && at.elapsed() < SHARED_FOR
        {
            return families.clone();
        }
        let families = Arc::new(families::of_parts(&self.registry.sample()));
        *last = Some((Instant::now(), families.clone()));
        families
    }

    /// What observes a family for an instrument.
    fn observed(
        self: &Arc<Self>,
        family: &Family,
        part: Part,
    ) -> impl Fn(&dyn AsyncInstrument<f64>) + Send + Sync + use<> {
        let (recent, name) = (self.clone(), family.name.clone());
        move |instrument| {
            let families = recent.families();
            let series =
                families.iter().filter(|family| family.name == name).flat_map(|family| &family.series);
            for series in series {
                for (value, bound) in part.values(&series.value) {
                    let labels = series.labels.iter().cloned().chain(bound.map(|bound| ("le", bound)));
                    let labels: Vec<KeyValue> =
                        labels.map(|(label, text)| KeyValue::new(label, text)).collect();
                    instrument.observe(value, &labels);
                }
            }
        }
    }
}

/// The name of an instrument and its unit, from the name in Prometheus, which has both.
fn name_and_unit(name: &str) -> (String, &'static str) {
    let name = name.strip_suffix("_total").unwrap_or(name);
    let units = [("_seconds", "s"), ("_bytes", "By"), ("_ratio", "1")];
    let with_unit = units.iter().find_map(|(suffix, unit)| Some((name.strip_suffix(suffix)?, *unit)));
    let (name, unit) = with_unit.unwrap_or((name, ""));
    (name.replace('_', "."), unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::sample::{Figure, Sample, Tier, Unit};
    use larder_engine::stats::Histogram;
    use opentelemetry::metrics::MeterProvider;
    use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData};
    use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};

    /// A line for each value: name, unit, labels in order, value.
    fn exported(exporter: &InMemoryMetricExporter) -> Vec<String> {
        let mut lines = Vec::new();
        for resource in exporter.get_finished_metrics().expect("the export succeeded") {
            for metric in resource.scope_metrics().flat_map(|scope| scope.metrics()) {
                let AggregatedMetrics::F64(data) = metric.data() else {
                    panic!("{} is no f64", metric.name())
                };
                let points: Vec<(Vec<KeyValue>, f64)> = match data {
                    MetricData::Gauge(gauge) => gauge
                        .data_points()
                        .map(|point| (point.attributes().cloned().collect(), point.value()))
                        .collect(),
                    MetricData::Sum(sum) => {
                        assert!(sum.is_monotonic(), "{}", metric.name());
                        sum.data_points()
                            .map(|point| (point.attributes().cloned().collect(), point.value()))
                            .collect()
                    }
                    _ => panic!("{} is of an unknown kind", metric.name()),
                };
                for (attributes, value) in points {
                    let mut labels: Vec<String> =
                        attributes.iter().map(|own| format!("{}={}", own.key, own.value.as_str())).collect();
                    labels.sort_unstable();
                    lines.push(format!(
                        "{}[{}]{{{}}} {value}",
                        metric.name(),
                        metric.unit(),
                        labels.join(",")
                    ));
                }
            }
        }
        lines
    }

    #[test]
    fn instruments_have_the_current_figures() {
        let exporter = InMemoryMetricExporter::default();
        let provider = SdkMeterProvider::builder()
            .with_reader(PeriodicReader::builder(exporter.clone()).build())
            .build();
        let parts = Registry::new();
        parts.register("links", "cache", || {
            let histogram = Histogram::new();
            histogram.record_n(Duration::from_micros(20), 3);
            let memory =
                Tier::new("memory").lookups([("hit", 9)]).bytes(10, 20).latency(histogram.snapshot());
            Sample::running().tier(memory).figure(Figure::total("commands", Unit::Count, 8, "Done."))
        });
        parts.observe(&provider.meter("larder"));
        provider.force_flush().expect("exported");
        let lines = exported(&exporter);
        for line in [
            "larder.tier.lookups[]{outcome=hit,part=links,tier=memory} 9",
            "larder.tier.capacity[By]{part=links,tier=memory} 20",
            "larder.commands[]{part=links} 8",
            "larder.tier.latency.bucket[]{le=0.000025,part=links,tier=memory} 3",
            "larder.tier.latency.bucket[]{le=+Inf,part=links,tier=memory} 3",
            "larder.tier.latency.count[]{part=links,tier=memory} 3",
            "larder.tier.latency.sum[s]{part=links,tier=memory} 0.00006",
            "larder.ready[]{} 1",
        ] {
            assert!(lines.iter().any(|own| own == line), "no line {line}\n{lines:#?}");
        }
    }
}
