//! Points of time in one word. A turn compares its time with many others, and the type of the standard library takes two
//! words, with a division for each difference in milliseconds.

use std::ops::Add;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// A point of time: nanoseconds of the system's monotonic clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(u64);

impl Moment {
    /// Later than every other one.
    pub(crate) const NEVER: Moment = Moment(u64::MAX);

    /// Reads the clock.
    pub(crate) fn now() -> Self {
        let time = clock_gettime(ClockId::Monotonic);
        Moment(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
    }

    /// The time since an earlier moment; zero if that is later.
    #[inline]
    pub(crate) fn since(self, earlier: Moment) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }

    /// Milliseconds since an earlier moment, rounded down; zero if that is later.
    #[inline]
    pub(crate) fn ms_since(self, earlier: Moment) -> u64 {
        self.0.saturating_sub(earlier.0) / 1_000_000
    }

    /// The time since then.
    pub(crate) fn elapsed(self) -> Duration {
        Moment::now().since(self)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    #[inline]
    fn add(self, time: Duration) -> Moment {
        let nanos = time.as_secs().saturating_mul(1_000_000_000).saturating_add(time.subsec_nanos().into());
        Moment(self.0.saturating_add(nanos))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;

    #[test]
    fn moments_have_the_distances_of_the_clock() {
        let (before, first) = (Instant::now(), Moment::now());
        let inner = Instant::now();
        std::thread::sleep(Duration::from_millis(2));
        let inner = inner.elapsed();
        let (second, outer) = (Moment::now(), before.elapsed());
        assert!(inner <= second.since(first) && second.since(first) <= outer);
        assert_eq!(
            (second.ms_since(second + Duration::from_secs(1)), first.since(second)),
            (0, Duration::ZERO)
        );
        assert_eq!((first + Duration::from_micros(2_999)).ms_since(first), 2);
        assert_eq!(first + Duration::MAX, Moment::NEVER);
    }
}
