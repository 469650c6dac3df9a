//! The time source of the engine: a monotonic clock, or one that a test advances by hand.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use system::SystemClock;

/// A source of monotonic time, counted from the clock's creation. Cheap to clone; clones agree.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System(SystemClock),
    Manual(Arc<AtomicU64>),
    Custom(Custom),
}

#[derive(Clone)]
struct Custom(Arc<dyn Fn() -> Duration + Send + Sync>);

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Custom")
    }
}

impl Clock {
    /// The machine's monotonic clock, starting at zero now.
    pub fn monotonic() -> Self {
        Clock(Source::System(SystemClock::exact()))
    }

    /// The machine's monotonic clock as of the last tick of the kernel, starting at zero now. A reading takes a few
    /// nanoseconds, and is late by 1 to 10 ms, or longer while a virtual machine does not get the processor. On systems
    /// without such a clock this is [`Clock::monotonic`].
    pub fn coarse() -> Self {
        Clock(Source::System(SystemClock::coarse()))
    }

    /// A clock that stays at zero until its [`ManualClock`] advances it.
    pub fn manual() -> (Self, ManualClock) {
        let nanos = Arc::new(AtomicU64::new(0));
        (Clock(Source::Manual(nanos.clone())), ManualClock(nanos))
    }

    /// A clock that calls `now`, which must never go back: for an external time source such as a test runtime. It may run
    /// under the locks of a cache: it must be short, and must not call the cache.
    pub fn custom(now: impl Fn() -> Duration + Send + Sync + 'static) -> Self {
        Clock(Source::Custom(Custom(Arc::new(now))))
    }

    /// Time since the clock was created. Cost: one clock read, 20 ns or more; a few nanoseconds for a coarse clock.
    #[inline]
    pub fn now(&self) -> Duration {
        match &self.0 {
            Source::System(system) => system.now(),
            Source::Manual(nanos) => Duration::from_nanos(nanos.load(Ordering::Acquire)),
            Source::Custom(custom) => custom.0(),
        }
    }

    /// [`Clock::now`] in whole milliseconds.
    pub fn now_ms(&self) -> u64 {
        self.now().as_millis() as u64
    }
}

#[cfg(target_os = "linux")]
mod system {
    //! The clocks of Linux, as nanoseconds in one word. Every hit reads one, and to subtract two words takes a fraction of the
    //! instructions that two of [`std::time::Instant`] take.

    use rustix::time::{ClockId, clock_gettime};
    use std::time::Duration;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct SystemClock {
        id: ClockId,
        /// The reading that counts as zero.
        start: u64,
    }

    impl SystemClock {
        pub(super) fn exact() -> Self {
            Self::starting(ClockId::Monotonic)
        }

        pub(super) fn coarse() -> Self {
            Self::starting(ClockId::MonotonicCoarse)
        }

        fn starting(id: ClockId) -> Self {
            SystemClock { id, start: read(id) }
        }

        #[inline]
        pub(super) fn now(self) -> Duration {
            Duration::from_nanos(read(self.id).saturating_sub(self.start))
        }
    }

    /// Nanoseconds since the machine was started, which fit into 64 bits for centuries.
    #[inline]
    fn read(id: ClockId) -> u64 {
        let now = clock_gettime(id);
        now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
    }
}

#[cfg(not(target_os = "linux"))]
mod system {
    //! The clock of the standard library, which stands for the coarse one, too.

    use std::time::{Duration, Instant};

    #[derive(Clone, Copy, Debug)]
    pub(super) struct SystemClock(Instant);

    impl SystemClock {
        pub(super) fn exact() -> Self {
            SystemClock(Instant::now())
        }

        pub(super) fn coarse() -> Self {
            Self::exact()
        }

        pub(super) fn now(self) -> Duration {
            self.0.elapsed()
        }
    }
}

/// A duration in milliseconds, rounded up so that no time to live becomes zero; `u64::MAX` if it has more.
pub(crate) fn whole_ms(duration: Duration) -> u64 {
    let rest = u64::from(duration.subsec_nanos().div_ceil(1_000_000));
    duration.as_secs().saturating_mul(1_000).saturating_add(rest)
}

impl Default for Clock {
    fn default() -> Self {
        Clock::monotonic()
    }
}

/// Advances the clock of [`Clock::manual`].
#[derive(Clone, Debug)]
pub struct ManualClock(Arc<AtomicU64>);

impl ManualClock {
    /// Advances the clock, at most to 2^64 − 1 nanoseconds, some 584 years.
    pub fn advance(&self, by: Duration) {
        let by = by.as_nanos().try_into().unwrap_or(u64::MAX);
        let later = |now: u64| Some(now.saturating_add(by));
        _ = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, later);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn manual_clock_stops_at_its_end() {
        let (clock, hand) = Clock::manual();
        hand.advance(Duration::from_millis(1));
        assert_eq!(clock.now(), Duration::from_millis(1));
        for by in [Duration::MAX, Duration::from_millis(1)] {
            hand.advance(by);
            assert_eq!(clock.now(), Duration::from_nanos(u64::MAX));
        }
    }

    #[test]
    fn coarse_clock_follows_the_exact_one() {
        let (exact, coarse) = (Clock::monotonic(), Clock::coarse());
        for _ in 0..20 {
            std::thread::sleep(Duration::from_millis(1));
            let (before, now, after) = (exact.now(), coarse.now(), exact.now());
            // Far more than a tick: the machine may be busy.
            let late = Duration::from_secs(1);
            assert!(now + late >= before && now <= after + late, "{now:?} between {before:?} and {after:?}");
        }
    }
}
