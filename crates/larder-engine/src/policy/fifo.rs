//! First in, first out: the list of [`Lru`], which hits leave alone.

use super::{Evict, lru::Lru};

#[derive(Debug, Default)]
pub(super) struct Fifo(Lru);

impl Evict for Fifo {
    fn insert(&mut self, id: u32) {
        self.0.insert(id);
    }

    fn hit(&mut self, _: u32) {}

    fn remove(&mut self, id: u32) {
        self.0.remove(id);
    }

    fn victim(&mut self, keep: Option<u32>) -> Option<u32> {
        self.0.oldest_but(keep)
    }

    #[cfg(test)]
    fn order(&self) -> Vec<u32> {
        self.0.order()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_changes_nothing() {
        let mut fifo = Fifo::default();
        (0..3).for_each(|id| fifo.insert(id));
        fifo.hit(0);
        assert_eq!(fifo.order(), [0, 1, 2]);
        fifo.remove(0);
        assert_eq!(fifo.victim(None), Some(1));
    }
}
