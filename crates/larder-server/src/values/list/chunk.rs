//! A run of elements in one buffer, with room at either end.
//!
//! ```text
//! free │ element │ element │ … │ free
//! element: length │ bytes │ length, backwards
//! ```
//!
//! A length takes seven bits in each byte, and is there twice so that elements can be walked over in both directions. An element
//! that is added or removed moves the shorter part of the others.

use std::ops::Range;

use crate::values::table::block_bytes;

/// The longest buffer for several elements. A longer element has a buffer of its own.
pub(super) const MAX_CHUNK_BYTES: usize = 8 << 10;
/// The bytes of the longest length.
const MAX_LENGTH_BYTES: usize = 5;

/// Elements in their order. Without any it needs no memory. In a longer buffer than [`MAX_CHUNK_BYTES`] there is one element, from
/// its first byte to its last.
#[derive(Clone, Debug, Default)]
pub(super) struct Chunk {
    buffer: Box<[u8]>,
    start: u16,
    end: u16,
    count: u16,
    /// For the list, which has no other room for it: whether it was changed.
    pub(super) is_changed: bool,
}

/// An element in its buffer.
pub(super) struct Element<'a> {
    /// Where it lies, with its lengths.
    place: Range<usize>,
    pub(super) bytes: &'a [u8],
}

impl Chunk {
    pub(super) fn len(&self) -> usize {
        if self.is_long() { 1 } else { self.count.into() }
    }

    /// Whether it is one long element.
    fn is_long(&self) -> bool {
        self.buffer.len() > MAX_CHUNK_BYTES
    }

    fn start(&self) -> usize {
        if self.is_long() { 0 } else { self.start.into() }
    }

    fn end(&self) -> usize {
        if self.is_long() { self.buffer.len() } else { self.end.into() }
    }

    /// Notes where the elements are. Those of a long one are known.
    fn set_bounds(&mut self, start: usize, end: usize) {
        if !self.is_long() {
            (self.start, self.end) = (start as u16, end as u16);
        }
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.buffer.len()
    }

    /// The bytes in use.
    pub(super) fn used(&self) -> usize {
        self.end() - self.start()
    }

    /// Whether this element can be added. An empty chunk takes any.
    pub(super) fn fits(&self, element: &[u8]) -> bool {
        self.len() == 0 || self.used() + stored_bytes(element.len()) <= MAX_CHUNK_BYTES
    }

