//! The index of a shard: from a hash to the slots that may hold its key, one cache line at a time.
//!
//! ```text
//! a line, 64 bytes
//! ┌──────────────┬──────────┬────────────────────────────────┬──────────────────┐
//! │ 11 tags      │ overflow │ 11 ids, u32                    │ 11 marks, 4 bits │
//! └──────────────┴──────────┴────────────────────────────────┴──────────────────┘
//! ```
//!
//! A tag is seven bits of the hash with the top bit set, or zero for an empty place. A lookup reads the one line that
//! the hash leads to, compares all tags at once and then, as a rule, a single key. A line that was full when an entry
//! wanted in counts it in `overflow` and the entry goes into the next; a lookup goes on while that count is not zero.
//! The scheme is that of F14 (Nathan Bronson and Xiao Shi, "Open-sourcing F14 for faster, more memory-efficient hash
//! tables", 2019, <https://engineering.fb.com/2019/04/25/developer-tools/f14/>) with neighbours in place of a second
//! hash, and with any number of lines in place of a power of two, so that a bounded cache pays for what it holds:
//! 7.1 bytes an entry at the usual fill of 82 %.
//!
//! The marks are the policy's. They are here, and not with the other data of a slot, because a hit reads this line
//! anyway: what it changes for the policy then costs no further access to memory.

use crate::prefetch::prefetch;

const PLACES: usize = 11;
/// The mean number of entries in a line, in tenths, above which the index grows.
const FILL_TENTHS: usize = 90;
const EMPTY: u8 = 0;
/// An overflow count that stays: too many entries passed this line to know how many still do.
const STUCK: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line {
    tags: [u8; PLACES],
    overflow: u8,
    ids: [u32; PLACES],
    marks: u64,
}

const EMPTY_LINE: Line = Line { tags: [EMPTY; PLACES], overflow: 0, ids: [0; PLACES], marks: 0 };

/// Where an entry is in the index, until the index changes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Position {
    line: usize,
    place: usize,
}

#[derive(Debug)]
pub(crate) struct Index {
    lines: Vec<Line>,
    len: usize,
    /// How many entries the owner expects in the end; growth beyond it is by small steps.
    expected: usize,
}

