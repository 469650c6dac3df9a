//! The limits of a cache, and the counts that they bound.

use std::sync::atomic::AtomicUsize;
use std::time::Duration;

/// The limits of one cache.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Of a body that is stored.
    pub(crate) max_body_bytes: usize,
    pub(crate) max_waiters: usize,
    pub(crate) max_fills: usize,
    /// Of a request, for the fill of another one.
    pub(crate) wait_timeout: Duration,
    pub(crate) fill_timeout: Duration,
}

/// What runs in all views of a store.
#[derive(Debug, Default)]
pub(crate) struct Running {
    /// The requests that wait for the fill of another one.
    pub(crate) waiters: AtomicUsize,
    pub(crate) fills: AtomicUsize,
    /// The fills without a ticket.
    pub(crate) unticketed_fills: AtomicUsize,
}
