//! Rounds in which each operation is timed separately.

use crate::measure::rounds::{Sample, Value};
use std::time::Instant;

const QUANTILES: [(&str, f64); 4] = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999)];

/// Times `operation` for each item. The operation returns whether it succeeded.
pub(super) fn time_each<T>(
    items: impl ExactSizeIterator<Item = T>,
    mut operation: impl FnMut(T) -> bool,
) -> Sample {
    let expected = items.len() as u64;
    let mut nanos: Vec<u64> = Vec::with_capacity(items.len());
    let mut succeeded = 0;
    for item in items {
        let start = Instant::now();
        let success = operation(item);
        nanos.push(start.elapsed().as_nanos() as u64);
        succeeded += u64::from(success);
    }
    nanos.sort_unstable();
    let mut values: Vec<Value> =
        QUANTILES.iter().map(|&(name, q)| Value::low(name, "ns", quantile(&nanos, q))).collect();
    values.push(Value::low("max", "ns", quantile(&nanos, 1.0)));
    Sample { values, succeeded, expected }
}

/// The smallest value that at least a share `q` of all values does not exceed.
fn quantile(sorted: &[u64], q: f64) -> f64 {
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted[rank.clamp(1, sorted.len()) - 1] as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantile_is_the_value_at_its_rank() {
        let sorted: Vec<u64> = (1..=1000).collect();
        assert_eq!([0.5, 0.99, 0.999, 1.0].map(|q| quantile(&sorted, q)), [500.0, 990.0, 999.0, 1000.0]);
        assert_eq!(quantile(&[7], 0.5), 7.0);
    }

    #[test]
    fn time_each_counts_failures() {
        let sample = time_each([1, 2, 3].into_iter(), |n| n != 2);
        assert_eq!((sample.succeeded, sample.expected, sample.values.len()), (2, 3, 5));
    }
}
