//! Contents of any length, packed into chunks of 64 KiB. Each stays at its position, its *handle*, until it is removed.
//!
//! ```text
//! in use: the content, whose first byte is not 255              rounded up to 4 bytes, at least 12
//! free:   255, 1 byte; units of 4 bytes, 3 bytes │ the next free slot of this size │ the former one
//! ```
//!
//! A removed content leaves a free slot for the next one of its size. When the last content of a chunk is removed, the
//! chunk's memory is released. A content that is longer than a chunk has one of its own.

use std::marker::PhantomData;

/// The position of a content: the number of its chunk and its offset there, in units of 4 bytes.
pub(in crate::values) type Handle = u32;

const UNIT_BYTES: usize = 4;
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_UNITS: u32 = (CHUNK_BYTES / UNIT_BYTES) as u32;
/// What a free slot needs for its links.
const MIN_SLOT_BYTES: usize = 12;
/// The memory that the first content allocates.
const MIN_CHUNK_BYTES: usize = 64;
/// No handle: the offset of the last unit of the last chunk, where no slot begins.
const NONE: Handle = Handle::MAX;
/// The first byte of a free slot.
const FREE: u8 = 0xff;
const NEXT_AT: usize = 4;
const FORMER_AT: usize = 8;

/// What a kind of contents looks like.
pub(in crate::values) trait Content {
    /// The bytes of the content that begins here.
    fn bytes(slot: &[u8]) -> usize;
}

#[derive(Debug)]
pub(in crate::values) struct Slots<C> {
    chunks: Vec<Chunk>,
    /// The chunk that new contents are appended to.
    current: usize,
    /// Chunks without memory.
    vacant: Vec<u32>,
    /// The first free slot of each size that has one, sorted by size.
    free: Vec<FreeList>,
    /// The memory of all chunks.
    chunk_bytes: usize,
    content: PhantomData<C>,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The number of contents.
    contents: u32,
}

#[derive(Clone, Debug)]
struct FreeList {
    units: u32,
    first: Handle,
}

impl<C: Content> Slots<C> {
    pub(in crate::values) fn new() -> Self {
        Slots {
            chunks: Vec::new(),
            current: 0,
            vacant: Vec::new(),
            free: Vec::new(),
            chunk_bytes: 0,
            content: PhantomData,
        }
    }

