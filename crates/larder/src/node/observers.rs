//! What an operator sees of a node: its events, its counters, and the errors that no caller sees.

use crate::report::error::CacheError;
use crate::report::events::{Event, EventKey, Events};
use crate::report::stats::Counts;
use crate::unwind::caught;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::broadcast;

pub(crate) type OnError = Box<dyn Fn(&CacheError) + Send + Sync>;

pub(crate) struct Observers {
    events: Events,
    pub(crate) counts: Counts,
    on_error: Option<OnError>,
    has_reported_fork: AtomicBool,
}

impl Observers {
    pub(crate) fn new(on_error: Option<OnError>) -> Self {
        let has_reported_fork = AtomicBool::new(false);
        Observers { events: Events::new(), counts: Counts::default(), on_error, has_reported_fork }
    }

    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        self.events.emit(event);
    }

    pub(crate) fn watch(&self) -> broadcast::Receiver<Event> {
        self.events.watch()
    }

    /// Reports an error that no caller sees.
    pub(crate) fn report(&self, error: &CacheError) {
        if let Some(on_error) = &self.on_error {
            caught("Builder::on_error", || on_error(error));
        }
    }

    /// The cache is used in a process that inherited it: reported once. Takes no lock that another thread may have had. So it
    /// writes no log: a subscriber has locks.
    #[cold]
    pub(crate) fn report_fork(&self) {
        if !self.has_reported_fork.swap(true, Ordering::AcqRel) {
            self.report(&CacheError::Forked);
            self.events.emit_after_fork(Event::Forked);
        }
    }

    pub(crate) fn watch_after_fork(&self) -> broadcast::Receiver<Event> {
        self.events.watch_after_fork()
    }

    /// A stale value was served.
    pub(crate) fn served_stale(&self, redis_key: &[u8]) {
        self.counts.stale.add(1);
        self.emit(|| Event::ServedStale { key: EventKey::new(redis_key) });
    }
}
