//! S3-FIFO: a small queue that most entries leave unread, a main queue for the others, and ghosts of evicted entries.
//!
//! Juncheng Yang, Yazhuo Zhang, Ziyue Qiu, Yao Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023, <https://dl.acm.org/doi/10.1145/3600006.3613147>. As there: a tenth for the small queue, counters up to
//! three, as many ghosts as main entries. Different: one hit is enough for promotion, and before the cache is full the
//! main queue is filled first, so that a loop larger than the small queue is not lost at the start.

use super::{Entries, Evict, Hits, IN_MAIN, OnHit};
use crate::queue::Queue;
use crate::slots::{Moves, Slots};
use std::collections::{HashSet, VecDeque};

/// The small queue's share of the weight: one in ten.
const SMALL_SHARE: u64 = 10;
/// The most second chances that one eviction grants.
const MAX_SECOND_CHANCES: usize = 64;

#[derive(Debug)]
pub(crate) struct S3Fifo {
    small: Queue,
    main: Queue,
    ghosts: Ghosts,
    full: bool,
}

impl S3Fifo {
    pub(super) fn new() -> Self {
        S3Fifo { small: Queue::new(), main: Queue::new(), ghosts: Ghosts::default(), full: false }
    }

    fn queue(&mut self, mark: u8) -> &mut Queue {
        if mark & IN_MAIN == 0 { &mut self.small } else { &mut self.main }
    }

    fn main_victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        keep: Option<u32>,
    ) -> Option<u32> {
        for _ in 0..MAX_SECOND_CHANCES {
            let id = self.main.front()?;
            let mark = entries.mark(id);
            if mark == IN_MAIN && Some(id) != keep {
                return Some(id);
            }
            entries.set_mark(id, mark.saturating_sub(1).max(IN_MAIN));
            self.main.requeue(slots, id);
        }
        self.main.front_but(keep)
    }
}

impl Evict for S3Fifo {
    const ON_HIT: OnHit = OnHit::Count;

    fn insert(&mut self, slots: &mut Slots, id: u32, hash: u64, _: &Hits) -> u8 {
        let mark = if !self.full || self.ghosts.take(hash) { IN_MAIN } else { 0 };
        self.queue(mark).push_back(slots, id);
        mark
    }

    fn remove(&mut self, slots: &mut Slots, id: u32, _: u64, mark: u8) {
        self.queue(mark).unlink(slots, id);
    }

    fn reweigh(&mut self, mark: u8, from: u64, to: u64) {
        self.queue(mark).reweigh(from, to);
    }

    fn victim(
        &mut self,
        slots: &mut Slots,
        entries: &mut impl Entries,
        incoming: u64,
        keep: Option<u32>,
    ) -> Option<u32> {
        self.full = true;
        for _ in 0..MAX_SECOND_CHANCES {
            let held = self.small.weight() + self.main.weight();
            // Not multiplied by ten, which would overflow.
            let small_is_over = self.small.weight() + incoming > held / SMALL_SHARE;
            let Some(id) = self.small.front_but(keep).filter(|_| small_is_over) else { break };
            if entries.mark(id) == 0 {
                self.ghosts.remember(entries.hash(id), self.main.len());
                return Some(id);
            }
            self.small.unlink(slots, id);
            entries.set_mark(id, IN_MAIN);
            self.main.push_back(slots, id);
        }
        self.main_victim(slots, entries, keep).or_else(|| self.small.front_but(keep))
    }

    fn relocate(&mut self, moves: &Moves) {
        self.small.relocate(moves);
        self.main.relocate(moves);
    }

    fn walk(&self, slots: &Slots) -> Vec<u32> {
        let mut ids = self.small.collect(slots);
        ids.extend(self.main.collect(slots));
        ids
    }
}

/// Fingerprints of entries that left the small queue unread, oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u32>,
    known: HashSet<u32>,
}

impl Ghosts {
    fn remember(&mut self, hash: u64, most: usize) {
        let fingerprint = (hash >> 16) as u32;
        if self.known.insert(fingerprint) {
            self.order.push_back(fingerprint);
        }
        while self.order.len() > most.max(1) {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Removes and reports a ghost. Its position in the order stays until it reaches the front.
    fn take(&mut self, hash: u64) -> bool {
        self.known.remove(&((hash >> 16) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::PolicyHarness;
    use super::*;

    /// Eight entries, the last of which was inserted when the cache was full.
    fn full() -> PolicyHarness<S3Fifo> {
        let mut harness = PolicyHarness::new(S3Fifo::new());
        (0..8).for_each(|_| _ = harness.insert());
        assert_eq!(harness.evict(), Some(0), "the oldest of main, for small is empty");
        assert_eq!(harness.insert(), 0);
        harness
    }

    #[test]
    fn victim_unread_new_entry_goes_before_the_main_queue() {
        let mut harness = full();
        assert_eq!(harness.order(), [0, 1, 2, 3, 4, 5, 6, 7], "small, then main");
        assert_eq!(harness.evict(), Some(0));
    }

    #[test]
    fn victim_read_new_entry_is_promoted_and_read_resident_stays() {
        let mut harness = full();
        harness.hit(0);
        harness.hit(1);
        assert_eq!(harness.evict(), Some(2));
        assert_eq!(harness.order(), [3, 4, 5, 6, 7, 0, 1]);
    }

    #[test]
    fn insert_of_a_ghost_goes_to_the_main_queue() {
        let mut harness = full();
        assert_eq!(harness.evict(), Some(0));
        assert_eq!(harness.insert(), 0, "the same number, so the same hash");
        assert_eq!(harness.order(), [1, 2, 3, 4, 5, 6, 7, 0], "at the end of main");
    }
}
