//! What the policies know of an entry: its slot, its index in a queue, and its weight.
//!
//! Each slot has its index in the one [`crate::layout::queue`] that it is on, in two bytes or four. Weights are stored only in
//! caches with a weigher, in two bytes.

use crate::layout::array::Array;
use crate::layout::packed::{NONE, Packed, Width};
use hashbrown::HashMap;
use std::hash::RandomState;

/// Marks a weight that needs more than 16 bits.
const HEAVY: u16 = u16::MAX;

#[derive(Debug)]
pub(crate) struct Slots {
    queue_indices: Packed,
    width: Width,
    /// Empty in caches whose entries all weigh one.
    weights: Array<u16>,
    /// The weights that do not fit into 16 bits, marked by `HEAVY` above.
    heavy: HashMap<u32, u64, RandomState>,
    weighed: bool,
}

impl Slots {
    /// This many slots, none of them on a queue.
    pub(crate) fn new(slots: u32, weighed: bool) -> Self {
        let (weights, width) = (if weighed { slots } else { 0 }, Width::of(slots));
        Slots {
            queue_indices: Packed::new(slots as usize, width),
            width,
            weights: Array::filled(weights as usize, 0),
            heavy: HashMap::default(),
            weighed,
        }
    }

    /// The same entries in a larger table, moved as `moves` says.
    pub(crate) fn moved(&self, moves: &Moves) -> Self {
        let mut larger = Slots::new(moves.slots(), self.weighed);
        for (from, to) in moves.iter() {
            larger.set_queue_index(to, self.queue_index(from));
            larger.set_weight(to, self.weight(from));
        }
        larger
    }

    /// How many slots there are.
    pub(crate) fn len(&self) -> usize {
        self.queue_indices.len()
    }

    /// Whether weights are stored.
    pub(crate) fn is_weighed(&self) -> bool {
        self.weighed
    }

    pub(crate) fn bytes_allocated(&self) -> usize {
        let weights = size_of_val(&*self.weights) + self.heavy.allocation_size();
        self.queue_indices.bytes_allocated() + weights
    }

    /// The index of a slot in its queue.
    #[inline]
    pub(crate) fn queue_index(&self, slot: u32) -> u32 {
        self.queue_indices.get(slot)
    }

    /// How wide the numbers of slots and of positions are.
    pub(crate) fn width(&self) -> Width {
        self.width
    }

    #[inline]
    pub(crate) fn set_queue_index(&mut self, slot: u32, place: u32) {
        self.queue_indices.set(slot, place);
    }

    /// Prefetches the queue index of a slot.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        self.queue_indices.prefetch(slot);
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
        let light = u16::try_from(weight).unwrap_or(HEAVY);
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
pub(crate) struct Moves {
    to: Vec<u32>,
    slots: u32,
}

impl Moves {
    /// No moves yet, from a table with so many slots to one with `slots`.
    pub(crate) fn new(former_slots: u32, slots: u32) -> Self {
        Moves { to: vec![NONE; former_slots as usize], slots }
    }

    /// How many slots the new table has.
    pub(crate) fn slots(&self) -> u32 {
        self.slots
    }

    pub(crate) fn record(&mut self, from: u32, to: u32) {
        self.to[from as usize] = to;
    }

    /// The new slot of an entry; `NONE` for `NONE`.
    pub(crate) fn of(&self, from: u32) -> u32 {
        self.to.get(from as usize).copied().unwrap_or(NONE)
    }

    /// Pairs of the former and the new slot.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.to).filter(|(_, to)| **to != NONE).map(|(from, to)| (from, *to))
    }
}