impl Index {
    pub(crate) fn new(expected: usize) -> Self {
        Index { lines: Vec::new(), len: 0, expected }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// The first id under this hash that `is_it` accepts, and its position.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<(u32, Position)> {
        let (mut at, tag) = (self.home(hash), tag_of(hash));
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            let mut matches = places_of(&line.tags, tag);
            while matches != 0 {
                let place = take_place(&mut matches);
                let id = line.ids[place];
                if is_it(id) {
                    return Some((id, Position { line: at, place }));
                }
            }
            if line.overflow == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// Asks for the line of a hash, which is going to be needed.
    #[inline]
    pub(crate) fn foresee(&self, hash: u64) {
        if let Some(line) = self.lines.get(self.home(hash)) {
            prefetch(line);
        }
    }

    /// The position of an id under its hash.
    ///
    /// # Panics
    /// If it is not there.
    pub(crate) fn position(&self, hash: u64, id: u32) -> Position {
        let found = self.find(hash, |other| other == id);
        found.expect("the index holds what is in use").1
    }

    /// The mark at a position, 0 to 15.
    #[inline]
    pub(crate) fn mark(&self, at: Position) -> u8 {
        (self.lines[at.line].marks >> (at.place * 4)) as u8 & 15
    }

    #[inline]
    pub(crate) fn set_mark(&mut self, at: Position, mark: u8) {
        debug_assert!(mark < 16);
        let shift = at.place * 4;
        let marks = &mut self.lines[at.line].marks;
        *marks = *marks & !(15 << shift) | u64::from(mark) << shift;
    }

    /// Adds an id with its mark under a hash that does not have it. `hash_of` tells the hashes of the others, should the
    /// index grow.
    pub(crate) fn insert(&mut self, hash: u64, id: u32, mark: u8, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 10 > self.lines.len() * FILL_TENTHS {
            self.grow(hash_of);
        }
        self.put(hash, id, mark);
        self.len += 1;
    }

    /// Removes an id from its position under its hash.
    pub(crate) fn remove(&mut self, hash: u64, at: Position) {
        self.lines[at.line].tags[at.place] = EMPTY;
        self.len -= 1;
        let mut passed = self.home(hash);
        while passed != at.line {
            let overflow = &mut self.lines[passed].overflow;
            if *overflow != STUCK {
                *overflow -= 1;
            }
            passed = self.next(passed);
        }
    }

    fn put(&mut self, hash: u64, id: u32, mark: u8) {
        let mut at = self.home(hash);
        loop {
            let line = &mut self.lines[at];
            let mut free = places_of(&line.tags, EMPTY);
            if free != 0 {
                let place = take_place(&mut free);
                line.tags[place] = tag_of(hash);
                line.ids[place] = id;
                self.set_mark(Position { line: at, place }, mark);
                return;
            }
            line.overflow = line.overflow.saturating_add(1);
            at = self.next(at);
        }
    }

    /// Doubles the index, but does not overshoot what its owner expects; beyond that it grows by a quarter.
    fn grow(&mut self, hash_of: impl Fn(u32) -> u64) {
        let expected = lines_for(self.expected);
        let now = self.lines.len();
        let wanted = match now {
            0 => 1,
            _ if now >= expected => now + now.div_ceil(4),
            _ => (now * 2).min(expected),
        };
        let old = std::mem::replace(&mut self.lines, vec![EMPTY_LINE; wanted]);
        for line in old {
            for place in (0..PLACES).filter(|&place| line.tags[place] != EMPTY) {
                let id = line.ids[place];
                self.put(hash_of(id), id, (line.marks >> (place * 4)) as u8 & 15);
            }
        }
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        // Multiply and shift: spreads 32 bits of the hash over any number of lines without a division.
        (((hash & 0xffff_ffff) * self.lines.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.lines.len() { 0 } else { at + 1 }
    }

    /// Calls `visit` with each id.
    #[cfg(test)]
    pub(crate) fn for_each(&self, mut visit: impl FnMut(u32)) {
        for line in &self.lines {
            for place in 0..PLACES {
                if line.tags[place] != EMPTY {
                    visit(line.ids[place]);
                }
            }
        }
    }
}

fn lines_for(entries: usize) -> usize {
    (entries * 10).div_ceil(FILL_TENTHS).max(1)
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    (hash >> 32) as u8 | 0x80
}

/// The places whose tag is `tag`, one bit each. Free of branches: a guess of the processor that turns out wrong when the
/// line arrives would throw away the loads of the lookups after this one.
#[inline]
#[cfg(target_arch = "x86_64")]
fn places_of(tags: &[u8; PLACES], tag: u8) -> u32 {
    use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_movemask_epi8, _mm_set_epi64x, _mm_set1_epi8};
    let low = i64::from_le_bytes([tags[0], tags[1], tags[2], tags[3], tags[4], tags[5], tags[6], tags[7]]);
    let high = u32::from_le_bytes([tags[8], tags[9], tags[10], 0]);
    // SAFETY: every processor that this is compiled for has SSE2, and the instructions touch registers alone.
    unsafe {
        let equal = _mm_cmpeq_epi8(_mm_set_epi64x(i64::from(high), low), _mm_set1_epi8(tag as i8));
        _mm_movemask_epi8(equal) as u32 & ((1 << PLACES) - 1)
    }
}

#[inline]
#[cfg(not(target_arch = "x86_64"))]
fn places_of(tags: &[u8; PLACES], tag: u8) -> u32 {
    let low = u64::from_le_bytes([tags[0], tags[1], tags[2], tags[3], tags[4], tags[5], tags[6], tags[7]]);
    let high = u64::from_le_bytes([tags[8], tags[9], tags[10], 0, 0, 0, 0, 0]);
    let equal = |word: u64| zero_bytes(word ^ u64::from_ne_bytes([tag; 8]));
    (equal(low) | equal(high) << 8) & ((1 << PLACES) - 1)
}

/// A bit for each byte that is zero.
#[inline]
#[cfg(not(target_arch = "x86_64"))]
fn zero_bytes(word: u64) -> u32 {
    const LOWER: u64 = u64::from_ne_bytes([0x7f; 8]);
    // The top bit of a byte stays clear only if all of its bits are.
    let clear = !(((word & LOWER) + LOWER) | word | LOWER);
    // Gathers the eight top bits: each is moved to a place of its own in the top byte.
    ((clear >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[inline]
fn take_place(places: &mut u32) -> usize {
    let place = places.trailing_zeros() as usize;
    *places &= *places - 1;
    place
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn a_line_is_a_cache_line() {
        assert_eq!((size_of::<Line>(), align_of::<Line>()), (64, 64));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Few distinct hashes force shared tags, shared homes and overflow chains.
        #[test]
        fn the_index_is_a_map_from_ids_to_hashes(
            steps in proptest::collection::vec((any::<bool>(), 0u32..200, 0u64..8), 1..600),
            spread in prop_oneof![Just(1u64), Just(0x9e37_79b9_7f4a_7c15)],
            expected in 0usize..300,
        ) {
            let mut index = Index::new(expected);
            let mut model: HashMap<u32, u64> = HashMap::new();
            for (add, id, seed) in steps {
                let hash = (seed + 1).wrapping_mul(spread);
                if add && !model.contains_key(&id) {
                    index.insert(hash, id, id as u8 % 16, |id| model[&id]);
                    model.insert(id, hash);
                } else if !add && let Some(hash) = model.remove(&id) {
                    index.remove(hash, index.position(hash, id));
                    prop_assert!(index.find(hash, |found| found == id).is_none());
                }
                prop_assert_eq!(index.len(), model.len());
                for (id, hash) in &model {
                    prop_assert_eq!(index.mark(index.position(*hash, *id)), *id as u8 % 16);
                }
            }
            let mut ids = Vec::new();
            index.for_each(|id| ids.push(id));
            ids.sort_unstable();
            let mut expected: Vec<u32> = model.keys().copied().collect();
            expected.sort_unstable();
            prop_assert_eq!(ids, expected);
        }
    }

    #[test]
    fn a_known_size_costs_little_over_seven_bytes_an_entry() {
        let mut index = Index::new(10_000);
        let hash_of = |id: u32| u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for id in 0..10_000 {
            index.insert(hash_of(id), id, 0, hash_of);
        }
        let bytes = index.lines.len() * size_of::<Line>();
        assert!(bytes < 72_000, "{bytes} bytes for 10,000 entries");
    }
}
