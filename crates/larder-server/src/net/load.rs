//! How busy the threads are, and when connections move between them.
//!
//! A second thread costs processor time: both sleep and wake more often, and values travel between the caches of two
//! cores. So all connections are on the first thread until it is too busy, and another is used only while a core has
//! time for it. Both are measured in windows of 100 ms. A thread that sleeps measures nothing and needs no timer. Nor does
//! one whose command takes long, or waits for keys that another thread has locked: it serves nobody else meanwhile.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::system::Moment;

/// The shortest time over which the load of a thread is measured.
const WINDOW: Duration = Duration::from_millis(100);
/// A thread is overloaded above this share of its time, in percent.
const OVERLOADED_PERCENT: u64 = 90;
/// Two threads are joined while they need less than this share of one thread together, in percent.
const JOINED_PERCENT: u64 = 50;
/// The number of windows for which two threads need so little before they are joined.
const QUIET_WINDOWS: u32 = 10;
/// A core counts as idle if cores were idle for at least this share of a window together, in percent.
const IDLE_PERCENT: u32 = 50;

/// The load of a thread in its last window, for other threads.
#[derive(Debug, Default)]
pub(crate) struct PublishedLoad {
    /// When the window ended, in milliseconds after the start of the server, and the load in percent: `ms * 128 + load`.
    window: AtomicU64,
    /// When it has looked for ready connections last, in milliseconds after the start of the server and one more; 0 while it
    /// waits for some.
    round_start: AtomicU64,
}

impl PublishedLoad {
    /// The thread has found ready connections, and will look for others when it has served them.
    pub(crate) fn begin_round(&self, now_ms: u64) {
        self.round_start.store(now_ms + 1, Ordering::Relaxed);
    }

    /// The thread looks for ready connections.
    pub(crate) fn end_round(&self) {
        self.round_start.store(0, Ordering::Relaxed);
    }

    /// Whether it has not looked for ready connections for a window, and not waited either.
    pub(crate) fn is_stuck(&self, now_ms: u64) -> bool {
        let start = self.round_start.load(Ordering::Relaxed);
        start != 0 && now_ms >= start - 1 + WINDOW.as_millis() as u64
    }

    fn publish(&self, now_ms: u64, percent: u64) {
        self.window.store(now_ms * 128 + percent.min(100), Ordering::Relaxed);
    }

    /// The load in percent. A thread that has not published for two windows is asleep, unless it is stuck.
    pub(crate) fn percent(&self, now_ms: u64) -> u64 {
        if self.is_stuck(now_ms) {
            return 100;
        }
        let window = self.window.load(Ordering::Relaxed);
        let is_recent = now_ms.saturating_sub(window / 128) <= 2 * WINDOW.as_millis() as u64;
        if is_recent { window % 128 } else { 0 }
    }

    pub(crate) fn is_overloaded(&self, now_ms: u64) -> bool {
        self.percent(now_ms) > OVERLOADED_PERCENT
    }
}

/// What a thread does with its connections at the end of a window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Advice {
    Stay,
    /// Move connections that cause half of the difference to another thread.
    Share,
    /// Move all connections to the first thread.
    Join,
}

/// Measures the load of one thread: the processor time that it uses.
#[derive(Debug)]
pub(crate) struct LoadMeter {
    started_at: Moment,
    window_start: Moment,
    /// The processor time of the thread at the start of the window.
    cpu_at_start: Duration,
    /// The idle time of all cores at the start of the window, read only while the thread is overloaded.
    idle_at_start: Option<Duration>,
    quiet_windows: u32,
}

impl LoadMeter {
    /// `started_at` is the start of the server, the same for all threads.
    pub(crate) fn new(started_at: Moment, now: Moment) -> Self {
        LoadMeter {
            started_at,
            window_start: now,
            cpu_at_start: Duration::ZERO,
            idle_at_start: None,
            quiet_windows: 0,
        }
    }

    /// Milliseconds since the start of the server.
    pub(crate) fn ms(&self, now: Moment) -> u64 {
        now.ms_since(self.started_at)
    }

    /// Ends the window if it is long enough, publishes the load, and decides. `first` is the load of the first thread,
    /// `None` on that thread itself. `cpu_time` returns the processor time of the thread since its start; it is called at
    /// the end of a window. `idle_time` returns the idle time of all cores together since the start of the machine; it is
    /// called only after an overloaded window.
    pub(crate) fn end_window(
        &mut self,
        now: Moment,
        own: &PublishedLoad,
        first: Option<&PublishedLoad>,
        cpu_time: impl FnOnce() -> Duration,
        idle_time: impl FnOnce() -> Option<Duration>,
    ) -> Advice {
        if now < self.window_start + WINDOW {
            return Advice::Stay;
        }
        let length = now.since(self.window_start);
        let cpu = cpu_time();
        let busy = cpu.saturating_sub(self.cpu_at_start);
        let percent = (busy.as_nanos() * 100 / length.as_nanos()) as u64;
        let now_ms = self.ms(now);
        own.publish(now_ms, percent);
        self.window_start = now;
        self.cpu_at_start = cpu;
        if percent > OVERLOADED_PERCENT {
            self.quiet_windows = 0;
            let idle = idle_time();
            let before = std::mem::replace(&mut self.idle_at_start, idle);
            return match before.zip(idle) {
                Some((before, idle)) if idle.saturating_sub(before) * 100 >= length * IDLE_PERCENT => {
                    Advice::Share
                }
                _ => Advice::Stay,
            };
        }
        self.idle_at_start = None;
        let is_quiet = first.is_some_and(|first| first.percent(now_ms) + percent < JOINED_PERCENT);
        self.quiet_windows = if is_quiet { self.quiet_windows + 1 } else { 0 };
        if self.quiet_windows < QUIET_WINDOWS {
            return Advice::Stay;
        }
        self.quiet_windows = 0;
        Advice::Join
    }
}

