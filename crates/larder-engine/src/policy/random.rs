//! Random eviction: the floor that a policy has to beat.

use super::{Entries, Evict, Hits, OnHit};
use crate::layout::queue::{Queue, Queued};
use crate::layout::slots::{Moves, Slots};

/// The queue gives no order; it lists the entries that are present.
#[derive(Debug)]
pub(crate) struct Random {
    present: Queue,
    state: u64,
}

/// How many random positions are tried before the oldest entry is taken: enough that this is rare.
const TRIES: u32 = 32;

impl Random {
    pub(super) fn new() -> Self {
        Random { present: Queue::new(), state: 0x2545_f491_4f6c_dd1d }
    }

    /// A number below `end` (xorshift64*, Sebastiano Vigna, 2016).
    fn below(&mut self, end: u32) -> u32 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let scrambled = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        ((scrambled * u64::from(end)) >> 32) as u32
    }
}

impl Evict for Random {
    const ON_HIT: OnHit = OnHit::Nothing;

    fn insert(&mut self, slots: &mut Slots, entry: Queued, _: &Hits) -> u8 {
        self.present.push_back(slots, entry);
        0
    }

    fn remove(&mut self, slots: &mut Slots, entry: Queued, _: u8) {
        self.present.unlink(slots, entry.slot);
    }

    fn reweigh(&mut self, _: u8, from: u64, to: u64) {
        self.present.reweigh(from, to);
    }

    fn victim(
        &mut self,
        slots: &mut Slots,
        _: &mut impl Entries,
        _: u64,
        keep: Option<u32>,
    ) -> Option<Queued> {
        for _ in 0..TRIES {
            let position = self.below(self.present.span());
            if let Some(entry) = self.present.at(position).filter(|entry| Some(entry.slot) != keep) {
                return Some(entry);
            }
        }
        self.present.front_but(slots, keep)
    }

    fn weight(&self) -> u64 {
        self.present.weight()
    }

    fn relocate(&mut self, moves: &Moves) {
        self.present.relocate(moves);
    }

    fn visit(&self, visit: impl FnMut(Queued)) {
        self.present.iter().for_each(visit);
    }

    fn bytes_allocated(&self) -> usize {
        self.present.bytes_allocated()
    }

    fn walk(&self, slots: &Slots) -> Vec<Queued> {
        self.present.collect(slots)
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::PolicyHarness;
    use super::*;

    #[test]
    fn victim_is_uniform_and_never_the_kept_entry() {
        let mut harness = PolicyHarness::new(Random::new());
        (0..8).for_each(|_| _ = harness.insert());
        let mut seen = [0; 8];
        for _ in 0..800 {
            seen[harness.victim(Some(5)).expect("others are there") as usize] += 1;
        }
        assert_eq!(seen[5], 0);
        assert!(seen.iter().enumerate().all(|(id, n)| id == 5 || (60..180).contains(n)), "{seen:?}");
    }
}
