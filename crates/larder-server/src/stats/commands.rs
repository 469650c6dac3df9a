//! Statistics of each command: calls, errors, and time. Each thread counts on its own; the sums are made on demand.
//!
//! To read a clock twice costs more than the rest of what a short command is charged here. So the time is measured of
//! the first calls of a command on a thread, and of one call of 64 after those: the total is an estimate from the
//! measured mean. Of commands that may be slow, the slow log needs the time of all calls.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use larder_engine::stats::{Histogram, HistogramSnapshot};
use parking_lot::Mutex;

use super::counts::OwnCounter;

/// So many calls of a command on a thread are all measured.
const ALL_MEASURED: u64 = 64;
/// After those one of so many.
const MEASURED_EVERY: u64 = 64;

/// The percentiles of `INFO latencystats` at first, as in Redis.
const DEFAULT_PERCENTILES: [f64; 3] = [50.0, 99.0, 99.9];

/// The counters of one command on one thread. Only that thread writes them.
#[derive(Debug, Default)]
pub(crate) struct CommandCounters {
    /// Executed calls, with those that failed.
    calls: OwnCounter,
    /// Calls that were refused before they were executed.
    pub(crate) rejected: OwnCounter,
    /// Calls that were answered with an error, refused or not.
    pub(crate) errors: OwnCounter,
    /// Until so many calls, all are measured. [`u64::MAX`] if all calls are.
    all_measured: AtomicU64,
    /// The times of the measured calls. It takes kilobytes, so a command has it from its first call on.
    times: OnceLock<Histogram>,
}

impl CommandCounters {
    fn new() -> Self {
        CommandCounters { all_measured: AtomicU64::new(ALL_MEASURED), ..CommandCounters::default() }
    }

    /// The counters of so many commands, on one thread.
    pub(crate) fn of_all(commands: usize) -> Box<[CommandCounters]> {
        (0..commands).map(|_| CommandCounters::new()).collect()
    }

    /// The next calls are all measured, as the first ones.
    fn restart_measuring(&self) {
        if self.all_measured.load(Ordering::Relaxed) != u64::MAX {
            self.measure_always(false);
        }
    }

    /// Sets whether the next calls are all measured, or only the first ones of them.
    pub(crate) fn measure_always(&self, is_always: bool) {
        let until = if is_always { u64::MAX } else { self.calls.get() + ALL_MEASURED };
        self.all_measured.store(until, Ordering::Relaxed);
    }

    /// Counts a call. Returns whether its time is to be measured.
    #[inline]
    pub(crate) fn begin(&self) -> bool {
        let before = self.calls.get();
        self.calls.add(1);
        before.is_multiple_of(MEASURED_EVERY) || before < self.all_measured.load(Ordering::Relaxed)
    }

    /// Records the time of a call that is measured.
    pub(crate) fn record(&self, time: Duration) {
        self.times.get_or_init(Histogram::new).record(time);
    }
}

/// The counts of one command, on all threads.
#[derive(Debug, Clone, Default)]
pub(crate) struct CommandTotals {
    pub(crate) calls: u64,
    pub(crate) rejected: u64,
    pub(crate) failed: u64,
    /// The measured calls.
    times: HistogramSnapshot,
}

impl CommandTotals {
    fn add(&mut self, counters: &CommandCounters) {
        self.calls += counters.calls.get();
        self.rejected += counters.rejected.get();
        // Another thread may be between the two additions of a refused call.
        self.failed += counters.errors.get().saturating_sub(counters.rejected.get());
        if let Some(times) = counters.times.get() {
            self.times.merge(&times.snapshot());
        }
    }

    fn since(self, earlier: &CommandTotals) -> CommandTotals {
        CommandTotals {
            calls: self.calls - earlier.calls,
            rejected: self.rejected - earlier.rejected,
            failed: self.failed.saturating_sub(earlier.failed),
            times: self.times.since(&earlier.times).unwrap_or(self.times),
        }
    }

    pub(crate) fn is_used(&self) -> bool {
        self.calls + self.rejected > 0
    }