/// Chooses the connections to move so that both threads have about the same work: `turns` are those of each connection in
/// the last window, `own` and `other` the loads of the two threads. Returns their positions in `turns`; none if the work
/// cannot be divided, because a single connection causes it.
pub(crate) fn choose(turns: &[u32], own: u64, other: u64) -> Vec<usize> {
    let total: u64 = turns.iter().map(|turns| u64::from(*turns)).sum();
    let active = turns.iter().filter(|turns| **turns > 0).count();
    if active < 2 || other >= own {
        return Vec::new();
    }
    // Half of the difference, as a share of the own work.
    let mut left = total * (own - other) / (2 * own);
    let mut chosen = Vec::new();
    for (position, turns) in turns.iter().enumerate() {
        if *turns > 0 && u64::from(*turns) <= left {
            left -= u64::from(*turns);
            chosen.push(position);
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// A meter, and the time at which it starts.
    fn meter() -> (Moment, LoadMeter) {
        let start = Moment::now();
        (start, LoadMeter::new(start, start))
    }

    #[test]
    fn overloaded_thread_shares_only_if_a_core_is_idle() {
        for (idle_ms, advice) in [(60, Advice::Share), (40, Advice::Stay)] {
            let ((start, mut meter), own) = (meter(), PublishedLoad::default());
            let mut end_window = |end, cpu, idle: u64| {
                let idle = || Some(ms(1_000 + idle));
                meter.end_window(start + ms(end), &own, None, || ms(cpu), idle)
            };
            assert_eq!(end_window(99, 95, 0), Advice::Stay);
            // The first overloaded window only starts the measurement of the idle time.
            assert_eq!(end_window(100, 95, 0), Advice::Stay);
            assert!(own.is_overloaded(100) && own.percent(100) == 95);
            assert_eq!(end_window(200, 190, idle_ms), advice);
        }
    }

    #[test]
    fn thread_at_ninety_percent_stays_and_reads_no_idle_time() {
        let ((start, mut meter), own) = (meter(), PublishedLoad::default());
        for window in 1..=5 {
            let (end, idle) = (start + ms(100 * window), || panic!("not overloaded"));
            assert_eq!(meter.end_window(end, &own, None, || ms(90 * window), idle), Advice::Stay);
        }
    }

    #[test]
    fn quiet_threads_are_joined_after_a_second() {
        let (own, first) = (PublishedLoad::default(), PublishedLoad::default());
        for (first_percent, advice) in [(20, Advice::Join), (40, Advice::Stay)] {
            let (start, mut meter) = meter();
            let mut last = Advice::Stay;
            for window in 1..=10 {
                assert_eq!(last, Advice::Stay, "window {window}");
                first.publish(100 * window, first_percent);
                let end = start + ms(100 * window);
                last = meter.end_window(end, &own, Some(&first), || ms(20 * window), || None);
            }
            assert_eq!(last, advice);
        }
    }

    #[test]
    fn load_of_a_sleeping_thread_is_zero() {
        let load = PublishedLoad::default();
        load.publish(1_000, 95);
        assert_eq!((load.percent(1_200), load.percent(1_201)), (95, 0));
    }

    /// It publishes nothing while it waits for the keys of a script.
    #[test]
    fn thread_whose_round_lasts_for_a_window_is_overloaded() {
        let load = PublishedLoad::default();
        assert!(!load.is_overloaded(1_000), "it has not begun");
        load.begin_round(0);
        assert_eq!([99, 100, 10_000].map(|now| load.is_overloaded(now)), [false, true, true]);
        load.end_round();
        assert!(!load.is_overloaded(10_000), "it waits");
        load.begin_round(10_000);
        assert_eq!((load.percent(10_099), load.percent(10_100)), (0, 100));
    }

    #[test]
    fn choose_moves_half_of_the_difference() {
        assert_eq!(choose(&[10, 10, 0, 10, 10], 100, 0), [0, 1]);
        assert_eq!(choose(&[10, 10, 10, 10], 100, 50), [0]);
        assert_eq!(choose(&[90, 10], 100, 0), [1], "one connection cannot be divided");
        assert!(choose(&[100, 0], 100, 0).is_empty() && choose(&[5, 5], 50, 50).is_empty());
    }
}
