//! An entry as the engine keeps it, and what it is charged.

use larder_engine::raw::{self, SharedBytes};

use super::object::Object;

/// The number of databases, which are spaces of keys in the engine.
pub(crate) const DATABASE_COUNT: usize = 16;

/// An entry's key and value.
pub(crate) type Record = raw::Record<Object>;

/// The locks of some keys, or of all.
pub(crate) type Locked<'a> = raw::Locked<'a, Object>;

/// Bytes that an entry is charged in addition to its block: for the table, the policy's queue and sketch, and the timer
/// wheel, assuming that half of the entries have a deadline. What is missing is measured: see [`super::memory_limit`].
pub(super) const ENTRY_OVERHEAD_BYTES: u64 = 40;
/// The typical overhead of the allocator: one byte per this many bytes.
pub(super) const BYTES_PER_ALLOCATOR_BYTE: u64 = 16;

/// The charge of an entry.
pub(super) fn charge(record: &Record) -> u64 {
    let bytes = (record.bytes_allocated() + record.object().map_or(0, Object::bytes_allocated)) as u64;
    bytes + bytes / BYTES_PER_ALLOCATOR_BYTE + ENTRY_OVERHEAD_BYTES
}

/// Whether the value of a record is this very one, and not another with the same bytes.
pub(crate) fn is_value_of(record: &Record, value: &SharedBytes) -> bool {
    record.share().is_some_and(|shared| shared.is_same(value))
}
