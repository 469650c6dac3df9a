//! A first-in-first-out queue of slots that also supports removal from the middle.
//!
//! The slots lie in a ring buffer, so the next one is in the processor's cache before it is needed; a list linked through
//! the entries would cost one to three accesses to memory per step. Removal from the middle leaves a hole, which is
//! skipped when it reaches the front. When the ring is full it is compacted: holes are dropped, at the cost of one walk.

use crate::slots::{Moves, NONE, Slots};

/// The mark of a removed slot.
const HOLE: u32 = NONE;
/// A compacted ring has room for an eighth more than it holds, and at least for `MIN_SPARE`.
const SPARE_SHARE: usize = 8;
const MIN_SPARE: usize = 8;

#[derive(Debug)]
pub(crate) struct Queue {
    ring: Box<[u32]>,
    /// The index of the first slot; never that of a hole.
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
        (0..self.span).map(|n| self.ring[self.index(n) as usize]).filter(|slot| *slot != HOLE)
    }

    /// The first slot.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        (self.len > 0).then(|| self.ring[self.head as usize])
    }

    /// The first slot that is not `keep`.
    pub(crate) fn front_but(&self, keep: Option<u32>) -> Option<u32> {
        self.iter().find(|slot| Some(*slot) != keep)
    }

    /// The slot `n` positions behind the first, holes included; for prefetching.
    pub(crate) fn peek_ahead(&self, n: u32) -> Option<u32> {
        (n < self.span).then(|| self.ring[self.index(n) as usize]).filter(|slot| *slot != HOLE)
    }

    pub(crate) fn push_back(&mut self, slots: &mut Slots, slot: u32) {
        if self.span as usize == self.ring.len() {
            self.compact(slots);
        }
        let index = self.index(self.span);
        self.ring[index as usize] = slot;
        slots.set_queue_index(slot, index);
        self.span += 1;
        self.len += 1;
        self.weight += slots.weight(slot);
    }

    pub(crate) fn unlink(&mut self, slots: &Slots, slot: u32) {
        let index = slots.queue_index(slot);
        debug_assert_eq!(self.ring[index as usize], slot, "the slot is in this queue");
        self.ring[index as usize] = HOLE;
        self.len -= 1;
        self.weight -= slots.weight(slot);
        while self.span > 0 && self.ring[self.head as usize] == HOLE {
            self.head = self.index(1);
            self.span -= 1;
        }
    }

    /// Moves a slot to the back.
    pub(crate) fn requeue(&mut self, slots: &mut Slots, slot: u32) {
        self.unlink(slots, slot);
        self.push_back(slots, slot);
    }

    /// Renames the slots after the table has grown.
    pub(crate) fn relocate(&mut self, moves: &Moves) {
        self.ring.iter_mut().for_each(|slot| *slot = moves.of(*slot));
    }

    /// Accounts for a slot of this queue whose weight changed.
    pub(crate) fn reweigh(&mut self, from: u64, to: u64) {
        self.weight = self.weight - from + to;
    }

    /// The slots from front to back, after a check of places and sums.
    pub(crate) fn collect(&self, slots: &Slots) -> Vec<u32> {
        let queued: Vec<u32> = self.iter().collect();
        assert!(queued.iter().all(|&slot| self.ring[slots.queue_index(slot) as usize] == slot));
        assert_eq!(queued.len(), self.len());
        assert_eq!(queued.iter().map(|&slot| slots.weight(slot)).sum::<u64>(), self.weight);
        queued
    }

    /// The index `n` behind the first.
    #[inline]
    fn index(&self, n: u32) -> u32 {
        let (index, end) = (self.head + n, self.ring.len() as u32);
        if index >= end { index - end } else { index }
    }

    /// Moves the slots to a new ring without holes and with some spare room.
    fn compact(&mut self, slots: &mut Slots) {
        let len = self.len();
        let mut ring = Vec::with_capacity(len + (len / SPARE_SHARE).max(MIN_SPARE));
        for slot in self.iter() {
            slots.set_queue_index(slot, ring.len() as u32);
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
        fn random_operations_match_a_list(steps in proptest::collection::vec((0u8..3, 0u32..40), 1..400)) {
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
    fn requeue_repeated_does_not_grow_the_ring() {
        let (mut queue, mut slots) = (Queue::new(), Slots::new(100, false));
        (0..100).for_each(|slot| queue.push_back(&mut slots, slot));
        for turn in 0..10_000 {
            queue.requeue(&mut slots, turn * 7 % 100);
        }
        assert!(queue.ring.len() <= 112, "{} places for 100 slots", queue.ring.len());
    }
}
