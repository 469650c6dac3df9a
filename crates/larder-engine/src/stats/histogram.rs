//! A fixed-size histogram of durations that many threads record into without a lock.
//!
//! Each power of two of nanoseconds has sixteen buckets, so a quantile is off by at most 1/16 of its value, from one
//! nanosecond to five hours, in 5 KiB. The layout is that of HdrHistogram (Gil Tene, <http://hdrhistogram.org>) with four
//! bits of precision. It is our own because recording must be lock-free and shared by threads at the cost of two relaxed
//! additions; the `hdrhistogram` crate needs `&mut` or a recorder per thread.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

const PRECISION_BITS: u32 = 4;
const STEPS: usize = 1 << PRECISION_BITS;
/// Values of 2^44 ns (4.9 hours) and above are in the last bucket, too.
const TOP_BIT: u32 = 44;
const BUCKETS: usize = (TOP_BIT - PRECISION_BITS + 1) as usize * STEPS;

/// A shared histogram of durations. Durations above 2^44 nanoseconds, 4.9 hours, count as that long, except in the sum and
/// the maximum.
#[derive(Debug)]
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    sum_nanos: AtomicU64,
    max_nanos: AtomicU64,
}

impl Histogram {
    /// An empty histogram.
    pub fn new() -> Self {
        Histogram {
            buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            sum_nanos: AtomicU64::new(0),
            max_nanos: AtomicU64::new(0),
        }
    }

    /// Records one duration. Cost: two relaxed atomic additions and a maximum.
    pub fn record(&self, took: Duration) {
        self.record_n(took, 1);
    }

    /// Records the same duration `n` times, for instance for `n` commands of one pipeline.
    pub fn record_n(&self, took: Duration, n: u64) {
        if n == 0 {
            return;
        }
        let nanos = took.as_nanos().min(u64::MAX as u128) as u64;
        self.buckets[bucket_of(nanos)].fetch_add(n, Ordering::Relaxed);
        let added = nanos.saturating_mul(n);
        let former = self.sum_nanos.fetch_add(added, Ordering::Relaxed);
        if former.checked_add(added).is_none() {
            self.sum_nanos.store(u64::MAX, Ordering::Relaxed);
        }
        if nanos > self.max_nanos.load(Ordering::Relaxed) {
            self.max_nanos.fetch_max(nanos, Ordering::Relaxed);
        }
    }

    /// A copy of the current counts.
    pub fn snapshot(&self) -> HistogramSnapshot {
        HistogramSnapshot {
            buckets: self.buckets.iter().map(|count| count.load(Ordering::Relaxed)).collect(),
            sum: Duration::from_nanos(self.sum_nanos.load(Ordering::Relaxed)),
            max: Duration::from_nanos(self.max_nanos.load(Ordering::Relaxed)),
        }
    }
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram::new()
    }
}

/// The counts of a [`Histogram`] at one moment.
#[derive(Clone, Default)]
pub struct HistogramSnapshot {
    buckets: Vec<u64>,
    sum: Duration,
    max: Duration,
}

impl HistogramSnapshot {
    /// The number of recorded durations.
    pub fn count(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// The sum of the recorded durations, up to 2^64 − 1 nanoseconds, some 584 years.
    pub fn sum(&self) -> Duration {
        self.sum
    }

    /// The longest recorded duration.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The mean of the recorded durations; zero if none was recorded.
    pub fn mean(&self) -> Duration {
        match self.count() {
            0 => Duration::ZERO,
            n => Duration::from_nanos((self.sum.as_nanos() / u128::from(n)) as u64),
        }
    }

    /// The quantile `q` (0 to 1): the smallest duration that at least a share `q` of the recorded durations does not
    /// exceed. It is at most 1/16 too high up to [4.9 hours](Histogram), and zero if no duration was recorded.
    pub fn quantile(&self, q: f64) -> Duration {
        let count = self.count();
        if count == 0 {
            return Duration::ZERO;
        }
        let rank = rank(q, count);
        let mut seen = 0;
        for (bucket, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= rank {
                return Duration::from_nanos(upper_edge(bucket)).min(self.max);
            }
        }
        self.max
    }

    /// The number of recorded durations that do not exceed `limit`, within the precision of the buckets: all of them if the
    /// limit is above [4.9 hours](Histogram).
    pub fn count_up_to(&self, limit: Duration) -> u64 {
        let last = bucket_of(limit.as_nanos().min(u64::MAX as u128) as u64);
        self.buckets.iter().take(last + 1).sum()
    }

    /// The durations that were recorded between an earlier snapshot of the same histogram and this one. Its maximum is the
    /// maximum of all. `None` if `earlier` is not an earlier snapshot, for example because a part has restarted with a new
    /// histogram.
    pub fn since(&self, earlier: &HistogramSnapshot) -> Option<HistogramSnapshot> {
        let before = earlier.buckets.iter().copied().chain(std::iter::repeat(0));
        let buckets: Option<_> =
            self.buckets.iter().zip(before).map(|(now, then)| now.checked_sub(then)).collect();
        Some(HistogramSnapshot { buckets: buckets?, sum: self.sum.checked_sub(earlier.sum)?, max: self.max })
    }

    /// Adds the counts of another snapshot to this one.
    pub fn merge(&mut self, other: &HistogramSnapshot) {
        if self.buckets.is_empty() {
            self.buckets = vec![0; BUCKETS];
        }
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }
}

/// A summary, since there are hundreds of buckets.
impl std::fmt::Debug for HistogramSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HistogramSnapshot")
            .field("count", &self.count())
            .field("mean", &self.mean())
            .field("p50", &self.quantile(0.5))
            .field("p99", &self.quantile(0.99))
            .field("max", &self.max)
            .finish()
    }
}

