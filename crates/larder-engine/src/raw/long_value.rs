//! A long value that is written piece by piece: as it arrives, or copied from another one with other work in between.

use super::page_move::move_bytes;
use super::shared_bytes::SharedBytes;
use std::mem::MaybeUninit;
use std::sync::Arc;

/// The bytes of a value that is not complete yet, for [`Record::with_value`](super::Record::with_value).
///
/// All of its memory is allocated at the start, so no piece is copied again. The system provides the pages of a large
/// allocation when they are written, so the resident memory grows with the pieces.
#[derive(Debug)]
pub struct LongValue {
    bytes: Arc<[MaybeUninit<u8>]>,
    /// The bytes that are written, from the start.
    len: usize,
    /// The bytes that it will have.
    total: usize,
}

impl LongValue {
    /// A value that will have `total_bytes` bytes.
    ///
    /// # Panics
    /// If an allocation may not be so long.
    #[must_use]
    pub fn new(total_bytes: usize) -> Self {
        LongValue { bytes: Arc::new_uninit_slice(total_bytes), len: 0, total: total_bytes }
    }

    /// The same, with room behind it: the value may grow to `capacity` bytes without a copy. The system provides the pages of
    /// the room when they are written.
    ///
    /// # Panics
    /// If an allocation may not be so long, or the capacity is less than the total.
    #[must_use]
    pub fn with_room(total_bytes: usize, capacity: usize) -> Self {
        assert!(total_bytes <= capacity, "{total_bytes} bytes do not fit into {capacity}");
        LongValue { bytes: Arc::new_uninit_slice(capacity), len: 0, total: total_bytes }
    }

    /// The number of bytes that are written.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The number of bytes that are not written yet.
    pub fn missing(&self) -> usize {
        self.total - self.len
    }

    /// Appends a piece.
    ///
    /// # Panics
    /// If it is longer than the missing rest of the value.
    pub fn push(&mut self, piece: &[u8]) {
        let to = self.next(piece.len());
        // SAFETY: both ranges have the same length, and nobody else has a reference to the bytes.
        unsafe { to.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(piece.as_ptr(), piece.len()) };
        self.len += piece.len();
    }

    /// Appends a piece whose bytes are not needed any more: they are unspecified afterwards. Cost: from 64 MiB on, the
    /// system moves whole pages and only the rest is copied.
    ///
    /// # Panics
    /// If it is longer than the missing rest of the value.
    pub fn push_moved(&mut self, piece: &mut [u8]) {
        move_bytes(piece, self.next(piece.len()));
        self.len += piece.len();
    }

    /// Appends `count` zeros.
    ///
    /// # Panics
    /// If the value would become longer than its length.
    pub fn push_zeros(&mut self, count: usize) {
        self.next(count).fill(MaybeUninit::new(0));
        self.len += count;
    }

    /// The next `count` bytes.
    fn next(&mut self, count: usize) -> &mut [MaybeUninit<u8>] {
        let bytes = Arc::get_mut(&mut self.bytes).expect("it has one owner until it is complete");
        &mut bytes[self.len..self.total][..count]
    }

    /// The bytes that are written.
    pub fn written_mut(&mut self) -> &mut [u8] {
        let bytes = Arc::get_mut(&mut self.bytes).expect("it has one owner until it is complete");
        // SAFETY: these bytes are written.
        unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), self.len) }
    }

    /// The complete value.
    ///
    /// # Panics
    /// If bytes are missing.
    #[must_use]
    pub fn into_shared(self) -> SharedBytes {
        assert_eq!(self.missing(), 0, "the value is not complete");
        // SAFETY: so many bytes are written.
        unsafe { SharedBytes::new(self.bytes, self.total) }
    }

    /// The complete value, which was made without room.
    ///
    /// # Panics
    /// If bytes are missing, or there is room.
    #[must_use]
    pub fn finish(self) -> Arc<[u8]> {
        assert_eq!(self.len, self.bytes.len(), "the value is not complete, or it has room");
        // SAFETY: all bytes are written.
        unsafe { self.bytes.assume_init() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::raw::{Key, MAX_INLINE_BYTES, Record};

    #[test]
    fn pieces_become_the_value_of_a_record_without_a_copy() {
        let mut value = LongValue::new(MAX_INLINE_BYTES + 3);
        assert!(value.is_empty());
        value.push(b"ab");
        value.push_zeros(MAX_INLINE_BYTES);
        assert_eq!((value.len(), value.missing()), (MAX_INLINE_BYTES + 2, 1));
        assert!(value.written_mut().starts_with(b"ab\0"));
        value.push(b"c");
        let value = value.finish();
        let record: Record = Record::with_value(Key { space: 0, name: b"k" }, Arc::clone(&value));
        assert!(record.share().is_some_and(|shared| shared.is_same(&Arc::clone(&value).into())));
        assert!(value.starts_with(b"ab\0") && value.ends_with(b"\0c"));
    }

    #[test]
    fn short_value_is_copied_into_the_record() {
        let record: Record = Record::with_value(Key { space: 0, name: b"k" }, Arc::from(&b"short"[..]));
        assert_eq!(record.inline_bytes(), Some(&b"short"[..]));
    }

    #[test]
    #[should_panic(expected = "the value is not complete")]
    fn incomplete_value_cannot_be_used() {
        let _ = LongValue::new(1).finish();
    }
}
