//! The events of a cache, for its watchers.

use crate::tier::Requirement;
use crate::value::format::Unreadable;
use std::sync::OnceLock;
use tokio::sync::broadcast;

/// How many events a slow watcher can lag behind before it misses some.
const BUFFERED_EVENTS: usize = 1_024;

/// The Redis key of an entry, which prints as text.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct EventKey(Box<[u8]>);

impl EventKey {
    pub(crate) fn new(redis_key: &[u8]) -> Self {
        EventKey(redis_key.into())
    }

    /// The bytes of the key.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Bytes that are not UTF-8 print as `U+FFFD`.
impl std::fmt::Display for EventKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(&self.0))
    }
}

/// As [`Display`](std::fmt::Display), quoted, and with control characters escaped.
impl std::fmt::Debug for EventKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Debug::fmt(&*String::from_utf8_lossy(&self.0), f)
    }
}

/// An event in a cache. Memory hits are counted and send no event.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A load ended.
    Loaded {
        /// The Redis key.
        key: EventKey,
        /// Whether it returned a value.
        ok: bool,
    },
    /// A loaded value was stored in no tier, because its key was invalidated during the load.
    Refused {
        /// The Redis key.
        key: EventKey,
    },
    /// A stale value was served, because the load failed or was slow.
    ServedStale {
        /// The Redis key.
        key: EventKey,
    },
    /// Bytes in Redis are not a value of this view.
    Unreadable {
        /// The Redis key.
        key: EventKey,
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
    /// The server lacks what coherent nodes require: nothing is cached, or in memory alone if
    /// [`Builder::allow_uncoordinated`](crate::Builder::allow_uncoordinated) is on. [`Event::Connected`] ends it.
    Unsupported {
        /// What it lacks, or what this user may not use.
        lacks: Requirement,
    },
    /// Redis has a memory limit and evicts any key, so also the ledger of tags. Everything is loaded again then. Give it
    /// memory enough, or a policy that evicts only keys with a time to live, such as `volatile-lru`.
    LedgerEvictable,
    /// Redis has lost the ledger of tags, and the new one does not know all invalidations: everything is invalidated.
    LedgerLost,
    /// Redis did not confirm invalidations of this node. They are in effect here, and are replayed until it does.
    Queued {
        /// The number of keys, tags and patterns.
        invalidations: usize,
    },
    /// Redis confirmed queued invalidations.
    Replayed {
        /// The number of keys, tags and patterns.
        invalidations: usize,
    },
    /// This process inherited the cache through a fork: it answers with errors. Only watchers that were made in this process
    /// get it.
    Forked,
    /// A loaded value could not be encoded, so it was stored in no tier.
    EncodeFailed {
        /// The Redis key.
        key: EventKey,
    },
}

/// Sends events to all watchers.
#[derive(Debug)]
pub(crate) struct Events {
    channel: broadcast::Sender<Event>,
    /// Of a process that inherited the cache: a thread that does not exist there may have locked the other channel.
    after_fork: OnceLock<broadcast::Sender<Event>>,
}

impl Events {
    pub(crate) fn new() -> Self {
        Events { channel: broadcast::Sender::new(BUFFERED_EVENTS), after_fork: OnceLock::new() }
    }

    /// Makes and sends an event if there is a watcher.
    pub(crate) fn emit(&self, event: impl FnOnce() -> Event) {
        if self.channel.receiver_count() > 0 {
            // The last watcher may have been dropped since.
            _ = self.channel.send(event());
        }
    }

    pub(crate) fn watch(&self) -> broadcast::Receiver<Event> {
        self.channel.subscribe()
    }

    /// As [`Events::emit`] in a process that inherited the cache.
    pub(crate) fn emit_after_fork(&self, event: Event) {
        if let Some(channel) = self.after_fork.get() {
            _ = channel.send(event);
        }
    }

    /// As [`Events::watch`] in a process that inherited the cache.
    pub(crate) fn watch_after_fork(&self) -> broadcast::Receiver<Event> {
        self.after_fork.get_or_init(|| broadcast::Sender::new(BUFFERED_EVENTS)).subscribe()
    }
}
