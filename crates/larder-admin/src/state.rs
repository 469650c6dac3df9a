//! The shared state of the routes.

use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use crate::history::History;
use crate::registry::Registry;
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

/// The current time in seconds since 1970.
pub(crate) fn since_1970() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64()
}
