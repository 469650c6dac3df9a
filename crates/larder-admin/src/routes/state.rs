//! The shared state of the routes.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::history::History;
use crate::parts::registry::Registry;
use crate::token::Token;

#[derive(Clone)]
pub(crate) struct AppState(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) registry: Registry,
    /// Allowed hosts in addition to loopback.
    pub(crate) hosts: Vec<String>,
    pub(crate) token: Option<Token>,
    pub(crate) history: History,
    pub(crate) started: Instant,
    /// The same in seconds since 1970.
    pub(crate) started_at: f64,
}

impl std::ops::Deref for AppState {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

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
