//! One entry in a block.
//!
//! ```text
//! database │ kind │ length of key, 4 bytes │ length of value, 8 bytes │ deadline, 8 bytes, if it has one │ key │ value
//! ```
//!
//! The value of a string is its bytes, that of any other type what `DUMP` returns.

use larder_engine::raw::Key;

use super::layout::take_u64;
use crate::db::record::DATABASE_COUNT;

const TIMED: u8 = 1;
const SERIALIZED: u8 = 2;
const HEAD_BYTES: usize = 1 + 1 + 4 + 8;

/// An entry as a block has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::db) struct StoredEntry<'a> {
    pub(in crate::db) key: Key<'a>,
    /// In milliseconds of Unix time.
    pub(in crate::db) deadline: Option<i64>,
    /// Whether the value is what `DUMP` returns, and not a string.
    pub(in crate::db) is_serialized: bool,
    pub(in crate::db) value: &'a [u8],
}

impl<'a> StoredEntry<'a> {
    /// Writes all but the value, which follows.
    pub(super) fn write_head(&self, out: &mut Vec<u8>) {
        let is_timed = self.deadline.is_some();
        let kind = (u8::from(is_timed) * TIMED) | (u8::from(self.is_serialized) * SERIALIZED);
        out.extend_from_slice(&[self.key.space, kind]);
        out.extend_from_slice(&(self.key.name.len() as u32).to_le_bytes());
        out.extend_from_slice(&(self.value.len() as u64).to_le_bytes());
        if let Some(deadline) = self.deadline {
            out.extend_from_slice(&deadline.to_le_bytes());
        }
        out.extend_from_slice(self.key.name);
    }

    /// Takes the first entry off a block; `None` if what is there is none.
    pub(super) fn take_first(block: &mut &'a [u8]) -> Option<StoredEntry<'a>> {
        let (head, mut rest) = block.split_at_checked(HEAD_BYTES)?;
        let (space, kind) = (head[0], head[1]);
        let name_len = u32::from_le_bytes(head[2..6].try_into().expect("four bytes")) as usize;
        let (value_len, _) = take_u64(&head[6..]);
        let mut deadline = None;
        if kind & TIMED != 0 {
            let bytes;
            (bytes, rest) = rest.split_first_chunk()?;
            deadline = Some(i64::from_le_bytes(*bytes));
        }
        let (name, rest) = rest.split_at_checked(name_len)?;
        let (value, rest) = rest.split_at_checked(usize::try_from(value_len).ok()?)?;
        *block = rest;
        (usize::from(space) < DATABASE_COUNT).then_some(())?;
        Some(StoredEntry { key: Key { space, name }, deadline, is_serialized: kind & SERIALIZED != 0, value })
    }
}
