//! The index of a shard: from a hash to the ids of the slots that may hold its key, one cache line at a time.
//!
//! ```text
//! a line, 64 bytes
//! ┌──────────────┬──────────┬─────┬────────────────────────────────┐
//! │ 12 tags      │ overflow │ 3 B │ 12 ids, u32                    │
//! └──────────────┴──────────┴─────┴────────────────────────────────┘
//! ```
//!
//! A tag is seven bits of the hash with the top bit set, or zero for an empty place. A lookup reads the one line that
//! the hash leads to, compares all tags at once and then, as a rule, a single key. A line that was full when an entry
//! wanted in counts it in `overflow` and the entry goes into the next; a lookup goes on while that count is not zero.
//! The scheme is that of F14 (Nathan Bronson and Xiao Shi, "Open-sourcing F14 for faster, more memory-efficient hash
//! tables", 2019, <https://engineering.fb.com/2019/04/25/developer-tools/f14/>) with neighbours in place of a second
//! hash, and with any number of lines in place of a power of two, so that a bounded cache pays for what it holds:
//! 6.7 bytes an entry at the usual fill of 80 %.

const PLACES: usize = 12;
/// The mean number of entries in a line, in tenths, above which the index grows.
const FILL_TENTHS: usize = 96;
const EMPTY: u8 = 0;
/// An overflow count that stays: too many entries passed this line to know how many still do.
const STUCK: u8 = u8::MAX;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct Line {
    tags: [u8; PLACES],
    overflow: u8,
    _spare: [u8; 3],
    ids: [u32; PLACES],
}

const EMPTY_LINE: Line = Line { tags: [EMPTY; PLACES], overflow: 0, _spare: [0; 3], ids: [0; PLACES] };

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

    /// The first id under this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (mut at, tag) = (self.home(hash), tag_of(hash));
        for _ in 0..self.lines.len() {
            let line = &self.lines[at];
            let mut matches = places_of(&line.tags, tag);
            while matches != 0 {
                let id = line.ids[take_place(&mut matches)];
                if is_it(id) {
                    return Some(id);
                }
            }
            if line.overflow == 0 {
                return None;
            }
            at = self.next(at);
        }
        None
    }

    /// Adds an id under a hash that does not have it. `hash_of` tells the hashes of the others, should the index grow.
    pub(crate) fn insert(&mut self, hash: u64, id: u32, hash_of: impl Fn(u32) -> u64) {
        if (self.len + 1) * 10 > self.lines.len() * FILL_TENTHS {
            self.grow(hash_of);
        }
        self.put(hash, id);
        self.len += 1;
    }

    /// Removes an id from under its hash.
    ///
    /// # Panics
    /// If it is not there.
    pub(crate) fn remove(&mut self, hash: u64, id: u32) {
        let home = self.home(hash);
        let mut at = home;
        let place = loop {
            if let Some(place) = self.lines[at].place_of(tag_of(hash), id) {
                break place;
            }
            assert!(self.lines[at].overflow > 0, "id {id} is not in the index");
            at = self.next(at);
        };
        self.lines[at].tags[place] = EMPTY;
        self.len -= 1;
        let mut passed = home;
        while passed != at {
            let overflow = &mut self.lines[passed].overflow;
            if *overflow != STUCK {
                *overflow -= 1;
            }
            passed = self.next(passed);
        }
    }

    fn put(&mut self, hash: u64, id: u32) {
        let mut at = self.home(hash);
        loop {
            let line = &mut self.lines[at];
            let mut free = places_of(&line.tags, EMPTY);
            if free != 0 {
                let place = take_place(&mut free);
                line.tags[place] = tag_of(hash);
                line.ids[place] = id;
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
            for place in 0..PLACES {
                if line.tags[place] != EMPTY {
                    let id = line.ids[place];
                    self.put(hash_of(id), id);
                }
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

impl Line {
    fn place_of(&self, tag: u8, id: u32) -> Option<usize> {
        let mut matches = places_of(&self.tags, tag);
        while matches != 0 {
            let place = take_place(&mut matches);
            if self.ids[place] == id {
                return Some(place);
            }
        }
        None
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
    let high = u32::from_le_bytes([tags[8], tags[9], tags[10], tags[11]]);
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
    let high = u32::from_le_bytes([tags[8], tags[9], tags[10], tags[11]]);
    let low = zero_bytes(low ^ u64::from_ne_bytes([tag; 8]));
    // The upper half is filled with bytes that are not zero.
    let high = zero_bytes(u64::from(high ^ u32::from_ne_bytes([tag; 4])) | 0xffff_ffff_0000_0000);
    low | high << 8
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
                    index.insert(hash, id, |id| model[&id]);
                    model.insert(id, hash);
                } else if !add && let Some(hash) = model.remove(&id) {
                    index.remove(hash, id);
                    prop_assert_eq!(index.find(hash, |found| found == id), None);
                }
                prop_assert_eq!(index.len(), model.len());
                for (id, hash) in &model {
                    prop_assert_eq!(index.find(*hash, |found| found == *id), Some(*id));
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
    fn a_known_size_costs_under_seven_bytes_an_entry() {
        let mut index = Index::new(10_000);
        let hash_of = |id: u32| u64::from(id).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for id in 0..10_000 {
            index.insert(hash_of(id), id, hash_of);
        }
        let bytes = index.lines.len() * size_of::<Line>();
        assert!(bytes < 70_000, "{bytes} bytes for 10,000 entries");
    }
}
