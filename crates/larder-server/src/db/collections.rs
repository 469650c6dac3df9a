//! Lists, sets, sorted sets and streams as values: they are changed in place, exist while they have members, except for streams, and are
//! weighed after each change.

use larder_engine::raw::{self, Value};

use super::entry::{Entry, EntryOp, UpdateError};
use super::object::{Collection, Object};
use super::{Database, Expiry, Key, LockedKeys, Record, WrongType};
use crate::values::list::List;
use crate::values::set::Set;
use crate::values::sorted_set::SortedSet;
use crate::values::stream::Stream;

/// A record with this value.
pub(crate) fn record(key: Key<'_>, value: impl Collection) -> Record {
    Record::with_object(key, Box::new(value.into_object()))
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

    /// Calls `f` with the list of `name`. This counts as a use of the entry.
    pub(crate) fn list<R>(&self, name: &[u8], f: impl FnOnce(&List) -> R) -> Result<Option<R>, WrongType> {
        self.read(name, |record| read(record, f)).transpose()
    }

    /// Calls `f` with the set of `name`. This counts as a use of the entry.
    pub(crate) fn set_members<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(&Set) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(name, |record| read(record, f)).transpose()
    }

    /// Calls `f` with the stream of `name`. This counts as a use of the entry.
    pub(crate) fn stream<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(&Stream) -> R,
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

    /// The same with the list of `name`.
    pub(crate) fn edit_list<R>(
        &self,
        name: &[u8],
        creates: bool,
        f: impl FnOnce(&mut List) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let key = self.key(name);
        let edited = self.update(name, |entry| edit(key, entry, creates, f))?;
        Ok(edited?)
    }

    /// The same with the set of `name`.
    pub(crate) fn edit_set<R>(
        &self,
        name: &[u8],
        creates: bool,
        f: impl FnOnce(&mut Set) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let key = self.key(name);
        let edited = self.update(name, |entry| edit(key, entry, creates, f))?;
        Ok(edited?)
    }

    /// The same with the stream of `name`, which must exist.
    pub(crate) fn edit_stream<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(&mut Stream) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let key = self.key(name);
        let edited = self.update(name, |entry| edit(key, entry, false, f))?;
        Ok(edited?)
    }
}

impl LockedKeys<'_> {
    /// As [`Database::set_members`].
    pub(crate) fn set_members<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&Set) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(key, |record| read(record, f)).transpose()
    }

    /// As [`Database::edit_set`].
    pub(crate) fn edit_set<R>(
        &mut self,
        key: Key<'_>,
        creates: bool,
        f: impl FnOnce(&mut Set) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let edited = self.update(key, |entry| edit(key, entry, creates, f))?;
        Ok(edited?)
    }

    /// As [`Database::sorted_set`].
    pub(crate) fn sorted_set<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&SortedSet) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(key, |record| read(record, f)).transpose()
    }

    /// As [`Database::list`].
    pub(crate) fn list<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&List) -> R,
    ) -> Result<Option<R>, WrongType> {
        self.read(key, |record| read(record, f)).transpose()
    }

    /// As [`Database::stream`].
    pub(crate) fn stream<R>(
        &mut self,
        key: Key<'_>,
        f: impl FnOnce(&Stream) -> R,
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

    /// As [`Database::edit_list`].
    pub(crate) fn edit_list<R>(
        &mut self,
        key: Key<'_>,
        creates: bool,
        f: impl FnOnce(&mut List) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let edited = self.update(key, |entry| edit(key, entry, creates, f))?;
        Ok(edited?)
    }

    /// As [`Database::edit_list`], of a stream.
    pub(crate) fn edit_stream<R>(
        &mut self,
        key: Key<'_>,
        creates: bool,
        f: impl FnOnce(&mut Stream) -> R,
    ) -> Result<Option<R>, UpdateError> {
        let edited = self.update(key, |entry| edit(key, entry, creates, f))?;
        Ok(edited?)
    }
}

fn read<C: Collection, R>(record: &raw::Record<Object>, f: impl FnOnce(&C) -> R) -> Result<R, WrongType> {
    match record.value() {
        Value::Object(object) => C::of(object).map(f).ok_or(WrongType),
        Value::Bytes(_) => Err(WrongType),
    }
}

fn edit<C: Collection, R>(
    key: Key<'_>,
    entry: Option<Entry<'_>>,
    creates: bool,
    f: impl FnOnce(&mut C) -> R,
) -> (EntryOp, Result<Option<R>, WrongType>) {
    match entry.map(Entry::into_collection::<C>) {
        Some(Ok(value)) => {
            let (is_changed, result) = value.observe(f);
            let operation = match is_changed {
                // Nobody is told of it.
                false => EntryOp::Keep,
                true if !value.may_exist() => EntryOp::Remove,
                true => EntryOp::Edited,
            };
            (operation, Ok(Some(result)))
        }
        Some(Err(WrongType)) => (EntryOp::Keep, Err(WrongType)),
        None if creates => {
            let mut value = C::new();
            let result = f(&mut value);
            let operation = match value.may_exist() {
                true => EntryOp::Put(record(key, value), Expiry::Never),
                false => EntryOp::Keep,
            };
            (operation, Ok(Some(result)))
        }
        None => (EntryOp::Keep, Ok(None)),
    }
}
