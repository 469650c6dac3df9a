//! The lists that run through the slots of a shard, and the weights of its entries: what the policies see.
//!
//! A slot is a place in the table. Beside the record that [`crate::records`] keeps for it, each slot has a link of eight
//! bytes, which puts it on one queue of the policy while it is in use. Weights are kept only in caches that weigh, in
//! four bytes.

use std::collections::HashMap;

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// Stands for a weight of four gigabytes or more.
const HEAVY: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Slots {
    links: Box<[Link]>,
    /// Empty in caches whose entries all weigh one.
    weights: Box<[u32]>,
    /// The weights that do not fit above, where `HEAVY` stands for them.
    heavy: HashMap<u32, u64>,
    weighed: bool,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

/// A list of slots, first in at the front.
#[derive(Debug)]
pub(crate) struct List {
    front: u32,
    back: u32,
    len: u32,
    weight: u64,
}

impl Slots {
    /// As many slots, none on a list.
    pub(crate) fn new(slots: u32, weighed: bool) -> Self {
        let weights = if weighed { slots } else { 0 };
        Slots {
            links: vec![Link { previous: NONE, next: NONE }; slots as usize].into(),
            weights: vec![0; weights as usize].into(),
            heavy: HashMap::new(),
            weighed,
        }
    }

    /// The same slots among more of them: each at its place in `moves`, which lists the former and the new one.
    pub(crate) fn moved(&self, slots: u32, moves: &Moves) -> Self {
        let mut larger = Slots::new(slots, self.weighed);
        for (from, to) in moves.iter() {
            let Link { previous, next } = self.links[from as usize];
            larger.links[to as usize] = Link { previous: moves.of(previous), next: moves.of(next) };
            larger.set_weight(to, self.weight(from));
        }
        larger
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

impl List {
    pub(crate) fn new() -> Self {
        List { front: NONE, back: NONE, len: 0, weight: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len as usize
    }

    /// The sum of the weights on the list.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The slot that came first.
    #[inline]
    pub(crate) fn front(&self) -> Option<u32> {
        (self.front != NONE).then_some(self.front)
    }

    /// The slot behind `id`.
    pub(crate) fn after(&self, slots: &Slots, id: u32) -> Option<u32> {
        Some(slots.links[id as usize].next).filter(|next| *next != NONE)
    }

    pub(crate) fn push_back(&mut self, slots: &mut Slots, id: u32) {
        slots.links[id as usize] = Link { previous: self.back, next: NONE };
        match self.back {
            NONE => self.front = id,
            back => slots.links[back as usize].next = id,
        }
        self.back = id;
        self.len += 1;
        self.weight += slots.weight(id);
    }

    pub(crate) fn unlink(&mut self, slots: &mut Slots, id: u32) {
        let Link { previous, next } = slots.links[id as usize];
        match previous {
            NONE => self.front = next,
            previous => slots.links[previous as usize].next = next,
        }
        match next {
            NONE => self.back = previous,
            next => slots.links[next as usize].previous = previous,
        }
        self.len -= 1;
        self.weight -= slots.weight(id);
    }

    /// Takes a slot to the back.
    pub(crate) fn requeue(&mut self, slots: &mut Slots, id: u32) {
        if self.back != id {
            self.unlink(slots, id);
            self.push_back(slots, id);
        }
    }

    /// The table has grown.
    pub(crate) fn relocate(&mut self, moves: &Moves) {
        (self.front, self.back) = (moves.of(self.front), moves.of(self.back));
    }

    /// Accounts for a slot on this list that weighs something else now.
    pub(crate) fn reweigh(&mut self, from: u64, to: u64) {
        self.weight = self.weight - from + to;
    }

    /// Walks the list from front to back and checks its sums.
    pub(crate) fn collect(&self, slots: &Slots) -> Vec<u32> {
        let mut ids = Vec::new();
        let mut id = self.front;
        while id != NONE {
            ids.push(id);
            id = slots.links[id as usize].next;
        }
        assert_eq!(ids.len(), self.len());
        assert_eq!(ids.iter().map(|id| slots.weight(*id)).sum::<u64>(), self.weight);
        ids
    }
}
