//! The types of values that are not strings.

use larder_engine::raw::{Record, Value};
use larder_resp::parse_integer;

use crate::values::hash::Hash;
use crate::values::list::List;
use crate::values::set::Set;
use crate::values::sorted_set::SortedSet;
use crate::values::stream::Stream;

/// Redis stores strings up to this length in one block with their key's record.
const MAX_EMBEDDED_BYTES: usize = 44;

/// A value that is not a string.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    Hash(Hash),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
    Stream(Box<Stream>),
}

/// A type of values with members.
pub(crate) trait Collection: Sized {
    fn new() -> Self;
    /// Whether a key may have it: not without members, except for a stream.
    fn may_exist(&self) -> bool;
    /// Calls `f`, and tells whether it has changed the value.
    fn observe<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> (bool, R);
    fn of(object: &Object) -> Option<&Self>;
    fn of_mut(object: &mut Object) -> Option<&mut Self>;
    fn into_object(self) -> Object;
}

macro_rules! collection {
    ($type:ident) => {
        impl Collection for $type {
            fn new() -> Self {
                $type::new()
            }

            fn may_exist(&self) -> bool {
                !self.is_empty()
            }

            fn observe<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> (bool, R) {
                self.observe(f)
            }

            fn of(object: &Object) -> Option<&Self> {
                if let Object::$type(value) = object { Some(value) } else { None }
            }

            fn of_mut(object: &mut Object) -> Option<&mut Self> {
                if let Object::$type(value) = object { Some(value) } else { None }
            }

            fn into_object(self) -> Object {
                Object::$type(self)
            }
        }
    };
}

collection!(List);
collection!(Set);
collection!(SortedSet);

impl Collection for Stream {
    fn new() -> Self {
        Stream::new()
    }

    /// Its last id must not be forgotten with its entries.
    fn may_exist(&self) -> bool {
        self.is_used()
    }

    fn observe<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> (bool, R) {
        self.observe(f)
    }

    fn of(object: &Object) -> Option<&Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }

    fn of_mut(object: &mut Object) -> Option<&mut Self> {
        if let Object::Stream(stream) = object { Some(stream) } else { None }
    }

    fn into_object(self) -> Object {
        Object::Stream(Box::new(self))
    }
}

/// The changes of an object since a moment, which can be undone.
#[cfg(feature = "scripts")]
#[derive(Debug)]
pub(super) enum Journal {
    Hash(Box<crate::values::hash::Journal>),
    List(Box<crate::values::list::Journal>),
    Set(Box<crate::values::hash::Journal>),
    SortedSet(Box<crate::values::sorted_set::Journal>),
    Stream(Box<crate::values::stream::Journal>),
}

/// What the box of any object takes: each kind of object fits into the longest one.
const OBJECT_BYTES: usize = size_of::<Object>();
const _: () = assert!(OBJECT_BYTES == size_of::<SortedSet>());

/// The value has another type than the command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongType;

impl Object {
    /// The memory that it needs, with its box.
    pub(super) fn bytes_allocated(&self) -> usize {
        match self {
            Object::Hash(hash) => hash.bytes_allocated() + OBJECT_BYTES - size_of::<Hash>(),
            Object::List(list) => list.bytes_allocated() + OBJECT_BYTES - size_of::<List>(),
            Object::Set(set) => set.bytes_allocated() + OBJECT_BYTES - size_of::<Set>(),
            Object::SortedSet(set) => set.bytes_allocated(),
            Object::Stream(stream) => stream.bytes_allocated() + OBJECT_BYTES,
        }
    }
}

#[cfg(feature = "scripts")]
impl Object {
    /// Records the changes from now on.
    pub(super) fn start_journal(&mut self) {
        match self {
            Object::Hash(hash) => hash.start_journal(),
            Object::List(list) => list.start_journal(),
            Object::Set(set) => set.start_journal(),
            Object::SortedSet(set) => set.start_journal(),
            Object::Stream(stream) => stream.start_journal(),
        }
    }

    /// Ends the recording. Returns what was recorded, if there were changes.
    pub(super) fn take_journal(&mut self) -> Option<Journal> {
        let journal = match self {
            Object::Hash(hash) => Journal::Hash(hash.take_journal()?),
            Object::List(list) => Journal::List(list.take_journal()?),
            Object::Set(set) => Journal::Set(set.take_journal()?),
            Object::SortedSet(set) => Journal::SortedSet(set.take_journal()?),
            Object::Stream(stream) => Journal::Stream(stream.take_journal()?),
        };
        Some(journal).filter(|journal| !journal.is_empty())
    }

    /// Undoes changes, which must be the last ones.
    pub(super) fn undo(&mut self, journal: &Journal) {
        match (self, journal) {
            (Object::Hash(hash), Journal::Hash(journal)) => hash.undo(journal),
            (Object::List(list), Journal::List(journal)) => list.undo(journal),
            (Object::Set(set), Journal::Set(journal)) => set.undo(journal),
            (Object::SortedSet(set), Journal::SortedSet(journal)) => set.undo(journal),
            (Object::Stream(stream), Journal::Stream(journal)) => stream.undo(journal),
            _ => debug_assert!(false, "a journal belongs to its object"),
        }
    }
}

#[cfg(feature = "scripts")]
impl Journal {
    fn is_empty(&self) -> bool {
        match self {
            Journal::Hash(journal) => journal.is_empty(),
            Journal::List(journal) => journal.is_empty(),
            Journal::Set(journal) => journal.is_empty(),
            Journal::SortedSet(journal) => journal.is_empty(),
            Journal::Stream(journal) => journal.is_empty(),
        }
    }

    /// The memory that it needs, about.
    pub(super) fn bytes(&self) -> usize {
        match self {
            Journal::Hash(journal) => journal.bytes(),
            Journal::List(journal) => journal.bytes(),
            Journal::Set(journal) => journal.bytes(),
            Journal::SortedSet(journal) => journal.bytes(),
            Journal::Stream(journal) => journal.bytes(),
        }
    }
}

/// The name of a record's type, as `TYPE` returns it.
pub(crate) fn type_name(record: &Record<Object>) -> &'static str {
    match record.value() {
        Value::Bytes(_) => "string",
        Value::Object(Object::Hash(_)) => "hash",
        Value::Object(Object::List(_)) => "list",
        Value::Object(Object::Set(_)) => "set",
        Value::Object(Object::SortedSet(_)) => "zset",
        Value::Object(Object::Stream(_)) => "stream",
    }
}

/// The representation that Redis would choose: programs use it to tell numbers from text.
pub(crate) fn encoding(record: &Record<Object>) -> &'static str {
    match record.value() {
        Value::Bytes(bytes) if parse_integer(bytes).is_some() => "int",
        Value::Bytes(bytes) if bytes.len() <= MAX_EMBEDDED_BYTES => "embstr",
        Value::Bytes(_) => "raw",
        Value::Object(Object::Hash(hash)) if hash.is_packed() => "listpack",
        Value::Object(Object::Hash(_)) => "hashtable",
        Value::Object(Object::List(_)) => "quicklist",
        Value::Object(Object::Set(set)) if set.has_few_integers() => "intset",
        Value::Object(Object::Set(_)) => "hashtable",
        Value::Object(Object::SortedSet(set)) if set.is_packed() => "listpack",
        Value::Object(Object::SortedSet(_)) => "skiplist",
        Value::Object(Object::Stream(_)) => "stream",
    }
}
