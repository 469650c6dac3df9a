//! The form of a small hash: all fields in one buffer, in the order in which they were added.
//!
//! ```text
//! code of the name, 1; its top bit: has a deadline │ code of the value, 1 │ deadline, 8 │ name │ value
//! ```
//!
//! Every operation walks over the fields, which is why they are few.

use std::ops::Range;

use super::Field;
use crate::values::element::{Element, decode, stored_bytes};
use crate::values::table::{Buffer, HEADER_BYTES};

/// Redis stores a hash in another form above this number of fields.
pub(super) const MAX_FIELDS: usize = 512;
/// The bit of a name's code that tells that a deadline follows.
const TIMED: u8 = 0x80;
const CODES_BYTES: usize = 2;
const DEADLINE_BYTES: usize = size_of::<i64>();

/// Fields in a buffer. Without any it needs no memory.
#[derive(Clone, Debug, Default)]
pub(super) struct Packed {
    buffer: Buffer,
}

/// There is no room for a field: it is too long, or the others are too many.
#[derive(Debug)]
pub(super) struct Full;

/// A field in the buffer: only what is asked for is read.
struct Stored<'a> {
    buffer: &'a [u8],
    start: usize,
    name_at: usize,
    value_at: usize,
    end: usize,
}

impl<'a> Stored<'a> {
    fn name_code(&self) -> u8 {
        self.buffer[self.start] & !TIMED
    }

    fn deadline(&self) -> Option<i64> {
        let deadline = self.buffer[self.start + CODES_BYTES..self.name_at].first_chunk()?;
        Some(i64::from_le_bytes(*deadline))
    }

    /// The last byte tells apart most names that begin in the same way, without a call.
    #[inline]
    fn is_named(&self, code: u8, name: &[u8]) -> bool {
        self.name_code() == code
            && name.last().is_none_or(|last| self.buffer[self.value_at - 1] == *last)
            && self.buffer[self.name_at..self.value_at] == *name
    }

    /// Calls `f` with the field.
    fn read<R>(&self, f: impl FnOnce(Field<'_>) -> R) -> R {
        let [mut name, mut value] = [itoa::Buffer::new(); 2];
        f(Field {
            name: decode(self.name_code(), &self.buffer[self.name_at..self.value_at], &mut name),
            value: decode(self.buffer[self.start + 1], &self.buffer[self.value_at..self.end], &mut value),
            deadline: self.deadline(),
        })
    }

    fn range(&self) -> Range<usize> {
        self.start..self.end
    }
}

/// The fields of a buffer from an offset on.
struct Walk<'a> {
    buffer: &'a [u8],
    at: usize,
}

impl<'a> Iterator for Walk<'a> {
    type Item = Stored<'a>;

    #[inline]
    fn next(&mut self) -> Option<Stored<'a>> {
        let start = self.at;
        let &[name_code, value_code] = self.buffer.get(start..)?.first_chunk()?;
        let deadline_bytes = if name_code & TIMED == 0 { 0 } else { DEADLINE_BYTES };
        let name_at = start + CODES_BYTES + deadline_bytes;
        let value_at = name_at + stored_bytes(name_code & !TIMED);
        self.at = value_at + stored_bytes(value_code);
        Some(Stored { buffer: self.buffer, start, name_at, value_at, end: self.at })
    }
}

impl Packed {
    pub(super) fn len(&self) -> usize {
        self.buffer.count()
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.buffer.bytes_allocated()
    }

    /// Calls `f` with the field of this name, if there is one.
    pub(super) fn read<R>(&self, name: &[u8], f: impl FnOnce(Field<'_>) -> R) -> Option<R> {
        Some(self.find(&Element::new(name)?)?.read(f))
    }

    /// Calls `f` with all fields.
    pub(super) fn visit(&self, mut f: impl FnMut(Field<'_>)) {
        self.walk().for_each(|stored| stored.read(&mut f));
    }

    /// Calls `f` with the field of this rank.
    ///
    /// # Panics
    /// If there are not more fields.
    pub(super) fn read_at<R>(&self, rank: usize, f: impl FnOnce(Field<'_>) -> R) -> R {
        self.walk().nth(rank).expect("there are more fields").read(f)
    }

    /// The deadlines of the fields that have one.
    pub(super) fn deadlines(&self) -> impl Iterator<Item = i64> {
        self.walk().filter_map(|stored| stored.deadline())
    }

    /// Stores a field; returns whether it is new.
    ///
    /// # Errors
    /// [`Full`]. Nothing was changed then.
    pub(super) fn insert(&mut self, field: Field<'_>) -> Result<bool, Full> {
        let (name, value) = Element::new(field.name).zip(Element::new(field.value)).ok_or(Full)?;
        let found = self.find(&name).map(|stored| stored.range());
        let is_new = found.is_none();
        let end = self.buffer.used();
        let range = found.unwrap_or(end..end);
        let deadline_bytes = field.deadline.map(i64::to_le_bytes);
        let deadline = deadline_bytes.as_ref().map_or(&[][..], |bytes| &bytes[..]);
        let bytes = CODES_BYTES + deadline.len() + name.bytes().len() + value.bytes().len();
        let fields = self.len() + usize::from(is_new);
        if fields > MAX_FIELDS || !Buffer::may_use(end - range.len() + bytes) {
            return Err(Full);
        }
        let start = range.start;
        self.buffer.splice(range, bytes);
        self.buffer.set_count(fields);
        let tag = if deadline.is_empty() { 0 } else { TIMED };
        let mut at = start;
        for part in [&[name.code | tag, value.code][..], deadline, name.bytes(), value.bytes()] {
            self.buffer.range_mut(at..at + part.len()).copy_from_slice(part);
            at += part.len();
        }
        Ok(is_new)
    }

    /// Removes a field; returns whether there was one.
    pub(super) fn remove(&mut self, name: &[u8]) -> bool {
        let found = Element::new(name).and_then(|name| self.find(&name).map(|stored| stored.range()));
        let Some(range) = found else { return false };
        self.buffer.cut(range, 1);
        true
    }

    fn find(&self, name: &Element<'_>) -> Option<Stored<'_>> {
        let bytes = name.bytes();
        self.walk().find(|stored| stored.is_named(name.code, bytes))
    }

    fn walk(&self) -> Walk<'_> {
        Walk { buffer: self.buffer.in_use(), at: HEADER_BYTES }
    }
}
