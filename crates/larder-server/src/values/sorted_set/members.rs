//! The members of a sorted set with their scores, packed into chunks of 64 KiB. A member stays at its position, its
//! *handle*, until it is removed.
//!
//! ```text
//! in use: score, 8 bytes │ length of the name, varint │ name                        rounded up to 4 bytes, at least 16
//! free:   NaN, 8 bytes; its low half is the next free slot of this size │ the former one │ units of 4 bytes
//! ```
//!
//! A removed member leaves a free slot for the next one of its size. When the last member of a chunk is removed, the
//! chunk's memory is released. A member that is longer than a chunk has one of its own.

use super::bounds::Member;

/// The position of a member: the number of its chunk and its offset there, in units of 4 bytes.
pub(super) type Handle = u32;

const UNIT_BYTES: usize = 4;
const CHUNK_BYTES: usize = 64 << 10;
const CHUNK_UNITS: u32 = (CHUNK_BYTES / UNIT_BYTES) as u32;
/// What a free slot needs for its links.
const MIN_SLOT_BYTES: usize = 16;
/// The memory that the first member allocates.
const MIN_CHUNK_BYTES: usize = 64;
const SCORE_BYTES: usize = 8;
/// No handle: the offset of the last unit of the last chunk, where no slot begins.
const NONE: Handle = Handle::MAX;
/// The high half of the NaN that marks a free slot. No score is NaN.
const FREE: u32 = 0x7ff8_0000;

#[derive(Debug, Default)]
pub(super) struct Members {
    chunks: Vec<Chunk>,
    /// The chunk that new members are appended to.
    current: usize,
    /// Chunks without memory.
    vacant: Vec<u32>,
    /// The first free slot of each size that has one, sorted by size.
    free: Vec<FreeList>,
    /// The memory of all chunks.
    chunk_bytes: usize,
}

#[derive(Clone, Debug, Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The number of members.
    members: u32,
}

#[derive(Clone, Debug)]
struct FreeList {
    units: u32,
    first: Handle,
}

/// A slot, as a walk finds it.
struct Slot {
    units: u32,
    is_free: bool,
}

impl Members {
    /// Stores a member.
    ///
    /// # Panics
    /// If all members together need more than 16 GiB.
    pub(super) fn insert(&mut self, score: f64, name: &[u8]) -> Handle {
        let units = units_of(name.len());
        let handle = self.take_free(units).unwrap_or_else(|| self.append(units));
        let chunk = &mut self.chunks[chunk_of(handle)];
        chunk.members += 1;
        let slot = &mut chunk.bytes[offset_of(handle)..];
        slot[..SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
        let name_at = SCORE_BYTES + write_varint(&mut slot[SCORE_BYTES..], name.len());
        slot[name_at..name_at + name.len()].copy_from_slice(name);
        handle
    }

    pub(super) fn remove(&mut self, handle: Handle) {
        let units = units_of(self.name(handle).len());
        let chunk = &mut self.chunks[chunk_of(handle)];
        chunk.members -= 1;
        if chunk.members == 0 {
            self.release_chunk(chunk_of(handle));
        } else {
            self.add_free(handle, units);
        }
    }

    #[inline]
    pub(super) fn score(&self, handle: Handle) -> f64 {
        f64::from_le_bytes(*self.slot(handle).first_chunk().expect("a slot has a score"))
    }

    pub(super) fn set_score(&mut self, handle: Handle, score: f64) {
        self.slot_mut(handle)[..SCORE_BYTES].copy_from_slice(&score.to_le_bytes());
    }

    #[inline]
    pub(super) fn name(&self, handle: Handle) -> &[u8] {
        let (length, name) = read_varint(&self.slot(handle)[SCORE_BYTES..]);
        &name[..length]
    }

    #[inline]
    pub(super) fn get(&self, handle: Handle) -> Member<'_> {
        (self.name(handle), self.score(handle))
    }

    /// Calls `f` with about `count` members starting at a position, and returns the position to continue with. Zero
    /// starts a walk, and ends it when it is returned. Members that stay throughout are visited exactly once.
    pub(super) fn walk(&self, from: u64, count: usize, mut f: impl FnMut(Handle)) -> u64 {
        let (first, from_unit) =
            ((from / u64::from(CHUNK_UNITS)) as usize, (from % u64::from(CHUNK_UNITS)) as u32);
        let mut left = count.max(1);
        for index in first..self.chunks.len() {
            let mut unit = 0;
            while let Some(slot) = self.slot_at(index, unit) {
                let handle = index as u32 * CHUNK_UNITS + unit;
                // The position may be inside of a slot that was free or shorter when it was returned.
                if !slot.is_free && (index > first || unit >= from_unit) {
                    if left == 0 {
                        return handle.into();
                    }
                    f(handle);
                    left -= 1;
                }
                unit += slot.units;
            }
        }
        0
    }

    /// The memory that was allocated.
    pub(super) fn bytes_allocated(&self) -> usize {
        self.chunk_bytes
            + self.chunks.capacity() * size_of::<Chunk>()
            + self.vacant.capacity() * size_of::<u32>()
            + self.free.capacity() * size_of::<FreeList>()
    }

    #[inline]
    fn slot(&self, handle: Handle) -> &[u8] {
        &self.chunks[chunk_of(handle)].bytes[offset_of(handle)..]
    }

    fn slot_mut(&mut self, handle: Handle) -> &mut [u8] {
        &mut self.chunks[chunk_of(handle)].bytes[offset_of(handle)..]
    }

