//! The table of a shard: which slots are in use, and which of them may hold a key, one group at a time.
//!
//! ```text
//! a group, 32 bytes                                      records, in an array beside
//! ┌─────────────────┬──────────────────┬─────────────┐   ┌───────────────────────────┐
//! │ 16 tags, 8 bits │ 16 marks, 4 bits │ strays, 64  │──►│ 16 records, in that order │
//! └─────────────────┴──────────────────┴─────────────┘   └───────────────────────────┘
//! ```
//!
//! The position of a tag is the position of its record: a lookup reads one group, compares all tags at once, and reads
//! the one record whose tag matches. The groups of a million entries take 2.3 megabytes, which fit into the processor's
//! caches, so a hit costs one access to memory. A tag is eight bits of the hash; zero means a free slot. The scheme is that of
//! F14 (Nathan Bronson and Xiao Shi, "Open-sourcing F14 for faster, more memory-efficient hash tables", 2019,
//! <https://engineering.fb.com/2019/04/25/developer-tools/f14/>), with neighbouring groups instead of a second hash, and
//! with any number of groups instead of a power of two, so that a bounded cache pays for what it holds.
//!
//! An entry whose home group is full is a stray: it goes into the next group that has room, and its home notes its tag. F14
//! counts in each group who has passed it, and a lookup goes on while that count is not zero. That suits a table that fills
//! up and stays. In a full cache, where each new entry takes the place of another one, a third of the entries are strays in the
//! long run, and nearly every group was passed by one: a lookup of an absent key would look at 50 groups.
//!
//! The marks belong to the policy. They are stored here because a hit reads this line anyway: updating the policy on a
//! hit costs no further access to memory.
//!
//! The groups are ordered by the *rank* of the hashes, whatever their number: a scan by rank survives growth.

mod strays;

use self::strays::Strays;
use crate::layout::array::Array;
use crate::layout::prefetch::prefetch_element;
use crate::layout::sizes;

/// The slots of a group.
pub(crate) const GROUP_SLOTS: usize = 16;
const FREE: u8 = 0;
/// The home group of a hash is derived from this many of its bits.
const RANK_BITS: u32 = 32;

/// One more than the highest rank.
pub(crate) const RANK_END: u64 = 1 << RANK_BITS;

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Group {
    tags: [u8; GROUP_SLOTS],
    marks: u64,
    strays: Strays,
}

const EMPTY_GROUP: Group = Group { tags: [FREE; GROUP_SLOTS], marks: 0, strays: Strays::NONE };

/// How a table grows, by what is known of the full cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Growth {
    /// It doubles up to the slots of the full cache, whose entries are bounded: most caches become full.
    ToBound,
    /// It grows by a seventh to a fourth, since the number of entries in the full cache is only expected.
    BySteps,
}

impl Growth {
    /// That of the table of a cache with weights, or without.
    pub(crate) fn of(is_weighed: bool) -> Self {
        if is_weighed { Growth::BySteps } else { Growth::ToBound }
    }

    /// The most entries of a table with so many slots.
    pub(crate) fn max_entries(self, slots: usize) -> usize {
        slots / GROUP_SLOTS * self.max_mean_entries()
    }

