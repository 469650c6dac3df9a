//! Prefetching for lookups of several records that the caller executes one after the other: see [`crate::cache::many`].

use super::{Cache, Key};
use crate::cache::many::LocationBatch;

/// Up to 16 keys that are about to be looked up.
#[derive(Debug)]
pub struct PrefetchBatch(LocationBatch);

impl PrefetchBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        PrefetchBatch(LocationBatch::new())
    }

    /// Adds a key of this cache, unless the batch [is full](PrefetchBatch::is_full).
    #[inline]
    pub fn add<O>(&mut self, cache: &Cache<O>, key: Key<'_>) {
        self.0.add(cache.locate(&key));
    }

    /// Whether the batch has 16 keys.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.0.is_full()
    }
}

impl Default for PrefetchBatch {
    fn default() -> Self {
        PrefetchBatch::new()
    }
}

impl<O> Cache<O> {
    /// Prefetches the memory that looking up or storing these keys will read. Changes nothing. Skips keys whose shard is
    /// locked, and does nothing for a batch of one.
    ///
    /// Cost: two short locks of the shard for each key, which pays off when the entries exceed the processor's caches.
    ///
    /// # Panics
    /// If a key was added for another cache, which has more shards.
    pub fn prefetch(&self, batch: &PrefetchBatch) {
        self.prefetch_shards(&batch.0);
        self.each_unlocked(&batch.0).for_each(|(shard, hash)| shard.prefetch_home(hash));
        self.each_unlocked(&batch.0).for_each(|(shard, hash)| match shard.prefetch_candidate(hash) {
            Some(record) => record.key.prefetch(),
            // It may be about to be stored, which reads more.
            None => shard.prefetch(hash),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ttl;
    use crate::raw::Record;

    #[test]
    fn prefetch_locked_shards_changes_nothing_and_returns() {
        let cache: Cache =
            Cache::builder().weight(1 << 20, |_, ()| 100).shards(4).build().expect("valid options");
        let names: Vec<Vec<u8>> = (0..40u8).map(|n| vec![n]).collect();
        let keys = || names.iter().map(|name| Key { space: 0, name });
        for key in keys().step_by(2) {
            cache.insert_with_ttl(Record::new(key, &[b"value"]), (), Ttl::At(1_000_000));
        }
        let before = cache.stats();
        let mut batch = PrefetchBatch::new();
        keys().for_each(|key| batch.add(&cache, key));
        assert!(batch.is_full());
        cache.prefetch(&batch);
        cache.prefetch(&PrefetchBatch::new());
        let locked = cache.lock_all(keys());
        cache.prefetch(&batch);
        drop(locked);
        assert_eq!(cache.stats(), before);
        cache.validate();
    }
}