    /// The slot that begins at this unit of a chunk, if any does.
    fn slot_at(&self, chunk: usize, unit: u32) -> Option<Slot> {
        let bytes =
            self.chunks[chunk].bytes.get(unit as usize * UNIT_BYTES..).filter(|bytes| !bytes.is_empty())?;
        let is_free = f64::from_le_bytes(*bytes.first_chunk()?).is_nan();
        let units = if is_free { word(bytes, 12) } else { units_of(read_varint(&bytes[SCORE_BYTES..]).0) };
        Some(Slot { units, is_free })
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
            "a sorted set has at most 16 GiB of members"
        );
        self.chunks.push(Chunk::default());
        self.chunks.len() - 1
    }

    /// Releases the memory of a chunk without members.
    fn release_chunk(&mut self, chunk: usize) {
        let mut unit = 0;
        while let Some(slot) = self.slot_at(chunk, unit) {
            if slot.is_free {
                self.unlink(chunk as u32 * CHUNK_UNITS + unit, slot.units);
            }
            unit += slot.units;
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
        let slot = self.slot_mut(handle);
        for (at, word) in [(0, next), (4, FREE), (8, NONE), (12, units)] {
            set_word(slot, at, word);
        }
        if next != NONE {
            set_word(self.slot_mut(next), 8, handle);
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
        let slot = self.slot(handle);
        let (next, former) = (word(slot, 0), word(slot, 8));
        if next != NONE {
            set_word(self.slot_mut(next), 8, former);
        }
        if former != NONE {
            return set_word(self.slot_mut(former), 0, next);
        }
        let Ok(at) = self.free.binary_search_by_key(&units, |list| list.units) else { return };
        match next {
            NONE => _ = self.free.remove(at),
            next => self.free[at].first = next,
        }
    }
}

impl Clone for Members {
    fn clone(&self) -> Self {
        let Members { chunks, current, vacant, free, .. } = self;
        let chunks = chunks.clone();
        // A clone has no spare memory.
        let chunk_bytes = chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
        Members { chunks, current: *current, vacant: vacant.clone(), free: free.clone(), chunk_bytes }
    }
}

fn chunk_of(handle: Handle) -> usize {
    (handle / CHUNK_UNITS) as usize
}

fn offset_of(handle: Handle) -> usize {
    (handle % CHUNK_UNITS) as usize * UNIT_BYTES
}

/// The units of a slot for a name of this length.
fn units_of(name_bytes: usize) -> u32 {
    let varint_bytes = (usize::BITS - (name_bytes | 1).leading_zeros()).div_ceil(7) as usize;
    let bytes = (SCORE_BYTES + varint_bytes + name_bytes).max(MIN_SLOT_BYTES);
    bytes.div_ceil(UNIT_BYTES) as u32
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

/// The number at the start, and what follows it.
#[inline]
fn read_varint(bytes: &[u8]) -> (usize, &[u8]) {
    let (mut number, mut at) = (0, 0);
    loop {
        let byte = bytes[at];
        number |= usize::from(byte & 0x7f) << (7 * at);
        at += 1;
        if byte < 0x80 {
            return (number, &bytes[at..]);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("a slot has sixteen bytes"))
}

fn set_word(bytes: &mut [u8], at: usize, word: u32) {
    bytes[at..at + 4].copy_from_slice(&word.to_le_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn name(seed: u8, bytes: usize) -> Vec<u8> {
        vec![seed; bytes]
    }

    #[test]
    fn slot_of_a_short_name_has_nine_bytes_more() {
        for (bytes, units) in
            [(0, 4), (7, 4), (8, 5), (16, 7), (19, 7), (127, 34), (128, 35), (200_000, 50_003)]
        {
            assert_eq!(units_of(bytes), units, "{bytes} bytes");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn members_match_a_map(steps in proptest::collection::vec((any::<u8>(), 0usize..9, any::<u16>()), 1..300)) {
            let mut members = Members::default();
            let mut model: BTreeMap<Handle, (f64, Vec<u8>)> = BTreeMap::new();
            for (seed, action, number) in steps {
                let lengths = [0, 7, 16, 16, 40, 3_000, 30_000, 70_000];
                match lengths.get(action) {
                    Some(length) if seed < 140 => {
                        let (score, name) = (f64::from(number), name(seed, *length));
                        let handle = members.insert(score, &name);
                        prop_assert_eq!(model.insert(handle, (score, name)), None, "a handle is given out once");
                    }
                    _ => {
                        let nth = usize::from(number) % model.len().max(1);
                        if let Some(handle) = model.keys().nth(nth).copied() {
                            members.remove(handle);
                            model.remove(&handle);
                        }
                    }
                }
                for (handle, (score, name)) in &model {
                    prop_assert_eq!((members.score(*handle), members.name(*handle)), (*score, &name[..]));
                }
                let (mut found, mut position) = (Vec::new(), 0);
                loop {
                    position = members.walk(position, 3, |handle| found.push(handle));
                    if position == 0 {
                        break;
                    }
                }
                prop_assert_eq!(found, model.keys().copied().collect::<Vec<_>>());
                let chunk_bytes: usize = members.chunks.iter().map(|chunk| chunk.bytes.capacity()).sum();
                prop_assert_eq!(members.chunk_bytes, chunk_bytes);
            }
            model.keys().for_each(|handle| members.remove(*handle));
            prop_assert_eq!((members.chunk_bytes, members.free.len()), (0, 0), "all memory is released");
        }
    }

    /// A cursor comes from a client: any number must be safe.
    #[test]
    fn walk_from_any_position_visits_members_only() {
        let mut members = Members::default();
        let handles: Vec<Handle> = (0..100).map(|seed| members.insert(1.0, &name(seed, 20))).collect();
        handles.iter().step_by(2).for_each(|handle| members.remove(*handle));
        for from in (0..3_000).chain([u64::MAX, u64::from(u32::MAX)]) {
            members
                .walk(from, 10, |handle| assert!(handles.contains(&handle) && members.score(handle) == 1.0));
        }
    }
}