    /// A slot for a content of so many bytes, which `write` writes into it.
    ///
    /// # Panics
    /// If all contents together need more than 16 GiB.
    pub(in crate::values) fn insert(&mut self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Handle {
        let units = units_of(bytes);
        let handle = self.take_free(units).unwrap_or_else(|| self.append(units));
        self.chunks[chunk_of(handle)].contents += 1;
        let slot = self.get_mut(handle);
        write(&mut slot[..bytes]);
        debug_assert!(slot[0] != FREE && C::bytes(slot) == bytes);
        handle
    }

    pub(in crate::values) fn remove(&mut self, handle: Handle) {
        let units = units_of(C::bytes(self.get(handle)));
        let chunk = &mut self.chunks[chunk_of(handle)];
        chunk.contents -= 1;
        if chunk.contents == 0 {
            self.release_chunk(chunk_of(handle));
        } else {
            self.add_free(handle, units);
        }
    }

    /// The content, and what follows it in its chunk.
    #[inline]
    pub(in crate::values) fn get(&self, handle: Handle) -> &[u8] {
        &self.chunks[chunk_of(handle)].bytes[offset_of(handle)..]
    }

    /// The same, for a change that keeps the size of its slot.
    pub(in crate::values) fn get_mut(&mut self, handle: Handle) -> &mut [u8] {
        &mut self.chunks[chunk_of(handle)].bytes[offset_of(handle)..]
    }

    /// Whether contents of these lengths have slots of the same size.
    pub(in crate::values) fn have_equal_slots(bytes: usize, others: usize) -> bool {
        units_of(bytes) == units_of(others)
    }

    /// The memory that was allocated.
    pub(in crate::values) fn bytes_allocated(&self) -> usize {
        self.chunk_bytes
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.vacant.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<FreeList>()
    }

    /// Adds a slot at the end of the current chunk, or in a new one.
    fn append(&mut self, units: u32) -> Handle {
        let bytes = units as usize * UNIT_BYTES;
        let has_room = |chunk: &Chunk| !chunk.bytes.is_empty() && chunk.bytes.len() + bytes <= CHUNK_BYTES;
        let chunk = match self.chunks.get(self.current) {
            Some(chunk) if has_room(chunk) => self.current,
            _ => self.add_chunk(),
        };
        if bytes <= CHUNK_BYTES {
            self.current = chunk;
        }
        let to = &mut self.chunks[chunk].bytes;
        let (offset, before) = (to.len(), to.capacity());
        if offset + bytes > before {
            let doubled = (2 * before).clamp(MIN_CHUNK_BYTES, CHUNK_BYTES);
            to.reserve_exact(doubled.max(offset + bytes) - offset);
        }
        to.resize(offset + bytes, 0);
        self.chunk_bytes += to.capacity() - before;
        chunk as u32 * CHUNK_UNITS + (offset / UNIT_BYTES) as u32
    }

    fn add_chunk(&mut self) -> usize {
        if let Some(chunk) = self.vacant.pop() {
            return chunk as usize;
        }
        assert!(
            self.chunks.len() < (NONE / CHUNK_UNITS) as usize,
            "the parts of a value have at most 16 GiB"
        );
        self.chunks.push(Chunk::default());
        self.chunks.len() - 1
    }

    /// Releases the memory of a chunk without contents.
    fn release_chunk(&mut self, chunk: usize) {
        let mut unit = 0;
        while let Some(slot) =
            self.chunks[chunk].bytes.get(unit as usize * UNIT_BYTES..).filter(|slot| !slot.is_empty())
        {
            if slot[0] == FREE {
                let units = word(slot, 0) >> u8::BITS;
                self.unlink(chunk as u32 * CHUNK_UNITS + unit, units);
                unit += units;
            } else {
                // The one that is removed.
                unit += units_of(C::bytes(slot));
            }
        }
        let bytes = std::mem::take(&mut self.chunks[chunk].bytes);
        self.chunk_bytes -= bytes.capacity();
        self.vacant.push(chunk as u32);
    }

    fn add_free(&mut self, handle: Handle, units: u32) {
        let next = match self.free.binary_search_by_key(&units, |list| list.units) {
            Ok(at) => std::mem::replace(&mut self.free[at].first, handle),
            Err(at) => {
                self.free.insert(at, FreeList { units, first: handle });
                NONE
            }
        };
        let slot = self.get_mut(handle);
        let head = u32::from(FREE) | units << u8::BITS;
        for (at, word) in [(0, head), (NEXT_AT, next), (FORMER_AT, NONE)] {
            set_word(slot, at, word);
        }
        if next != NONE {
            set_word(self.get_mut(next), FORMER_AT, handle);
        }
    }

    fn take_free(&mut self, units: u32) -> Option<Handle> {
        let at = self.free.binary_search_by_key(&units, |list| list.units).ok()?;
        let handle = self.free[at].first;
        self.unlink(handle, units);
        Some(handle)
    }

    /// Takes a free slot from the list of its size.
    fn unlink(&mut self, handle: Handle, units: u32) {
        let slot = self.get(handle);
        let (next, former) = (word(slot, NEXT_AT), word(slot, FORMER_AT));
        if next != NONE {
            set_word(self.get_mut(next), FORMER_AT, former);
        }
        if former != NONE {
            return set_word(self.get_mut(former), NEXT_AT, next);
        }
        let Ok(at) = self.free.binary_search_by_key(&units, |list| list.units) else { return };
        match next {
            NONE => _ = self.free.remove(at),
            next => self.free[at].first = next,
        }
    }
}

impl<C> Clone for Slots<C> {
    fn clone(&self) -> Self {
        let Slots { chunks, current, vacant, free, content, .. } = self;
        let chunks = chunks.clone();
        // A clone has no spare memory.
        let chunk_bytes = chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        let (vacant, free) = (vacant.clone(), free.clone());
        Slots { chunks, current: *current, vacant, free, chunk_bytes, content: *content }
    }
}

fn chunk_of(handle: Handle) -> usize {
    (handle / CHUNK_UNITS) as usize
}

fn offset_of(handle: Handle) -> usize {
    (handle % CHUNK_UNITS) as usize * UNIT_BYTES
}

/// The units of a slot for a content of this length.
fn units_of(bytes: usize) -> u32 {
    bytes.max(MIN_SLOT_BYTES).div_ceil(UNIT_BYTES) as u32
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a slot has twelve bytes"))
}

fn set_word(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

/// The bit of the first byte of a length that is free for its user. The others are never all set.
pub(in crate::values) const LENGTH_TAG: u8 = 0x80;
/// The first byte if two bytes with the length follow, or four. Shorter lengths are in the first byte.
const TWO: u8 = 0x7d;
const FOUR: u8 = 0x7e;

/// The bytes that a length takes.
pub(in crate::values) fn length_bytes(length: usize) -> usize {
    match length {
        0..0x7d => 1,
        0x7d..0x1_0000 => 3,
        _ => 5,
    }
}

/// Writes a length, and returns where it ends.
///
/// # Panics
/// If it needs more than 32 bits.
pub(in crate::values) fn write_length(to: &mut [u8], length: usize) -> usize {
    match length_bytes(length) {
        1 => to[0] = length as u8,
        3 => {
            to[0] = TWO;
            to[1..3].copy_from_slice(&(length as u16).to_le_bytes());
        }
        _ => {
            to[0] = FOUR;
            let length = u32::try_from(length).expect("a part has less than 4 GiB");
            to[1..5].copy_from_slice(&length.to_le_bytes());
        }
    }
    length_bytes(length)
}

/// The length that begins here, and where it ends.
#[inline]
pub(in crate::values) fn read_length(from: &[u8]) -> (usize, usize) {
    match from[0] & !LENGTH_TAG {
        TWO => (usize::from(u16::from_le_bytes([from[1], from[2]])), 3),
        FOUR => (u32::from_le_bytes([from[1], from[2], from[3], from[4]]) as usize, 5),
        length => (length.into(), 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// A length and so many bytes.
    #[derive(Debug)]
    struct Name;

    impl Content for Name {
        fn bytes(slot: &[u8]) -> usize {
            let (length, at) = read_length(slot);
            at + length
        }
    }

    fn insert(slots: &mut Slots<Name>, name: &[u8]) -> Handle {
        slots.insert(length_bytes(name.len()) + name.len(), |slot| {
            let at = write_length(slot, name.len());
            slot[at..].copy_from_slice(name);
        })
    }

    fn name(slots: &Slots<Name>, handle: Handle) -> &[u8] {
        let slot = slots.get(handle);
        let (length, at) = read_length(slot);
        &slot[at..at + length]
    }

    #[test]
    fn slot_is_rounded_up_to_units_and_has_room_for_links() {
        for (bytes, units) in [(1, 3), (12, 3), (13, 4), (25, 7), (28, 7), (200_005, 50_002)] {
            assert_eq!(units_of(bytes), units, "{bytes} bytes");
        }
    }

    #[test]
    fn lengths_round_trip_and_leave_the_tag_free() {
        for length in [0, 1, 0x7c, 0x7d, 0x7e, 0x7f, 0x80, 0xff, 0xffff, 0x1_0000, 0xffff_ffff] {
            let mut bytes = [0; 5];
            assert_eq!(write_length(&mut bytes, length), length_bytes(length));
            for tag in [0, LENGTH_TAG] {
                bytes[0] |= tag;
                assert_eq!(read_length(&bytes), (length, length_bytes(length)), "{length} {tag}");
                assert_ne!(bytes[0], FREE);
            }
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn slots_match_a_map(steps in proptest::collection::vec((any::<u8>(), 0usize..9, any::<u16>()), 1..300)) {
            let mut slots = Slots::<Name>::new();
            let mut model: BTreeMap<Handle, Vec<u8>> = BTreeMap::new();
            for (seed, action, number) in steps {
                let lengths = [0, 7, 16, 16, 40, 3_000, 30_000, 70_000];
                match lengths.get(action) {
                    Some(length) if seed < 140 => {
                        let name = vec![seed; *length];
                        let handle = insert(&mut slots, &name);
                        prop_assert_eq!(model.insert(handle, name), None, "a handle is given out once");
                    }
                    _ => {
                        let nth = usize::from(number) % model.len().max(1);
                        if let Some(handle) = model.keys().nth(nth).copied() {
                            slots.remove(handle);
                            model.remove(&handle);
                        }
                    }
                }
                for (handle, expected) in &model {
                    prop_assert_eq!(name(&slots, *handle), &expected[..]);
                }
                let chunk_bytes: usize = slots.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
                prop_assert_eq!(slots.chunk_bytes, chunk_bytes);
            }
            model.keys().for_each(|handle| slots.remove(*handle));
            prop_assert_eq!((slots.chunk_bytes, slots.free.len()), (0, 0), "all memory is released");
        }
    }
}
