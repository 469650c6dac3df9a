//! The memory of the keyspace: how much it takes and may take. See [`super::memory_limit`] for why the two differ from what
//! entries are charged.

use std::sync::atomic::Ordering;

use larder_engine::raw::RecordMemory;

use super::memory_limit::{INTERVAL, INTERVALS_PER_ROUND, MEASURED_SHARDS, Measured, smoothed, subtracted};
use super::store::{MAX_MEMORY_BYTES, MIN_MEMORY_BYTES, Store};
use crate::system::Moment;

impl Store {
    /// The configured limit of the keyspace's memory in bytes.
    #[must_use]
    pub fn max_memory(&self) -> u64 {
        self.limit.max_memory.load(Ordering::Relaxed)
    }

    /// Changes the limit, and evicts the entries that no longer fit, as far as the policy allows. A limit outside of the
    /// range of [`Store::new`] becomes the nearest one in it.
    pub fn set_max_memory(&self, bytes: u64) {
        self.resize(bytes);
        while self.evict_excess(usize::MAX) {
            // What is missing belongs to writes that other threads have to complete, or is in shards that they hold.
            std::thread::yield_now();
        }
    }

    /// As [`set_max_memory`](Self::set_max_memory), but evicts nothing: [`evict_excess`](Self::evict_excess) does.
    pub(crate) fn resize(&self, bytes: u64) {
        let state = self.limit.state.lock();
        self.limit.max_memory.store(bytes.clamp(MIN_MEMORY_BYTES, MAX_MEMORY_BYTES), Ordering::Relaxed);
        self.apply(state.overhead);
    }

    /// Bytes that count against [`max_memory`](Self::max_memory): what all entries are charged, and the overhead that was
    /// measured beyond. They are more than `max_memory` exactly if the keyspace is too large.
    #[must_use]
    pub fn used_memory(&self) -> u64 {
        match self.cache.weight() {
            0 => 0,
            charged => charged + self.limit.overhead.load(Ordering::Relaxed),
        }
    }

    /// Bytes that all entries are charged.
    pub(crate) fn charged_memory(&self) -> u64 {
        self.cache.weight()
    }

    /// Bytes that the keyspace takes, as last measured: pages of records with what is free in them, arrays of the shards,
    /// long values and sorted sets. Each measurement visits some of the shards, and takes the others as they were. Zero
    /// before the first one.
    #[must_use]
    pub fn resident_memory(&self) -> u64 {
        self.limit.resident.load(Ordering::Relaxed)
    }

    /// Measures the memory, unless that was done less than a tenth of a second ago, and adjusts the limit of the charges.
    /// Evicts up to `count` entries of those that exceed it; returns whether there are more that can be evicted at once.
    pub(crate) fn follow_memory(&self, now: Moment, count: usize) -> bool {
        let mut state = self.limit.state.lock();
        if state.measured_at.is_none_or(|at| now >= at + INTERVAL) {
            state.measured_at = Some(now);
            let shards = MEASURED_SHARDS.max(self.cache.shard_count() / INTERVALS_PER_ROUND);
            self.cache.measure(&mut state.measurement, shards);
            let measured = Measured {
                charged: self.cache.weight(),
                entries: state.measurement.entries() as u64,
                arrays: state.measurement.bytes() as u64,
                records: RecordMemory::now(),
            };
            self.limit.resident.store(measured.resident(), Ordering::Relaxed);
            state.overhead = smoothed(state.overhead, measured.overhead());
            self.apply(state.overhead);
        }
        drop(state);
        let charged = self.charged_memory();
        // If nothing was evicted, what is left is in shards that others hold.
        self.evict_excess(count) && self.charged_memory() < charged
    }

    /// Sets the limit of the charges. The caller has locked the state.
    pub(super) fn apply(&self, overhead: u64) {
        let max_memory = self.max_memory();
        let subtracted = subtracted(overhead, max_memory);
        self.limit.overhead.store(subtracted, Ordering::Relaxed);
        if self.cache.capacity() != max_memory - subtracted {
            self.cache.resize(max_memory - subtracted);
        }
    }
}
