//! Eviction policies: one trait, one file per policy.
//!
//! A policy knows entries by their slots, and counts their uses by the ranks of their hashes. Its state is in its queues and
//! in the entry's mark, four bits that are stored where a hit reads anyway. The shard guarantees that `insert` and `remove`
//! come in pairs, that `hit` and `reweigh` name an entry that is present, and that all calls happen under its lock. The
//! policy guarantees that `victim` names an entry that is present, finds one as long as there is any besides `keep`, and
//! examines a bounded number of entries.

mod ctd;
mod fifo;
mod lru;
mod random;
mod s3fifo;
pub(crate) mod sketch;

use crate::layout::queue::Queued;
use crate::layout::slots::{Moves, Slots};

/// The eviction policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// CLOCK-TinyLFU with density steering: a first-in-first-out window in front of a CLOCK, and a contest between them
    /// that compares frequencies and learns how well they predict. The size of the window adapts to the traffic. The best
    /// all-rounder, and a hit costs next to nothing.
    #[default]
    Ctd,
    /// S3-FIFO: two first-in-first-out queues and a list of ghosts, entries that recently left the first.
    S3Fifo,
    /// Evicts the least recently used entry.
    Lru,
    /// Evicts the oldest entry. For comparison: hits have no effect.
    Fifo,
    /// Evicts a random entry. For comparison.
    Random,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 5] = [Policy::Ctd, Policy::S3Fifo, Policy::Lru, Policy::Fifo, Policy::Random];

    /// The name used by tools and reports.
    pub fn name(self) -> &'static str {
        match self {
            Policy::Ctd => "ctd",
            Policy::S3Fifo => "s3fifo",
            Policy::Lru => "lru",
            Policy::Fifo => "fifo",
            Policy::Random => "random",
        }
    }
}

/// Which entries may be evicted. It can be changed while the cache is used: see [`crate::Cache::set_evictable`].
///
/// With any other choice than [`Evictable::All`], a cache is also a store: a value that finds no room is refused, and the
/// former value of its key stays. Expired entries make room first, each at most a quarter of a second after its deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Evictable {
    /// Any entry, in the order of the policy.
    #[default]
    All,
    /// Entries with a deadline, in the order of the policy.
    Timed,
    /// Entries with a deadline, nearest deadline first. The timing wheel of a shard limits the precision: 128 ms for the
    /// next eight seconds, eight seconds for the next nine minutes, nine minutes for the next nine hours.
    NearestDeadline,
    /// None.
    Nothing,
}

impl Evictable {
    /// Whether the queues of the policy have only the entries with a deadline.
    pub(crate) fn is_timed(self) -> bool {
        matches!(self, Evictable::Timed | Evictable::NearestDeadline)
    }
}

/// What a policy may ask about entries when it chooses a victim.
pub(crate) trait Entries {
    fn is_used(&self, id: u32) -> bool;
    /// The rank of the hash of the entry's key, which this reads. The slot must be in use.
    fn rank(&self, id: u32) -> u32;
    /// Whether the entry has expired: then it may be evicted before all others.
    fn is_due(&self, id: u32) -> bool;
    /// The entry's mark.
    fn mark(&self, id: u32) -> u8;
    fn set_mark(&mut self, id: u32, mark: u8);
    /// Prefetches what the answers about this entry and its removal read.
    fn prefetch(&self, _id: u32) {}
}

// The mark of an entry. A hit changes the two low bits alone, so that it needs no lock of the policy.
//
//      bit   3      2       1   0
//          ┌──────┬───────┬───────┐
//          │ USED │IN_MAIN│ hits  │
//          └──────┴───────┴───────┘
//            0      0       h       in the window, h hits since it came
//            0      1       h       in main, h hits since the hand has passed
//            1      1       h       in main, and the hand has taken hits before
//            1      0       h       in no queue, since it may not be evicted; or in the window, after it has lost its
//                                   contest, until the shard removes it
//
// Policies with one queue leave the two upper bits at zero.

/// The highest hit count of a mark, in its low two bits, for policies that count hits.
pub(crate) const MAX_HITS: u8 = 3;
/// The entry is in the second of two queues, for policies that have two.
const IN_MAIN: u8 = 4;
/// The CLOCK hand has taken hits of the entry, for policies that observe this. See the table for what it means without
/// `IN_MAIN`.
const USED: u8 = 8;
/// The mark of an entry that the policy does not have, beside its hits.
pub(crate) const NOT_QUEUED: u8 = USED;

