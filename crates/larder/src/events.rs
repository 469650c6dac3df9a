//! What happens in a cache, for whoever wants to watch.

use tokio::sync::broadcast;

/// How many events a slow watcher may be behind before it misses some.
const BEHIND: usize = 1_024;

/// Something that happened in a cache. Hits in memory are not among it, they are only counted.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A value was loaded, or a loader failed.
    Loaded {
        /// The Redis key.
        key: Vec<u8>,
        /// Whether there is a value.
        ok: bool,
    },
    /// A loaded value was stored nowhere, because its key was invalidated during the load.
    Refused {
        /// The Redis key.
        key: Vec<u8>,
    },
    /// An old value stood in for one that could not be loaded.
    Stale {
        /// The Redis key.
        key: Vec<u8>,
    },
    /// Redis had bytes that are no value of this view.
    Unreadable {
        /// The Redis key.
        key: Vec<u8>,
        /// Why.
        why: crate::Unreadable,
    },
    /// Another node changed keys.
    Announced {
        /// How many.
        keys: usize,
    },
    /// Another node invalidated tags.
    AnnouncedTags {
        /// How many.
        tags: usize,
    },
    /// The announcements of other nodes are heard from now on.
    Connected,
    /// They are not any more.
    Disconnected,
    /// Redis is another server, or an older copy of itself.
    ServerChanged {
        /// How many invalidations of the last minute are repeated.
        replayed: usize,
    },
    /// A value could not be encoded, so it is kept nowhere.
    NotEncoded {
        /// The Redis key.
        key: Vec<u8>,
    },
}

/// Where events go.
#[derive(Debug)]
pub(crate) struct Events(broadcast::Sender<Event>);

impl Events {
    pub(crate) fn new() -> Self {
        Events(broadcast::Sender::new(BEHIND))
    }

    /// Makes and sends an event if anybody watches.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if self.0.receiver_count() > 0 {
            // The last watcher may have just left.
            _ = self.0.send(event());
        }
    }

    pub(crate) fn watch(&self) -> broadcast::Receiver<Event> {
        self.0.subscribe()
    }
}
