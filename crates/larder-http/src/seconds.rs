//! Field values that end in a number of seconds. Those of the first hour are made once, so that a hit neither formats nor
//! allocates them.

use std::sync::OnceLock;

use http::HeaderValue;

/// The numbers that are made once: 0 to 3,599.
const NUMBERS: u64 = 3_600;
const MAX_DIGITS: usize = 4;

/// The values of one field: a text, followed by a number of seconds.
pub(crate) struct SecondsValues {
    prefix: &'static str,
    /// A cell of the same width for each number: the prefix and the digits, padded with spaces.
    cells: OnceLock<&'static str>,
}

impl SecondsValues {
    /// `prefix` is visible ASCII.
    pub(crate) const fn new(prefix: &'static str) -> SecondsValues {
        SecondsValues { prefix, cells: OnceLock::new() }
    }

    pub(crate) fn value(&self, seconds: u64) -> HeaderValue {
        if seconds >= NUMBERS {
            return format!("{}{seconds}", self.prefix).try_into().expect("the prefix is visible ASCII");
        }
        let cells = self.cells.get_or_init(|| self.make_cells());
        let start = seconds as usize * (self.prefix.len() + MAX_DIGITS);
        let digits = seconds.checked_ilog10().map_or(1, |log| log as usize + 1);
        HeaderValue::from_static(&cells[start..start + self.prefix.len() + digits])
    }

    fn make_cells(&self) -> &'static str {
        let cells = (0..NUMBERS).map(|seconds| format!("{}{seconds:<MAX_DIGITS$}", self.prefix));
        cells.collect::<String>().leak()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn value_is_the_prefix_and_the_number() {
        for prefix in ["", "larder; hit; ttl="] {
            let values = SecondsValues::new(prefix);
            for seconds in [0, 1, 9, 10, 99, 100, 999, 1_000, 3_599, 3_600, u64::MAX] {
                assert_eq!(values.value(seconds), format!("{prefix}{seconds}"));
            }
        }
    }
}