    /// The mean number of entries in a group above which the table grows.
    ///
    /// The fuller the groups, the more entries find their home group full, and each of these costs an insertion some
    /// mispredicted branches. A table that has grown to a bound stays as full as it is then, so it has a slot more in each
    /// group: for two bytes an entry an insertion that evicts takes a tenth less time. One that grows by steps is less full
    /// in the mean.
    const fn max_mean_entries(self) -> usize {
        match self {
            Growth::ToBound => 13,
            Growth::BySteps => 14,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Table {
    /// At least one.
    groups: Array<Group>,
    len: usize,
    /// With so many entries the table grows before the next one.
    bound: usize,
    growth: Growth,
}

impl Table {
    /// A table of one group, which is free.
    pub(crate) fn new(growth: Growth) -> Self {
        Table::with_groups(1, growth)
    }

    /// An empty table with this many groups, which grows as this one does.
    ///
    /// # Panics
    /// If `groups` is zero.
    pub(crate) fn resized(&self, groups: usize) -> Self {
        Table::with_groups(groups, self.growth)
    }

    fn with_groups(groups: usize, growth: Growth) -> Self {
        assert!(groups > 0, "a table needs a group");
        let bound = groups * growth.max_mean_entries();
        Table { groups: Array::filled(groups, EMPTY_GROUP), len: 0, bound, growth }
    }

    /// How many slots are in use.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> u32 {
        (self.groups.len() * GROUP_SLOTS) as u32
    }

    /// Whether it is as small as a new table.
    pub(crate) fn has_one_group(&self) -> bool {
        self.groups.len() == 1
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        size_of_val(&*self.groups)
    }

    /// The slot under this hash that `is_it` accepts.
    #[inline]
    pub(crate) fn find(&self, hash: u64, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let (home, tag) = (self.home(rank(hash)), tag_of(hash));
        // SAFETY: a number below 2^32 times the number of groups, divided by 2^32, is below the number of groups.
        let group = unsafe { self.groups.get_unchecked(home) };
        let found = group.find(home, tag, &mut is_it);
        if found.is_none() && group.strays.may_have(tag) {
            return self.find_stray(home, tag, is_it);
        }
        found
    }

    /// Searches the groups that follow a home group, as far as its strays are.
    #[cold]
    fn find_stray(&self, home: usize, tag: u8, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        self.after(home).find_map(|at| self.groups[at].find(at, tag, &mut is_it))
    }

    /// The groups after a home group in which it has strays.
    fn after(&self, home: usize) -> impl Iterator<Item = usize> {
        let others = self.groups.len() - 1;
        let reach = self.groups[home].strays.reach().map_or(others, |reach| reach.min(others));
        std::iter::successors(Some(self.next(home)), |at| Some(self.next(*at))).take(reach)
    }

    /// Prefetches the home group of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: u64) {
        prefetch_element(&self.groups, self.home(rank(hash)));
    }

    /// The first slot of the home group of a hash.
    #[inline]
    pub(crate) fn home_slot(&self, hash: u64) -> u32 {
        slot_at(self.home(rank(hash)), 0)
    }

    /// The slot that an entry with this hash gets, if its home group has room.
    #[inline]
    pub(crate) fn free_at_home(&self, hash: u64) -> Option<u32> {
        let home = self.home(rank(hash));
        let mut free = self.groups[home].match_tag(FREE);
        (free != 0).then(|| slot_at(home, pop_lowest(&mut free)))
    }

    /// Prefetches the group of a slot.
    #[inline]
    pub(crate) fn prefetch_slot(&self, slot: u32) {
        prefetch_element(&self.groups, group_of(slot));
    }

    #[inline]
    pub(crate) fn is_used(&self, slot: u32) -> bool {
        self.groups[group_of(slot)].tags[index_in_group(slot)] != FREE
    }

    /// The mark of a slot, 0 to 15.
    #[inline]
    pub(crate) fn mark(&self, slot: u32) -> u8 {
        (self.groups[group_of(slot)].marks >> (index_in_group(slot) * 4)) as u8 & 15
    }

    #[inline]
    pub(crate) fn set_mark(&mut self, slot: u32, mark: u8) {
        debug_assert!(mark < 16);
        let shift = index_in_group(slot) * 4;
        let marks = &mut self.groups[group_of(slot)].marks;
        *marks = *marks & !(15 << shift) | u64::from(mark) << shift;
    }

    /// The number of groups to grow to before the next entry is added; `None` if there is room. The table does not grow beyond
    /// what `expected` entries need unless it has to.
    pub(crate) fn growth_target(&self, expected: usize) -> Option<usize> {
        let now = self.groups.len();
        if self.len < self.bound {
            return None;
        }
        let in_the_end = expected.div_ceil(self.growth.max_mean_entries());
        let next = sizes::at_least(now + 1);
        Some(match self.growth {
            _ if now >= in_the_end => next,
            Growth::ToBound => halved_while_above(in_the_end, now),
            Growth::BySteps => next.min(in_the_end),
        })
    }

    /// Whether an entry can take the place of another one, without growth.
    #[inline]
    pub(crate) fn has_room_after_removal(&self) -> bool {
        self.len <= self.bound
    }

    /// A hash for which [`Table::allocate`] does the same as for that of the entry in a slot, whose rank is `rank`.
    #[inline]
    pub(crate) fn hash_like(&self, slot: u32, rank: u32) -> u64 {
        let tag = self.groups[group_of(slot)].tags[index_in_group(slot)];
        u64::from(tag) << RANK_BITS | u64::from(rank)
    }

    /// Allocates a free slot for this hash.
    ///
    /// # Panics
    /// If the table is full: call [`Table::growth_target`] first.
    pub(crate) fn allocate(&mut self, hash: u64) -> u32 {
        assert!(self.len < self.groups.len() * GROUP_SLOTS, "a full table has no free slot");
        let (home, tag) = (self.home(rank(hash)), tag_of(hash));
        let (mut at, mut distance) = (home, 0);
        loop {
            let group = &mut self.groups[at];
            let mut free = group.match_tag(FREE);
            if free != 0 {
                let place = pop_lowest(&mut free);
                group.tags[place] = tag;
                self.len += 1;
                if distance > 0 {
                    self.groups[home].strays.add(tag, distance);
                }
                return slot_at(at, place);
            }
            at = self.next(at);
            distance += 1;
        }
    }

    /// Releases a slot that was allocated for a hash of this rank.
    pub(crate) fn release(&mut self, rank: u32, slot: u32) {
        let (home, group) = (self.home(rank), group_of(slot));
        let tag = std::mem::replace(&mut self.groups[group].tags[index_in_group(slot)], FREE);
        self.len -= 1;
        if group != home {
            self.groups[home].strays.remove(tag);
        }
    }

    /// All slots in use.
    pub(crate) fn used(&self) -> impl Iterator<Item = u32> {
        (0..self.slots()).filter(|&slot| self.is_used(slot))
    }

    /// Calls `visit` with each slot that may hold an entry whose home is the group of rank `from`, which is below
    /// [`RANK_END`], and returns the first rank of the next group. The entries with that home are those whose rank lies in between.
    pub(crate) fn visit_home(&self, from: u64, mut visit: impl FnMut(u32)) -> u64 {
        let home = self.home(from as u32);
        for at in std::iter::once(home).chain(self.after(home)) {
            let mut used = !self.groups[at].match_tag(FREE) & ALL_SLOTS;
            while used != 0 {
                visit(slot_at(at, pop_lowest(&mut used)));
            }
        }
        (((home as u64 + 1) << RANK_BITS).div_ceil(self.groups.len() as u64)).min(RANK_END)
    }

    #[inline]
    fn home(&self, rank: u32) -> usize {
        // Multiply and shift: spreads the hash over any number of groups without a division.
        ((u64::from(rank) * self.groups.len() as u64) >> RANK_BITS) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.groups.len() { 0 } else { at + 1 }
    }
}

/// The bits of a hash that order the entries of a table. The policies count uses by them too.
#[inline]
pub(crate) fn rank(hash: u64) -> u32 {
    hash as u32
}

#[inline]
fn tag_of(hash: u64) -> u8 {
    ((hash >> RANK_BITS) as u8).max(1)
}

#[inline]
fn slot_at(group: usize, place: usize) -> u32 {
    (group * GROUP_SLOTS + place) as u32
}

#[inline]
fn group_of(slot: u32) -> usize {
    slot as usize / GROUP_SLOTS
}

#[inline]
fn index_in_group(slot: u32) -> usize {
    slot as usize % GROUP_SLOTS
}

const ALL_SLOTS: u32 = (1 << GROUP_SLOTS) - 1;

impl Group {
    /// The slot with this tag that `is_it` accepts; `at` is the index of this group.
    #[inline]
    fn find(&self, at: usize, tag: u8, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut fitting = self.match_tag(tag);
        while fitting != 0 {
            let slot = slot_at(at, pop_lowest(&mut fitting));
            if is_it(slot) {
                return Some(slot);
            }
        }
        None
    }

