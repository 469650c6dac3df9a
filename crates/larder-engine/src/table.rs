//! The table of a shard: which slots are in use, and which of them may hold a key, one group at a time.
//!
//! ```text
//! a group, 32 bytes                                       records, in an array beside
//! ┌───────────────────┬───────────────────┬──────────┐   ┌───────────────────────────┐
//! │ 16 tags, 8 bits   │ 16 marks, 4 bits  │ overflow │──►│ 16 records, in that order │
//! └───────────────────┴───────────────────┴──────────┘   └───────────────────────────┘
//! ```
//!
//! A slot is a place in a group, so where a tag is says where the record is: a lookup reads one group, compares all tags
//! at once, and goes to the one record that fits. The groups of a million entries are 2.3 megabytes, which the
//! processor's own caches hold, so a hit costs one access to memory. A tag is eight bits of the hash, or zero for a free
//! place. A group that was full when an entry wanted in counts it in `overflow`, and the entry goes into the next; a
//! lookup goes on while that count is not zero. The scheme is that of F14 (Nathan Bronson and Xiao Shi, "Open-sourcing F14
//! for faster, more memory-efficient hash tables", 2019,
//! <https://engineering.fb.com/2019/04/25/developer-tools/f14/>) with neighbours in place of a second hash, and with any
//! number of groups in place of a power of two, so that a bounded cache pays for what it holds.
//!
//! The marks are the policy's. They are here because a hit reads this line anyway: what it changes for the policy
//! costs no further access to memory.
//!
//! The groups are in the order of the hashes, whatever their number: a walk that goes by hashes survives growth.

use crate::prefetch::prefetch;

const PLACES: usize = 16;
/// The mean number of entries in a group above which the table grows.
const MOST_IN_ONE: usize = 14;
const FREE: u8 = 0;
/// An overflow count that stays: too many entries passed this group to know how many still do.
const STUCK: u8 = u8::MAX;
/// Hashes are placed by this many of their bits.
const PLACING_BITS: u32 = 32;

/// The end of the hashes by which entries are placed.
pub(crate) const LAST_PLACING: u64 = 1 << PLACING_BITS;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Group {
    tags: [u8; PLACES],
    marks: u64,
    overflow: u8,
}

const EMPTY_GROUP: Group = Group { tags: [FREE; PLACES], marks: 0, overflow: 0 };

#[derive(Debug)]
pub(crate) struct Table {
    /// At least one.
    groups: Box<[Group]>,
    len: usize,
}

impl Table {
    /// A table of as many groups, all free.
    ///
    /// # Panics
    /// If there is to be none.
    pub(crate) fn new(groups: usize) -> Self {
        assert!(groups > 0, "a table needs a group");
        Table { groups: vec![EMPTY_GROUP; groups].into(), len: 0 }
    }

