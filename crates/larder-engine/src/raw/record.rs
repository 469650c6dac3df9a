//! A key and its value in one block of memory, behind a pointer of one word.
//!
//! ```text
//! block: space, 1 byte │ length of the name, varint │ length of the value, varint │ name │ value
//! ```
//!
//! For names and values below 128 bytes the header takes three bytes. An entry costs one allocation.

use crate::prefetch::{prefetch, prefetch_at};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::hash::{Hash, Hasher};
use std::ptr::NonNull;

/// A borrowed key: a name in one of 256 spaces. Spaces share the capacity and nothing else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key<'a> {
    /// The number of the space.
    pub space: u8,
    /// The name, any bytes.
    pub name: &'a [u8],
}

impl Hash for Key<'_> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write(self.name);
        // After the name: it also separates keys for hashers that see only a stream of bytes.
        state.write_u8(self.space);
    }
}

impl crate::Equivalent<Record> for Key<'_> {
    #[inline]
    fn equivalent(&self, record: &Record) -> bool {
        *self == record.key()
    }
}

/// A stored key with its value.
pub struct Record(NonNull<u8>);

// SAFETY: a record is the only owner of its block, as a `Box<[u8]>` would be.
unsafe impl Send for Record {}
// SAFETY: likewise; through a shared reference the block is only read.
unsafe impl Sync for Record {}

/// A record would be longer than an allocation may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the record is longer than an allocation may be")]
pub struct TooLong;

/// The offsets in a block.
#[derive(Clone, Copy)]
struct Shape {
    name_at: usize,
    value_at: usize,
    end: usize,
}

/// The size of a cache line.
const LINE_BYTES: usize = 64;
/// The longest header: the space and two varints of 64 bits.
const MAX_HEAD_BYTES: usize = 1 + 2 * 10;

impl Record {
    /// A record whose value is the concatenation of `parts`. Cost: one allocation, one copy.
    ///
    /// # Panics
    /// If the record is longer than an allocation may be: see [`Record::try_new`].
    #[must_use]
    pub fn new(key: Key<'_>, parts: &[&[u8]]) -> Self {
        Self::try_new(key, parts).expect("a record fits into an allocation")
    }

    /// As [`Record::new`], for parts whose total length is not bounded: parts may overlap, so a few bytes of a request can
    /// ask for more than there is memory.
    ///
    /// # Errors
    /// [`TooLong`] if the record is longer than an allocation may be. Nothing was allocated then.
    pub fn try_new(key: Key<'_>, parts: &[&[u8]]) -> Result<Self, TooLong> {
        let value_len = total_len(parts.iter().map(|part| part.len()))?;
        let mut head = [0; MAX_HEAD_BYTES];
        head[0] = key.space;
        let mut head_len = 1;
        for number in [key.name.len(), value_len] {
            head_len += write_varint(&mut head[head_len..], number);
        }
        let layout = layout(total_len([head_len, key.name.len(), value_len].into_iter())?);
        // SAFETY: the layout is not empty: a header has at least three bytes.
        let block = unsafe { alloc(layout) };
        let Some(block) = NonNull::new(block) else { handle_alloc_error(layout) };
        let mut at = block;
        for bytes in [&head[..head_len], key.name].iter().chain(parts) {
            // SAFETY: the block is as long as all parts together, and no other reference to it exists yet.
            unsafe {
                at.copy_from_nonoverlapping(NonNull::from(*bytes).cast(), bytes.len());
                at = at.add(bytes.len());
            }
        }
        Ok(Record(block))
    }

