//! Time as the server keeps it: the engine's, which starts at zero, never jumps and is read from the system once for each
//! wake-up; and Unix time, in which clients give and ask for deadlines.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use larder_engine::{Clock, Ttl};

use super::Expiry;

/// The engine's time. All commands of a wake-up happen at the moment of its begin, or at that of another thread's which
/// began later: reading the system's clock for each of them would cost more than finding a key.
#[derive(Debug)]
pub(super) struct CachedTime {
    start: Instant,
    ms: AtomicU64,
}

impl CachedTime {
    pub(super) fn new() -> Self {
        CachedTime { start: Instant::now(), ms: AtomicU64::new(0) }
    }

    /// A clock for the engine that shows this time.
    pub(super) fn clock(time: &Arc<CachedTime>) -> Clock {
        let time = Arc::clone(time);
        Clock::custom(move || Duration::from_millis(time.ms.load(Ordering::Relaxed)))
    }

    /// Lets it go on to `now`, if it is not beyond that already.
    pub(super) fn advance_to(&self, now: Instant) {
        let ms = now.saturating_duration_since(self.start).as_millis() as u64;
        // A millisecond has many wake-ups: one of them writes.
        if ms > self.ms.load(Ordering::Relaxed) {
            self.ms.fetch_max(ms, Ordering::Relaxed);
        }
    }
}

/// Maps between the two; fixed once, so that a deadline reads back as it was given even when the system clock is set.
#[derive(Debug, Clone, Copy)]
pub(super) struct ServerClock {
    /// Unix time in milliseconds when the engine's clock was at zero.
    engine_zero_ms: i64,
}

impl ServerClock {
    /// A mapping as of now, when the engine's clock shows `engine_now_ms`.
    pub(super) fn new(engine_now_ms: u64) -> Self {
        ServerClock { engine_zero_ms: unix_ms() - engine_now_ms as i64 }
    }

    pub(super) fn to_unix_ms(self, engine_ms: u64) -> i64 {
        self.engine_zero_ms.saturating_add_unsigned(engine_ms)
    }

    pub(super) fn ttl(self, expiry: Expiry) -> Ttl {
        match expiry {
            Expiry::Never => Ttl::Never,
            Expiry::Keep => Ttl::Keep,
            Expiry::At(unix_ms) => Ttl::At(unix_ms.saturating_sub(self.engine_zero_ms).max(0) as u64),
        }
    }
}

/// Unix time now.
pub(crate) fn unix_time() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn unix_ms() -> i64 {
    unix_time().as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deadline_reads_back_as_given() {
        let clock = ServerClock::new(1_234);
        let deadline = unix_ms() + 60_000;
        let Ttl::At(engine_ms) = clock.ttl(Expiry::At(deadline)) else { panic!("a deadline was given") };
        assert_eq!(clock.to_unix_ms(engine_ms), deadline);
    }

    #[test]
    fn time_goes_on_and_never_back() {
        let time = Arc::new(CachedTime::new());
        let clock = CachedTime::clock(&time);
        let (start, ms) = (time.start, Duration::from_millis);
        for (to, shows) in [(0, 0), (7, 7), (3, 7), (7, 7), (1_000, 1_000)] {
            time.advance_to(start + ms(to));
            assert_eq!(clock.now_ms(), shows);
        }
    }

    #[test]
    fn deadlines_before_the_engine_began_are_past() {
        assert_eq!(ServerClock::new(0).ttl(Expiry::At(i64::MIN)), Ttl::At(0));
    }
}
