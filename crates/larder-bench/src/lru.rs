//! A plain LRU, unsharded and exact: the reference for hit ratios and, behind a mutex, a floor for speed.

use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// No neighbour.
const NONE: u32 = u32::MAX;

/// A hash table over a doubly linked list in a vector, bounded by weight.
pub(crate) struct Lru<K, V> {
    capacity: u64,
    weight: u64,
    index: HashTable<u32>,
    hasher: rapidhash::fast::RandomState,
    nodes: Vec<Node<K, V>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

struct Node<K, V> {
    /// None once it is free.
    entry: Option<(K, V)>,
    weight: u64,
    newer: u32,
    older: u32,
}

impl<K, V> Node<K, V> {
    fn key(&self) -> &K {
        &self.entry.as_ref().expect("an indexed node has an entry").0
    }
}

impl<K: Hash + Eq, V> Lru<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        let hasher = rapidhash::fast::RandomState::default();
        let (index, nodes, free) = (HashTable::new(), Vec::new(), Vec::new());
        Lru { capacity, weight: 0, index, hasher, nodes, free, newest: NONE, oldest: NONE }
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The value of `key`, which becomes the newest.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let at = self.find(key)?;
        self.unlink(at);
        self.link_newest(at);
        self.nodes[at as usize].entry.as_ref().map(|(_, value)| value)
    }

    /// Stores a value unless it is heavier than all; what was not used for longest makes room.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: u64) {
        if let Some(at) = self.find(&key) {
            self.remove(at);
        }
        if weight > self.capacity {
            return;
        }
        while self.weight + weight > self.capacity {
            self.remove(self.oldest);
        }
        self.weight += weight;
        let hash = self.hasher.hash_one(&key);
        let node = Node { entry: Some((key, value)), weight, newer: NONE, older: NONE };
        let at = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if at as usize == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[at as usize] = node;
        }
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.index.insert_unique(hash, at, |at| hasher.hash_one(nodes[*at as usize].key()));
        self.link_newest(at);
    }

    fn find(&self, key: &K) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.index.find(hash, |at| self.nodes[*at as usize].key() == key).copied()
    }

    fn remove(&mut self, at: u32) {
        self.unlink(at);
        let hash = self.hasher.hash_one(self.nodes[at as usize].key());
        self.index.find_entry(hash, |found| *found == at).expect("a linked node is indexed").remove();
        let node = &mut self.nodes[at as usize];
        node.entry = None;
        self.weight -= node.weight;
        self.free.push(at);
    }

    fn unlink(&mut self, at: u32) {
        let Node { newer, older, .. } = self.nodes[at as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, at: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[at as usize];
        (node.newer, node.older) = (NONE, newest);
        match self.nodes.get_mut(newest as usize) {
            Some(node) => node.newer = at,
            None => self.oldest = at,
        }
        self.newest = at;
    }
}
