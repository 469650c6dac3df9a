//! Several keys at once: their shards are locked together, so that no other command sees a part of a change.

use larder_engine::raw::{Key, Locked};

use super::entry::{Entry, EntryOp};
use super::{Database, Expiry, Object, OutOfMemory, Record, Store, WrongType, charge};

/// Some keys, which nobody else can read or change until this is dropped. Removed entries are freed after that.
pub(crate) struct LockedKeys<'a> {
    store: &'a Store,
    locked: Locked<'a, Object>,
}

impl Store {
    /// Locks these keys, in the order of their shards. No other operation on the store may run on this thread meanwhile.
    pub(crate) fn lock<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> LockedKeys<'_> {
        LockedKeys { store: self, locked: self.cache.lock_all(keys) }
    }

    /// Whether all these records can be in the store at the same time.
    pub(crate) fn can_hold(&self, records: &[Record]) -> bool {
        records.iter().map(charge).sum::<u64>() <= self.max_memory()
            && records.iter().all(|record| self.cache.can_hold(record))
    }
}

impl<'a> Database<'a> {
    /// Locks these keys of the database: see [`Store::lock`].
    pub(crate) fn lock<'k>(&self, names: impl IntoIterator<Item = &'k [u8]>) -> LockedKeys<'a> {
        self.store.lock(names.into_iter().map(|name| self.key(name)))
    }
}

impl LockedKeys<'_> {
    /// Calls `f` with the record of a key. This counts as a use of the entry.
    pub(crate) fn read<R>(&mut self, key: Key<'_>, f: impl FnOnce(&Record) -> R) -> Option<R> {
        self.locked.read(key, f)
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
        self.locked.contains(key)
    }

    /// When an entry expires.
    pub(crate) fn expiry(&self, key: Key<'_>) -> Option<Expiry> {
        let clock = self.store.clock;
        let deadline = self.locked.deadline_ms(key)?;
        Some(deadline.map_or(Expiry::Never, |ms| Expiry::At(clock.to_unix_ms(ms))))
    }

    /// Reads and changes an entry.
    pub(crate) fn update<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(Option<Entry<'_>>) -> (EntryOp, R),
    ) -> Result<R, OutOfMemory> {
        let clock = self.store.clock;
        let updated = self.locked.update(key, |entry| {
            let (operation, result) = f(entry.map(|entry| Entry::new(entry, clock)));
            (operation.into_raw(clock), result)
        });
        updated.map_err(|_| OutOfMemory)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, key: Key<'_>) -> bool {
        self.locked.remove(key)
    }

    /// Takes the record of an entry out.
    pub(crate) fn take(&mut self, key: Key<'_>) -> Option<Record> {
        self.locked.take(key)
    }

    /// Stores a record.
    pub(crate) fn put(&mut self, record: Record, expiry: Expiry) -> Result<(), OutOfMemory> {
        self.locked.insert(record, self.store.clock.ttl(expiry)).map(drop).map_err(|_| OutOfMemory)
    }
}
