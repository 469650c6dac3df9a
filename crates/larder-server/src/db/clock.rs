//! The clocks of the server: the engine's clock, which starts at zero, is monotonic and is read from the system once
//! per wake-up; and Unix time, in which clients set and read deadlines.
//!
//! All threads share the engine's time, and each advances it. A thread that holds locks of keys stops it for itself, so
//! that no key expires between two commands of a transaction or a script. It stops it after the locks were acquired: what
//! others did to these keys before was not later than that, and what they do afterwards is not earlier.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use larder_engine::{Clock, Ttl};

use crate::system::Moment;

/// The engine's time. All commands of a wake-up use the time of its start, or of a later start on another thread: a
/// read of the system clock costs more than a lookup.
#[derive(Debug)]
pub(super) struct CachedTime {
    start: Moment,
    ms: AtomicU64,
}

impl CachedTime {
    pub(super) fn new() -> Self {
        CachedTime { start: Moment::now(), ms: AtomicU64::new(0) }
    }

    /// A clock of the engine that returns this time.
    pub(super) fn clock(time: &Arc<CachedTime>) -> Clock {
        let time = Arc::clone(time);
        Clock::custom(move || Duration::from_millis(time.ms()))
    }

    fn ms(&self) -> u64 {
        STOPPED_MS.get().unwrap_or_else(|| self.ms.load(Ordering::Relaxed))
    }

    /// Stops the time for this thread until the result is dropped. If it is stopped already, it keeps its value.
    pub(super) fn stop(&self) -> StoppedTime {
        StoppedTime { before: STOPPED_MS.replace(Some(self.ms())), thread: PhantomData }
    }

    /// The time now, which no clock of the engine has reached yet.
    pub(super) fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    /// Advances the time to `now`, unless it is later already.
    pub(super) fn advance_to(&self, now: Moment) {
        let ms = now.ms_since(self.start);
        // Many wake-ups start in the same millisecond; only one of them writes.
        if ms > self.ms.load(Ordering::Relaxed) {
            self.ms.fetch_max(ms, Ordering::Relaxed);
        }
    }
}

thread_local! {
    /// The time of the locks that this thread holds. A thread holds those of one store at a time.
    static STOPPED_MS: Cell<Option<u64>> = const { Cell::new(None) };
}

/// The engine's time does not advance for this thread while this exists.
pub(super) struct StoppedTime {
    before: Option<u64>,
    /// It belongs to its thread.
    thread: PhantomData<*const ()>,
}

impl Drop for StoppedTime {
    fn drop(&mut self) {
        STOPPED_MS.set(self.before);
    }
}

/// When an entry expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    /// At this time, in milliseconds of Unix time. A time in the past is allowed: the entry expires at once.
    At(i64),
    /// At the same time as before.
    Keep,
}

/// Converts between the two clocks. The offset is fixed, so that a deadline reads back unchanged even if the system
/// clock is adjusted.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    /// Unix time in milliseconds at the zero of the engine's clock.
    engine_zero_ms: i64,
}

impl ServerClock {
    /// A conversion by which the engine's time `engine_now_ms` is the current Unix time.
    pub(super) fn new(engine_now_ms: u64) -> Self {
        ServerClock { engine_zero_ms: unix_ms() - engine_now_ms as i64 }
    }

    pub(super) fn to_unix_ms(self, engine_ms: u64) -> i64 {
        self.engine_zero_ms.saturating_add_unsigned(engine_ms)
    }

    /// The Unix time at this time of the engine.
    pub(super) fn unix_time(self, engine: Duration) -> Duration {
        Duration::from_millis(self.engine_zero_ms.max(0) as u64) + engine
    }

    pub(super) fn ttl(self, expiry: Expiry) -> Ttl {
        match expiry {
            Expiry::Never => Ttl::Never,
            Expiry::Keep => Ttl::Keep,
            Expiry::At(unix_ms) => Ttl::At(unix_ms.saturating_sub(self.engine_zero_ms).max(0) as u64),
        }
    }
}

/// The Unix time of the system.
fn unix_ms() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadline_round_trips_unchanged() {
        let clock = ServerClock::new(1_234);
        let deadline = unix_ms() + 60_000;
        let Ttl::At(engine_ms) = clock.ttl(Expiry::At(deadline)) else { panic!("a deadline was given") };
        assert_eq!(clock.to_unix_ms(engine_ms), deadline);
    }

    #[test]
    fn cached_time_never_decreases() {
        let time = Arc::new(CachedTime::new());
        let clock = CachedTime::clock(&time);
        let (start, ms) = (time.start, Duration::from_millis);
        for (to, expected) in [(0, 0), (7, 7), (3, 7), (7, 7), (1_000, 1_000)] {
            time.advance_to(start + ms(to));
            assert_eq!(clock.now_ms(), expected);
        }
    }

    #[test]
    fn stopped_time_advances_for_other_threads_only() {
        let time = Arc::new(CachedTime::new());
        let clock = CachedTime::clock(&time);
        let advance = |seconds| time.advance_to(time.start + Duration::from_secs(seconds));
        advance(1);
        let stopped = time.stop();
        let seen_by_another = std::thread::scope(|scope| {
            let other = scope.spawn(|| {
                advance(2);
                clock.now_ms()
            });
            other.join().expect("no panic")
        });
        drop(time.stop());
        assert_eq!((clock.now_ms(), seen_by_another), (1_000, 2_000));
        drop(stopped);
        assert_eq!(clock.now_ms(), 2_000);
    }

    #[test]
    fn deadline_before_engine_start_is_zero() {
        assert_eq!(ServerClock::new(0).ttl(Expiry::At(i64::MIN)), Ttl::At(0));
    }
}