    /// How many slots are in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> u32 {
        (self.groups.len() * PLACES) as u32
    }

    /// The slot under this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (home, tag) = (self.home(hash), tag_of(hash));
        // SAFETY: a number below 2^32 times the number of groups, divided by 2^32, is below the number of groups.
        let group = unsafe { self.groups.get_unchecked(home) };
        let found = group.find(home, tag, &mut is_it);
        if found.is_none() && group.overflow != 0 {
            return self.find_behind(home, tag, is_it);
        }
        found
    }

    /// In the groups behind a full one.
    #[cold]
    fn find_behind(&self, home: usize, tag: u8, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut at = self.next(home);
        while at != home {
            let group = &self.groups[at];
            let found = group.find(at, tag, &mut is_it);
            if found.is_some() || group.overflow == 0 {
                return found;
            }
            at = self.next(at);
        }
        None
    }

    /// Asks for the group of a hash, which is going to be needed.
    #[inline]
    pub(crate) fn foresee(&self, hash: u64) {
        prefetch(&self.groups[self.home(hash)]);
    }

    /// Asks for the group of a slot.
    #[inline]
    pub(crate) fn foresee_slot(&self, slot: u32) {
        prefetch(&self.groups[group_of(slot)]);
    }

    #[inline]
    pub(crate) fn is_used(&self, slot: u32) -> bool {
        self.groups[group_of(slot)].tags[place_of(slot)] != FREE
    }

    /// The mark of a slot, 0 to 15.
    #[inline]
    pub(crate) fn mark(&self, slot: u32) -> u8 {
        (self.groups[group_of(slot)].marks >> (place_of(slot) * 4)) as u8 & 15
    }

    #[inline]
    pub(crate) fn set_mark(&mut self, slot: u32, mark: u8) {
        debug_assert!(mark < 16);
        let shift = place_of(slot) * 4;
        let marks = &mut self.groups[group_of(slot)].marks;
        *marks = *marks & !(15 << shift) | u64::from(mark) << shift;
    }

    /// Whether another entry needs a larger table: then how many groups, if `expected` entries are expected in the end.
    /// It grows by half, but does not overshoot that number; beyond it, by a quarter.
    pub(crate) fn wants(&self, expected: usize) -> Option<usize> {
        let now = self.groups.len();
        if self.len < now * MOST_IN_ONE {
            return None;
        }
        let in_the_end = expected.div_ceil(MOST_IN_ONE);
        Some(if now >= in_the_end { now + now.div_ceil(4) } else { (now + now.div_ceil(2)).min(in_the_end) })
    }

    /// Takes a free slot for this hash into use.
    ///
    /// # Panics
    /// If the table is full: [`Table::wants`] must have been asked before.
    pub(crate) fn take(&mut self, hash: u64) -> u32 {
        assert!(self.len < self.groups.len() * PLACES, "a full table has no slot to give");
        let mut at = self.home(hash);
        loop {
            let group = &mut self.groups[at];
            let mut free = group.places_of(FREE);
            if free != 0 {
                let place = take_place(&mut free);
                group.tags[place] = tag_of(hash);
                self.len += 1;
                return slot_at(at, place);
            }
            group.overflow = group.overflow.saturating_add(1);
            at = self.next(at);
        }
    }

    /// Gives back a slot that was taken for this hash.
    pub(crate) fn release(&mut self, hash: u64, slot: u32) {
        let group = group_of(slot);
        self.groups[group].tags[place_of(slot)] = FREE;
        self.len -= 1;
        let mut passed = self.home(hash);
        while passed != group {
            let overflow = &mut self.groups[passed].overflow;
            if *overflow != STUCK {
                *overflow -= 1;
            }
            passed = self.next(passed);
        }
    }

    /// All slots in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> {
        (0..self.slots()).filter(|&slot| self.is_used(slot))
    }

    /// Calls `visit` with each slot that may hold an entry of the first group whose hashes are not all below `from`, and
    /// returns where the next group's begin. The entries of that group are those with a hash in between.
    pub(crate) fn visit_home(&self, from: u64, mut visit: impl FnMut(u32)) -> u64 {
        let home = self.home(from);
        let mut at = home;
        for _ in 0..self.groups.len() {
            let mut used = !self.groups[at].places_of(FREE) & ALL_PLACES;
            while used != 0 {
                visit(slot_at(at, take_place(&mut used)));
            }
            if self.groups[at].overflow == 0 {
                break;
            }
            at = self.next(at);
        }
        (((home as u64 + 1) << PLACING_BITS).div_ceil(self.groups.len() as u64)).min(LAST_PLACING)
    }

    #[inline]
    fn home(&self, hash: u64) -> usize {
        // Multiply and shift: spreads the hash over any number of groups without a division.
        ((placing(hash) * self.groups.len() as u64) >> PLACING_BITS) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.groups.len() { 0 } else { at + 1 }
    }
}

/// The part of a hash by which its entry is placed.
#[inline]
pub(crate) fn placing(hash: u64) -> u64 {
    hash & (LAST_PLACING - 1)
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    ((hash >> PLACING_BITS) as u8).max(1)
}

#[inline]
fn slot_at(group: usize, place: usize) -> u32 {
    (group * PLACES + place) as u32
}

#[inline]
fn group_of(slot: u32) -> usize {
    slot as usize / PLACES
}

#[inline]
fn place_of(slot: u32) -> usize {
    slot as usize % PLACES
}

const ALL_PLACES: u32 = (1 << PLACES) - 1;

impl Group {
    /// The slot with this tag that `is_it` accepts, if this is the group `at`.
    #[inline]
    fn find(&self, at: usize, tag: u8, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut fitting = self.places_of(tag);
        while fitting != 0 {
            let slot = slot_at(at, take_place(&mut fitting));
            if is_it(slot) {
                return Some(slot);
            }
        }
        None
    }

