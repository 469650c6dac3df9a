//! A plain LRU without shards: the reference for hit ratios and, behind a mutex, a baseline for speed.

use hashbrown::HashTable;
use std::hash::{BuildHasher, Hash};

/// The index of an absent neighbour.
const NONE: u32 = u32::MAX;

/// A hash table over a doubly linked list in a vector, bounded by weight.
pub(crate) struct Lru<K, V> {
    capacity: u64,
    weight: u64,
    /// Indices into `nodes`.
    table: HashTable<u32>,
    hasher: rapidhash::fast::RandomState,
    nodes: Vec<Node<K, V>>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

struct Node<K, V> {
    /// `None` if the node is free.
    entry: Option<(K, V)>,
    weight: u64,
    newer: u32,
    older: u32,
}

impl<K, V> Node<K, V> {
    fn key(&self) -> &K {
        &self.entry.as_ref().expect("a node in the table has an entry").0
    }
}

impl<K: Hash + Eq, V> Lru<K, V> {
    pub(crate) fn new(capacity: u64) -> Self {
        let hasher = rapidhash::fast::RandomState::default();
        let (table, nodes, free) = (HashTable::new(), Vec::new(), Vec::new());
        Lru { capacity, weight: 0, table, hasher, nodes, free, newest: NONE, oldest: NONE }
    }

    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// The value of `key`, which becomes the most recently used.
    pub(crate) fn get(&mut self, key: &K) -> Option<&V> {
        let index = self.find(key)?;
        self.unlink(index);
        self.link_newest(index);
        self.nodes[index as usize].entry.as_ref().map(|(_, value)| value)
    }

    /// Stores a value unless it exceeds the capacity; evicts the least recently used entries.
    pub(crate) fn insert(&mut self, key: K, value: V, weight: u64) {
        if let Some(index) = self.find(&key) {
            self.remove(index);
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
        let index = self.free.pop().unwrap_or(self.nodes.len() as u32);
        if index as usize == self.nodes.len() {
            self.nodes.push(node);
        } else {
            self.nodes[index as usize] = node;
        }
        let (nodes, hasher) = (&self.nodes, &self.hasher);
        self.table.insert_unique(hash, index, |index| hasher.hash_one(nodes[*index as usize].key()));
        self.link_newest(index);
    }

    fn find(&self, key: &K) -> Option<u32> {
        let hash = self.hasher.hash_one(key);
        self.table.find(hash, |index| self.nodes[*index as usize].key() == key).copied()
    }

    fn remove(&mut self, index: u32) {
        self.unlink(index);
        let hash = self.hasher.hash_one(self.nodes[index as usize].key());
        self.table.find_entry(hash, |found| *found == index).expect("a linked node is in the table").remove();
        let node = &mut self.nodes[index as usize];
        node.entry = None;
        self.weight -= node.weight;
        self.free.push(index);
    }

    fn unlink(&mut self, index: u32) {
        let Node { newer, older, .. } = self.nodes[index as usize];
        match self.nodes.get_mut(newer as usize) {
            Some(node) => node.older = older,
            None => self.newest = older,
        }
        match self.nodes.get_mut(older as usize) {
            Some(node) => node.newer = newer,
            None => self.oldest = newer,
        }
    }

    fn link_newest(&mut self, index: u32) {
        let newest = self.newest;
        let node = &mut self.nodes[index as usize];
        (node.newer, node.older) = (NONE, newest);
        match self.nodes.get_mut(newest as usize) {
            Some(node) => node.newer = index,
            None => self.oldest = index,
        }
        self.newest = index;
    }
}
