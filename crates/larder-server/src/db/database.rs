//! One database of the keyspace: reads, changes and visits of its entries, alone or under the locks of a transaction.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;

use larder_engine::raw::{Key, PrefetchBatch, SharedBytes, Value};
use larder_engine::stats::PartitionStats;
use larder_engine::{EntryRef, Ttl, raw};
use larder_resp::Args;

use super::entry::EntryState;
use super::object::Object;
use super::{
    Entry, EntryOp, Expiry, HeldLocks, OutOfMemory, Record, Store, StringEntry, UpdateError, WrongType, held,
    is_value_of,
};
use crate::observers::{FieldEvents, Origin};
use crate::values::large::{self, LARGE_BYTES};

/// Entries that the search for a random key visits at a time.
const RANDOM_SCAN: usize = 16;

/// What a read has found while the shard was locked.
enum Read<R, F> {
    /// The result of the reader.
    Done(R),
    /// A long value, for the reader.
    Long(SharedBytes, F),
    WrongType,
}

/// What a read of a string has found.
pub(crate) enum Found<R> {
    /// The result of the reader.
    Read(R),
    /// A large value, which is not read.
    Large(SharedBytes),
}

/// One database of a [`Store`].
#[derive(Clone, Copy)]
pub(crate) struct Database<'a> {
    pub(super) store: &'a Store,
    /// Its number, which is the space of its keys in the engine.
    index: u8,
    /// The locks of the transaction that uses it.
    pub(super) held: Option<&'a dyn HeldLocks>,
    pub(super) origin: Origin,
    /// What the command does with fields of a hash, if it edits one.
    pub(super) field_events: Option<&'a Cell<FieldEvents>>,
}

impl Store {
    #[inline]
    pub(crate) fn database(&self, index: u8) -> Database<'_> {
        Database { store: self, index, held: None, origin: Origin::default(), field_events: None }
    }
}

impl<'a> Database<'a> {
    /// The same database, used in a transaction.
    pub(crate) fn with_locks(self, held: Option<&'a dyn HeldLocks>) -> Self {
        Database { held, ..self }
    }

    /// The same database, used by a command.
    #[inline]
    pub(crate) fn used_by(self, origin: Origin) -> Self {
        Database { origin, ..self }
    }

