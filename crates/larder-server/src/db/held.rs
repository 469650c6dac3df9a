//! Operations on keys whose shards are locked already: by a single command, or by a transaction.
//!
//! Commands do not know which of both they run in: a [`Database`](super::Database) passes each operation to the engine,
//! which locks the shard of the key, or to the locks that are held.

use std::cell::RefCell;

use larder_engine::raw::{Entry, Key, UpdateOp};
use larder_engine::stats::PartitionStats;
use larder_engine::{EntryRef, Refusal, Stats, Ttl};

use super::clock::StoppedTime;
use super::object::Object;
use super::record::{Locked, Record};
use crate::observers::Deferred;

/// Locked shards. The closures run at most once, except those of `scan` and `retain`.
///
/// A trait, because transactions are passed through code that must not depend on the lifetime of their locks.
pub(crate) trait HeldLocks {
    /// Calls `f` with the record of a key. This counts as a use of the entry.
    fn read(&self, key: Key<'_>, f: &mut dyn FnMut(&Record));
    /// Calls `f` with an entry. Does not count as a use.
    fn peek(&self, key: Key<'_>, f: &mut dyn FnMut(EntryRef<'_, Record, ()>));
    fn update(
        &self,
        key: Key<'_>,
        f: &mut dyn FnMut(Option<Entry<'_, Object>>) -> UpdateOp<Object>,
    ) -> Result<(), Refusal>;
    /// Stores a record; returns whether its key had no entry.
    fn insert(&self, record: Record, ttl: Ttl) -> Result<bool, Refusal>;
    /// Stores a record that was in the store before: see [`Locked::restore`](larder_engine::raw::Locked::restore).
    fn restore(&self, record: Record, ttl: Ttl) -> Result<bool, Refusal>;
    /// Makes room for this weight, without evicting the entry of `keep`. Returns whether there is room: a transaction and a
    /// script, which are not stopped halfway, need none.
    fn make_room(&self, weight: u64, keep: Option<Key<'_>>) -> bool;
    /// Removes an entry that has expired, of which the observers are told.
    fn discard_expired(&self, key: Key<'_>);
    /// Takes the record of an entry out.
    fn take(&self, key: Key<'_>) -> Option<Record>;
    /// As the scan of a cache; all shards must be locked.
    fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(&Record)) -> u64;
    /// Removes the entries of all locked shards for which `keep` returns false.
    fn retain(&self, keep: &mut dyn FnMut(Key<'_>) -> bool);
    /// Whether the shard of a key is locked.
    fn is_locked(&self, key: Key<'_>) -> bool;
    /// The counters of the locked shards.
    fn stats(&self) -> Stats;
    /// Those of one partition.
    fn partition_stats(&self, index: usize) -> PartitionStats;
    /// Where to put what observers are told, if they are told later.
    fn deferred(&self) -> Option<&Deferred> {
        None
    }
}

/// The locks of some keys, or of all. Time stands still while they are held.
pub(crate) struct KeyLocks<'a> {
    locks: RefCell<Locked<'a>>,
    is_transaction: bool,
    _time: StoppedTime,
}

impl<'a> KeyLocks<'a> {
    /// Those of a single command.
    pub(super) fn new(locks: Locked<'a>, time: StoppedTime) -> Self {
        KeyLocks { locks: RefCell::new(locks), is_transaction: false, _time: time }
    }

    /// The same, of a transaction.
    pub(crate) fn of_transaction(self) -> Self {
        KeyLocks { is_transaction: true, ..self }
    }

    pub(crate) fn contains(&self, key: Key<'_>) -> bool {
        peek(self, key, |_| ()).is_some()
    }
}

impl HeldLocks for KeyLocks<'_> {
    fn read(&self, key: Key<'_>, f: &mut dyn FnMut(&Record)) {
        let _ = self.locks.borrow_mut().read(key, f);
    }

    fn peek(&self, key: Key<'_>, f: &mut dyn FnMut(EntryRef<'_, Record, ()>)) {
        let _ = self.locks.borrow().peek_with(key, f);
    }

    fn update(
        &self,
        key: Key<'_>,
        f: &mut dyn FnMut(Option<Entry<'_, Object>>) -> UpdateOp<Object>,
    ) -> Result<(), Refusal> {
        self.locks.borrow_mut().update(key, |entry| (f(entry), ()))
    }

    fn insert(&self, record: Record, ttl: Ttl) -> Result<bool, Refusal> {
        self.locks.borrow_mut().insert(record, ttl)
    }

    fn restore(&self, record: Record, ttl: Ttl) -> Result<bool, Refusal> {
        self.locks.borrow_mut().restore(record, ttl)
    }

    fn make_room(&self, weight: u64, keep: Option<Key<'_>>) -> bool {
        self.is_transaction || self.locks.borrow_mut().make_room(weight, keep)
    }

    fn discard_expired(&self, key: Key<'_>) {
        self.locks.borrow_mut().discard_expired(key);
    }

    fn take(&self, key: Key<'_>) -> Option<Record> {
        self.locks.borrow_mut().take(key)
    }

    fn scan(&self, cursor: u64, count: usize, f: &mut dyn FnMut(&Record)) -> u64 {
        self.locks.borrow().scan(cursor, count, |entry| f(entry.key()))
    }

    fn retain(&self, keep: &mut dyn FnMut(Key<'_>) -> bool) {
        self.locks.borrow_mut().retain(|record| keep(record.key()));
    }

    fn is_locked(&self, key: Key<'_>) -> bool {
        self.locks.borrow().is_locked(key)
    }

    fn stats(&self) -> Stats {
        self.locks.borrow().stats()
    }

    fn partition_stats(&self, index: usize) -> PartitionStats {
        self.locks.borrow().partition_stats(index)
    }
}

/// [`HeldLocks::read`] with a result.
pub(super) fn read<R>(locks: &dyn HeldLocks, key: Key<'_>, f: impl FnOnce(&Record) -> R) -> Option<R> {
    let (mut f, mut result) = (Some(f), None);
    locks.read(key, &mut |record| result = f.take().map(|f| f(record)));
    result
}

/// [`HeldLocks::peek`] with a result.
pub(super) fn peek<R>(
    locks: &dyn HeldLocks,
    key: Key<'_>,
    f: impl FnOnce(EntryRef<'_, Record, ()>) -> R,
) -> Option<R> {
    let (mut f, mut result) = (Some(f), None);
    locks.peek(key, &mut |entry| result = f.take().map(|f| f(entry)));
    result
}

/// [`HeldLocks::update`] with a result.
pub(super) fn update<R>(
    locks: &dyn HeldLocks,
    key: Key<'_>,
    f: impl FnOnce(Option<Entry<'_, Object>>) -> (UpdateOp<Object>, R),
) -> Result<R, Refusal> {
    let (mut f, mut result) = (Some(f), None);
    locks.update(key, &mut |entry| {
        let f = f.take().expect("the closure of an update runs once");
        let (operation, value) = f(entry);
        result = Some(value);
        operation
    })?;
    Ok(result.expect("the closure of an update runs"))
}
