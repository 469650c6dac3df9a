//! A first-in-first-out queue of entries that also supports removal from the middle.
//!
//! The entries lie in a ring buffer, so the next one is in the processor's cache before it is needed; a list linked through
//! the entries would cost one to three accesses to memory per step. Removal from the middle leaves a hole, which is
//! skipped when it reaches the front. When the ring is full the holes are closed, at the cost of one walk.
//!
//! The ring has the rank of each entry beside its slot. So a policy can judge an entry, and the shard can take it from the
//! table, without a look at its key: that is an access to memory, and a hash of the key, for each.

use crate::layout::array::Array;
use crate::layout::packed::NONE;
use crate::layout::packed::{Packed, Width};
use crate::layout::sizes;
use crate::layout::slots::{Moves, Slots};
use crate::layout::table::Growth;

/// An entry on a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Queued {
    pub(crate) slot: u32,
    /// The [`rank`](crate::layout::table::rank) of the hash of its key.
    pub(crate) rank: u32,
}

/// A compacted ring has room for at least a sixteenth more than it holds, and for `MIN_SPARE`.
const SPARE_SHARE: usize = 16;
const MIN_SPARE: usize = 8;

#[derive(Debug)]
pub(crate) struct Queue {
    /// The slots of the entries; `NONE` is a hole.
    ring: Packed,
    /// Their ranks.
    ranks: Array<u32>,
    /// The index of the first entry; never that of a hole.
    head: u32,
    /// Positions from the first entry to behind the last, with the holes between them.
    span: u32,
    len: u32,
    weight: u64,
}

