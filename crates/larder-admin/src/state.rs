//! The shared state of the routes.

use std::sync::Arc;
use std::time::Instant;

use crate::registry::Registry;
use crate::token::Token;

#[derive(Clone)]
pub(crate) struct AppState(pub(crate) Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) registry: Registry,
    /// Allowed hosts in addition to loopback.
    pub(crate) hosts: Vec<String>,
    pub(crate) token: Option<Token>,
    pub(crate) started: Instant,
}

impl std::ops::Deref for AppState {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}
