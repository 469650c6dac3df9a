//! Which entry leaves when room is needed: one trait, one file per policy.
//!
//! A policy knows entries by their slots. What it learns about one it keeps in its queues and in the entry's mark,
//! four bits that lie where a hit reads anyway. The shard guarantees that
//! `insert` and `remove` come in pairs, that `hit` and `reweigh` name an entry that is present, and that all calls happen
//! under its lock. The policy guarantees that `victim` names an entry that is present, finds one as long as there is any
//! besides `keep`, and looks at a bounded number of entries to find it.

mod ctd;
mod fifo;
mod lru;
mod random;
mod s3fifo;

use crate::slots::{Moves, Slots};

/// The eviction policies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Policy {
    /// A first-in-first-out window before a CLOCK, with a contest of frequencies between them; the size of the window
    /// follows the traffic. The best all-rounder, and a hit costs next to nothing.
    #[default]
    Ctd,
    /// Two first-in-first-out queues and a memory of what has left the first (S3-FIFO).
    S3Fifo,
    /// The entry that was not used for the longest time leaves.
    Lru,
    /// The oldest entry leaves. For comparison: hits cost nothing, and count for nothing.
    Fifo,
    /// Any entry leaves. For comparison.
    Random,
}

impl Policy {
    /// All policies.
    pub const ALL: [Policy; 5] = [Policy::Ctd, Policy::S3Fifo, Policy::Lru, Policy::Fifo, Policy::Random];

    /// The name by which tools and reports know it.
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

/// What a policy may ask about entries when it looks for a victim. Each answer costs a look at the entry itself.
pub(crate) trait Entries {
    /// How many slots there are, in use or not.
    fn slots(&self) -> u32;
    fn is_used(&self, id: u32) -> bool;
    /// The hash of the entry's key.
    fn hash(&self, id: u32) -> u64;
    /// Whether the entry's time is over: then it may leave before all others.
    fn is_due(&self, id: u32) -> bool;
    /// The entry's mark.
    fn mark(&self, id: u32) -> u8;
    fn set_mark(&mut self, id: u32, mark: u8);
    /// Asks for what the answers about this entry will need.
    fn foresee(&self, _id: u32) {}
}

/// Hits that a mark counts, in its low two bits, for policies that are to know them.
const MAX_HITS: u8 = 3;
/// The bit of a mark that says in which of two queues its entry is, for policies that have two; hits are summed up by it.
const IN_MAIN: u8 = 4;

/// What a hit means to a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnHit {
    Nothing,
    /// The entry's mark counts it, up to three.
    Count,
    /// The policy is told.
    Tell,
}

/// The hits so far on entries whose mark has `IN_MAIN` not set, and set.
pub(crate) type Hits = [u64; 2];

/// Where in `Hits` a hit on an entry with this mark counts.
#[inline]
pub(crate) fn sum_of(mark: u8) -> usize {
    usize::from(mark & IN_MAIN != 0)
}

/// A mark after one more hit.
#[inline]
pub(crate) fn raised(mark: u8) -> u8 {
    if mark & MAX_HITS < MAX_HITS { mark + 1 } else { mark }
}

pub(crate) trait Evict {
    /// What a hit means to this policy.
    const ON_HIT: OnHit;
    /// An entry with this hash is about to be inserted: asks for what that will need.
    fn foresee(&self, _hash: u64) {}
    /// The entry was read or overwritten. Called if `ON_HIT` says so.
    fn hit(&mut self, _slots: &mut Slots, _id: u32) {}
    /// A new entry took a slot; returns its first mark.
    fn insert(&mut self, slots: &mut Slots, id: u32, hash: u64, hits: &Hits) -> u8;
    /// The entry leaves its slot, evicted or not.
    fn remove(&mut self, slots: &mut Slots, id: u32, hash: u64, mark: u8);
    /// The entry weighs something else than it did; the slots know it already.
    fn reweigh(&mut self, mark: u8, from: u64, to: u64);
    /// The entry that should leave next to make room for one of weight `incoming`; never `keep`.
    fn victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        incoming: u64,
        keep: Option<u32>,
    ) -> Option<u32>;
    /// The table has grown, and each entry has another slot.
    fn relocate(&mut self, moves: &Moves);
    /// All entries, in the order in which they are queued; checks the queues on the way.
    fn walk(&self, slots: &Slots) -> Vec<u32>;
}

/// A policy at work. An enum and not a trait object: a hit is too short for an indirect call.
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

