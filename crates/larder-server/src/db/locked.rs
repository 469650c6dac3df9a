//! Several keys at once: their shards are locked together, so that no other command sees a part of a change.

use larder_engine::Ttl;
use larder_engine::raw::{Key, UpdateOp};

use super::entry::{Entry, EntryOp, EntryState};
use super::held::{self, HeldLocks, KeyLocks};
use super::record::charge;
use super::{Database, Expiry, OutOfMemory, Record, Store, WrongType};
use crate::observers::Origin;

/// Some keys, which nobody else can read or change until this is dropped. Removed entries are freed after that.
pub(crate) struct LockedKeys<'a> {
    database: Database<'a>,
    locks: Locks<'a>,
}

enum Locks<'a> {
    Own(KeyLocks<'a>),
    /// Those that are held longer, as by a transaction.
    Held(&'a dyn HeldLocks),
}

impl Store {
    /// Locks these keys, in the order of their shards. No other operation on the store may run on this thread meanwhile,
    /// except through these locks.
    pub(crate) fn lock<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> KeyLocks<'_> {
        if self.is_loading() {
            let keys: Vec<Key<'_>> = keys.into_iter().collect();
            self.load_keys(&keys);
            return KeyLocks::new(self.cache.lock_all(keys), self.time.stop());
        }
        KeyLocks::new(self.cache.lock_all(keys), self.time.stop())
    }

    /// Locks all keys, in the same way. Not while a snapshot is being loaded: those that are not in memory are missing.
    pub(crate) fn lock_everything(&self) -> KeyLocks<'_> {
        let locks = self.cache.lock_everything();
        KeyLocks::new(locks, self.time.stop())
    }

    /// Whether all these records can be in the store at the same time.
    pub(crate) fn can_hold(&self, records: &[Record]) -> bool {
        records.iter().map(charge).sum::<u64>() <= self.cache.capacity()
            && records.iter().all(|record| self.cache.can_hold(record))
    }
}

impl<'a> Database<'a> {
    /// Locks these keys of the database.
    pub(crate) fn lock<'k>(&self, names: impl IntoIterator<Item = &'k [u8]>) -> LockedKeys<'a> {
        self.lock_keys(names.into_iter().map(|name| self.key(name)))
    }

    /// Locks these keys, of any database. In a transaction they are locked already.
    pub(crate) fn lock_keys<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> LockedKeys<'a> {
        let locks = match self.held {
            Some(held) => Locks::Held(held),
            None => Locks::Own(self.store.lock(keys)),
        };
        LockedKeys { database: *self, locks }
    }
}

impl LockedKeys<'_> {
    /// Tells observers of further changes as those of this origin.
    pub(crate) fn tell_as(&mut self, origin: Origin) {
        self.database = self.database.used_by(origin);
    }

    fn held(&self) -> &dyn HeldLocks {
        match &self.locks {
            Locks::Own(locks) => locks,
            Locks::Held(locks) => *locks,
        }
    }

    /// Calls `f` with the record of a key. This counts as a use of the entry.
    pub(crate) fn read<R>(&mut self, key: Key<'_>, f: impl FnOnce(&Record) -> R) -> Option<R> {
        held::read(self.held(), key, f)
    }

    /// Calls `f` with the string of a key. This counts as a use of the entry.
    pub(crate) fn get<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(key, |record| record.bytes().map(f).ok_or(WrongType)).transpose()
    }

    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        held::peek(self.held(), key, |_| ()).is_some()
    }

    /// When an entry expires.
    pub(crate) fn expiry(&self, key: Key<'_>) -> Option<Expiry> {
        let clock = self.database.store.clock;
        let deadline = held::peek(self.held(), key, |entry| entry.deadline_ms())?;
        Some(deadline.map_or(Expiry::Never, |ms| Expiry::At(clock.to_unix_ms(ms))))
    }

    /// Reads and changes an entry.
    pub(crate) fn update<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(Option<Entry<'_>>) -> (EntryOp, R),
    ) -> Result<R, OutOfMemory> {
        let (database, clock) = (self.database, self.database.store.clock);
        let updated = held::update(self.held(), key, |entry| {
            let before = EntryState::of(entry.as_ref());
            let (operation, result) = f(entry.map(|entry| Entry::new(entry, clock)));
            let operation = operation.into_raw(clock);
            database.report(key, before, &operation);
            (operation, result)
        });
        updated.map_err(|_| OutOfMemory)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, key: Key<'_>) -> bool {
        let database = self.database;
        let removed = held::update(self.held(), key, |entry| {
            database.report(key, EntryState::of(entry.as_ref()), &UpdateOp::Remove);
            (UpdateOp::Remove, entry.is_some())
        });
        // Without a record to store, an update cannot fail.
        removed.unwrap_or(false)
    }

    /// Takes the record of an entry out.
    pub(crate) fn take(&mut self, key: Key<'_>) -> Option<Record> {
        if self.database.store.observers.is_active() {
            self.database.report_removal(key, self.held());
        }
        self.held().take(key)
    }

    /// Stores a record.
    pub(crate) fn put(&mut self, mut record: Record, expiry: Expiry) -> Result<(), OutOfMemory> {
        self.database.store.set_alarm(&mut record);
        self.require_room(std::slice::from_ref(&record))?;
        self.report_put(&record, expiry);
        let ttl = self.database.store.clock.ttl(expiry);
        self.held().insert(record, ttl).map(drop).map_err(|_| OutOfMemory)
    }

    /// Stores several records, without deadlines. If there is no room for all of them, nothing is changed.
    pub(crate) fn put_all(&mut self, records: Vec<Record>) -> Result<(), OutOfMemory> {
        self.require_room(&records)?;
        for record in records {
            self.report_put(&record, Expiry::Never);
            self.held().insert(record, Ttl::Never).map_err(|_| OutOfMemory)?;
        }
        Ok(())
    }

    /// Stores a record that was taken out, with this key or another one. If not every key may be evicted, this does not fail.
    pub(crate) fn restore(&mut self, mut record: Record, expiry: Expiry) -> Result<(), OutOfMemory> {
        self.database.store.set_alarm(&mut record);
        self.report_put(&record, expiry);
        let ttl = self.database.store.clock.ttl(expiry);
        self.held().restore(record, ttl).map(drop).map_err(|_| OutOfMemory)
    }

    /// Refuses records for which no room can be made, if not every key may be evicted.
    fn require_room(&self, records: &[Record]) -> Result<(), OutOfMemory> {
        let store = self.database.store;
        match store.evicts_all() {
            true => Ok(()),
            false => store.make_room(self.held(), records),
        }
    }

    fn report_put(&self, record: &Record, expiry: Expiry) {
        if self.database.store.observers.is_active() {
            // It is reported before the new one.
            self.held().discard_expired(record.key());
            self.database.report_put(record.key(), !self.contains(record.key()), expiry);
        }
    }
}
