//! S3-FIFO: a small queue that most entries leave unread, a main queue for the others, and ghosts of evicted entries.
//!
//! Juncheng Yang, Yazhuo Zhang, Ziyue Qiu, Yao Yue, K. V. Rashmi, "FIFO queues are all you need for cache eviction",
//! SOSP 2023, <https://dl.acm.org/doi/10.1145/3600006.3613147>. As there: a tenth for the small queue, counters up to
//! three, as many ghosts as main entries. Different: one hit is enough for promotion, and before the cache is full the
//! main queue is filled first, so that a loop larger than the small queue is not lost at the start.

use super::{Entries, Evict, Hits, IN_MAIN, OnHit};
use crate::layout::queue::{Queue, Queued};
use crate::layout::slots::{Moves, Slots};
use hashbrown::HashSet;
use std::collections::VecDeque;
use std::hash::RandomState;

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
    ) -> Option<Queued> {
        for _ in 0..MAX_SECOND_CHANCES {
            let resident = self.main.front()?;
            let mark = entries.mark(resident.slot);
            if mark == IN_MAIN && Some(resident.slot) != keep {
                return Some(resident);
            }
            entries.set_mark(resident.slot, mark.saturating_sub(1).max(IN_MAIN));
            self.main.requeue(slots, resident);
        }
        self.main.front_but(slots, keep)
    }
}

impl Evict for S3Fifo {
    const ON_HIT: OnHit = OnHit::Count;

    fn insert(&mut self, slots: &mut Slots, entry: Queued, _: &Hits) -> u8 {
        let mark = if !self.full || self.ghosts.take(entry.rank) { IN_MAIN } else { 0 };
        self.queue(mark).push_back(slots, entry);
        mark
    }

    fn remove(&mut self, slots: &mut Slots, entry: Queued, mark: u8) {
        self.queue(mark).unlink(slots, entry.slot);
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
    ) -> Option<Queued> {
        self.full = true;
        for _ in 0..MAX_SECOND_CHANCES {
            let held = self.weight();
            // Not multiplied by ten, which would overflow.
            let small_is_over = self.small.weight() + incoming > held / SMALL_SHARE;
            let Some(entry) = self.small.front_but(slots, keep).filter(|_| small_is_over) else { break };
            if entries.mark(entry.slot) == 0 {
                self.ghosts.remember(entry.rank, self.main.len());
                return Some(entry);
            }
            self.small.unlink(slots, entry.slot);
            entries.set_mark(entry.slot, IN_MAIN);
            self.main.push_back(slots, entry);
        }
        self.main_victim(slots, entries, keep).or_else(|| self.small.front_but(slots, keep))
    }

    fn weight(&self) -> u64 {
        self.small.weight() + self.main.weight()
    }

    fn relocate(&mut self, moves: &Moves) {
        self.small.relocate(moves);
        self.main.relocate(moves);
    }

    fn visit(&self, visit: impl FnMut(Queued)) {
        self.small.iter().chain(self.main.iter()).for_each(visit);
    }

    fn bytes_allocated(&self) -> usize {
        self.small.bytes_allocated() + self.main.bytes_allocated() + self.ghosts.bytes_allocated()
    }

    fn walk(&self, slots: &Slots) -> Vec<Queued> {
        let mut entries = self.small.collect(slots);
        entries.extend(self.main.collect(slots));
        entries
    }
}

/// The ranks of entries that left the small queue unread, oldest first.
#[derive(Debug, Default)]
struct Ghosts {
    order: VecDeque<u32>,
    known: HashSet<u32, RandomState>,
}

impl Ghosts {
    fn bytes_allocated(&self) -> usize {
        self.order.capacity() * size_of::<u32>() + self.known.allocation_size()
    }

    fn remember(&mut self, rank: u32, most: usize) {
        if self.known.insert(rank) {
            self.order.push_back(rank);
        }
        while self.order.len() > most.max(1) {
            if let Some(oldest) = self.order.pop_front() {
                self.known.remove(&oldest);
            }
        }
    }

    /// Removes and reports a ghost. Its position in the order stays until it reaches the front.
    fn take(&mut self, rank: u32) -> bool {
        self.known.remove(&rank)
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
        assert_eq!(harness.insert(), 0, "the same number, so the same rank");
        assert_eq!(harness.order(), [1, 2, 3, 4, 5, 6, 7, 0], "at the end of main");
    }
}
