//! Those who are told of changes in the keyspace: connections that watch or track keys, and subscribers of
//! notifications; and the channels through which connections send messages to each other.
//!
//! They belong to the keyspace and not to a server, because several servers may use one keyspace. A write asks only
//! whether there is an observer at all.

mod channels;
#[cfg_attr(not(feature = "scripts"), allow(dead_code))]
mod deferred;
mod notify;
mod tracking;
mod watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_engine::raw::Key;
use parking_lot::Mutex;

use crate::spec::CommandSpec;

pub(crate) use channels::{Channels, Kind, Subscriptions};
pub(crate) use deferred::{Deferred, Notice};
use notify::Notifications;
pub(crate) use notify::{Event, parse_classes};
use tracking::TrackingTable;
pub(crate) use tracking::{Tracker, TrackerOptions};
use watch::WatchTable;
pub(crate) use watch::Watches;

/// Who changes a key, and by which command.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Origin {
    /// The address of the state of the connection; 0 for the server itself.
    pub(crate) client: usize,
    pub(crate) command: Option<&'static CommandSpec>,
}

/// All observers of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    /// The number of watched keys, and one for each observer of other keys.
    ///
    /// An observer increments it before it acquires the lock of a key and reads the key. So a writer that changes the key
    /// later, under the same lock, sees the observer.
    observed: AtomicUsize,
    watches: WatchTable,
    pub(crate) tracking: TrackingTable,
    /// Whether the tracking of keys is counted in `observed`.
    is_tracking: Mutex<bool>,
    pub(crate) channels: Arc<Channels>,
    notifications: Notifications,
}

impl Observers {
    /// Whether anyone observes anything.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        self.observed.load(Ordering::Relaxed) != 0
    }

    /// A key changes. Its shard is locked.
    pub(crate) fn changed(&self, key: Key<'_>, event: Event, origin: Origin) {
        self.watches.mark(key);
        self.tracking.invalidate(key.name, origin.client);
        self.notifications.publish(&self.channels, key, event, origin.command);
    }

    /// An entry expires or is evicted. Its shard is locked.
    pub(crate) fn lost(&self, key: Key<'_>, event: Event) {
        self.tracking.invalidate(key.name, 0);
        self.notifications.publish(&self.channels, key, event, None);
    }

    /// The letters of `notify-keyspace-events`.
    pub(crate) fn notification_letters(&self) -> String {
        self.notifications.letters()
    }

    /// Sets which events of keys are published.
    pub(crate) fn set_notification_classes(&self, classes: u32) {
        match (self.notifications.set_classes(classes), classes) {
            (0, 1..) => self.add(1),
            (1.., 0) => self.remove(1),
            _ => {}
        }
    }

    /// An entry is removed among many. Its shard is locked.
    pub(crate) fn purged(&self, key: Key<'_>, origin: Origin) {
        self.watches.mark(key);
        self.tracking.invalidate_key(key.name, origin.client);
    }

    /// All entries are about to be removed, or all of one database. Those that are read until then are reported one by
    /// one.
    pub(crate) fn flush_begins(&self, origin: Origin) {
        if self.is_active() {
            self.tracking.invalidate_all_keys(origin.client);
        }
    }

    /// All entries are removed. Whoever tracks prefixes is not known to have read some of them meanwhile.
    pub(crate) fn flush_ends(&self, origin: Origin) {
        if self.is_active() {
            self.tracking.invalidate_all_prefixes(origin.client);
        }
    }

    /// Counts whether keys are tracked, after a connection has begun or ended to do so.
    pub(crate) fn update_tracking(&self) {
        let mut is_tracking = self.is_tracking.lock();
        match (*is_tracking, self.tracking.is_used()) {
            (false, true) => self.add(1),
            (true, false) => self.remove(1),
            _ => return,
        }
        *is_tracking = !*is_tracking;
    }

    fn add(&self, keys: usize) {
        self.observed.fetch_add(keys, Ordering::Relaxed);
    }

    fn remove(&self, keys: usize) {
        self.observed.fetch_sub(keys, Ordering::Relaxed);
    }
}
