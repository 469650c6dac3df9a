//! Changes under a policy that may find nothing to evict: what finds no room is refused, the former value stays, and
//! nobody is told of the change.
//!
//! A single change is refused exactly if it does not fit. What is part of a transaction or a script is not refused, because
//! those do not end halfway: it may exceed the capacity, and then the next command is refused. So may a sorted set or a very
//! large string that grows in place, and an entry that gets another name.

use larder_engine::raw::{self, Key, UpdateOp};

use super::entry::EntryState;
use super::held::{self, HeldLocks};
use super::object::Object;
use super::record::charge;
use super::{Database, OutOfMemory, Record, Store};

/// Entries that a command may evict before it begins.
const EVICTED_PER_COMMAND: usize = 32;

impl Store {
    /// Whether the capacity is exceeded, and nothing is left that may be evicted for it.
    pub(crate) fn is_full(&self) -> bool {
        let is_exceeded = || self.cache.weight() > self.cache.capacity();
        is_exceeded() && !self.cache.evict_excess(EVICTED_PER_COMMAND) && is_exceeded()
    }

    /// Makes room for this many bytes, as far as the policy allows. Returns whether there is room.
    pub(crate) fn has_room(&self, bytes: usize) -> bool {
        self.cache.lock_all([]).make_room(bytes as u64, None)
    }

    /// Evicts up to `count` entries of those that exceed the capacity. Returns whether there are more.
    pub(crate) fn evict_excess(&self, count: usize) -> bool {
        self.cache.evict_excess(count)
    }

    /// Makes room for records, each of which replaces the entry of its key. The entry of a single one is not evicted.
    pub(super) fn make_room(&self, locks: &dyn HeldLocks, records: &[Record]) -> Result<(), OutOfMemory> {
        let former = |key| held::peek(locks, key, |entry| entry.weight()).unwrap_or(0);
        let needed = records.iter().map(charge).sum::<u64>();
        let replaced = records.iter().map(|record| former(record.key())).sum::<u64>();
        let keep = records.first().filter(|_| records.len() == 1).map(Record::key);
        match self.can_hold(records) && locks.make_room(needed.saturating_sub(replaced), keep) {
            true => Ok(()),
            false => Err(OutOfMemory),
        }
    }
}

impl Database<'_> {
    /// A change of one entry.
    #[cold]
    pub(super) fn change_if_room<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<raw::Entry<'_, Object>>) -> (UpdateOp<Object>, R),
    ) -> Result<R, OutOfMemory> {
        if let Some(locks) = self.held {
            return self.change_locked(locks, self.key(name), f);
        }
        let key = self.key(name);
        self.change_locked(&self.store.lock([key]), key, f)
    }

    /// The same, on these locks.
    fn change_locked<R>(
        &self,
        locks: &dyn HeldLocks,
        key: Key<'_>,
        f: impl FnOnce(Option<raw::Entry<'_, Object>>) -> (UpdateOp<Object>, R),
    ) -> Result<R, OutOfMemory> {
        let (mut before, mut to_put) = (EntryState::Missing, None);
        let changed = held::update(locks, key, |entry| {
            before = EntryState::of(entry.as_ref());
            let (operation, result) = f(entry);
            match operation {
                UpdateOp::Put(record, ttl) => {
                    to_put = Some((record, ttl));
                    (UpdateOp::Keep, result)
                }
                operation => {
                    self.report(key, before, &operation);
                    (operation, result)
                }
            }
        });
        if let Some((record, ttl)) = to_put {
            self.store.make_room(locks, std::slice::from_ref(&record))?;
            let operation = UpdateOp::Put(record, ttl);
            self.report(key, before, &operation);
            return held::update(locks, key, |_| (operation, ())).and(changed).map_err(|_| OutOfMemory);
        }
        changed.map_err(|_| OutOfMemory)
    }
}