    /// The element of this index.
    ///
    /// # Panics
    /// If there are not more elements.
    pub(super) fn at(&self, index: usize) -> Element<'_> {
        let found = match index < self.len() / 2 {
            true => self.walk().nth(index),
            false => self.walk_back().nth(self.len() - 1 - index),
        };
        found.expect("there are more elements")
    }

    /// All elements, from the first one on.
    pub(super) fn walk(&self) -> impl Iterator<Item = Element<'_>> {
        let mut at = self.start();
        std::iter::from_fn(move || {
            let element = self.from(at)?;
            at = element.place.end;
            Some(element)
        })
    }

    /// All elements, from the last one on.
    pub(super) fn walk_back(&self) -> impl Iterator<Item = Element<'_>> {
        let mut at = self.end();
        std::iter::from_fn(move || {
            let element = self.before(at)?;
            at = element.place.start;
            Some(element)
        })
    }

    /// Adds an element before the one of this index, or at the end.
    ///
    /// # Panics
    /// If there are fewer elements.
    pub(super) fn insert(&mut self, index: usize, element: &[u8]) {
        let at = self.offset(index);
        let start = self.make_place(at, stored_bytes(element.len()));
        self.write(start, element);
        // That of a long element is not read.
        self.count += 1;
    }

    /// Replaces the element of this index.
    ///
    /// # Panics
    /// If there are not more elements.
    pub(super) fn replace(&mut self, index: usize, element: &[u8]) {
        if self.len() == 1 {
            *self = Chunk::default();
            return self.insert(0, element);
        }
        let place = self.at(index).place;
        let bytes = stored_bytes(element.len());
        let start = match place.len() == bytes {
            true => place.start,
            false => {
                let start = place.start;
                // What is cut before it moves where it lies.
                let moved = self.cut(place);
                self.make_place((start as isize + moved) as usize, bytes)
            }
        };
        self.write(start, element);
    }

    /// Removes the elements of these indices.
    ///
    /// # Panics
    /// If there are not as many elements.
    pub(super) fn remove(&mut self, indices: Range<usize>) {
        if indices.len() == self.len() {
            *self = Chunk::default();
            return;
        }
        let (from, to) = (self.offset(indices.start), self.offset(indices.end));
        self.count -= indices.len() as u16;
        self.cut(from..to);
        self.shrink();
    }

    /// Removes the elements of whose index `keep` returns false. It is asked in their order.
    pub(super) fn retain(&mut self, mut keep: impl FnMut(usize) -> bool) {
        let (mut read, mut written, mut kept) = (self.start(), self.start(), 0);
        for index in 0..self.len() {
            let place = self.from(read).expect("there are more elements").place;
            read = place.end;
            if keep(index) {
                self.buffer.copy_within(place.clone(), written);
                written += place.len();
                kept += 1;
            }
        }
        self.set_bounds(self.start(), written);
        self.count = kept;
        match kept {
            0 => *self = Chunk::default(),
            _ => self.shrink(),
        }
    }

    /// Takes the elements from this index on.
    pub(super) fn split_off(&mut self, index: usize) -> Chunk {
        let at = self.offset(index);
        let tail = self.buffer[at..self.end()].to_vec();
        let chunk = Chunk::of_bytes(&tail, self.len() - index);
        self.remove(index..self.len());
        chunk
    }

    /// Appends the elements of another chunk.
    pub(super) fn append(&mut self, other: &Chunk) {
        let bytes = &other.buffer[other.start()..other.end()];
        let start = self.make_place(self.end(), bytes.len());
        self.buffer[start..start + bytes.len()].copy_from_slice(bytes);
        self.count += other.count;
    }

    fn of_bytes(bytes: &[u8], count: usize) -> Chunk {
        let mut chunk = Chunk::default();
        let start = chunk.make_place(0, bytes.len());
        chunk.buffer[start..start + bytes.len()].copy_from_slice(bytes);
        chunk.count = count as u16;
        chunk
    }

    /// Where the element of this index lies, or the end.
    fn offset(&self, index: usize) -> usize {
        match index {
            0 => self.start(),
            index if index == self.len() => self.end(),
            index => self.at(index).place.start,
        }
    }

    /// The element that begins here.
    fn from(&self, start: usize) -> Option<Element<'_>> {
        let stored = &self.buffer[start..self.end()];
        let (length, bytes) = read_length(stored.iter().copied())?;
        let first = start + bytes;
        Some(Element { place: start..first + length + bytes, bytes: &self.buffer[first..first + length] })
    }

    /// The element that ends here.
    fn before(&self, end: usize) -> Option<Element<'_>> {
        let stored = &self.buffer[self.start()..end];
        let (length, bytes) = read_length(stored.iter().rev().copied())?;
        let first = end - bytes - length;
        Some(Element { place: first - bytes..end, bytes: &self.buffer[first..first + length] })
    }

    /// Writes an element to its place, which has the right size.
    fn write(&mut self, start: usize, element: &[u8]) {
        let (length, bytes) = encode_length(element.len());
        let place = &mut self.buffer[start..start + stored_bytes(element.len())];
        let (before, rest) = place.split_at_mut(bytes);
        let (content, behind) = rest.split_at_mut(element.len());
        before.copy_from_slice(&length[..bytes]);
        content.copy_from_slice(element);
        behind.copy_from_slice(&length[..bytes]);
        behind.reverse();
    }

    /// Makes a place of so many bytes before this offset, and returns where it begins.
    fn make_place(&mut self, at: usize, bytes: usize) -> usize {
        let (start, end) = (self.start(), self.end());
        let (before, behind) = (at - start, end - at);
        let (front, back) = (start, self.buffer.len() - end);
        if front >= bytes && (before <= behind || back < bytes) {
            self.buffer.copy_within(start..at, start - bytes);
            self.set_bounds(start - bytes, end);
            return at - bytes;
        }
        if back >= bytes {
            self.buffer.copy_within(at..end, at + bytes);
            self.set_bounds(start, end + bytes);
            return at;
        }
        let used = before + bytes + behind;
        let size = match used {
            _ if front + back >= bytes => self.buffer.len(),
            ..=MAX_CHUNK_BYTES => block_bytes(used),
            _ => used,
        };
        let free = size - used;
        // All room where the list grows. One that grows at both ends gets a half at each.
        let new_start = match (before, behind) {
            _ if size == self.buffer.len() => free / 2,
            (0, 1..) => free,
            _ => 0,
        };
        let mut buffer = vec![0; size].into_boxed_slice();
        buffer[new_start..new_start + before].copy_from_slice(&self.buffer[start..at]);
        buffer[new_start + before + bytes..new_start + used].copy_from_slice(&self.buffer[at..end]);
        self.buffer = buffer;
        self.set_bounds(new_start, new_start + used);
        new_start + before
    }

    /// Removes these bytes. Returns by how much what lies behind them was moved.
    fn cut(&mut self, range: Range<usize>) -> isize {
        let (start, end) = (self.start(), self.end());
        if range.start - start < end - range.end {
            self.buffer.copy_within(start..range.start, start + range.len());
            self.set_bounds(start + range.len(), end);
            range.len() as isize
        } else {
            self.buffer.copy_within(range.end..end, range.start);
            self.set_bounds(start, end - range.len());
            0
        }
    }

    /// Gives back memory once a quarter is free: elements that come and go do not move all others each time.
    fn shrink(&mut self) {
        let size = block_bytes(self.used());
        if size < self.buffer.len() && self.used() < self.buffer.len() / 4 * 3 {
            let mut buffer = vec![0; size].into_boxed_slice();
            let used = self.used();
            buffer[..used].copy_from_slice(&self.buffer[self.start()..self.end()]);
            self.buffer = buffer;
            self.set_bounds(0, used);
        }
    }
}

