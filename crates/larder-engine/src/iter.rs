//! Iteration that holds no lock between items: a few slots at a time are cloned out of a shard.

use crate::cache::{Cache, SLOTS_PER_HOLD};
use std::hash::Hash;

/// Clones of the live entries of a cache. Made by [`Cache::iter`].
#[derive(Debug)]
pub struct Iter<'a, K, V> {
    cache: &'a Cache<K, V>,
    shard: usize,
    slot: u32,
    batch: Vec<(K, V)>,
}

impl<'a, K, V> Iter<'a, K, V> {
    pub(crate) fn new(cache: &'a Cache<K, V>) -> Self {
        Iter { cache, shard: 0, slot: 0, batch: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        while self.batch.is_empty() {
            let now = self.cache.now();
            let shard = self.cache.shard_at(self.shard)?;
            let end = shard.end();
            let stop = end.min(self.slot + SLOTS_PER_HOLD);
            for id in self.slot..stop {
                if shard.is_used(id) && shard.is_live(id, now) {
                    let record = shard.record(id);
                    self.batch.push((record.key.clone(), record.value.clone()));
                }
            }
            (self.shard, self.slot) = if stop >= end { (self.shard + 1, 0) } else { (self.shard, stop) };
        }
        self.batch.pop()
    }
}