    /// The positions whose tag is `tag`, one bit each. Free of branches: a branch that is mispredicted when the group
    /// arrives from memory would discard the loads of the lookups after this one.
    #[inline]
    #[cfg(target_arch = "x86_64")]
    fn match_tag(&self, tag: u8) -> u32 {
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
    fn match_tag(&self, tag: u8) -> u32 {
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
    // Gathers the eight top bits: each moves to its own bit of the top byte.
    ((clear >> 7).wrapping_mul(0x0102_0408_1020_4080) >> 56) as u32
}

#[inline]
fn pop_lowest(places: &mut u32) -> usize {
    let place = places.trailing_zeros() as usize;
    *places &= *places - 1;
    place
}

/// The last of `n`, its half, its quarter and so on, each rounded up, that is above `least`, which is below `n`.
fn halved_while_above(n: usize, least: usize) -> usize {
    let halves = std::iter::successors(Some(n), |n| Some(n.div_ceil(2)));
    halves.take_while(|half| *half > least).last().unwrap_or(n)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    #[test]
    fn bounded_table_doubles_up_to_its_end() {
        let mut table = Table::new(Growth::ToBound);
        let entries = Growth::ToBound.max_mean_entries();
        let mut sizes = Vec::new();
        for hash in 0..11 * entries as u64 {
            if let Some(groups) = table.growth_target(10 * entries) {
                sizes.push(groups);
                table = Table { len: table.len, ..table.resized(groups) };
            }
            table.allocate(hash);
        }
        assert_eq!(sizes, [2, 3, 5, 10, 12]);
    }

    #[test]
    fn a_group_is_half_a_cache_line() {
        assert_eq!((size_of::<Group>(), align_of::<Group>()), (32, 32));
    }

    /// A table that grows as a shard grows it: slots move, so the keys of the model change.
    #[derive(Debug)]
    struct Grown {
        table: Table,
        expected: usize,
        /// Slots and the hashes that they were allocated for.
        model: HashMap<u32, u64>,
    }

    impl Grown {
        fn new(growth: Growth, expected: usize) -> Self {
            Grown { table: Table::new(growth), expected, model: HashMap::new() }
        }

        fn take(&mut self, hash: u64) {
            if let Some(groups) = self.table.growth_target(self.expected) {
                let mut larger = self.table.resized(groups);
                let moved = self.model.iter().map(|(slot, hash)| {
                    let to = larger.allocate(*hash);
                    larger.set_mark(to, self.table.mark(*slot));
                    (to, *hash)
                });
                self.model = moved.collect();
                self.table = larger;
            }
            let slot = self.table.allocate(hash);
            assert_eq!(self.model.insert(slot, hash), None, "slot {slot} was free");
            self.table.set_mark(slot, (hash % 16) as u8);
        }

        fn release(&mut self, nth: usize) {
            let Some((&slot, &hash)) = self.model.iter().nth(nth % self.model.len().max(1)) else { return };
            self.table.release(rank(hash), slot);
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

        /// All slots, in the order of a scan.
        fn walk(&self) -> Vec<u32> {
            let (mut from, mut slots) = (0, Vec::new());
            while from < RANK_END {
                let mut here = Vec::new();
                let next = self.table.visit_home(from, |slot| here.push(slot));
                here.retain(|slot| (from..next).contains(&rank(self.model[slot]).into()));
                slots.extend(here);
                from = next;
            }
            slots.sort_unstable();
            slots
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        /// Few distinct hashes force shared tags, shared homes and strays.
        #[test]
        fn the_table_is_a_map_from_slots_to_hashes(
            steps in proptest::collection::vec((0u8..5, 0u64..8, any::<usize>()), 1..600),
            spread in prop_oneof![Just(1u64), Just(0x9e37_79b9_7f4a_7c15)],
            expected in 0usize..300,
            growth in prop_oneof![Just(Growth::ToBound), Just(Growth::BySteps)],
        ) {
            let mut grown = Grown::new(growth, expected);
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

    /// Too even is as bad as too uneven: equal steps, which fill few groups with another seed.
    #[test]
    fn consecutive_keys_spread_as_random_ones_do() {
        use std::hash::BuildHasher;

        const KEYS: u32 = 1 << 16;
        let hasher = crate::shard::Hasher::new();
        let hashes: Vec<u64> = (0..KEYS).map(|key| hasher.hash_one(key)).collect();
        for (part, shift) in [("home group", 24), ("tag", 32), ("shard", 40)] {
            let mut counts = [0u32; 256];
            hashes.iter().for_each(|hash| counts[(hash >> shift) as u8 as usize] += 1);
            let mean = f64::from(KEYS) / 256.0;
            let deviation: f64 = counts.iter().map(|&count| (f64::from(count) - mean).powi(2) / mean).sum();
            assert!(
                (120.0..430.0).contains(&deviation),
                "{part}: {deviation}, of 255 with a deviation of 23"
            );
        }
    }

    #[test]
    fn absent_key_is_looked_for_in_few_groups_of_a_full_cache() {
        const ENTRIES: u64 = 7_000;
        let hash = |n: u64| n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20);
        let groups = (ENTRIES as usize).div_ceil(Growth::BySteps.max_mean_entries());
        let mut table = Table::with_groups(groups, Growth::BySteps);
        let mut slots: std::collections::VecDeque<u32> =
            (0..ENTRIES).map(|n| table.allocate(hash(n))).collect();
        for n in 0..20 * ENTRIES {
            table.release(rank(hash(n)), slots.pop_front().unwrap());
            slots.push_back(table.allocate(hash(n + ENTRIES)));
        }
        let groups = |n| {
            let (home, tag) = (table.home(rank(hash(n))), tag_of(hash(n)));
            1 + if table.groups[home].strays.may_have(tag) { table.after(home).count() } else { 0 }
        };
        let mean = (100 * ENTRIES..200 * ENTRIES).map(groups).sum::<usize>() as f64 / (100 * ENTRIES) as f64;
        assert!(mean < 6.0, "{mean} groups");
    }

    #[test]
    fn a_known_size_costs_little_over_two_bytes_an_entry() {
        let mut grown = Grown::new(Growth::BySteps, 10_000);
        for n in 0..10_000u64 {
            grown.take(n.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(20));
        }
        let bytes = size_of_val(&*grown.table.groups);
        assert!(bytes < 23_000, "{bytes} bytes for 10,000 entries");
    }
}
