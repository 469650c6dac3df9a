//! The types of values that are not strings.

use larder_engine::raw::{Record, Value};
use larder_resp::parse_integer;

use crate::values::sorted_set::SortedSet;

/// Redis stores strings up to this length in one block with their key's record.
const MAX_EMBEDDED_BYTES: usize = 44;

/// A value that is not a string.
#[derive(Clone, Debug)]
pub(crate) enum Object {
    SortedSet(SortedSet),
}

/// The value has another type than the command needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WrongType;

impl Object {
    /// The memory that it needs, with its box.
    pub(super) fn bytes_allocated(&self) -> usize {
        match self {
            Object::SortedSet(set) => set.bytes_allocated(),
        }
    }
}

/// The name of a record's type, as `TYPE` returns it.
pub(crate) fn type_name(record: &Record<Object>) -> &'static str {
    match record.value() {
        Value::Bytes(_) => "string",
        Value::Object(Object::SortedSet(_)) => "zset",
    }
}

/// The representation that Redis would choose: programs use it to tell numbers from text.
pub(crate) fn encoding(record: &Record<Object>) -> &'static str {
    match record.value() {
        Value::Bytes(bytes) if parse_integer(bytes).is_some() => "int",
        Value::Bytes(bytes) if bytes.len() <= MAX_EMBEDDED_BYTES => "embstr",
        Value::Bytes(_) => "raw",
        Value::Object(Object::SortedSet(set)) if set.is_packed() => "listpack",
        Value::Object(Object::SortedSet(_)) => "skiplist",
    }
}
