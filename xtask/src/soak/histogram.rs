//! Latencies in buckets that grow with the latency, so that a histogram has a fixed size however long it counts.

use std::time::Duration;

/// Buckets for each doubling: a quantile is at most a sixteenth too high.
const PER_DOUBLING: u64 = 16;
/// Up to more than an hour, in microseconds.
const BUCKETS: usize = 512;

/// Counts of latencies by bucket.
#[derive(Clone, Debug)]
pub(super) struct Histogram {
    buckets: Vec<u64>,
    max_us: u64,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { buckets: vec![0; BUCKETS], max_us: 0 }
    }
}

impl Histogram {
    pub(super) fn record(&mut self, latency: Duration) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.buckets[bucket(us)] += 1;
        self.max_us = self.max_us.max(us);
    }

    pub(super) fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The latency that this share of all does not exceed, in microseconds; `None` if there is none.
    pub(super) fn quantile_us(&self, share: f64) -> Option<u64> {
        let count = self.count();
        let rank = ((count as f64 * share).ceil() as u64).max(1);
        let mut below = 0;
        for (index, in_bucket) in self.buckets.iter().enumerate() {
            below += in_bucket;
            if below >= rank {
                return Some(upper_bound(index).min(self.max_us));
            }
        }
        None
    }

    pub(super) fn max_us(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.max_us)
    }
}

/// The first sixteen buckets have one latency each, each further sixteen twice as many as the sixteen before.
fn bucket(us: u64) -> usize {
    if us < PER_DOUBLING {
        return us as usize;
    }
    let shift = us.ilog2() - PER_DOUBLING.ilog2();
    let index = u64::from(shift + 1) * PER_DOUBLING + ((us >> shift) & (PER_DOUBLING - 1));
    (index as usize).min(BUCKETS - 1)
}

/// The largest latency of a bucket.
fn upper_bound(index: usize) -> u64 {
    let index = index as u64;
    if index < PER_DOUBLING {
        return index;
    }
    let shift = index / PER_DOUBLING - 1;
    ((PER_DOUBLING + index % PER_DOUBLING + 1) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bucket_has_its_upper_bound_and_not_the_next_latency() {
        for index in 0..BUCKETS - 1 {
            assert_eq!(bucket(upper_bound(index)), index);
            assert_eq!(bucket(upper_bound(index) + 1), index + 1);
        }
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_are_at_most_a_sixteenth_too_high() {
        let mut histogram = Histogram::default();
        assert_eq!((histogram.quantile_us(0.5), histogram.max_us()), (None, None));
        (1..=1_000).for_each(|ms| histogram.record(Duration::from_millis(ms)));
        for (share, exact) in [(0.0, 1_000.0), (0.5, 500_000.0), (0.99, 990_000.0), (1.0, 1_000_000.0)] {
            let found = histogram.quantile_us(share).unwrap() as f64;
            assert!(found >= exact && found <= exact * 17.0 / 16.0, "{share}: {found}");
        }
        assert_eq!(histogram.max_us(), Some(1_000_000));
    }
}
