//! How long the values are fresh that a handler gets from caches of `larder`: a response is fresh no longer than they are.

use std::time::Duration;

use larder_engine::{Clock, freshness};

/// The values that a handler has got in the polls of its future.
#[derive(Debug)]
pub(crate) struct ValueFreshness {
    /// Without this there are none.
    observes: bool,
    /// When the first of them becomes stale, by the clock of the store. `None` without values.
    ends_at: Option<Duration>,
}

impl ValueFreshness {
    pub(crate) fn new(observes: bool) -> ValueFreshness {
        ValueFreshness { observes, ends_at: None }
    }

    /// Does one poll of the handler.
    pub(crate) fn poll<T>(&mut self, clock: &Clock, poll: impl FnOnce() -> T) -> T {
        if !self.observes {
            return poll();
        }
        // Before the values are looked up, whose times count from then.
        let now = clock.now();
        let (polled, fresh_for) = freshness::observe(poll);
        if let Some(ends_at) = fresh_for.map(|fresh_for| now.saturating_add(fresh_for)) {
            self.ends_at = Some(self.ends_at.map_or(ends_at, |earliest| earliest.min(ends_at)));
        }
        polled
    }

    /// How much longer all of them are fresh; zero if one is stale. `None` without values.
    pub(crate) fn remaining(&self, clock: &Clock) -> Option<Duration> {
        self.ends_at.map(|ends_at| ends_at.saturating_sub(clock.now()))
    }
}
