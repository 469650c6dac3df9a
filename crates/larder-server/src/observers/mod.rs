//! Those who are told of changes in the keyspace: connections that watch keys; and the channels
//! through which connections send messages to each other.
//!
//! They belong to the keyspace and not to a server, because several servers may use one keyspace. A write asks only
//! whether there is an observer at all.

mod channels;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_engine::raw::Key;

pub(crate) use channels::{Channels, Kind, Subscriptions};
use watch::WatchTable;
pub(crate) use watch::Watches;

/// All observers of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    /// The number of observed keys.
    ///
    /// An observer increments it before it acquires the lock of a key and reads the key. So a writer that changes the key
    /// later, under the same lock, sees the observer.
    observed: AtomicUsize,
    watches: WatchTable,
    pub(crate) channels: Arc<Channels>,
}

impl Observers {
    /// Whether anyone observes anything.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.observed.load(Ordering::Relaxed) != 0
    }

    /// A key changes. Its shard is locked.
    pub(crate) fn changed(&self, key: Key<'_>) {
        self.watches.mark(key);
    }

    /// Two spaces are exchanged. All shards are locked.
    pub(crate) fn swapped(&self, spaces: [u8; 2]) {
        self.watches.mark_spaces(spaces);
    }

    fn add(&self, keys: usize) {
        self.observed.fetch_add(keys, Ordering::Relaxed);
    }

    fn remove(&self, keys: usize) {
        self.observed.fetch_sub(keys, Ordering::Relaxed);
    }
}
