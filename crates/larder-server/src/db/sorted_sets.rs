//! Sorted sets as values: they are changed in place, exist while they have members, and are weighed after each change.

use larder_engine::raw::{self, Value};

use super::entry::{Entry, EntryOp, UpdateError};
use super::object::Object;
use super::{Database, Expiry, Key, LockedKeys, Record, WrongType};
use crate::values::sorted_set::SortedSet;

/// A record whose value is a sorted set.
pub(crate) fn record(key: Key<'_>, set: SortedSet) -> Record {
    Record::with_object(key, Box::new(Object::SortedSet(set)))
}

impl Database<'_> {
    /// Calls `f` with the sorted set of `name`. This counts as a use of the entry.
    pub(crate) fn sorted_set<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(&SortedSet) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(name, |record| read(record, f)).transpose()
    }

    /// Changes the sorted set of `name` by `f`. If there is none, it is created or, unless `creates`, `f` is not called.
    /// Without members it is removed.
    pub(crate) fn edit_sorted_set<R>(
        &self,
        name: &[u8],
        creates: bool,
        f: impl FnOnce(&mut SortedSet) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let key = self.key(name);
        let edited = self.update(name, |entry| edit(key, entry, creates, f))?;
        Ok(edited?)
    }
}

impl LockedKeys<'_> {
    /// As [`Database::sorted_set`].
    pub(crate) fn sorted_set<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&SortedSet) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(key, |record| read(record, f)).transpose()
    }

    /// As [`Database::edit_sorted_set`], of an existing sorted set.
    pub(crate) fn edit_sorted_set<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&mut SortedSet) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let edited = self.update(key, |entry| edit(key, entry, false, f))?;
        Ok(edited?)
    }
}

fn read<R>(record: &raw::Record<Object>, f: impl FnOnce(&SortedSet) -> R) -> Result<R, WrongType> {
    match record.value() {
        Value::Object(Object::SortedSet(set)) => Ok(f(set)),
        _ => Err(WrongType),
    }
}

fn edit<R>(
    key: Key<'_>,
    entry: Option<Entry<'_>>,
    creates: bool,
    f: impl FnOnce(&mut SortedSet) -> R,
) -> (EntryOp, Result<Option<R>, WrongType>) {
    match entry.map(Entry::into_sorted_set) {
        Some(Ok(set)) => {
            let before = set.changes();
            let result = f(set);
            let operation = match set.changes() == before {
                // Nobody is told of it.
                true => EntryOp::Keep,
                false if set.is_empty() => EntryOp::Remove,
                false => EntryOp::Edited,
            };
            (operation, Ok(Some(result)))
        }
        Some(Err(WrongType)) => (EntryOp::Keep, Err(WrongType)),
        None if creates => {
            let mut set = SortedSet::new();
            let result = f(&mut set);
            let operation =
                if set.is_empty() { EntryOp::Keep } else { EntryOp::Put(record(key, set), Expiry::Never) };
            (operation, Ok(Some(result)))
        }
        None => (EntryOp::Keep, Ok(None)),
    }
}
