//! Events for pages that are open: visits when they are written, and changes of links.
//!
//! ```text
//! visits written, link changed ──► broadcast, at most 256 events behind ──► one stream for each page
//!                                     └── a slower page gets `lagged` and loads its list again
//! ```
//!
//! An instance tells of what it did itself. What other instances do, a page sees when it loads its list.

use parking_lot::Mutex;
use serde::Serialize;
use tokio::sync::broadcast;

/// Events that a stream may be behind.
const CAPACITY: usize = 256;

/// What happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// Visits were written; the totals of their links.
    Visits(Vec<LinkVisits>),
    /// A link was created, changed, deleted or restored.
    Changed,
}

/// The visits of a link in the database.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct LinkVisits {
    pub(crate) slug: String,
    pub(crate) visits: u64,
}

/// The streams of all pages.
pub(crate) struct Events {
    /// `None` after `close`, which ends all streams.
    sender: Mutex<Option<broadcast::Sender<Event>>>,
}

impl Events {
    pub(crate) fn new() -> Events {
        Events { sender: Mutex::new(Some(broadcast::Sender::new(CAPACITY))) }
    }

    /// Whether a page would see an event.
    pub(crate) fn has_listeners(&self) -> bool {
        self.sender.lock().as_ref().is_some_and(|sender| sender.receiver_count() > 0)
    }

    pub(crate) fn send(&self, event: Event) {
        if let Some(sender) = &*self.sender.lock() {
            // Without a receiver nobody needs the event.
            let _ = sender.send(event);
        }
    }

    /// The events from now on; `None` after `close`.
    pub(crate) fn subscribe(&self) -> Option<broadcast::Receiver<Event>> {
        self.sender.lock().as_ref().map(broadcast::Sender::subscribe)
    }

    /// Ends all streams, which would otherwise last as long as their pages.
    pub(crate) fn close(&self) {
        self.sender.lock().take();
    }
}
