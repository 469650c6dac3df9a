//! Iteration that holds no lock between items: it clones a few entries at a time out of a shard.

use crate::cache::{Cache, ENTRIES_PER_LOCK};
use crate::layout::table::RANK_END;
use std::hash::Hash;

/// Clones of the live entries of a cache. Made by [`Cache::iter`].
#[derive(Debug)]
pub struct Iter<'a, K, V> {
    cache: &'a Cache<K, V>,
    shard: usize,
    /// The rank at which the walk of the shard continues.
    from: u64,
    slots: Vec<u32>,
    batch: Vec<(K, V)>,
}

impl<'a, K, V> Iter<'a, K, V> {
    pub(crate) fn new(cache: &'a Cache<K, V>) -> Self {
        Iter { cache, shard: 0, from: 0, slots: Vec::new(), batch: Vec::new() }
    }
}

impl<K: Hash + Eq + Clone, V: Clone> Iterator for Iter<'_, K, V> {
    type Item = (K, V);

    fn next(&mut self) -> Option<(K, V)> {
        while self.batch.is_empty() {
            let now = self.cache.now();
            let shard = self.cache.shard_at(self.shard)?;
            self.from = shard.walk(self.from, ENTRIES_PER_LOCK, &mut self.slots);
            for &id in self.slots.iter().filter(|&&id| shard.is_live(id, now)) {
                let record = shard.record(id);
                self.batch.push((record.key.clone(), record.value.clone()));
            }
            if self.from == RANK_END {
                (self.shard, self.from) = (self.shard + 1, 0);
            }
        }
        self.batch.pop()
    }
}
