//! First in, first out.

use super::{Entries, Evict, Hits, OnHit};
use crate::layout::queue::{Queue, Queued};
use crate::layout::slots::{Moves, Slots};

#[derive(Debug)]
pub(crate) struct Fifo(Queue);

impl Fifo {
    pub(super) fn new() -> Self {
        Fifo(Queue::new())
    }
}

impl Evict for Fifo {
    const ON_HIT: OnHit = OnHit::Nothing;

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
    fn hit_does_not_change_the_order() {
        let mut harness = PolicyHarness::new(Fifo::new());
        (0..3).for_each(|_| _ = harness.insert());
        harness.hit(0);
        assert_eq!(harness.order(), [0, 1, 2]);
        harness.remove(0);
        assert_eq!(harness.victim(None), Some(1));
    }
}
