//! Least recently used: one queue, most recent at the back.

use super::{Entries, Evict, Hits, OnHit};
use crate::layout::queue::{Queue, Queued};
use crate::layout::slots::{Moves, Slots};

#[derive(Debug)]
pub(crate) struct Lru(Queue);

impl Lru {
    pub(super) fn new() -> Self {
        Lru(Queue::new())
    }
}

impl Evict for Lru {
    const ON_HIT: OnHit = OnHit::Tell;

    fn hit(&mut self, slots: &mut Slots, id: u32) {
        self.0.requeue_slot(slots, id);
    }

    fn insert(&mut self, slots: &mut Slots, entry: Queued, _: &Hits) -> u8 {
        self.0.push_back(slots, entry);
        0
    }

    fn remove(&mut self, slots: &mut Slots, entry: Queued, _: u8) {
        self.0.unlink(slots, entry.slot);
    }

    fn reweigh(&mut self, _: u8, from: u64, to: u64) {
        self.0.reweigh(from, to);
    }

    fn victim(
        &mut self,
        slots: &mut Slots,
        _: &mut impl Entries,
        _: u64,
        keep: Option<u32>,
    ) -> Option<Queued> {
        self.0.front_but(slots, keep)
    }

    fn weight(&self) -> u64 {
        self.0.weight()
    }

    fn relocate(&mut self, moves: &Moves) {
        self.0.relocate(moves);
    }

    fn visit(&self, visit: impl FnMut(Queued)) {
        self.0.iter().for_each(visit);
    }

    fn bytes_allocated(&self) -> usize {
        self.0.bytes_allocated()
    }

    fn walk(&self, slots: &Slots) -> Vec<Queued> {
        self.0.collect(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::PolicyHarness;
    use super::*;

    #[test]
    fn hit_moves_the_entry_to_the_back() {
        let mut harness = PolicyHarness::new(Lru::new());
        (0..4).for_each(|_| _ = harness.insert());
        harness.hit(0);
        harness.hit(3);
        harness.hit(3);
        assert_eq!(harness.order(), [1, 2, 0, 3]);
        assert_eq!((harness.victim(None), harness.victim(Some(1))), (Some(1), Some(2)));
    }

    #[test]
    fn insert_reuses_a_freed_slot() {
        let mut harness = PolicyHarness::new(Lru::new());
        (0..3).for_each(|_| _ = harness.insert());
        harness.remove(1);
        assert_eq!(harness.order(), [0, 2]);
        harness.insert();
        assert_eq!(harness.order(), [0, 2, 1]);
        (0..3).for_each(|_| _ = harness.evict());
        assert_eq!((harness.victim(None), harness.order()), (None, vec![]));
    }

    #[test]
    fn victim_only_entry_kept_is_none() {
        let mut harness = PolicyHarness::new(Lru::new());
        harness.insert();
        assert_eq!((harness.victim(Some(0)), harness.victim(None)), (None, Some(0)));
    }
}
