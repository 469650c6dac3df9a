//! Several keys at once: their shards are locked together, so that no other command sees a part of a change.

use larder_engine::raw::{Key, Locked, Record};

use super::{Database, Expiry, OutOfMemory, Store, charge};

/// Some keys, which nobody else can read or change until this is dropped. Removed entries are freed after that.
pub(crate) struct LockedKeys<'a> {
    store: &'a Store,
    locked: Locked<'a>,
}

impl Store {
    /// Locks these keys, in the order of their shards. No other operation on the store may run on this thread meanwhile.
    pub(crate) fn lock<'k>(&self, keys: impl IntoIterator<Item = Key<'k>>) -> LockedKeys<'_> {
        LockedKeys { store: self, locked: self.cache.lock_all(keys) }
    }

    /// Whether all these records can be in the store at the same time.
    pub(crate) fn can_hold(&self, records: &[Record]) -> bool {
        let charges = records.iter().map(|record| charge(record.bytes_allocated() as u64));
        charges.sum::<u64>() <= self.max_memory() && records.iter().all(|record| self.cache.can_hold(record))
    }
}

impl<'a> Database<'a> {
    /// Locks these keys of the database: see [`Store::lock`].
    pub(crate) fn lock<'k>(&self, names: impl IntoIterator<Item = &'k [u8]>) -> LockedKeys<'a> {
        self.store.lock(names.into_iter().map(|name| self.key(name)))
    }
}

impl LockedKeys<'_> {
    /// Calls `f` with the value of a key. This counts as a use of the entry.
    pub(crate) fn get<R>(&mut self, key: Key<'_>, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.locked.read(key, f)
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

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&mut self, key: Key<'_>) -> bool {
        self.locked.remove(key)
    }

    /// Stores a record.
    pub(crate) fn put(&mut self, record: Record, expiry: Expiry) -> Result<(), OutOfMemory> {
        let space = record.key().space;
        if self.locked.insert(record, self.store.clock.ttl(expiry)).map_err(|_| OutOfMemory)? {
            self.store.space(space).count_new();
        }
        Ok(())
    }
}
