//! The slots of a shard and the lists that run through them: what the policies see of an entry.
//!
//! A slot is a number. Beside the record that [`crate::records`] keeps for it, each slot has a link of eight bytes, which
//! puts it on one list at a time: a queue of the policy while it is in use, the free list otherwise. Weights are kept
//! only in caches that weigh.

/// No slot.
pub(crate) const NONE: u32 = u32::MAX;

/// What stands in the link of a slot that is not in use, in place of the slot before it.
const FREE: u32 = u32::MAX - 1;

#[derive(Debug)]
pub(crate) struct Slots {
    links: Vec<Link>,
    /// Empty in caches whose entries all weigh one.
    weights: Vec<u64>,
    weighed: bool,
    free: List,
    len: usize,
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
    pub(crate) fn new(weighed: bool) -> Self {
        Slots { links: Vec::new(), weights: Vec::new(), weighed, free: List::new(), len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One more than the highest slot ever in use.
    pub(crate) fn end(&self) -> u32 {
        self.links.len() as u32
    }

    #[inline]
    pub(crate) fn is_used(&self, id: u32) -> bool {
        self.links.get(id as usize).is_some_and(|link| link.previous != FREE)
    }

    /// Takes a slot into use, on no list. The vectors grow up to `expected` in few steps and
    /// exactly, beyond it by an eighth.
    pub(crate) fn take(&mut self, weight: u64, expected: usize) -> u32 {
        self.len += 1;
        let id = match self.free.front {
            NONE => self.grow(expected),
            id => {
                self.free.len -= 1;
                self.free.front = self.links[id as usize].next;
                id
            }
        };
        self.links[id as usize] = Link { previous: NONE, next: NONE };
        if self.weighed {
            self.weights[id as usize] = weight;
        }
        id
    }

    fn grow(&mut self, expected: usize) -> u32 {
        let id = u32::try_from(self.links.len()).expect("a shard has fewer than 2^32 entries");
        let more = next_capacity(self.links.len(), expected) - self.links.len();
        reserve(&mut self.links, more);
        self.links.push(Link { previous: NONE, next: NONE });
        if self.weighed {
            reserve(&mut self.weights, more);
            self.weights.push(0);
        }
        id
    }

    /// Gives a slot back. It must be on no list.
    pub(crate) fn release(&mut self, id: u32) {
        self.len -= 1;
        // The free list is a stack: what was used last is in the processor's cache still.
        self.links[id as usize] = Link { previous: FREE, next: self.free.front };
        self.free.front = id;
        self.free.len += 1;
    }

    #[inline]
    pub(crate) fn weight(&self, id: u32) -> u64 {
        if self.weighed { self.weights[id as usize] } else { 1 }
    }

    pub(crate) fn set_weight(&mut self, id: u32, weight: u64) {
        if self.weighed {
            self.weights[id as usize] = weight;
        }
    }
}

/// The capacity that a full vector of `now` elements should get.
pub(crate) fn next_capacity(now: usize, expected: usize) -> usize {
    if now < expected { (now * 2).clamp(4, expected.max(4)) } else { now + (now / 8).max(4) }
}

/// Makes room for `more` elements, if there is none for one.
pub(crate) fn reserve<T>(elements: &mut Vec<T>, more: usize) {
    if elements.len() == elements.capacity() {
        elements.reserve_exact(more);
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
