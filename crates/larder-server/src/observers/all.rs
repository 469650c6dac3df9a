//! All observers of a keyspace, and whom a change concerns.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use larder_engine::raw::Key;
use parking_lot::Mutex;

use super::channels::Channels;
use super::deferred::{Deferred, Notice};
use super::notify::{Event, Notifications, Origin};
use super::tracking::TrackingTable;
use super::waiting_table::Waiting;
use super::watch_table::WatchTable;

/// All observers of a keyspace.
#[derive(Debug, Default)]
pub(crate) struct Observers {
    /// The number of watched keys, and one for each observer of other keys.
    ///
    /// An observer increments it before it acquires the lock of a key and reads the key. So a writer that changes the key
    /// later, under the same lock, sees the observer.
    observed: AtomicUsize,
    pub(super) watches: WatchTable,
    pub(crate) tracking: TrackingTable,
    /// Whether the tracking of keys is counted in `observed`.
    is_tracking: Mutex<bool>,
    pub(crate) channels: Arc<Channels>,
    notifications: Notifications,
    /// Connections that wait for members of keys.
    pub(crate) waiting: Waiting,
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
        self.waiting.note_change(key);
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

    pub(super) fn add(&self, keys: usize) {
        self.observed.fetch_add(keys, Ordering::Relaxed);
    }

    pub(super) fn remove(&self, keys: usize) {
        self.observed.fetch_sub(keys, Ordering::Relaxed);
    }

    /// Tells those whom a change or a message concerns.
    pub(crate) fn tell(&self, notice: Notice) {
        match notice {
            Notice::Changed { space, name, event, origin } => {
                self.changed(Key { space, name: &name }, event, origin);
            }
            Notice::Purged { space, name, origin } => self.purged(Key { space, name: &name }, origin),
            Notice::FlushBegins(origin) => self.flush_begins(origin),
            Notice::FlushEnds(origin) => self.flush_ends(origin),
            Notice::Published { kind, channel, message } => {
                self.channels.publish(kind, &channel, &message);
            }
        }
    }

    /// Tells what was deferred. The keys are locked.
    #[cfg_attr(not(feature = "scripts"), allow(dead_code))]
    pub(crate) fn tell_all(&self, deferred: &Deferred) {
        deferred.take().into_iter().for_each(|notice| self.tell(notice));
    }
}
