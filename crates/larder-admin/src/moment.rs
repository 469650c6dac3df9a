//! The time on both clocks.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// One moment on both clocks. What happens how long after what is computed from the first, because somebody may set the
/// second.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Moment {
    pub(crate) instant: Instant,
    /// In seconds since 1970.
    pub(crate) wall: f64,
}

impl Moment {
    pub(crate) fn now() -> Moment {
        Moment { instant: Instant::now(), wall: since_1970() }
    }

    /// The moment this long before. That of a monotonic clock ends where the clock began.
    pub(crate) fn before(self, time: Duration) -> Moment {
        Moment {
            instant: self.instant.checked_sub(time).unwrap_or(self.instant),
            wall: self.wall - time.as_secs_f64(),
        }
    }
}

/// The current time in seconds since 1970.
pub(crate) fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
