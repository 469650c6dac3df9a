//! What the policies see of an entry: a slot, its place in a queue, and its weight.
//!
//! A slot is a place in the table. Beside the record that [`crate::records`] keeps for it, each slot has a number of four
//! bytes, its place in the one [`crate::queue`] that it is on. Weights are kept only in caches that weigh, in four
//! bytes.

use crate::prefetch::prefetch;
use std::collections::HashMap;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Stands for a weight of four gigabytes or more.
const HEAVY: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slots {
    places: Box<[u32]>,
    /// Empty in caches whose entries all weigh one.
    weights: Box<[u32]>,
    /// The weights that do not fit above, where `HEAVY` stands for them.
    heavy: HashMap<u32, u64>,
    weighed: bool,
}

impl Slots {
    /// As many slots, none on a queue.
    pub(crate) fn new(slots: u32, weighed: bool) -> Self {
        let weights = if weighed { slots } else { 0 };
        Slots {
            places: vec![NONE; slots as usize].into(),
            weights: vec![0; weights as usize].into(),
            heavy: HashMap::new(),
            weighed,
        }
    }

    /// The same slots among more of them: each at its place in `moves`, which lists the former and the new one.
    pub(crate) fn moved(&self, slots: u32, moves: &Moves) -> Self {
        let mut larger = Slots::new(slots, self.weighed);
        for (from, to) in moves.iter() {
            larger.places[to as usize] = self.places[from as usize];
            larger.set_weight(to, self.weight(from));
        }
        larger
    }

    /// Where in its queue a slot is.
    #[inline]
    pub(crate) fn place(&self, slot: u32) -> u32 {
        self.places[slot as usize]
    }

    #[inline]
    pub(crate) fn set_place(&mut self, slot: u32, place: u32) {
        self.places[slot as usize] = place;
    }

    /// Asks for a slot's place, which is going to be needed.
    pub(crate) fn foresee(&self, slot: u32) {
        prefetch(&self.places[slot as usize]);
    }

    #[inline]
    pub(crate) fn weight(&self, slot: u32) -> u64 {
        if !self.weighed {
            return 1;
        }
        match self.weights[slot as usize] {
            HEAVY => self.heavy[&slot],
            weight => u64::from(weight),
        }
    }

    pub(crate) fn set_weight(&mut self, slot: u32, weight: u64) {
        if !self.weighed {
            return;
        }
        let light = u32::try_from(weight).unwrap_or(HEAVY);
        let former = std::mem::replace(&mut self.weights[slot as usize], light);
        if light == HEAVY {
            self.heavy.insert(slot, weight);
        } else if former == HEAVY {
            self.heavy.remove(&slot);
        }
    }
}

/// Where each entry went when the table grew.
#[derive(Debug)]
pub(crate) struct Moves(Vec<u32>);

impl Moves {
    /// Nothing has moved yet, of as many slots.
    pub(crate) fn new(slots: u32) -> Self {
        Moves(vec![NONE; slots as usize])
    }

    pub(crate) fn note(&mut self, from: u32, to: u32) {
        self.0[from as usize] = to;
    }

    /// Where a slot's entry is now; `NONE` of `NONE`.
    pub(crate) fn of(&self, from: u32) -> u32 {
        self.0.get(from as usize).copied().unwrap_or(NONE)
    }

    /// The slots that had an entry, with its new one.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..).zip(&self.0).filter(|(_, to)| **to != NONE).map(|(from, to)| (from, *to))
    }
}