impl Queue {
    pub(crate) fn new() -> Self {
        Queue {
            ring: Packed::new(0, Width::Short),
            ranks: Array::filled(0, 0),
            head: 0,
            span: 0,
            len: 0,
            weight: 0,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        self.ring.bytes_allocated() + size_of_val(&*self.ranks)
    }

    /// The sum of the weights in the queue.
    #[inline]
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The entries from front to back.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Queued> {
        (0..self.span).filter_map(|n| self.at(n))
    }

    /// The first entry.
    #[inline]
    pub(crate) fn front(&self) -> Option<Queued> {
        (self.len > 0).then(|| self.at_index(self.head))
    }

    /// The first entry that is not in the slot `keep`.
    #[inline]
    pub(crate) fn front_but(&mut self, slots: &mut Slots, keep: Option<u32>) -> Option<Queued> {
        let front = self.front()?;
        if Some(front.slot) == keep { self.second(slots, front) } else { Some(front) }
    }

    /// The entry behind the first, which moves up to it: the holes between them, which a row of victims leaves, are passed
    /// once.
    #[cold]
    fn second(&mut self, slots: &mut Slots, front: Queued) -> Option<Queued> {
        if self.len == 1 {
            return None;
        }
        let second = (1..self.span).find(|n| self.at(*n).is_some())?;
        self.ring.set(self.head, NONE);
        self.head = self.index(second - 1);
        self.span -= second - 1;
        self.place(slots, self.head, front);
        self.at(1)
    }

    /// Writes an entry to an index of the ring.
    #[inline]
    fn place(&mut self, slots: &mut Slots, index: u32, entry: Queued) {
        self.ring.set(index, entry.slot);
        self.ranks[index as usize] = entry.rank;
        slots.set_queue_index(entry.slot, index);
    }

    /// How many positions the queue has, those of removed entries included.
    pub(crate) fn span(&self) -> u32 {
        self.span
    }

    /// The entry `n` positions behind the first; `None` behind the last, and if it was removed.
    #[inline]
    pub(crate) fn at(&self, n: u32) -> Option<Queued> {
        (n < self.span).then(|| self.at_index(self.index(n))).filter(|entry| entry.slot != NONE)
    }

    #[inline]
    fn at_index(&self, index: u32) -> Queued {
        Queued { slot: self.ring.get(index), rank: self.ranks[index as usize] }
    }

    #[inline]
    pub(crate) fn push_back(&mut self, slots: &mut Slots, entry: Queued) {
        self.append(slots, entry);
        self.len += 1;
        self.weight += slots.weight(entry.slot);
    }

    #[inline]
    fn append(&mut self, slots: &mut Slots, entry: Queued) {
        if self.span as usize == self.ring.len() {
            self.compact(slots);
        }
        self.place(slots, self.index(self.span), entry);
        self.span += 1;
    }

    /// Removes the entry of a slot.
    #[inline]
    pub(crate) fn unlink(&mut self, slots: &Slots, slot: u32) {
        self.len -= 1;
        self.weight -= slots.weight(slot);
        self.detach(slots, slot);
    }

    #[inline]
    fn detach(&mut self, slots: &Slots, slot: u32) {
        // Most entries leave at the front, whose index is known.
        if self.ring.get(self.head) == slot {
            self.advance();
            return;
        }
        let index = slots.queue_index(slot);
        debug_assert_eq!(self.ring.get(index), slot, "the slot is in this queue");
        self.ring.set(index, NONE);
    }

    /// Drops the first position, and the holes behind it.
    #[inline]
    fn advance(&mut self) {
        loop {
            self.ring.set(self.head, NONE);
            self.head = self.index(1);
            self.span -= 1;
            if self.span == 0 || self.ring.get(self.head) != NONE {
                return;
            }
        }
    }

    /// Moves an entry to the back.
    #[inline]
    pub(crate) fn requeue(&mut self, slots: &mut Slots, entry: Queued) {
        self.detach(slots, entry.slot);
        self.append(slots, entry);
    }

    /// Moves the entry of a slot to the back.
    pub(crate) fn requeue_slot(&mut self, slots: &mut Slots, slot: u32) {
        self.requeue(slots, self.at_index(slots.queue_index(slot)));
    }

    /// Renames the slots after the table has grown.
    pub(crate) fn relocate(&mut self, moves: &Moves) {
        let mut ring = Packed::new(self.ring.len(), Width::of(moves.slots()));
        (0..self.ring.len() as u32).for_each(|index| ring.set(index, moves.of(self.ring.get(index))));
        self.ring = ring;
    }

    /// Accounts for an entry of this queue whose weight changed.
    pub(crate) fn reweigh(&mut self, from: u64, to: u64) {
        self.weight = self.weight - from + to;
    }

    /// The entries from front to back, after a check of positions and sums.
    pub(crate) fn collect(&self, slots: &Slots) -> Vec<Queued> {
        let queued: Vec<Queued> = self.iter().collect();
        assert!(queued.iter().all(|entry| self.at_index(slots.queue_index(entry.slot)) == *entry));
        assert_eq!(queued.len(), self.len());
        assert_eq!(queued.iter().map(|entry| slots.weight(entry.slot)).sum::<u64>(), self.weight);
        queued
    }

    /// The index `n` behind the first.
    #[inline]
    fn index(&self, n: u32) -> u32 {
        let (index, end) = (self.head + n, self.ring.len() as u32);
        if index >= end { index - end } else { index }
    }

    /// Closes the holes, and if that makes too little room, moves the entries to a longer ring.
    #[cold]
    fn compact(&mut self, slots: &mut Slots) {
        let least = self.len() + (self.len() / SPARE_SHARE).max(MIN_SPARE);
        if least <= self.ring.len() {
            return self.close_holes(slots);
        }
        // By a half, because each growth is a walk, as far as a full table needs it.
        let most = Growth::of(slots.is_weighed()).max_entries(slots.len());
        let for_full_table = most + most / SPARE_SHARE;
        let capacity = match least <= for_full_table {
            true => (least + least / 2).min(for_full_table),
            false => sizes::at_least(least),
        };
        let mut ring = Packed::new(capacity, slots.width());
        let mut ranks = Array::filled(capacity, 0);
        let mut end = 0;
        for (index, entry) in (0..).zip(self.iter()) {
            end = index + 1;
            slots.set_queue_index(entry.slot, index);
            ring.set(index, entry.slot);
            ranks[index as usize] = entry.rank;
        }
        (self.ring, self.ranks, self.head, self.span) = (ring, ranks, 0, end);
    }

    /// Moves the entries towards the front.
    fn close_holes(&mut self, slots: &mut Slots) {
        let mut end = 0;
        for n in 0..self.span {
            let Some(entry) = self.at(n) else { continue };
            let index = self.index(end);
            if end < n {
                self.place(slots, index, entry);
                self.ring.set(self.index(n), NONE);
            }
            end += 1;
        }
        self.span = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// An entry whose rank derives from its slot.
    fn queued(slot: u32) -> Queued {
        Queued { slot, rank: slot * 1_000 }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn random_operations_match_a_list(steps in proptest::collection::vec((0u8..3, 0u32..40), 1..400)) {
            let (mut queue, mut slots, mut model) = (Queue::new(), Slots::new(40, true), Vec::new());
            (0..40).for_each(|slot| slots.set_weight(slot, u64::from(slot)));
            for (kind, slot) in steps {
                let known = model.iter().position(|other| *other == queued(slot));
                match (kind, known) {
                    (0, None) => {
                        queue.push_back(&mut slots, queued(slot));
                        model.push(queued(slot));
                    }
                    (1, Some(at)) => {
                        queue.unlink(&slots, slot);
                        model.remove(at);
                    }
                    (2, Some(at)) => {
                        queue.requeue_slot(&mut slots, slot);
                        model.remove(at);
                        model.push(queued(slot));
                    }
                    _ => {}
                }
                prop_assert_eq!(queue.collect(&slots), model.clone());
                prop_assert_eq!(queue.front(), model.first().copied());
                let front = queue.front().map(|front| front.slot);
                prop_assert_eq!(queue.front_but(&mut slots, front), model.get(1).copied());
                prop_assert_eq!(queue.collect(&slots), model.clone());
            }
        }
    }

    /// An overwrite that made the oldest entry heavier passed all holes of its victims again for each further one.
    #[test]
    fn holes_behind_a_front_that_is_kept_are_passed_once() {
        let (mut queue, mut slots) = (Queue::new(), Slots::new(1_000, false));
        (0..1_000).for_each(|slot| queue.push_back(&mut slots, queued(slot)));
        for removed in 1..1_000 {
            assert_eq!(queue.front_but(&mut slots, Some(0)), Some(queued(removed)));
            assert_eq!(queue.span(), 1_001 - removed, "no hole before the second entry");
            queue.unlink(&slots, removed);
        }
        assert_eq!(queue.front_but(&mut slots, Some(0)), None);
        assert_eq!(queue.collect(&slots), [queued(0)]);
    }

    #[test]
    fn requeue_repeated_does_not_grow_the_ring() {
        let (mut queue, mut slots) = (Queue::new(), Slots::new(100, false));
        (0..100).for_each(|slot| queue.push_back(&mut slots, queued(slot)));
        for turn in 0..10_000 {
            queue.requeue_slot(&mut slots, turn * 7 % 100);
        }
        assert!(queue.ring.len() <= 128, "{} positions for 100 entries", queue.ring.len());
    }
}
