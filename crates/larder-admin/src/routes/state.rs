//! The shared state of the routes, and the thread that takes samples of the parts for their history.

use std::sync::{Arc, Weak};
use std::thread;
use std::time::Instant;

use crate::history::{History, SAMPLED_EVERY};
use crate::moment::Moment;
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

/// Samples the parts until the pages are dropped, in a thread of its own: it must go on when a runtime is blocked, which is
/// when its samples are needed. Without a thread there is no history.
pub(crate) fn start_sampling(state: Weak<Inner>) {
    let sample = move || {
        while let Some(state) = state.upgrade() {
            state.history.record(&state.registry.sample(), Moment::now());
            drop(state);
            thread::sleep(SAMPLED_EVERY);
        }
    };
    _ = thread::Builder::new().name("larder-history".to_owned()).spawn(sample);
}