/// What an element of this length needs.
pub(super) fn stored_bytes(length: usize) -> usize {
    length + 2 * encode_length(length).1
}

/// A length in the first bytes, and how many they are.
fn encode_length(mut length: usize) -> ([u8; MAX_LENGTH_BYTES], usize) {
    let mut bytes = [0; MAX_LENGTH_BYTES];
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = length as u8 & 0x7f;
        length >>= 7;
        if length == 0 {
            return (bytes, index + 1);
        }
        *byte |= 0x80;
    }
    unreachable!("an element has at most 512 MiB")
}

/// A length, and of how many bytes it is.
fn read_length(stored: impl Iterator<Item = u8>) -> Option<(usize, usize)> {
    let mut length = 0;
    for (index, byte) in stored.take(MAX_LENGTH_BYTES).enumerate() {
        length |= usize::from(byte & 0x7f) << (7 * index);
        if byte & 0x80 == 0 {
            return Some((length, index + 1));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn contents(chunk: &Chunk) -> Vec<Vec<u8>> {
        let forwards: Vec<_> = chunk.walk().map(|element| element.bytes.to_vec()).collect();
        let mut backwards: Vec<_> = chunk.walk_back().map(|element| element.bytes.to_vec()).collect();
        backwards.reverse();
        assert_eq!((&forwards, forwards.len()), (&backwards, chunk.len()));
        forwards
    }

    #[test]
    fn lengths_are_read_from_both_ends() {
        for length in [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_152, 512 << 20] {
            let (bytes, count) = encode_length(length);
            assert_eq!(read_length(bytes[..count].iter().copied()), Some((length, count)));
            assert_eq!(stored_bytes(length), length + 2 * count);
        }
        let mut chunk = Chunk::default();
        for length in [0usize, 127, 128, 5_000, 1] {
            chunk.insert(chunk.len(), &vec![b'x'; length]);
        }
        assert_eq!(contents(&chunk).iter().map(Vec::len).collect::<Vec<_>>(), [0, 127, 128, 5_000, 1]);
    }

    #[test]
    fn replaced_elements_keep_their_place() {
        let mut chunk = Chunk::default();
        for text in ["a", "bb", "ccc", "dddd"] {
            chunk.insert(chunk.len(), text.as_bytes());
        }
        for (index, text) in [(0, "long enough to grow the buffer"), (3, ""), (1, "zz"), (2, "c")] {
            chunk.replace(index, text.as_bytes());
        }
        assert_eq!(contents(&chunk), [&b"long enough to grow the buffer"[..], b"zz", b"c", b""]);
    }

    /// Room that is at the other end is used before the buffer grows, and not moved at each turn.
    #[test]
    fn elements_at_both_ends_by_turns_share_one_buffer() {
        let mut chunk = Chunk::default();
        let mut expected = std::collections::VecDeque::new();
        for index in 0..200u8 {
            let element = [index; 16];
            if index % 2 == 0 {
                chunk.insert(0, &element);
                expected.push_front(element.to_vec());
            } else {
                chunk.insert(chunk.len(), &element);
                expected.push_back(element.to_vec());
            }
            assert!(chunk.bytes_allocated() <= block_bytes(chunk.used()), "{index}");
        }
        assert!(contents(&chunk).iter().eq(&expected));
        for _ in 0..190 {
            chunk.remove(0..1);
        }
        assert_eq!(chunk.bytes_allocated(), block_bytes(chunk.used()));
        chunk.remove(0..10);
        assert_eq!((chunk.len(), chunk.bytes_allocated()), (0, 0));
    }

    #[test]
    fn parts_are_split_and_joined() {
        let mut chunk = Chunk::default();
        for index in 0..100u8 {
            chunk.insert(chunk.len(), &[index; 30]);
        }
        let all = contents(&chunk);
        for index in [0, 1, 50, 99, 100] {
            let (mut head, mut tail) = (chunk.clone(), Chunk::default());
            if index < chunk.len() {
                tail = head.split_off(index);
            }
            assert_eq!((contents(&head), contents(&tail)), (all[..index].to_vec(), all[index..].to_vec()));
            head.append(&tail);
            assert_eq!(contents(&head), all);
        }
        chunk.retain(|index| index % 3 == 0);
        assert_eq!(contents(&chunk), all.iter().step_by(3).cloned().collect::<Vec<_>>());
        chunk.retain(|_| false);
        assert_eq!(chunk.bytes_allocated(), 0);
    }
}
