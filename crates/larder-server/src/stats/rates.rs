//! Rates of the last moments, from samples of the counters, as Redis makes them.

use std::collections::VecDeque;
use std::time::Duration;

use super::counts::Counts;
use crate::system::Moment;

/// Interval of the samples.
const INTERVAL: Duration = Duration::from_millis(100);
/// Samples that are kept: a rate is that of one and a half seconds.
const SAMPLES: usize = 16;

/// What the counters were at the last moments.
#[derive(Debug, Default)]
pub(crate) struct Samples(VecDeque<(Moment, Counts)>);

/// What happens in a second.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(crate) struct Rates {
    pub(crate) commands: f64,
    pub(crate) bytes_in: f64,
    pub(crate) bytes_out: f64,
}

impl Samples {
    pub(crate) fn is_due(&self, now: Moment) -> bool {
        self.0.back().is_none_or(|(last, _)| now >= *last + INTERVAL)
    }

    pub(crate) fn push(&mut self, now: Moment, counts: Counts) {
        if self.0.len() == SAMPLES {
            self.0.pop_front();
        }
        self.0.push_back((now, counts));
    }

    /// Zero before the second sample.
    pub(crate) fn rates(&self) -> Rates {
        let (Some((from, before)), Some((to, now))) = (self.0.front(), self.0.back()) else {
            return Rates::default();
        };
        let secs = to.since(*from).as_secs_f64();
        let rate = |before: u64, now: u64| if secs > 0.0 { (now - before) as f64 / secs } else { 0.0 };
        Rates {
            commands: rate(before.commands, now.commands),
            bytes_in: rate(before.bytes_in, now.bytes_in),
            bytes_out: rate(before.bytes_out, now.bytes_out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_the_kept_samples() {
        let (mut samples, start) = (Samples::default(), Moment::now());
        assert_eq!(samples.rates(), Rates::default());
        let counts = |commands| Counts { commands, bytes_in: 10 * commands, ..Counts::default() };
        samples.push(start, counts(1_000));
        assert!(!samples.is_due(start + INTERVAL / 2) && samples.is_due(start + INTERVAL));
        assert_eq!(samples.rates(), Rates::default());
        for index in 1..=SAMPLES as u32 {
            samples.push(start + INTERVAL * index, counts(1_000 + 7 * u64::from(index)));
        }
        let rates = samples.rates();
        assert!((rates.commands - 70.0).abs() < 0.1 && (rates.bytes_in - 700.0).abs() < 1.0, "{rates:?}");
        assert_eq!(rates.bytes_out, 0.0);
    }
}