/// What the shard does for the policy on a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHit {
    Nothing,
    /// Raise the hit count in the entry's mark, up to three.
    Count,
    /// Call [`Evict::hit`].
    Tell,
}

/// The hits so far, in total, by the two upper bits of the marks.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Hits([u64; 4]);

impl Hits {
    /// Counts a hit on an entry with this mark.
    #[inline]
    pub(crate) fn count(&mut self, mark: u8) {
        self.0[usize::from(mark >> 2) % 4] += 1;
    }

    pub(crate) fn sum(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The hits on queued entries without and with `IN_MAIN`.
    #[inline]
    fn by_queue(&self) -> [u64; 2] {
        let [others, main, _not_queued, used] = self.0;
        [others, main + used]
    }
}

/// The mark after one more hit.
#[inline]
pub(crate) fn with_one_more_hit(mark: u8) -> u8 {
    if mark & MAX_HITS < MAX_HITS { mark + 1 } else { mark }
}

pub(crate) trait Evict {
    /// What the shard does on a hit.
    const ON_HIT: OnHit;
    /// Prefetches what the insertion of an entry of this rank will read.
    fn prefetch(&self, _rank: u32) {}
    /// The entry was read or overwritten. Called only with [`OnHit::Tell`].
    fn hit(&mut self, _slots: &mut Slots, _id: u32) {}
    /// A new entry was stored in a slot; returns its initial mark.
    fn insert(&mut self, slots: &mut Slots, entry: Queued, hits: &Hits) -> u8;
    /// The entry is removed from its slot, evicted or not.
    fn remove(&mut self, slots: &mut Slots, entry: Queued, mark: u8);
    /// The weight of the entry has changed; `slots` has the new one already.
    fn reweigh(&mut self, mark: u8, from: u64, to: u64);
    /// The entry to evict next, to make room for one of weight `incoming`; never `keep`.
    fn victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        incoming: u64,
        keep: Option<u32>,
    ) -> Option<Queued>;
    /// The sum of the weights of all entries.
    fn weight(&self) -> u64;
    /// Renames the slots after the table has grown.
    fn relocate(&mut self, moves: &Moves);
    /// Calls `visit` with each entry, in any order.
    fn visit(&self, visit: impl FnMut(Queued));
    fn bytes_allocated(&self) -> usize;
    /// All entries in queue order; validates the queues on the way.
    fn walk(&self, slots: &Slots) -> Vec<Queued>;
}

/// The state of a policy. An enum and not a trait object: a hit is too short for an indirect call.
#[derive(Debug)]
pub(crate) enum Queues {
    Ctd(ctd::Ctd),
    S3Fifo(s3fifo::S3Fifo),
    Lru(lru::Lru),
    Fifo(fifo::Fifo),
    Random(random::Random),
}

impl Queues {
    pub(crate) fn new(policy: Policy) -> Self {
        match policy {
            Policy::Ctd => Queues::Ctd(ctd::Ctd::new()),
            Policy::S3Fifo => Queues::S3Fifo(s3fifo::S3Fifo::new()),
            Policy::Lru => Queues::Lru(lru::Lru::new()),
            Policy::Fifo => Queues::Fifo(fifo::Fifo::new()),
            Policy::Random => Queues::Random(random::Random::new()),
        }
    }
}

/// Evaluates an expression for the queues of whichever policy it is: all of its calls know their type.
macro_rules! each {
    ($self:expr, $queues:ident => $call:expr) => {
        match $self {
            $crate::policy::Queues::Ctd($queues) => $call,
            $crate::policy::Queues::S3Fifo($queues) => $call,
            $crate::policy::Queues::Lru($queues) => $call,
            $crate::policy::Queues::Fifo($queues) => $call,
            $crate::policy::Queues::Random($queues) => $call,
        }
    };
}
pub(crate) use each;

impl Queues {
    pub(crate) fn on_hit(&self) -> OnHit {
        fn of<P: Evict>(_: &P) -> OnHit {
            P::ON_HIT
        }
        each!(self, queues => of(queues))
    }

    #[inline]
    pub(crate) fn prefetch(&self, rank: u32) {
        each!(self, queues => queues.prefetch(rank));
    }

    pub(crate) fn hit(&mut self, slots: &mut Slots, id: u32) {
        each!(self, queues => queues.hit(slots, id));
    }

