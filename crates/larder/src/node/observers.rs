//! What an operator sees of a node: its events, its counters, and the errors that no caller sees.

use crate::error::CacheError;
use crate::events::{Event, EventKey, Events};
use crate::stats::Counts;
use crate::unwind::caught;
use tokio::sync::broadcast;

pub(crate) type OnError = Box<dyn Fn(&CacheError) + Send + Sync>;

pub(crate) struct Observers {
    events: Events,
    pub(crate) counts: Counts,
    on_error: Option<OnError>,
}

impl Observers {
    pub(crate) fn new(on_error: Option<OnError>) -> Self {
        Observers { events: Events::new(), counts: Counts::default(), on_error }
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

    /// A stale value was served.
    pub(crate) fn served_stale(&self, redis_key: &[u8]) {
        self.counts.stale.add(1);
        self.emit(|| Event::ServedStale { key: EventKey::new(redis_key) });
    }
}
