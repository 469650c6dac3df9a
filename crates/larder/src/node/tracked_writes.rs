//! Counts of the writes that `CLIENT TRACKING` reported, by a hash of the key: a node that stores an entry in memory
//! learns that a write was reported in between.

use std::sync::atomic::{AtomicU64, Ordering};
use xxhash_rust::xxh3::xxh3_64;

const STRIPES: usize = 1_024;

#[derive(Debug)]
pub(crate) struct TrackedWrites(Box<[AtomicU64]>);

impl TrackedWrites {
    pub(crate) fn new() -> Self {
        TrackedWrites((0..STRIPES).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn record(&self, redis_key: &[u8]) {
        self.stripe(redis_key).fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn count(&self, redis_key: &[u8]) -> u64 {
        self.stripe(redis_key).load(Ordering::Acquire)
    }

    fn stripe(&self, redis_key: &[u8]) -> &AtomicU64 {
        &self.0[xxh3_64(redis_key) as usize % STRIPES]
    }
}