    /// The places whose tag is `tag`, one bit each. Free of branches: a guess of the processor that turns out wrong when
    /// the group arrives would throw away the loads of the lookups after this one.
    #[inline]
    #[cfg(target_arch = "x86_64")]
    fn places_of(&self, tag: u8) -> u32 {
        use std::arch::x86_64::{_mm_cmpeq_epi8, _mm_load_si128, _mm_movemask_epi8, _mm_set1_epi8};
        // SAFETY: the tags are 16 bytes at the start of a group, which is aligned to 32; every processor that this is
        // compiled for has SSE2.
        unsafe {
            let tags = _mm_load_si128(self.tags.as_ptr().cast());
            _mm_movemask_epi8(_mm_cmpeq_epi8(tags, _mm_set1_epi8(tag as i8))) as u32
        }
    }

    #[inline]
    #[cfg(not(target_arch = "x86_64"))]
    fn places_of(&self, tag: u8) -> u32 {
        let tag = u64::from_ne_bytes([tag; 8]);
        let [low, high] = [&self.tags[..8], &self.tags[8..]]
            .map(|tags| zero_bytes(u64::from_le_bytes(tags.try_into().expect("eight of them")) ^ tag));
        low | high << 8
    }
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
    fn a_group_is_half_a_cache_line() {
        assert_eq!((size_of::<Group>(), align_of::<Group>()), (32, 32));
    }

    /// A table that grows as a shard lets it grow: slots move, so the model is renamed.
    #[derive(Debug)]
    struct Grown {
        table: Table,
        expected: usize,
        /// Slots and the hashes that they were taken for.
        model: HashMap<u32, u64>,
    }

    impl Grown {
        fn take(&mut self, hash: u64) {
            if let Some(groups) = self.table.wants(self.expected) {
                let mut larger = Table::new(groups);
                let moved = self.model.iter().map(|(slot, hash)| {
                    let to = larger.take(*hash);
                    larger.set_mark(to, self.table.mark(*slot));
                    (to, *hash)
                });
                self.model = moved.collect();
                self.table = larger;
            }
            let slot = self.table.take(hash);
            assert_eq!(self.model.insert(slot, hash), None, "slot {slot} was free");
            self.table.set_mark(slot, (hash % 16) as u8);
        }

        fn release(&mut self, nth: usize) {
            let Some((&slot, &hash)) = self.model.iter().nth(nth % self.model.len().max(1)) else { return };
            self.table.release(hash, slot);
            self.model.remove(&slot);
            assert!(!self.table.is_used(slot));
        }

        fn validate(&self) {
            assert_eq!(self.table.len(), self.model.len());
            for (&slot, &hash) in &self.model {
                assert_eq!(self.table.find(hash, |found| found == slot), Some(slot));
                assert_eq!(self.table.mark(slot), (hash % 16) as u8);
            }
            let mut used: Vec<u32> = self.model.keys().copied().collect();
            used.sort_unstable();
            assert_eq!(self.table.used().collect::<Vec<_>>(), used);
        }

        /// All slots, by walking the hashes.
        fn walk(&self) -> Vec<u32> {
            let (mut from, mut slots) = (0, Vec::new());
            while from < LAST_PLACING {
                let mut here = Vec::new();
                let next = self.table.visit_home(from, |slot| here.push(slot));
                here.retain(|slot| (from..next).contains(&placing(self.model[slot])));
                slots.extend(here);
                from = next;
            }
            slots.sort_unstable();
            slots
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Few distinct hashes force shared tags, shared homes and overflow chains.
        #[test]
        fn the_table_is_a_map_from_slots_to_hashes(
            steps in proptest::collection::vec((0u8..5, 0u64..8, any::<usize>()), 1..600),
            spread in prop_oneof![Just(1u64), Just(0x9e37_79b9_7f4a_7c15)],
            expected in 0usize..300,
        ) {
            let mut grown = Grown { table: Table::new(1), expected, model: HashMap::new() };
            for (kind, seed, nth) in steps {
                if kind < 3 {
                    grown.take((seed + 1).wrapping_mul(spread));
                } else {
                    grown.release(nth);
                }
                grown.validate();
            }
            prop_assert_eq!(grown.walk(), grown.table.used().collect::<Vec<_>>());
        }
    }

    #[test]
    fn a_known_size_costs_little_over_two_bytes_an_entry() {
        let mut grown = Grown { table: Table::new(1), expected: 10_000, model: HashMap::new() };
        for n in 0..10_000u64 {
            grown.take(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20));
        }
        let bytes = size_of_val(&*grown.table.groups);
        assert!(bytes < 23_000, "{bytes} bytes for 10,000 entries");
    }
}
