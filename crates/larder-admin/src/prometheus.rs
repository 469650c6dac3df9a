//! The parts in a registry of the crate `prometheus-client`, for services that serve a `/metrics` of their own.

use std::fmt;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, NoLabelSet};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::exemplar::Exemplar;

use crate::families::{self, Buckets, Family, Kind, Value};
use crate::parts::registry::Registry;

/// The parts of a [`Registry`] as a collector. Made by [`Registry::collector`].
#[derive(Clone, Debug)]
pub struct PartsCollector(Registry);

impl Registry {
    /// A collector for a registry of the crate `prometheus-client`: each scrape has the current figures of all parts, also of
    /// those that are registered later. They are those of `/metrics`, without what is of the process and not of a part.
    ///
    /// Cost of a scrape: a sample of each part.
    ///
    /// # Examples
    /// ```
    /// use larder_admin::{Registry, Sample};
    /// use prometheus_client::registry::Registry as Metrics;
    ///
    /// let parts = Registry::new();
    /// parts.register("shop", "cache", Sample::running);
    /// let mut metrics = Metrics::default();
    /// metrics.register_collector(Box::new(parts.collector()));
    ///
    /// let mut page = String::new();
    /// prometheus_client::encoding::text::encode(&mut page, &metrics)?;
    /// assert!(page.contains(r#"larder_part_state{part="shop",kind="cache",state="running"} 1"#));
    /// # Ok::<(), std::fmt::Error>(())
    /// ```
    pub fn collector(&self) -> PartsCollector {
        PartsCollector(self.clone())
    }
}

impl Collector for PartsCollector {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
        let families = families::of_parts(&self.0.sample());
        families
            .iter()
            .filter(|family| !family.series.is_empty())
            .try_for_each(|family| encode(family, &mut encoder))
    }
}

fn encode(family: &Family, encoder: &mut DescriptorEncoder<'_>) -> Result<(), fmt::Error> {
    let (metric_type, name) = match family.kind {
        // The encoder appends the suffix.
        Kind::Counter => (MetricType::Counter, family.name.strip_suffix("_total").unwrap_or(&family.name)),
        Kind::Gauge => (MetricType::Gauge, family.name.as_str()),
        Kind::Histogram => (MetricType::Histogram, family.name.as_str()),
    };
    let mut metrics = encoder.encode_descriptor(name, family.help, None, metric_type)?;
    for series in &family.series {
        let mut metric = metrics.encode_family(&series.labels)?;
        match &series.value {
            Value::Number(number) if family.kind == Kind::Counter => {
                metric.encode_counter(number, None::<&Exemplar<NoLabelSet, f64>>)?;
            }
            Value::Number(number) => metric.encode_gauge(number)?,
            Value::Histogram(buckets) => {
                metric.encode_histogram::<NoLabelSet>(
                    buckets.sum,
                    buckets.count,
                    &separate(buckets),
                    None,
                )?;
            }
        }
    }
    Ok(())
}

/// The counts of each bucket alone, as the encoder takes them; the last one ends at infinity.
fn separate(buckets: &Buckets) -> Vec<(f64, u64)> {
    let all = buckets.cumulative.iter().copied().chain([(f64::INFINITY, buckets.count)]);
    let mut before = 0;
    all.map(|(bound, up_to)| (bound, up_to - std::mem::replace(&mut before, up_to))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parts::sample::{Figure, Sample, Tier, Unit};
    use larder_engine::stats::Histogram;
    use prometheus_client::registry::Registry as Metrics;
    use std::time::Duration;

    #[test]
    fn scrape_has_the_figures_of_parts_that_are_registered_later() {
        let parts = Registry::new();
        let mut metrics = Metrics::default();
        metrics.register_collector(Box::new(parts.collector()));
        parts.register("li\"nks", "cache", || {
            let histogram = Histogram::new();
            histogram.record_n(Duration::from_micros(20), 3);
            let memory = Tier::new("memory").lookups([("hit", 9)]).latency(histogram.snapshot());
            Sample::running().tier(memory).figure(Figure::current("queue", Unit::Bytes, 1.5, "Waiting."))
        });
        let mut page = String::new();
        prometheus_client::encoding::text::encode(&mut page, &metrics).expect("encodes");
        for line in [
            "# TYPE larder_tier_lookups counter",
            "# HELP larder_tier_lookups Lookups by outcome.",
            r#"larder_tier_lookups_total{part="li\"nks",tier="memory",outcome="hit"} 9.0"#,
            r#"larder_queue_bytes{part="li\"nks"} 1.5"#,
            r#"larder_tier_latency_seconds_bucket{le="0.00001",part="li\"nks",tier="memory"} 0"#,
            r#"larder_tier_latency_seconds_bucket{le="0.000025",part="li\"nks",tier="memory"} 3"#,
            r#"larder_tier_latency_seconds_bucket{le="+Inf",part="li\"nks",tier="memory"} 3"#,
            r#"larder_tier_latency_seconds_count{part="li\"nks",tier="memory"} 3"#,
            "larder_ready 1.0",
        ] {
            assert!(page.lines().any(|own| own == line), "no line {line}\n{page}");
        }
        assert!(!page.contains("larder_uncached_responses"), "a family without series\n{page}");
    }
}
