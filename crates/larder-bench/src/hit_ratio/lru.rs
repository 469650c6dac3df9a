//! A plain LRU, unsharded and exact: what every other policy is measured against.

use super::contender::{Contender, Value};
use std::collections::HashMap;

/// No neighbour.
const NONE: usize = usize::MAX;

/// A hash table over a doubly linked list in a vector.
pub(super) struct ExactLru {
    capacity: u64,
    weight: u64,
    slots: HashMap<u64, usize, rapidhash::fast::RandomState>,
    nodes: Vec<Node>,
    free: Vec<usize>,
    newest: usize,
    oldest: usize,
}

struct Node {
    key: u64,
    value: Option<Value>,
    newer: usize,
    older: usize,
}

impl ExactLru {
    pub(super) fn new(capacity: u64) -> Self {
        let (slots, nodes, free) = (HashMap::default(), Vec::new(), Vec::new());
        ExactLru { capacity, weight: 0, slots, nodes, free, newest: NONE, oldest: NONE }
    }

    fn unlink(&mut self, at: usize) {
        let Node { newer, older, .. } = self.nodes[at];
        match self.nodes.get_mut(newer) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, at: usize) {
        self.nodes[at].newer = NONE;
        self.nodes[at].older = self.newest;
        match self.nodes.get_mut(self.newest) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }

    fn evict_oldest(&mut self) {
        let at = self.oldest;
        self.unlink(at);
        let node = &mut self.nodes[at];
        self.slots.remove(&node.key);
        self.weight -= node.value.take().expect("a linked node has a value").weight();
        self.free.push(at);
    }
}

impl Contender for ExactLru {
    fn get(&mut self, key: u64) -> bool {
        let Some(&at) = self.slots.get(&key) else { return false };
        self.unlink(at);
        self.link_newest(at);
        true
    }

    /// `key` is absent: only what missed is inserted.
    fn insert(&mut self, key: u64, value: Value) {
        if value.weight() > self.capacity {
            return;
        }
        while self.weight + value.weight() > self.capacity {
            self.evict_oldest();
        }
        self.weight += value.weight();
        let node = Node { key, value: Some(value), newer: NONE, older: NONE };
        let at = self.free.pop().unwrap_or(self.nodes.len());
        if at == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[at] = node;
        }
        self.slots.insert(key, at);
        self.link_newest(at);
    }

    fn weight(&self) -> Option<u64> {
        Some(self.weight)
    }
}
