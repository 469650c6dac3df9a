//! Tells the observers of the keyspace what changes.
//!
//! They are told while the shard of the key is locked and before the change: whoever sees it finds what the observers
//! have done, for example a message in its mailbox.

use larder_engine::Ttl;
use larder_engine::raw::{Entry, Key, UpdateOp};

use super::{Database, Expiry};

/// An entry before an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryState {
    Missing,
    /// Without a deadline.
    Timeless,
    Timed,
}

impl EntryState {
    #[inline]
    pub(super) fn of(entry: Option<&Entry<'_>>) -> Self {
        match entry.map(Entry::deadline_ms) {
            None => EntryState::Missing,
            Some(None) => EntryState::Timeless,
            Some(Some(_)) => EntryState::Timed,
        }
    }
}

impl Database<'_> {
    /// Reports what an update does with an entry.
    #[inline]
    pub(super) fn report(&self, key: Key<'_>, before: EntryState, operation: &UpdateOp) {
        if self.store.observers.is_active() {
            self.report_to_observers(key, before, operation);
        }
    }

    #[cold]
    fn report_to_observers(&self, key: Key<'_>, before: EntryState, operation: &UpdateOp) {
        let is_change = match operation {
            UpdateOp::Keep => false,
            UpdateOp::Put(..) => true,
            UpdateOp::SetTtl(Ttl::Never) => before == EntryState::Timed,
            _ => before != EntryState::Missing,
        };
        if is_change {
            self.store.observers.changed(key, self.origin);
        }
    }

    /// Reports that an entry is removed among many.
    pub(super) fn report_purge(&self, key: Key<'_>) {
        if self.store.observers.is_active() {
            self.store.observers.purged(key, self.origin);
        }
    }

    /// Reports that a record is stored.
    pub(super) fn report_put(&self, key: Key<'_>, _: Expiry) {
        if self.store.observers.is_active() {
            self.store.observers.changed(key, self.origin);
        }
    }
}
