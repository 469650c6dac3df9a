//! Tells the observers of the keyspace what changes.
//!
//! They are told while the shard of the key is locked and before the change: whoever sees it finds what the observers
//! have done, for example a message in its mailbox.

use std::cell::Cell;

use larder_engine::Ttl;
use larder_engine::raw::{Key, UpdateOp};

use super::entry::EntryState;
use super::held::HeldLocks;
use super::object::Object;
use super::{Database, Expiry};
use crate::observers::{Deferred, Event, Notice};

impl Database<'_> {
    /// Reports what an update does with an entry.
    #[inline]
    pub(super) fn report(&self, key: Key<'_>, before: EntryState, operation: &UpdateOp<Object>) {
        if self.store.observers.is_active() {
            self.report_to_observers(key, before, operation);
        }
    }

    #[cold]
    fn report_to_observers(&self, key: Key<'_>, before: EntryState, operation: &UpdateOp<Object>) {
        if let Some(events) = self.field_events.map(Cell::get) {
            let (is_new, is_removed) = (before == EntryState::Missing, matches!(operation, UpdateOp::Remove));
            if !matches!(operation, UpdateOp::Keep) {
                self.report_event(key, Event::Fields { events, is_new, is_removed });
            }
            return;
        }
        let event = match (operation, before) {
            (UpdateOp::Put(_, ttl), _) => {
                Event::Stored { is_new: before == EntryState::Missing, is_timed: matches!(ttl, Ttl::At(_)) }
            }
            // A whole value was stored in place of another one.
            (UpdateOp::Edited(Ttl::At(_)), _) => Event::Stored { is_new: false, is_timed: true },
            (UpdateOp::Keep, _) | (_, EntryState::Missing) => return,
            (UpdateOp::Edited(_), _) => Event::Edited,
            (UpdateOp::SetTtl(Ttl::Never), EntryState::Timed) => Event::Persisted,
            (UpdateOp::SetTtl(Ttl::Never), _) => return,
            (UpdateOp::Remove, _) => Event::Removed,
            _ => Event::Timed,
        };
        self.report_event(key, event);
    }

    fn report_event(&self, key: Key<'_>, event: Event) {
        let (observers, origin) = (&self.store.observers, self.origin);
        match self.deferred() {
            None => observers.changed(key, event, origin),
            Some(deferred) => {
                let (space, name) = (key.space, key.name.into());
                deferred.push(Notice::Changed { space, name, event, origin });
            }
        }
    }

    /// Where to put what observers are told, if they are told later.
    fn deferred(&self) -> Option<&Deferred> {
        self.held.and_then(HeldLocks::deferred)
    }

    /// Reports that an entry is removed among many.
    pub(super) fn report_purge(&self, key: Key<'_>) {
        if !self.store.observers.is_active() {
            return;
        }
        let origin = self.origin;
        match self.deferred() {
            None => self.store.observers.purged(key, origin),
            Some(deferred) => {
                deferred.push(Notice::Purged { space: key.space, name: key.name.into(), origin })
            }
        }
    }

    /// Reports that an entry is removed, to the observers that there are.
    pub(super) fn report_removal(&self, key: Key<'_>, locks: &dyn HeldLocks) {
        let mut exists = false;
        locks.peek(key, &mut |_| exists = true);
        if exists {
            self.report_event(key, Event::Removed);
        }
    }

    /// Reports that a record is stored, to the observers that there are.
    pub(super) fn report_put(&self, key: Key<'_>, is_new: bool, expiry: Expiry) {
        self.report_event(key, Event::Stored { is_new, is_timed: matches!(expiry, Expiry::At(_)) });
    }
}
