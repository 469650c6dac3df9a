//! Prefetching for several lookups at once.
//!
//! A lookup makes several dependent accesses to memory: the shard, its table, the pointer to the record, the record. One
//! lookup after the other waits for each of them. A batch prefetches the first for all keys, then the second for all,
//! and so on; by the time that a key's next step is due, its memory has arrived.

use super::{Cache, Key};
use crate::cache::KeyLocation;

/// The most keys in a batch: about as many memory requests as a processor core keeps in flight.
const MAX_KEYS: usize = 16;

/// Up to 16 keys that are about to be looked up.
#[derive(Debug)]
pub struct PrefetchBatch {
    locations: [KeyLocation; MAX_KEYS],
    len: usize,
}

impl PrefetchBatch {
    /// An empty batch.
    #[must_use]
    pub fn new() -> Self {
        PrefetchBatch { locations: [KeyLocation { hash: 0, shard: 0 }; MAX_KEYS], len: 0 }
    }

    /// Adds a key of this cache, unless the batch [is full](PrefetchBatch::is_full).
    #[inline]
    pub fn add(&mut self, cache: &Cache, key: Key<'_>) {
        if !self.is_full() {
            self.locations[self.len] = cache.locate(&key);
            self.len += 1;
        }
    }

    /// Whether the batch has 16 keys.
    #[inline]
    pub fn is_full(&self) -> bool {
        self.len == MAX_KEYS
    }
}

impl Default for PrefetchBatch {
    fn default() -> Self {
        PrefetchBatch::new()
    }
}

impl Cache {
    /// Prefetches the memory that looking up these keys will read. Changes nothing. Skips keys whose shard is locked, and
    /// does nothing for a batch of one.
    ///
    /// Cost: some 40 ns per key, which pays off when the entries exceed the processor's caches.
    pub fn prefetch(&self, batch: &PrefetchBatch) {
        let locations = &batch.locations[..batch.len];
        if locations.len() < 2 {
            return;
        }
        let shards = self.shards();
        locations.iter().for_each(|location| shards.prefetch(location.shard));
        let unlocked = || {
            locations
                .iter()
                .filter_map(|location| Some((shards.try_lock_beside(location.shard)?, location.hash)))
        };
        unlocked().for_each(|(shard, hash)| shard.prefetch(hash));
        unlocked().for_each(|(shard, hash)| shard.prefetch_record(hash));
        unlocked().for_each(|(shard, hash)| {
            if let Some(record) = shard.candidate(hash) {
                record.key.prefetch();
            }
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
        let cache = Cache::builder().weight(1 << 20, |_, ()| 100).shards(4).build().expect("valid options");
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
