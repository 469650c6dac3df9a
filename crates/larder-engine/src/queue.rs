//! A queue of slots, first in first out, from which one can also be taken out of the middle.
//!
//! The slots stand one behind the other in a ring, so that who comes next is in the processor's cache before it is asked
//! for; a list that runs through the entries would cost an access to memory, or three, for each step. A slot that is taken
//! out of the middle leaves a hole, which is passed over when its turn comes, and closed when the ring is made anew: that
//! happens when it is full, and costs a walk of it.

use crate::slots::{Moves, NONE, Slots};

/// In place of a slot that has left.
const HOLE: u32 = NONE;
/// A new ring has room for this much more than what is in it: an eighth, and a little for short ones.
const SPARE_SHARE: usize = 8;
const LEAST_SPARE: usize = 8;

#[derive(Debug)]
pub(crate) struct Queue {
    ring: Box<[u32]>,
    /// Where the first slot stands; there is no hole there.
    head: u32,
    /// Places from the first slot to behind the last, with the holes between them.
    span: u32,
    len: u32,
    weight: u64,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Queue { ring: Box::default(), head: 0, span: 0, len: 0, weight: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The sum of the weights in the queue.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The slots from front to back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = u32> {
        (0..self.span).map(|n| self.ring[self.place(n) as usize]).filter(|slot| *slot != HOLE)
    }

    /// The slot that came first.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        (self.len > 0).then(|| self.ring[self.head as usize])
    }

    /// The first slot that is not `keep`.
    pub(crate) fn front_but(&self, keep: Option<u32>) -> Option<u32> {
        self.iter().find(|slot| Some(*slot) != keep)
    }

    /// The slot that is about `n` behind the first one, for those who look ahead.
    pub(crate) fn ahead(&self, n: u32) -> Option<u32> {
        (n < self.span).then(|| self.ring[self.place(n) as usize]).filter(|slot| *slot != HOLE)
    }

    pub(crate) fn push_back(&mut self, slots: &mut Slots, slot: u32) {
        if self.span as usize == self.ring.len() {
            self.renew(slots);
        }
        let place = self.place(self.span);
        self.ring[place as usize] = slot;
        slots.set_place(slot, place);
        self.span += 1;
        self.len += 1;
        self.weight += slots.weight(slot);
    }

    pub(crate) fn unlink(&mut self, slots: &Slots, slot: u32) {
        let place = slots.place(slot);
        debug_assert_eq!(self.ring[place as usize], slot, "the slot is in this queue");
        self.ring[place as usize] = HOLE;
        self.len -= 1;
        self.weight -= slots.weight(slot);
        while self.span > 0 && self.ring[self.head as usize] == HOLE {
            self.head = self.place(1);
            self.span -= 1;
        }
    }

    /// Takes a slot to the back.
    pub(crate) fn requeue(&mut self, slots: &mut Slots, slot: u32) {
        self.unlink(slots, slot);
        self.push_back(slots, slot);
    }

    /// The table has grown.
    pub(crate) fn relocate(&mut self, moves: &Moves) {
        self.ring.iter_mut().for_each(|slot| *slot = moves.of(*slot));
    }

    /// Accounts for a slot of this queue that weighs something else now.
    pub(crate) fn reweigh(&mut self, from: u64, to: u64) {
        self.weight = self.weight - from + to;
    }

    /// The slots from front to back, after a check of places and sums.
    pub(crate) fn collect(&self, slots: &Slots) -> Vec<u32> {
        let queued: Vec<u32> = self.iter().collect();
        assert!(queued.iter().all(|&slot| self.ring[slots.place(slot) as usize] == slot));
        assert_eq!(queued.len(), self.len());
        assert_eq!(queued.iter().map(|&slot| slots.weight(slot)).sum::<u64>(), self.weight);
        queued
    }

    /// The place `n` behind the first.
    #[inline]
    fn place(&self, n: u32) -> u32 {
        let (place, end) = (self.head + n, self.ring.len() as u32);
        if place >= end { place - end } else { place }
    }

    /// Makes a ring without holes and with some room.
    fn renew(&mut self, slots: &mut Slots) {
        let len = self.len();
        let mut ring = Vec::with_capacity(len + (len / SPARE_SHARE).max(LEAST_SPARE));
        for slot in self.iter() {
            slots.set_place(slot, ring.len() as u32);
            ring.push(slot);
        }
        ring.resize(ring.capacity(), HOLE);
        (self.ring, self.head, self.span) = (ring.into(), 0, self.len);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn a_queue_is_a_list(steps in proptest::collection::vec((0u8..3, 0u32..40), 1..400)) {
            let (mut queue, mut slots, mut model) = (Queue::new(), Slots::new(40, true), Vec::new());
            (0..40).for_each(|slot| slots.set_weight(slot, u64::from(slot)));
            for (kind, slot) in steps {
                let known = model.iter().position(|other| *other == slot);
                match (kind, known) {
                    (0, None) => {
                        queue.push_back(&mut slots, slot);
                        model.push(slot);
                    }
                    (1, Some(at)) => {
                        queue.unlink(&slots, slot);
                        model.remove(at);
                    }
                    (2, Some(at)) => {
                        queue.requeue(&mut slots, slot);
                        model.remove(at);
                        model.push(slot);
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.collect(&slots), model.clone());
                prop_assert_eq!(queue.front(), model.first().copied());
                prop_assert_eq!(queue.front_but(queue.front()), model.get(1).copied());
            }
        }
    }

    #[test]
    fn a_queue_that_turns_does_not_grow() {
        let (mut queue, mut slots) = (Queue::new(), Slots::new(100, false));
        (0..100).for_each(|slot| queue.push_back(&mut slots, slot));
        for turn in 0..10_000 {
            queue.requeue(&mut slots, turn * 7 % 100);
        }
        assert!(queue.ring.len() <= 112, "{} places for 100 slots", queue.ring.len());
    }
}
