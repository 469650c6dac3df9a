//! A vector of slots with a free list: ids stay valid for as long as their entry lives, and are used again after.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    slots: Vec<Slot<T>>,
    /// The free slot used next, `NONE` if there is none.
    free: u32,
    len: usize,
}

#[derive(Debug)]
enum Slot<T> {
    Free { next: u32 },
    Used(T),
}

const NONE: u32 = u32::MAX;

impl<T> Slab<T> {
    pub(crate) fn new() -> Self {
        Slab { slots: Vec::new(), free: NONE, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// One more than the highest id ever given out.
    pub(crate) fn end(&self) -> u32 {
        self.slots.len() as u32
    }

    pub(crate) fn insert(&mut self, value: T) -> u32 {
        self.len += 1;
        if self.free == NONE {
            let id = u32::try_from(self.slots.len()).expect("a shard holds fewer than 2^32 entries");
            self.slots.push(Slot::Used(value));
            return id;
        }
        let id = self.free;
        let Slot::Free { next } = std::mem::replace(&mut self.slots[id as usize], Slot::Used(value)) else {
            unreachable!("the free list names a used slot");
        };
        self.free = next;
        id
    }

    /// # Panics
    /// If the slot is free.
    pub(crate) fn remove(&mut self, id: u32) -> T {
        let slot = std::mem::replace(&mut self.slots[id as usize], Slot::Free { next: self.free });
        let Slot::Used(value) = slot else { panic!("slot {id} is free") };
        self.free = id;
        self.len -= 1;
        value
    }

    pub(crate) fn get(&self, id: u32) -> Option<&T> {
        match self.slots.get(id as usize) {
            Some(Slot::Used(value)) => Some(value),
            _ => None,
        }
    }
}

impl<T> std::ops::Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, id: u32) -> &T {
        self.get(id).expect("the slot is in use")
    }
}

impl<T> std::ops::IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, id: u32) -> &mut T {
        match &mut self.slots[id as usize] {
            Slot::Used(value) => value,
            Slot::Free { .. } => panic!("slot {id} is free"),
        }
    }
}
