//! The events of a cache, for its watchers.

use crate::envelope::Unreadable;
use tokio::sync::broadcast;

/// How many events a slow watcher can lag behind before it misses some.
const BUFFERED_EVENTS: usize = 1_024;

/// An event in a cache. Memory hits are counted and send no event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A load ended.
    Loaded {
        /// The Redis key.
        key: Vec<u8>,
        /// Whether it returned a value.
        ok: bool,
    },
    /// A loaded value was stored in no tier, because its key was invalidated during the load.
    Refused {
        /// The Redis key.
        key: Vec<u8>,
    },
    /// A stale value was served, because the load failed or was slow.
    ServedStale {
        /// The Redis key.
        key: Vec<u8>,
    },
    /// Bytes in Redis are no value of this view.
    Unreadable {
        /// The Redis key.
        key: Vec<u8>,
        /// Why.
        why: Unreadable,
    },
    /// Another node announced mutations of keys.
    Announced {
        /// Their number.
        keys: usize,
    },
    /// Another node announced an invalidation of tags.
    AnnouncedTags {
        /// Their number.
        tags: usize,
    },
    /// Announcements of other nodes are received from now on.
    Connected,
    /// Announcements of other nodes are no longer received.
    Disconnected,
    /// Redis is another server, or an older copy of itself.
    ServerChanged {
        /// How many invalidations of the last minute are replayed.
        replayed: usize,
    },
    /// The server lacks what coherent nodes need: the cache is coherent on one node only.
    OneNode,
    /// Redis has lost the ledger of tags, and the new one does not know all invalidations: everything is invalidated.
    LedgerLost,
    /// A loaded value could not be encoded, so it was stored in no tier.
    EncodeFailed {
        /// The Redis key.
        key: Vec<u8>,
    },
}

/// Sends events to all watchers.
#[derive(Debug)]
pub(crate) struct Events(broadcast::Sender<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Events(broadcast::Sender::new(BUFFERED_EVENTS))
    }

    /// Makes and sends an event if there is a watcher.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            // The last watcher may have been dropped since.
            _ = self.0.send(event());
        }
    }

    pub(crate) fn watch(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
