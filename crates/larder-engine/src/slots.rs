//! What the policies know of an entry: its slot, its index in a queue, and its weight.
//!
//! Each slot has its index in the one [`crate::queue`] that it is on, in four bytes. Weights are stored only in caches
//! with a weigher, in four bytes.

use crate::prefetch::prefetch_element;
use std::collections::HashMap;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Marks a weight that needs more than 32 bits.
const HEAVY: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slots {
    queue_indices: Box<[u32]>,
    /// Empty in caches whose entries all weigh one.
    weights: Box<[u32]>,
    /// The weights that do not fit into 32 bits, marked by `HEAVY` above.
    heavy: HashMap<u32, u64>,
    weighed: bool,
}

impl Slots {
    /// This many slots, none of them on a queue.
    pub(crate) fn new(slots: u32, weighed: bool) -> Self {
        let weights = if weighed { slots } else { 0 };
        Slots {
            queue_indices: vec![NONE; slots as usize].into(),
            weights: vec![0; weights as usize].into(),
            heavy: HashMap::new(),
            weighed,
        }
    }

    /// The same entries in a larger table, moved as `moves` says.
    pub(crate) fn moved(&self, slots: u32, moves: &Moves) -> Self {
        let mut larger = Slots::new(slots, self.weighed);
        for (from, to) in moves.iter() {
            larger.queue_indices[to as usize] = self.queue_indices[from as usize];
            larger.set_weight(to, self.weight(from));
        }
        larger
    }

    /// The index of a slot in its queue.
    #[inline]
    pub(crate) fn queue_index(&self, slot: u32) -> u32 {
        self.queue_indices[slot as usize]
    }

    #[inline]
    pub(crate) fn set_queue_index(&mut self, slot: u32, place: u32) {
        self.queue_indices[slot as usize] = place;
    }

    /// Prefetches the queue index of a slot.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        prefetch_element(&self.queue_indices, slot as usize);
    }

    #[inline]
    pub(crate) fn weight(&self, slot: u32) -> u64 {
        if !self.weighed {
            return 1;
        }
        self.stored_weight(slot)
    }

    fn stored_weight(&self, slot: u32) -> u64 {
        match self.weights[slot as usize] {
            HEAVY => self.heavy[&slot],
            weight => u64::from(weight),
        }
    }

    #[inline]
    pub(crate) fn set_weight(&mut self, slot: u32, weight: u64) {
        if self.weighed {
            self.store_weight(slot, weight);
        }
    }

    fn store_weight(&mut self, slot: u32, weight: u64) {
        let light = u32::try_from(weight).unwrap_or(HEAVY);
        let former = std::mem::replace(&mut self.weights[slot as usize], light);
        if light == HEAVY {
            self.heavy.insert(slot, weight);
        } else if former == HEAVY {
            self.heavy.remove(&slot);
        }
    }
}

/// The new slot of each entry after the table has grown.
#[derive(Debug)]
pub(crate) struct Moves(Vec<u32>);

impl Moves {
    /// No moves yet, for a table with this many slots.
    pub(crate) fn new(slots: u32) -> Self {
        Moves(vec![NONE; slots as usize])
    }

    pub(crate) fn record(&mut self, from: u32, to: u32) {
        self.0[from as usize] = to;
    }

    /// The new slot of an entry; `NONE` for `NONE`.
    pub(crate) fn of(&self, from: u32) -> u32 {
        self.0.get(from as usize).copied().unwrap_or(NONE)
    }

    /// Pairs of the former and the new slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.0).filter(|(_, to)| **to != NONE).map(|(from, to)| (from, *to))
    }
}
