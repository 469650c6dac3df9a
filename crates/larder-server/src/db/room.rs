//! Changes under a policy that may find nothing to evict: what finds no room is refused, the former value stays, and
//! nobody is told of the change.
//!
//! A single change is refused exactly if it does not fit. What is part of a transaction or a script is not refused, because
//! those do not end halfway: it may exceed the capacity, and then the next command is refused. So may a sorted set or a very
//! large string that grows in place, and an entry that gets another name.

use larder_engine::raw::{self, Key, UpdateOp};

use super::changes::EntryState;
use super::held;
use super::{Database, Locked, Object, OutOfMemory, Record, Store, charge};

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
    pub(super) fn make_room(&self, locks: &mut Locked<'_>, records: &[Record]) -> Result<(), OutOfMemory> {
        let former = |key| locks.peek_with(key, |entry| entry.weight()).unwrap_or(0);
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
        let key = self.key(name);
        match self.held {
            None => self.change_alone(key, f),
            Some(locks) => {
                let mut is_too_large = false;
                let changed = held::update(locks, key, |entry| {
                    let before = EntryState::of(entry.as_ref());
                    let (operation, result) = f(entry);
                    is_too_large =
                        matches!(&operation, UpdateOp::Put(record, _) if !self.store.cache.can_hold(record));
                    let operation = if is_too_large { UpdateOp::Keep } else { operation };
                    self.report(key, before, &operation);
                    (operation, result)
                });
                changed.ok().filter(|_| !is_too_large).ok_or(OutOfMemory)
            }
        }
    }

    /// As [`change_if_room`](Self::change_if_room), of a command that is not part of a transaction.
    fn change_alone<R>(
        &self,
        key: Key<'_>,
        f: impl FnOnce(Option<raw::Entry<'_, Object>>) -> (UpdateOp<Object>, R),
    ) -> Result<R, OutOfMemory> {
        let mut locks = self.store.cache.lock_all([key]);
        let (mut before, mut to_put) = (EntryState::Missing, None);
        let changed = locks.update(key, |entry| {
            before = EntryState::of(entry.as_ref());
            match f(entry) {
                (UpdateOp::Put(record, ttl), result) => {
                    to_put = Some((record, ttl));
                    (UpdateOp::Keep, result)
                }
                (operation, result) => {
                    self.report(key, before, &operation);
                    (operation, result)
                }
            }
        });
        if let Some((record, ttl)) = to_put {
            self.store.make_room(&mut locks, std::slice::from_ref(&record))?;
            let operation = UpdateOp::Put(record, ttl);
            self.report(key, before, &operation);
            return locks.update(key, |_| (operation, ())).and(changed).map_err(|_| OutOfMemory);
        }
        changed.map_err(|_| OutOfMemory)
    }
}