macro_rules! each {
    ($self:ident, $queues:ident => $call:expr) => {
        match $self {
            Queues::Ctd($queues) => $call,
            Queues::S3Fifo($queues) => $call,
            Queues::Lru($queues) => $call,
            Queues::Fifo($queues) => $call,
            Queues::Random($queues) => $call,
        }
    };
}

impl Queues {
    pub(crate) fn on_hit(&self) -> OnHit {
        fn of<P: Evict>(_: &P) -> OnHit {
            P::ON_HIT
        }
        each!(self, queues => of(queues))
    }

    pub(crate) fn foresee(&self, hash: u64) {
        each!(self, queues => queues.foresee(hash));
    }

    pub(crate) fn hit(&mut self, slots: &mut Slots, id: u32) {
        each!(self, queues => queues.hit(slots, id));
    }

    pub(crate) fn insert(&mut self, slots: &mut Slots, id: u32, hash: u64, hits: &Hits) -> u8 {
        each!(self, queues => queues.insert(slots, id, hash, hits))
    }

    pub(crate) fn remove(&mut self, slots: &mut Slots, id: u32, hash: u64, mark: u8) {
        each!(self, queues => queues.remove(slots, id, hash, mark));
    }

    pub(crate) fn reweigh(&mut self, mark: u8, from: u64, to: u64) {
        each!(self, queues => queues.reweigh(mark, from, to));
    }

    pub(crate) fn victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        incoming: u64,
        keep: Option<u32>,
    ) -> Option<u32> {
        each!(self, queues => queues.victim(slots, entries, incoming, keep))
    }

    pub(crate) fn relocate(&mut self, moves: &Moves) {
        each!(self, queues => queues.relocate(moves));
    }

    pub(crate) fn walk(&self, slots: &Slots) -> Vec<u32> {
        each!(self, queues => queues.walk(slots))
    }
}

#[cfg(test)]
mod testing {
    //! A policy alone with a few slots, for the tests that dump its queues.

    use super::{Entries, Evict, Hits, OnHit, raised};
    use crate::slots::Slots;

    /// Entries whose hash is their number and whose time is never over.
    pub(super) struct Numbered {
        marks: [u8; 8],
        used: [bool; 8],
    }

    impl Entries for Numbered {
        fn slots(&self) -> u32 {
            8
        }

        fn is_used(&self, id: u32) -> bool {
            self.used[id as usize]
        }

        fn hash(&self, id: u32) -> u64 {
            u64::from(id + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }

        fn is_due(&self, _: u32) -> bool {
            false
        }

        fn mark(&self, id: u32) -> u8 {
            self.marks[id as usize]
        }

        fn set_mark(&mut self, id: u32, mark: u8) {
            self.marks[id as usize] = mark;
        }
    }

    /// A policy with up to eight slots.
    pub(super) struct Bench<P> {
        policy: P,
        slots: Slots,
        entries: Numbered,
    }

    impl<P: Evict> Bench<P> {
        pub(super) fn new(policy: P) -> Self {
            Bench {
                policy,
                slots: Slots::new(8, false),
                entries: Numbered { marks: [0; 8], used: [false; 8] },
            }
        }

        pub(super) fn insert(&mut self) -> u32 {
            let id = self.entries.used.iter().position(|used| !used).expect("a slot is free") as u32;
            self.entries.used[id as usize] = true;
            let mark = self.policy.insert(&mut self.slots, id, self.entries.hash(id), &Hits::default());
            self.entries.set_mark(id, mark);
            id
        }

        pub(super) fn hit(&mut self, id: u32) {
            match P::ON_HIT {
                OnHit::Nothing => {}
                OnHit::Count => self.entries.set_mark(id, raised(self.entries.mark(id))),
                OnHit::Tell => self.policy.hit(&mut self.slots, id),
            }
        }

        pub(super) fn victim(&mut self, keep: Option<u32>) -> Option<u32> {
            self.policy.victim(&mut self.slots, &mut self.entries, 1, keep)
        }

        pub(super) fn remove(&mut self, id: u32) {
            let (hash, mark) = (self.entries.hash(id), self.entries.mark(id));
            self.policy.remove(&mut self.slots, id, hash, mark);
            self.entries.used[id as usize] = false;
        }

        pub(super) fn evict(&mut self) -> Option<u32> {
            let id = self.victim(None)?;
            self.remove(id);
            Some(id)
        }

        pub(super) fn order(&self) -> Vec<u32> {
            self.policy.walk(&self.slots)
        }
    }
}