/// How many of so many durations are a share `q` of them, at least one.
fn rank(q: f64, count: u64) -> u64 {
    let share = q.clamp(0.0, 1.0) * count as f64;
    // The share may be too high by the rounding of `q` and of the product: 0.07 of 100 is more than seven.
    ((share * (1.0 - 2.0 * f64::EPSILON)).ceil() as u64).max(1)
}

fn bucket_of(nanos: u64) -> usize {
    if nanos < STEPS as u64 {
        return nanos as usize;
    }
    let top = nanos.ilog2();
    if top >= TOP_BIT {
        return BUCKETS - 1;
    }
    let shift = top - PRECISION_BITS;
    let step = (nanos >> shift) as usize - STEPS;
    (shift as usize + 1) * STEPS + step
}

/// The largest value that falls into a bucket.
fn upper_edge(bucket: usize) -> u64 {
    if bucket < STEPS {
        return bucket as u64;
    }
    let shift = bucket / STEPS - 1;
    (((STEPS + bucket % STEPS + 1) as u64) << shift) - 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buckets_are_contiguous_and_each_value_lies_below_its_edge() {
        let mut last = 0;
        for nanos in (0..100_000).chain((17..44).map(|bit| 1u64 << bit)) {
            let bucket = bucket_of(nanos);
            assert!(bucket >= last, "{nanos}");
            assert!(upper_edge(bucket) >= nanos, "{nanos}");
            assert!(upper_edge(bucket) <= nanos + nanos / 16, "{nanos}");
            last = bucket;
        }
        assert_eq!(bucket_of(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn quantiles_of_a_uniform_load_are_within_a_sixteenth() {
        let histogram = Histogram::new();
        for micros in 1..=1000 {
            histogram.record(Duration::from_micros(micros));
        }
        let snapshot = histogram.snapshot();
        assert_eq!(snapshot.count(), 1000);
        assert_eq!(snapshot.max(), Duration::from_millis(1));
        for (q, micros) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let measured = snapshot.quantile(q).as_secs_f64() * 1e6;
            assert!(measured >= micros && measured <= micros * 17.0 / 16.0, "{q}: {measured}");
        }
        assert_eq!(snapshot.mean(), Duration::from_nanos(500_500));
    }

    #[test]
    fn rank_of_a_share_is_exact() {
        for count in (1..=1_000).chain([1_000_000, 123_456_789]) {
            for n in (1..=count).step_by((count / 1_000).max(1) as usize) {
                assert_eq!(rank(n as f64 / count as f64, count), n, "of {count}");
            }
        }
        assert_eq!([0.0, 0.001, 0.011, 1.0].map(|q| rank(q, 100)), [1, 1, 2, 100]);
    }

    #[test]
    fn sum_stops_at_its_end() {
        let histogram = Histogram::new();
        for _ in 0..3 {
            histogram.record(Duration::MAX);
            histogram.record(Duration::from_millis(1));
            assert_eq!(histogram.snapshot().sum(), Duration::from_nanos(u64::MAX));
        }
    }

    #[test]
    fn since_has_what_was_recorded_in_between() {
        let histogram = Histogram::new();
        histogram.record_n(Duration::from_micros(10), 100);
        let earlier = histogram.snapshot();
        histogram.record_n(Duration::from_micros(500), 7);
        let between = histogram.snapshot().since(&earlier).unwrap();
        assert_eq!((between.count(), between.sum()), (7, Duration::from_micros(3_500)));
        assert!(between.quantile(0.01) >= Duration::from_micros(500));
        assert_eq!(histogram.snapshot().since(&HistogramSnapshot::default()).unwrap().count(), 107);
        assert!(earlier.since(&histogram.snapshot()).is_none());
    }

    #[test]
    fn merging_into_an_empty_snapshot_copies() {
        let histogram = Histogram::new();
        histogram.record_n(Duration::from_nanos(7), 3);
        let mut merged = HistogramSnapshot::default();
        merged.merge(&histogram.snapshot());
        assert_eq!((merged.count(), merged.quantile(0.5)), (3, Duration::from_nanos(7)));
    }
}