    /// The mean time of a call in microseconds.
    pub(crate) fn micros_per_call(&self) -> f64 {
        match self.times.count() {
            0 => 0.0,
            measured => self.times.sum().as_secs_f64() * 1e6 / measured as f64,
        }
    }

    /// How many calls took at most this time, as far as those that were measured tell, and whether these are all.
    pub(crate) fn calls_within(&self, limit: Duration) -> (u64, bool) {
        let (within, measured) = (self.times.count_up_to(limit), self.times.count());
        let calls = u128::from(within) * u128::from(self.calls) / u128::from(measured.max(1));
        (calls as u64, within == measured)
    }

    /// The time that a percentage of the calls did not exceed; `None` if none was measured.
    pub(crate) fn percentile(&self, percentage: f64) -> Option<Duration> {
        (self.times.count() > 0).then(|| self.times.quantile(percentage / 100.0))
    }
}

/// What the threads share: settings, and the totals at the last reset.
#[derive(Debug)]
pub(crate) struct CommandStats {
    is_tracking: AtomicBool,
    percentiles: Mutex<Vec<f64>>,
    /// By the position in the table of commands; empty before the first reset.
    baseline: Mutex<Vec<CommandTotals>>,
}

impl Default for CommandStats {
    fn default() -> Self {
        CommandStats {
            is_tracking: AtomicBool::new(true),
            percentiles: Mutex::new(DEFAULT_PERCENTILES.to_vec()),
            baseline: Mutex::default(),
        }
    }
}

impl CommandStats {
    /// Whether times are measured.
    #[inline]
    pub(crate) fn is_tracking(&self) -> bool {
        self.is_tracking.load(Ordering::Relaxed)
    }

    pub(crate) fn set_tracking(&self, is_tracking: bool) {
        self.is_tracking.store(is_tracking, Ordering::Relaxed);
    }

    pub(crate) fn percentiles(&self) -> Vec<f64> {
        self.percentiles.lock().clone()
    }

    pub(crate) fn set_percentiles(&self, percentiles: Vec<f64>) {
        *self.percentiles.lock() = percentiles;
    }

    /// The totals of every command since the last reset, in the order of the table.
    pub(crate) fn since_reset<'a>(
        &self,
        threads: impl Iterator<Item = &'a [CommandCounters]>,
    ) -> Vec<CommandTotals> {
        let baseline = self.baseline.lock();
        let totals = sum(threads).into_iter().enumerate();
        let since = |(index, totals): (usize, CommandTotals)| match baseline.get(index) {
            Some(earlier) => totals.since(earlier),
            None => totals,
        };
        totals.map(since).collect()
    }

    pub(crate) fn reset<'a>(&self, threads: impl Iterator<Item = &'a [CommandCounters]> + Clone) {
        threads.clone().flatten().for_each(CommandCounters::restart_measuring);
        *self.baseline.lock() = sum(threads);
    }
}

fn sum<'a>(threads: impl Iterator<Item = &'a [CommandCounters]>) -> Vec<CommandTotals> {
    let mut totals = Vec::new();
    for thread in threads {
        totals.resize(thread.len(), CommandTotals::default());
        totals.iter_mut().zip(thread).for_each(|(totals, counters)| totals.add(counters));
    }
    totals
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_calls_are_all_measured_and_later_ones_in_part() {
        let counters = CommandCounters::new();
        let measured = |calls: u64| (0..calls).filter(|_| counters.begin()).count() as u64;
        assert_eq!(measured(ALL_MEASURED), ALL_MEASURED);
        assert_eq!(measured(10 * MEASURED_EVERY), 10);
        assert_eq!(counters.calls.get(), ALL_MEASURED + 10 * MEASURED_EVERY);
        counters.restart_measuring();
        assert_eq!(measured(ALL_MEASURED), ALL_MEASURED);
        counters.measure_always(true);
        counters.restart_measuring();
        assert_eq!(measured(10 * ALL_MEASURED), 10 * ALL_MEASURED);
    }
}
