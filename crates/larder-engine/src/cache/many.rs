//! Reads of several keys at once: while one key waits for memory, the others need not.
//!
//! A lookup makes several dependent accesses to memory: the shard, its table, the record, and what that points to. One
//! lookup after the other waits for each of them. A batch prefetches the first for all keys, then the second for all,
//! and so on; by the time that a key's next step is due, its memory has arrived.

use super::{Cache, KeyLocation};
use crate::lock::Guard;
use crate::shard::Shard;
use hashbrown::Equivalent;
use std::hash::Hash;

/// The most keys in a batch: about as many memory requests as a processor core keeps in flight.
const MAX_KEYS: usize = 16;

/// The locations of up to 16 keys that are about to be looked up.
#[derive(Debug)]
pub(crate) struct LocationBatch {
    locations: [KeyLocation; MAX_KEYS],
    len: usize,
}

impl LocationBatch {
    pub(crate) fn new() -> Self {
        LocationBatch { locations: [KeyLocation { hash: 0, shard: 0 }; MAX_KEYS], len: 0 }
    }

    /// Adds a location, unless the batch is full.
    #[inline]
    pub(crate) fn add(&mut self, location: KeyLocation) {
        if !self.is_full() {
            self.locations[self.len] = location;
            self.len += 1;
        }
    }

    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.len == MAX_KEYS
    }

    fn as_slice(&self) -> &[KeyLocation] {
        &self.locations[..self.len]
    }

    /// What to prefetch: nothing for a single key, whose lookup comes next.
    fn prefetched(&self) -> &[KeyLocation] {
        if self.len < 2 { &[] } else { self.as_slice() }
    }
}

impl<K: Hash + Eq, V> Cache<K, V> {
    /// The values of several keys, in the order of the keys. Each key is read as by [`Cache::get`]: a write between two
    /// of these reads is seen by the second.
    ///
    /// Cost: one shard lock per key and two short ones to prefetch. Faster than single reads if the entries exceed the
    /// processor's caches, and slower if they do not.
    ///
    /// ```
    /// let cache = larder_engine::Cache::<String, u32>::builder().entries(100).build()?;
    /// cache.insert("one".to_owned(), 1);
    /// cache.insert("two".to_owned(), 2);
    /// assert_eq!(cache.get_many(["two", "none", "one"]), [Some(2), None, Some(1)]);
    /// # Ok::<(), larder_engine::BuildError>(())
    /// ```
    pub fn get_many<'q, Q>(&self, keys: impl IntoIterator<Item = &'q Q>) -> Vec<Option<V>>
    where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
        V: Clone,
    {
        let keys = keys.into_iter();
        let mut values = Vec::with_capacity(keys.size_hint().0);
        self.get_many_with(keys, |_, value| values.push(value.cloned()));
        values
    }

    /// As [`Cache::get_many`], and calls `f` with each key and its value instead of cloning the values. `f` runs while the
    /// shard of the key is locked: it must be short. The time is read once for sixteen keys.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    pub fn get_many_with<'q, Q>(
        &self,
        keys: impl IntoIterator<Item = &'q Q>,
        mut f: impl FnMut(&'q Q, Option<&V>),
    ) where
        Q: Hash + Equivalent<K> + ?Sized + 'q,
    {
        let mut keys = keys.into_iter();
        loop {
            let mut batch = LocationBatch::new();
            let mut batch_keys = [None; MAX_KEYS];
            for (position, key) in batch_keys.iter_mut().zip(keys.by_ref()) {
                batch.add(self.locate(key));
                *position = Some(key);
            }
            self.prefetch_batch(&batch);
            let now = self.now();
            for (key, &location) in batch_keys.into_iter().flatten().zip(batch.as_slice()) {
                f(key, self.lock(location).read(location.hash, key, now).map(|record| &record.value));
            }
            if !batch.is_full() {
                return;
            }
        }
    }

    /// Prefetches the records of these keys, and what leads to them. Skips keys whose shard is locked, and does nothing
    /// for a batch of one.
    pub(crate) fn prefetch_batch(&self, batch: &LocationBatch) {
        self.prefetch_shards(batch);
        self.each_unlocked(batch).for_each(|(shard, hash)| shard.prefetch_group(hash));
        self.each_unlocked(batch).for_each(|(shard, hash)| shard.prefetch_record(hash));
    }

    /// Prefetches what a lock reads, and what it locks.
    #[inline]
    pub(crate) fn prefetch_shards(&self, batch: &LocationBatch) {
        let shards = &self.inner.shards;
        batch.prefetched().iter().for_each(|location| shards.prefetch(location.shard));
    }

    /// The shards to prefetch from, without those that are locked, each with the hash of the key.
    pub(crate) fn each_unlocked<'a>(
        &'a self,
        batch: &'a LocationBatch,
    ) -> impl Iterator<Item = (Guard<'a, Shard<K, V>>, u64)> {
        let shards = &self.inner.shards;
        let unlocked =
            |location: &KeyLocation| Some((shards.try_lock_beside(location.shard)?, location.hash));
        batch.prefetched().iter().filter_map(unlocked)
    }
}