    /// The same database, used by an edit of a hash that says what it does with fields.
    pub(super) fn with_field_events<'b>(self, events: &'b Cell<FieldEvents>) -> Database<'b>
    where
        'a: 'b,
    {
        Database { field_events: Some(events), ..self }
    }

    /// The key of `name` in this database.
    pub(crate) fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        Key { space: self.index, name }
    }

    /// A record of `name` for [`EntryOp::Put`]. Its value is the concatenation of `parts`.
    pub(crate) fn record(&self, name: &[u8], parts: &[&[u8]]) -> Record {
        Record::new(self.key(name), parts)
    }

    /// A record of `name` with an argument as its value, which is copied unless it is shared.
    pub(crate) fn record_of_argument(&self, name: &[u8], args: Args<'_>, index: usize) -> Record {
        match args.shared(index) {
            Some(value) => Record::with_value(self.key(name), Arc::clone(value)),
            None => self.record(name, &[&args[index]]),
        }
    }

    /// The same, if the value is long: to make it before the entry is locked.
    pub(crate) fn record_of_long(&self, name: &[u8], args: Args<'_>, index: usize) -> Option<Record> {
        (args[index].len() > raw::MAX_INLINE_BYTES).then(|| self.record_of_argument(name, args, index))
    }

    /// Calls `f` with the string of `name`. This counts as a use of the entry. No lock is held while `f` reads a long value.
    #[inline]
    pub(crate) fn get<R>(&self, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, WrongType> {
        let read = |record: &Record| match record.inline_bytes() {
            Some(value) => Read::Done(f(value)),
            None => record.share().map_or(Read::WrongType, |value| Read::Long(value, f)),
        };
        match self.read(name, read) {
            None => Ok(None),
            Some(Read::Done(result)) => Ok(Some(result)),
            Some(Read::Long(value, f)) => {
                let result = f(&value);
                large::release(value);
                Ok(Some(result))
            }
            Some(Read::WrongType) => Err(WrongType),
        }
    }

    /// As [`get`](Self::get), but returns a large string instead of reading it.
    #[inline]
    pub(crate) fn get_or_share<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<Found<R>>, WrongType> {
        let read = |record: &Record| match record.inline_bytes() {
            Some(value) => Read::Done(f(value)),
            None => record.share().map_or(Read::WrongType, |value| Read::Long(value, f)),
        };
        match self.read(name, read) {
            None => Ok(None),
            Some(Read::Done(result)) => Ok(Some(Found::Read(result))),
            Some(Read::Long(value, _)) if value.len() >= LARGE_BYTES => Ok(Some(Found::Large(value))),
            Some(Read::Long(value, f)) => Ok(Some(Found::Read(f(&value)))),
            Some(Read::WrongType) => Err(WrongType),
        }
    }

    /// Adds a key to the batch for [`prefetch`](Self::prefetch).
    pub(crate) fn add_to_batch(&self, batch: &mut PrefetchBatch, name: &[u8]) {
        batch.add(&self.store.cache, self.key(name));
    }

    /// Prefetches the memory that lookups of these keys read.
    pub(crate) fn prefetch(&self, batch: &PrefetchBatch) {
        self.store.cache.prefetch(batch);
    }

    /// Brings the memory that lookups of these fields or members read into the processor's caches, if the value of `name` is large.
    pub(crate) fn prefetch_members<'m>(&self, name: &[u8], members: impl Iterator<Item = &'m [u8]>) {
        self.peek(name, |record| match record.value() {
            Value::Object(Object::Hash(hash)) => hash.prefetch(members),
            Value::Object(Object::Set(set)) => set.prefetch(members),
            _ => {}
        });
    }

    /// The deadline of the entry of `name` in milliseconds of Unix time, if it has one. Does not count as a use.
    pub(crate) fn deadline(&self, name: &[u8]) -> Option<Option<i64>> {
        let clock = self.store.clock;
        let deadline = self.peek_entry(name, |entry| entry.deadline_ms())?;
        Some(deadline.map(|ms| clock.to_unix_ms(ms)))
    }

    /// Loads the entry of `name`, if a snapshot is being loaded that has it.
    #[inline]
    fn load(&self, name: &[u8]) {
        if self.store.is_loading() {
            self.store.load_keys(&[self.key(name)]);
        }
    }

    /// Calls `f` with the record of `name`. This counts as a use of the entry.
    #[inline]
    pub(super) fn read<R>(&self, name: &[u8], f: impl FnOnce(&Record) -> R) -> Option<R> {
        if let Some(locks) = self.held {
            return held::read(locks, self.key(name), f);
        }
        self.load(name);
        self.store.cache.read(self.key(name), f)
    }

    /// Calls `f` with the record of `name`. Does not count as a use.
    pub(crate) fn peek<R>(&self, name: &[u8], f: impl FnOnce(&Record) -> R) -> Option<R> {
        self.peek_entry(name, |entry| f(entry.key()))
    }

    /// Whether the value of `name` is this very one, and not another with the same bytes.
    pub(crate) fn has_value(&self, name: &[u8], value: &SharedBytes) -> bool {
        self.peek(name, |record| is_value_of(record, value)).unwrap_or(false)
    }

    fn peek_entry<R>(&self, name: &[u8], f: impl FnOnce(EntryRef<'_, Record, ()>) -> R) -> Option<R> {
        if let Some(locks) = self.held {
            return held::peek(locks, self.key(name), f);
        }
        self.load(name);
        self.store.cache.peek_with(&self.key(name), f)
    }

    /// The bytes that the entry of `name` is charged.
    pub(crate) fn charge(&self, name: &[u8]) -> Option<u64> {
        self.peek_entry(name, |entry| entry.weight())
    }

    /// The name of any entry. Cost: in a database with a small part of all entries, a scan of many others.
    pub(crate) fn random_name(&self) -> Option<Vec<u8>> {
        if self.len() == 0 {
            return None;
        }
        let start = self.store.cache.random_cursor(RandomState::new().hash_one(()));
        // From there to the end, and then from the start.
        for mut cursor in [start, 0] {
            loop {
                let mut found = None;
                cursor = self.scan(cursor, RANDOM_SCAN, |name, _| {
                    found.get_or_insert_with(|| name.to_vec());
                });
                if found.is_some() {
                    return found;
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        None
    }

    /// Whether `name` has an entry.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.peek_entry(name, |_| ()).is_some()
    }

    /// Stores a value, with or without a former one.
    pub(crate) fn set(&self, name: &[u8], value: &[u8], expiry: Expiry) -> Result<(), OutOfMemory> {
        let ttl = self.store.clock.ttl(expiry);
        if value.len() <= raw::MAX_INLINE_BYTES {
            return self.set_in_place(name, value, ttl);
        }
        let record = self.record(name, &[value]);
        self.change(name, |_| (raw::UpdateOp::Put(record, ttl), ()))
    }

    /// Stores an argument, with or without a former value.
    #[inline]
    pub(crate) fn set_argument(
        &self,
        name: &[u8],
        args: Args<'_>,
        index: usize,
        expiry: Expiry,
    ) -> Result<(), OutOfMemory> {
        match args.shared(index) {
            None => self.set(name, &args[index], expiry),
            Some(_) => {
                let record = self.record_of_argument(name, args, index);
                self.update(name, |_| (EntryOp::Put(record, expiry), ()))
            }
        }
    }

    /// Stores a value in place if the former value has the same length. This allocates and frees nothing and reads only
    /// memory that the lookup has read.
    fn set_in_place(&self, name: &[u8], value: &[u8], ttl: Ttl) -> Result<(), OutOfMemory> {
        self.change(name, |mut entry| match entry.as_mut().and_then(raw::Entry::inline_bytes_mut) {
            Some(former) if former.len() == value.len() => {
                former.copy_from_slice(value);
                (raw::UpdateOp::Edited(ttl), ())
            }
            _ => (raw::UpdateOp::Put(self.record(name, &[value]), ttl), ()),
        })
    }

    /// Reads and changes an entry of any type atomically.
    pub(crate) fn update<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<Entry<'_>>) -> (EntryOp, R),
    ) -> Result<R, OutOfMemory> {
        let clock = self.store.clock;
        self.change(name, |entry| {
            let (operation, result) = f(entry.map(|entry| Entry::new(entry, clock)));
            (operation.into_raw(clock), result)
        })
    }

    /// As [`update`](Self::update), of a string. `f` is not called if the entry has another type.
    pub(crate) fn update_string<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<StringEntry<'_>>) -> (EntryOp, R),
    ) -> Result<R, UpdateError> {
        let updated = self.update(name, |entry| match entry.map(Entry::into_string).transpose() {
            Ok(entry) => {
                let (operation, result) = f(entry);
                (operation, Ok(result))
            }
            Err(WrongType) => (EntryOp::Keep, Err(WrongType)),
        })?;
        Ok(updated?)
    }

    /// Every change of one entry. The observers are told while its shard is locked.
    #[inline]
    fn change<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<raw::Entry<'_, Object>>) -> (raw::UpdateOp<Object>, R),
    ) -> Result<R, OutOfMemory> {
        if !self.store.writes_at_once() {
            return self.change_if_room(name, f);
        }
        let key = self.key(name);
        if let Some(locks) = self.held {
            return self.change_held(locks, key, f);
        }
        let changed = self.store.cache.update(key, |entry| {
            let before = EntryState::of(entry.as_ref());
            let (operation, result) = f(entry);
            self.report(key, before, &operation);
            (operation, result)
        });
        changed.map(|changed| changed.result).map_err(|_| OutOfMemory)
    }

    /// The same, on these locks.
    fn change_held<R>(
        &self,
        locks: &dyn HeldLocks,
        key: Key<'_>,
        f: impl FnOnce(Option<raw::Entry<'_, Object>>) -> (raw::UpdateOp<Object>, R),
    ) -> Result<R, OutOfMemory> {
        let changed = held::update(locks, key, |entry| {
            let before = EntryState::of(entry.as_ref());
            let (operation, result) = f(entry);
            self.report(key, before, &operation);
            (operation, result)
        });
        changed.map_err(|_| OutOfMemory)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        // Without a record to store, a change cannot fail.
        self.change(name, |entry| (raw::UpdateOp::Remove, entry.is_some())).unwrap_or(false)
    }

    /// Visits about `count` entries of all databases and calls `f` with the names of this one. Returns the next
    /// cursor, 0 at the end. An entry that exists from the first call to the last is visited at least once.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], &Record)) -> u64 {
        let mut visit = |record: &Record| {
            let key = record.key();
            if key.space == self.index {
                f(key.name, record);
            }
        };
        match self.held {
            None => self.store.cache.scan(cursor, count, |entry| visit(entry.key())),
            Some(locks) => locks.scan(cursor, count, &mut visit),
        }
    }

    /// Visits about `count` entries and removes those of this database, or of `all`. Returns the next cursor, 0 at the
    /// end. An entry that exists from the first call to the last is removed. In a transaction, one call removes them all.
    pub(crate) fn clear_from(&self, cursor: u64, count: usize, all: bool) -> u64 {
        let keep = |key: Key<'_>| {
            let is_kept = !all && key.space != self.index;
            if !is_kept {
                self.report_purge(key);
            }
            is_kept
        };
        match self.held {
            None => self.store.cache.retain_from(cursor, count, |record, ()| keep(record.key())),
            Some(locks) => {
                locks.retain(&mut |key| keep(key));
                0
            }
        }
    }

    /// The counters of the engine.
    pub(crate) fn engine_stats(&self) -> larder_engine::Stats {
        self.held.map_or_else(|| self.store.cache.stats(), HeldLocks::stats)
    }

    /// The number of entries, and of those with a deadline, including expired ones that are not reclaimed yet.
    pub(crate) fn counts(&self) -> PartitionStats {
        let partition = usize::from(self.index);
        match self.held {
            None => self.store.cache.partition_stats(partition),
            Some(locks) => locks.partition_stats(partition),
        }
    }

    /// Entries, including expired ones that are not reclaimed yet.
    pub(crate) fn len(&self) -> usize {
        self.counts().entries as usize
    }
}
