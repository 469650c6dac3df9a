//! Hashes as values: they are changed in place, exist while they have fields, and are weighed after each change. Fields
//! that have expired are removed before a change, or when the alarm of their hash is due.

use std::cell::Cell;

use larder_engine::raw::{self, Value};

use super::entry::{Entry, EntryOp, UpdateError};
use super::object::Object;
use super::{Database, Expiry, Key, Record, Store, WrongType};
use crate::observers::FieldEvents;
use crate::values::hash::{Alarms, Hash};

/// The most expired fields that are removed under one lock: a fraction of a millisecond.
const CLEARED_PER_EDIT: usize = 128;

fn record(key: Key<'_>, hash: Hash) -> Record {
    Record::with_object(key, Box::new(Object::Hash(hash)))
}

impl Store {
    /// Sets the alarm of a hash whose key is new to it. To be called before it is stored, because it changes the weight.
    pub(super) fn set_alarm(&self, record: &mut Record) {
        let (space, now) = (record.key().space, self.now_ms());
        if !matches!(record.value(), Value::Object(Object::Hash(hash)) if hash.first_deadline().is_some()) {
            return;
        }
        let name: Box<[u8]> = record.key().name.into();
        if let Some(Object::Hash(hash)) = record.object_mut() {
            hash.cancel_alarm();
            hash.set_alarm(&self.alarms, now, space, &name);
        }
    }

    /// Removes up to about `budget` expired fields; returns how many, and how many hashes had none.
    pub(super) fn reclaim_fields(&self, budget: usize) -> usize {
        let (now, mut done) = (self.now_ms(), 0);
        while done < budget
            && let Some((space, name)) = self.alarms.take_due(now)
        {
            let db = self.database(space);
            let expired = db.peek(&name, |record| read(record, |hash| hash.expired(now)).unwrap_or(0));
            done += expired.unwrap_or(0).clamp(1, CLEARED_PER_EDIT);
            // It clears, and sets the next alarm. Nothing is stored, so it does not fail.
            _ = db.edit_hash(&name, false, |_| (FieldEvents::NONE, ()));
        }
        done
    }
}

impl Database<'_> {
    /// The time by which fields expire, in milliseconds of Unix time.
    pub(crate) fn now_ms(&self) -> i64 {
        self.store.now_ms()
    }

    /// A record of `name` whose value is this hash.
    pub(crate) fn hash_record(&self, name: &[u8], mut hash: Hash) -> Record {
        let key = self.key(name);
        hash.set_alarm(&self.store.alarms, self.now_ms(), key.space, name);
        record(key, hash)
    }

    /// Calls `f` with the hash of `name`. This counts as a use of the entry.
    pub(crate) fn hash<R>(&self, name: &[u8], f: impl FnOnce(&Hash) -> R) -> Result<Option<R>, WrongType> {
        self.read(name, |record| read(record, f)).transpose()
    }

    /// Changes the hash of `name` by `f`, which returns what it has done. If there is none, it is created or, unless
    /// `creates`, `f` is not called. Without fields it is removed.
    pub(crate) fn edit_hash<R>(
        &self,
        name: &[u8],
        creates: bool,
        f: impl FnOnce(&mut Hash) -> (FieldEvents, R),
    ) -> Result<Option<R>, UpdateError> {
        let (key, told) = (self.key(name), Cell::default());
        let edit = HashEdit { key, alarms: &self.store.alarms, now: self.now_ms(), told: &told };
        let edited = self.with_field_events(&told).update(name, |entry| edit.run(entry, creates, f))?;
        Ok(edited?)
    }
}

fn read<R>(record: &raw::Record<Object>, f: impl FnOnce(&Hash) -> R) -> Result<R, WrongType> {
    match record.value() {
        Value::Object(Object::Hash(hash)) => Ok(f(hash)),
        _ => Err(WrongType),
    }
}

/// A change of a hash.
struct HashEdit<'a> {
    key: Key<'a>,
    alarms: &'a Alarms,
    now: i64,
    /// Where to tell what was done.
    told: &'a Cell<FieldEvents>,
}

impl HashEdit<'_> {
    fn run<R>(
        self,
        entry: Option<Entry<'_>>,
        creates: bool,
        f: impl FnOnce(&mut Hash) -> (FieldEvents, R),
    ) -> (EntryOp, Result<Option<R>, WrongType>) {
        match entry.map(Entry::into_hash) {
            Some(Ok(hash)) => {
                let cleared = hash.remove_expired(self.now, CLEARED_PER_EDIT) > 0;
                let (events, result) = f(hash);
                let events = FieldEvents::CLEARED.when(cleared).and(events);
                self.told.set(events);
                self.set_alarm(hash);
                let operation = match events == FieldEvents::NONE {
                    true => EntryOp::Keep,
                    false if hash.is_empty() => EntryOp::Remove,
                    false => EntryOp::Edited,
                };
                (operation, Ok(Some(result)))
            }
            Some(Err(WrongType)) => (EntryOp::Keep, Err(WrongType)),
            None if creates => {
                let mut hash = Hash::new();
                let (events, result) = f(&mut hash);
                self.told.set(events);
                self.set_alarm(&mut hash);
                let operation = if hash.is_empty() {
                    EntryOp::Keep
                } else {
                    EntryOp::Put(record(self.key, hash), Expiry::Never)
                };
                (operation, Ok(Some(result)))
            }
            None => (EntryOp::Keep, Ok(None)),
        }
    }

    fn set_alarm(&self, hash: &mut Hash) {
        hash.set_alarm(self.alarms, self.now, self.key.space, self.key.name);
    }
}
