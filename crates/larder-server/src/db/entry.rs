//! An entry while its shard is locked, and what a command does with it.

use larder_engine::raw::{self, Lengthened, MIN_MOVED_BYTES, SharedBytes};

use super::clock::{Expiry, ServerClock};
use super::object::{Collection, Object, WrongType};
use super::record::{Record, is_value_of};
use crate::values::hash::Hash;
use crate::values::large::{self, LARGE_BYTES};

/// An entry while its shard is locked. Commands must use it only briefly.
pub(crate) struct Entry<'a> {
    entry: raw::Entry<'a, Object>,
    clock: ServerClock,
}

impl<'a> Entry<'a> {
    pub(super) fn new(entry: raw::Entry<'a, Object>, clock: ServerClock) -> Self {
        Entry { entry, clock }
    }

    /// When it expires, in milliseconds of Unix time.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        self.entry.deadline_ms().map(|ms| self.clock.to_unix_ms(ms))
    }

    /// The entry, if its value is a string.
    pub(crate) fn into_string(self) -> Result<StringEntry<'a>, WrongType> {
        match self.entry.record().bytes() {
            Some(_) => Ok(StringEntry(self.entry)),
            None => Err(WrongType),
        }
    }

    /// The value, if it is of this type. Return [`EntryOp::Edited`] after a change.
    pub(super) fn into_collection<C: Collection>(self) -> Result<&'a mut C, WrongType> {
        self.entry.into_object_mut().and_then(C::of_mut).ok_or(WrongType)
    }

    /// The value, if it is a hash. Return [`EntryOp::Edited`] after a change.
    pub(super) fn into_hash(self) -> Result<&'a mut Hash, WrongType> {
        match self.entry.into_object_mut() {
            Some(Object::Hash(hash)) => Ok(hash),
            _ => Err(WrongType),
        }
    }
}

/// An entry whose value is a string, while its shard is locked.
pub(crate) struct StringEntry<'a>(raw::Entry<'a, Object>);

impl StringEntry<'_> {
    pub(crate) fn value(&self) -> &[u8] {
        self.0.record().bytes().unwrap_or_default()
    }

    /// The value, if it is long: for a copy after the lock is released.
    pub(crate) fn share(&self) -> Option<SharedBytes> {
        self.0.record().share()
    }

    /// Whether the value is this very one, and not another with the same bytes.
    pub(crate) fn is_value(&self, value: &SharedBytes) -> bool {
        is_value_of(self.0.record(), value)
    }

    /// Appends zeros to a long value until it has `length` bytes; if it outgrows its room, it gets this capacity. Returns
    /// whether that was possible in a moment: not if a client receives the value, if it grows by much, or if it outgrows its
    /// room and is neither short nor very large. Return [`EntryOp::Edited`] afterwards.
    pub(crate) fn lengthen(&mut self, length: usize, capacity: usize) -> bool {
        let former_len = self.value().len();
        if length - former_len >= LARGE_BYTES {
            return false;
        }
        // The bytes of a short value are copied under the lock of the key, and those of a very large one keep their pages, which
        // the system gives other addresses. A value between them is left to the slices of `LargeEdit`.
        if !self.0.record().has_room(length) && (LARGE_BYTES..MIN_MOVED_BYTES).contains(&former_len) {
            return false;
        }
        match self.0.lengthen(length, capacity) {
            Lengthened::Unchanged => false,
            Lengthened::InPlace => true,
            // What is left of the former value has no content, but to free it takes time: that is for another thread.
            Lengthened::Moved(former) => {
                large::release(former);
                true
            }
        }
    }

    /// The value, for a change in place that keeps its length. Return [`EntryOp::Edited`] afterwards.
    pub(crate) fn value_mut(&mut self) -> &mut [u8] {
        self.0.bytes_mut().unwrap_or_default()
    }
}

/// An entry before an update.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum EntryState {
    Missing,
    /// Without a deadline.
    Timeless,
    Timed,
}

impl EntryState {
    #[inline]
    pub(super) fn of(entry: Option<&raw::Entry<'_, Object>>) -> Self {
        match entry.map(raw::Entry::deadline_ms) {
            None => EntryState::Missing,
            Some(None) => EntryState::Timeless,
            Some(Some(_)) => EntryState::Timed,
        }
    }
}

/// The operation of a command on an entry.
pub(crate) enum EntryOp {
    Keep,
    /// Its value was changed in place; the deadline is kept.
    Edited,
    /// Replace it by a record of the same key.
    Put(Record, Expiry),
    Expire(Expiry),
    Remove,
}

impl EntryOp {
    pub(super) fn into_raw(self, clock: ServerClock) -> raw::UpdateOp<Object> {
        match self {
            EntryOp::Keep => raw::UpdateOp::Keep,
            EntryOp::Edited => raw::UpdateOp::Edited(larder_engine::Ttl::Keep),
            EntryOp::Put(record, expiry) => raw::UpdateOp::Put(record, clock.ttl(expiry)),
            EntryOp::Expire(expiry) => raw::UpdateOp::SetTtl(clock.ttl(expiry)),
            EntryOp::Remove => raw::UpdateOp::Remove,
        }
    }
}

/// The entry is larger than the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

/// Why an entry was not updated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UpdateError {
    OutOfMemory,
    WrongType,
}

impl From<OutOfMemory> for UpdateError {
    fn from(_: OutOfMemory) -> Self {
        UpdateError::OutOfMemory
    }
}

impl From<WrongType> for UpdateError {
    fn from(_: WrongType) -> Self {
        UpdateError::WrongType
    }
}
