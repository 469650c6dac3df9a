//! The one buffer of a small value with many parts: those parts one after another, and how many they are.
//!
//! ```text
//! bytes in use, 2 │ number of parts, 2 │ parts │ free                  little-endian
//! ```

use std::ops::Range;

/// Where the first part begins.
pub(in crate::values) const HEADER_BYTES: usize = 4;
/// Where the header has the number of parts.
const COUNT_AT: usize = 2;
/// What the header can tell.
const MAX_BYTES: usize = u16::MAX as usize;

/// Parts one after another. Without any it needs no memory.
#[derive(Clone, Debug, Default)]
pub(in crate::values) struct Buffer {
    bytes: Box<[u8]>,
}

impl Buffer {
    /// The number of parts.
    #[inline]
    pub(in crate::values) fn count(&self) -> usize {
        self.bytes
            .get(COUNT_AT..)
            .and_then(<[u8]>::first_chunk)
            .map_or(0, |count| u16::from_le_bytes(*count).into())
    }

    /// The memory that was allocated.
    pub(in crate::values) fn bytes_allocated(&self) -> usize {
        self.bytes.len()
    }

    /// The end of the parts.
    #[inline]
    pub(in crate::values) fn used(&self) -> usize {
        self.bytes.first_chunk().map_or(HEADER_BYTES, |used| u16::from_le_bytes(*used).into())
    }

    /// The header and all parts.
    #[inline]
    pub(in crate::values) fn in_use(&self) -> &[u8] {
        self.bytes.get(..self.used()).unwrap_or_default()
    }

    /// These bytes, for a change in place.
    ///
    /// # Panics
    /// If they are not in use.
    pub(in crate::values) fn range_mut(&mut self, range: Range<usize>) -> &mut [u8] {
        &mut self.bytes[range]
    }

    /// Whether it may have so many bytes in use.
    pub(in crate::values) fn may_use(bytes: usize) -> bool {
        bytes <= MAX_BYTES
    }

    /// Sets the number of parts.
    ///
    /// # Panics
    /// If nothing was written yet, or if there are more than 65,535.
    pub(in crate::values) fn set_count(&mut self, count: usize) {
        let count = u16::try_from(count).expect("a buffer has few parts");
        self.bytes[COUNT_AT..HEADER_BYTES].copy_from_slice(&count.to_le_bytes());
    }

    /// Removes these bytes, which are so many parts.
    pub(in crate::values) fn cut(&mut self, range: Range<usize>, parts: usize) {
        let left = self.count() - parts;
        if left == 0 {
            *self = Buffer::default();
            return;
        }
        self.set_count(left);
        self.splice(range, 0);
    }

    /// Replaces these bytes by so many others, which the caller writes. What follows is moved.
    pub(in crate::values) fn splice(&mut self, range: Range<usize>, bytes: usize) {
        if range.len() == bytes && bytes > 0 {
            return;
        }
        let used = self.used();
        let after = used - range.len() + bytes;
        debug_assert!(Buffer::may_use(after));
        if after > self.bytes.len() {
            self.resize(after);
        }
        self.bytes.copy_within(range.end..used, range.start + bytes);
        self.bytes[..COUNT_AT].copy_from_slice(&(after as u16).to_le_bytes());
        // Not before a quarter is free, so that parts that come and go do not resize it each time.
        if after < self.bytes.len() / 4 * 3 {
            self.resize(after);
        }
    }

    /// Gives the buffer the size for so many bytes.
    fn resize(&mut self, bytes: usize) {
        let size = block_bytes(bytes);
        if size != self.bytes.len() {
            // Another block, because allocators shrink a block where it is, which frees nothing.
            let mut block = vec![0; size].into_boxed_slice();
            let kept = size.min(self.bytes.len());
            block[..kept].copy_from_slice(&self.bytes[..kept]);
            self.bytes = block;
        }
    }
}

/// The size of the block that allocators give out for so many bytes: a multiple of 16, and above 128 one of four sizes
/// between two powers of two.
pub(in crate::values) fn block_bytes(bytes: usize) -> usize {
    let step = (1usize << (bytes - 1).ilog2()) / 4;
    bytes.next_multiple_of(step.max(16))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of mimalloc up to the longest buffer of a sorted set.
    #[test]
    fn buffer_is_a_block_of_the_allocator() {
        let sizes = [
            16, 32, 48, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 640, 768, 896, 1024,
            1280, 1536, 1792, 2048,
        ];
        for bytes in HEADER_BYTES..=2048 {
            let expected = sizes.into_iter().find(|size| *size >= bytes);
            assert_eq!(Some(block_bytes(bytes)), expected, "{bytes} bytes");
        }
    }

    #[test]
    fn parts_are_spliced_and_cut() {
        let mut buffer = Buffer::default();
        assert_eq!((buffer.count(), buffer.used(), buffer.in_use().len()), (0, HEADER_BYTES, 0));
        for (count, part) in (1..).zip([b"first", b"third"]) {
            let at = buffer.used();
            buffer.splice(at..at, 5);
            buffer.set_count(count);
            buffer.range_mut(at..at + 5).copy_from_slice(part);
        }
        buffer.splice(9..9, 6);
        buffer.range_mut(9..15).copy_from_slice(b"second");
        buffer.set_count(3);
        assert_eq!((&buffer.in_use()[HEADER_BYTES..], buffer.count()), (&b"firstsecondthird"[..], 3));
        buffer.cut(4..15, 2);
        assert_eq!((&buffer.in_use()[HEADER_BYTES..], buffer.count()), (&b"third"[..], 1));
        buffer.cut(4..9, 1);
        assert_eq!(buffer.bytes_allocated(), 0);
    }
}