    /// The key.
    #[inline]
    pub fn key(&self) -> Key<'_> {
        let Shape { name_at, value_at, .. } = self.shape();
        // SAFETY: `new` wrote the whole block, and the shape is what it wrote there.
        unsafe { Key { space: self.0.read(), name: self.bytes(name_at, value_at) } }
    }

    /// The value.
    #[inline]
    pub fn value(&self) -> &[u8] {
        let Shape { value_at, end, .. } = self.shape();
        // SAFETY: as in `key`.
        unsafe { self.bytes(value_at, end) }
    }

    /// Mutable access to the value, whose length stays.
    pub fn value_mut(&mut self) -> &mut [u8] {
        let Shape { value_at, end, .. } = self.shape();
        // SAFETY: as in `key`, and the record is borrowed exclusively.
        unsafe { std::slice::from_raw_parts_mut(self.0.add(value_at).as_ptr(), end - value_at) }
    }

    /// Prefetches the start of the block: header, name, and a short value.
    #[inline]
    pub(super) fn prefetch(&self) {
        // SAFETY: a block has at least three bytes.
        prefetch(unsafe { self.0.as_ref() });
        // The next line may lie beyond the end of the block, which is harmless for a prefetch.
        prefetch_at(self.0.as_ptr().wrapping_add(LINE_BYTES));
    }

    /// The size of the whole block in bytes.
    pub fn bytes_allocated(&self) -> usize {
        self.shape().end
    }

    /// # Safety
    /// The range lies in the block.
    #[inline]
    unsafe fn bytes(&self, from: usize, to: usize) -> &[u8] {
        // SAFETY: the caller guarantees the range, and the block lives as long as the record.
        unsafe { std::slice::from_raw_parts(self.0.add(from).as_ptr(), to - from) }
    }

    #[inline]
    fn shape(&self) -> Shape {
        // SAFETY: `new` wrote two varints behind the space.
        let (name_len, value_at_len) = unsafe { self.read_varint(1) };
        // SAFETY: likewise.
        let (value_len, name_at) = unsafe { self.read_varint(value_at_len) };
        let value_at = name_at + name_len;
        Shape { name_at, value_at, end: value_at + value_len }
    }

    /// The number at offset `at`, and the offset behind it.
    ///
    /// # Safety
    /// A varint begins there.
    #[inline]
    unsafe fn read_varint(&self, mut at: usize) -> (usize, usize) {
        let (mut number, mut shift) = (0, 0);
        loop {
            // SAFETY: the caller guarantees that a varint begins here, and its last byte is the first below 128.
            let byte = unsafe { self.0.add(at).read() };
            at += 1;
            number |= usize::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return (number, at);
            }
            shift += 7;
        }
    }
}

/// Writes seven bits per byte, lowest first; all bytes but the last have the top bit set. Returns the length.
fn write_varint(to: &mut [u8], mut number: usize) -> usize {
    let mut at = 0;
    while number >= 0x80 {
        to[at] = number as u8 | 0x80;
        number >>= 7;
        at += 1;
    }
    to[at] = number as u8;
    at + 1
}

/// The sum of some lengths, unless it exceeds the longest allocation.
fn total_len(mut lengths: impl Iterator<Item = usize>) -> Result<usize, TooLong> {
    lengths
        .try_fold(0usize, |sum, len| sum.checked_add(len))
        .filter(|sum| *sum <= isize::MAX as usize)
        .ok_or(TooLong)
}

fn layout(bytes: usize) -> Layout {
    Layout::array::<u8>(bytes).expect("`total_len` refused what does not fit")
}

impl Drop for Record {
    fn drop(&mut self) {
        // SAFETY: the block was allocated by `new` with this layout, and it is not used again.
        unsafe { dealloc(self.0.as_ptr(), layout(self.bytes_allocated())) }
    }
}

impl Hash for Record {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Records are equal if their keys are.
impl PartialEq for Record {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Record {}

impl std::fmt::Debug for Record {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Record").field("key", &self.key()).field("value_len", &self.value().len()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Equivalent;
    use proptest::prelude::*;

    #[test]
    fn record_short_value_has_three_bytes_of_header() {
        let record = Record::new(Key { space: 3, name: b"name" }, &[b"val", b"ue"]);
        assert_eq!((size_of::<Option<Record>>(), record.bytes_allocated()), (8, 4 + 5 + 3));
    }

    /// Parts may overlap: on a machine with 32 bits, 256 times the same 16 MiB are more than there is memory.
    #[test]
    fn total_len_beyond_an_allocation_is_refused() {
        let part = usize::MAX / 256 + 1;
        assert_eq!(total_len(std::iter::repeat_n(part, 256)), Err(TooLong), "the sum wraps to zero");
        assert_eq!(total_len([isize::MAX as usize, 1].into_iter()), Err(TooLong));
        assert_eq!(total_len([isize::MAX as usize - 1, 1].into_iter()), Ok(isize::MAX as usize));
    }

    proptest! {
        #[test]
        fn record_round_trips_any_bytes(
            space in any::<u8>(),
            name in proptest::collection::vec(any::<u8>(), 0..300),
            head in proptest::collection::vec(any::<u8>(), 0..20_000),
            tail in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let key = Key { space, name: &name };
            let mut record = Record::new(key, &[&head, &tail]);
            prop_assert_eq!(record.key(), key);
            prop_assert!(key.equivalent(&record));
            prop_assert_eq!(record.value(), [&head[..], &tail].concat());
            record.value_mut().fill(7);
            prop_assert_eq!(record.key(), key, "changing the value keeps the key");
            prop_assert_eq!(record.value(), vec![7; head.len() + tail.len()]);
            let other = Key { space: space.wrapping_add(1), name: &name };
            prop_assert!(!other.equivalent(&record));
        }
    }
}
