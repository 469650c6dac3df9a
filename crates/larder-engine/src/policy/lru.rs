//! Least recently used: a list through the slots, most recent first.

use super::Evict;

/// Links of the list by slot id. The sentinel that closes the ring is kept apart, so that slots count from zero.
#[derive(Debug)]
pub(super) struct Lru {
    links: Vec<Link>,
    ends: Link,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    newer: u32,
    older: u32,
}

const SENTINEL: u32 = u32::MAX;
const ALONE: Link = Link { newer: SENTINEL, older: SENTINEL };

impl Default for Lru {
    fn default() -> Self {
        Lru { links: Vec::new(), ends: ALONE }
    }
}

impl Lru {
    fn link(&mut self, id: u32) -> &mut Link {
        if id == SENTINEL { &mut self.ends } else { &mut self.links[id as usize] }
    }

    /// The newest entry is the sentinel's `older`, the oldest its `newer`: the list is a ring.
    fn push_newest(&mut self, id: u32) {
        let newest = self.ends.older;
        *self.link(id) = Link { newer: SENTINEL, older: newest };
        self.link(newest).newer = id;
        self.ends.older = id;
    }

    fn unlink(&mut self, id: u32) {
        let Link { newer, older } = *self.link(id);
        self.link(newer).older = older;
        self.link(older).newer = newer;
    }

    pub(super) fn oldest_but(&self, keep: Option<u32>) -> Option<u32> {
        let oldest = self.ends.newer;
        let candidate = if Some(oldest) == keep && oldest != SENTINEL {
            self.links[oldest as usize].newer
        } else {
            oldest
        };
        (candidate != SENTINEL).then_some(candidate)
    }
}

impl Evict for Lru {
    fn insert(&mut self, id: u32) {
        if self.links.len() <= id as usize {
            self.links.resize(id as usize + 1, ALONE);
        }
        self.push_newest(id);
    }

    fn hit(&mut self, id: u32) {
        if self.ends.older != id {
            self.unlink(id);
            self.push_newest(id);
        }
    }

    fn remove(&mut self, id: u32) {
        self.unlink(id);
    }

    fn victim(&mut self, keep: Option<u32>) -> Option<u32> {
        self.oldest_but(keep)
    }

    #[cfg(test)]
    fn order(&self) -> Vec<u32> {
        let mut order = Vec::new();
        let mut id = self.ends.newer;
        while id != SENTINEL {
            order.push(id);
            id = self.links[id as usize].newer;
        }
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hit_moves_an_entry_to_the_safe_end() {
        let mut lru = Lru::default();
        (0..4).for_each(|id| lru.insert(id));
        lru.hit(0);
        lru.hit(3);
        lru.hit(3);
        assert_eq!(lru.order(), [1, 2, 0, 3]);
        assert_eq!(lru.victim(None), Some(1));
        assert_eq!(lru.victim(Some(1)), Some(2));
    }

    #[test]
    fn a_slot_is_used_again() {
        let mut lru = Lru::default();
        (0..3).for_each(|id| lru.insert(id));
        lru.remove(1);
        assert_eq!(lru.order(), [0, 2]);
        lru.insert(1);
        assert_eq!(lru.order(), [0, 2, 1]);
        (0..3).for_each(|id| lru.remove(id));
        assert_eq!(lru.victim(None), None);
        assert_eq!(lru.order(), []);
    }

    #[test]
    fn the_only_entry_is_no_victim_of_itself() {
        let mut lru = Lru::default();
        lru.insert(0);
        assert_eq!(lru.victim(Some(0)), None);
        assert_eq!(lru.victim(None), Some(0));
    }
}