    #[inline]
    pub(crate) fn insert(&mut self, slots: &mut Slots, entry: Queued, hits: &Hits) -> u8 {
        each!(self, queues => queues.insert(slots, entry, hits))
    }

    #[inline]
    pub(crate) fn remove(&mut self, slots: &mut Slots, entry: Queued, mark: u8) {
        each!(self, queues => queues.remove(slots, entry, mark));
    }

    pub(crate) fn reweigh(&mut self, mark: u8, from: u64, to: u64) {
        each!(self, queues => queues.reweigh(mark, from, to));
    }

    #[inline]
    pub(crate) fn victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        incoming: u64,
        keep: Option<u32>,
    ) -> Option<Queued> {
        each!(self, queues => queues.victim(slots, entries, incoming, keep))
    }

    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        each!(self, queues => queues.weight())
    }

    pub(crate) fn relocate(&mut self, moves: &Moves) {
        each!(self, queues => queues.relocate(moves));
    }

    pub(crate) fn visit(&self, visit: impl FnMut(Queued)) {
        each!(self, queues => queues.visit(visit));
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        each!(self, queues => queues.bytes_allocated())
    }

    pub(crate) fn walk(&self, slots: &Slots) -> Vec<Queued> {
        each!(self, queues => queues.walk(slots))
    }
}

#[cfg(test)]
mod testing {
    //! A policy with eight slots and no shard, for tests that dump its queues.

    use super::{Entries, Evict, Hits, OnHit, with_one_more_hit};
    use crate::layout::queue::Queued;
    use crate::layout::slots::Slots;

    /// Entries whose rank derives from their slot.
    pub(super) struct Numbered {
        pub(super) marks: [u8; 8],
        pub(super) used: [bool; 8],
        pub(super) due: [bool; 8],
    }

    impl Numbered {
        pub(super) fn entry(&self, id: u32) -> Queued {
            Queued { slot: id, rank: self.rank(id) }
        }
    }

    impl Entries for Numbered {
        fn is_used(&self, id: u32) -> bool {
            self.used[id as usize]
        }

        fn rank(&self, id: u32) -> u32 {
            (id + 1).wrapping_mul(0x9e37_79b9)
        }

        fn is_due(&self, id: u32) -> bool {
            self.due[id as usize]
        }

        fn mark(&self, id: u32) -> u8 {
            self.marks[id as usize]
        }

        fn set_mark(&mut self, id: u32, mark: u8) {
            self.marks[id as usize] = mark;
        }
    }

    /// A policy with up to eight slots.
    pub(super) struct PolicyHarness<P> {
        policy: P,
        slots: Slots,
        entries: Numbered,
    }

    impl<P: Evict> PolicyHarness<P> {
        pub(super) fn new(policy: P) -> Self {
            PolicyHarness {
                policy,
                slots: Slots::new(8, false),
                entries: Numbered { marks: [0; 8], used: [false; 8], due: [false; 8] },
            }
        }

        pub(super) fn insert(&mut self) -> u32 {
            let id = self.entries.used.iter().position(|used| !used).expect("a slot is free") as u32;
            self.entries.used[id as usize] = true;
            let mark = self.policy.insert(&mut self.slots, self.entries.entry(id), &Hits::default());
            self.entries.set_mark(id, mark);
            id
        }

        pub(super) fn hit(&mut self, id: u32) {
            match P::ON_HIT {
                OnHit::Nothing => {}
                OnHit::Count => self.entries.set_mark(id, with_one_more_hit(self.entries.mark(id))),
                OnHit::Tell => self.policy.hit(&mut self.slots, id),
            }
        }

        pub(super) fn expire(&mut self, id: u32) {
            self.entries.due[id as usize] = true;
        }

        pub(super) fn victim(&mut self, keep: Option<u32>) -> Option<u32> {
            self.policy.victim(&mut self.slots, &mut self.entries, 1, keep).map(|entry| entry.slot)
        }

        pub(super) fn remove(&mut self, id: u32) {
            self.policy.remove(&mut self.slots, self.entries.entry(id), self.entries.mark(id));
            self.entries.used[id as usize] = false;
        }

        pub(super) fn evict(&mut self) -> Option<u32> {
            let id = self.victim(None)?;
            self.remove(id);
            Some(id)
        }

        pub(super) fn order(&self) -> Vec<u32> {
            self.policy.walk(&self.slots).into_iter().map(|entry| entry.slot).collect()
        }
    }
}
