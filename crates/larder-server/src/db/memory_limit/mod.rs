//! The limit of the charges, so that what the keyspace really takes follows `max_memory`.
//!
//! Entries are charged when they are stored, with an estimate of what they take. What they take in the end depends on the
//! others: blocks of records that are free in pages, arrays of the shards that grow in steps, deadlines. The difference is
//! measured at intervals, and the charges may add up to `max_memory` without it:
//!
//! ```text
//! max_memory ┬───────────────────────────┬───────────────┐
//!            │ limit of the charges      │ overhead      │ allowance
//!            └───────────────────────────┴───────────────┴──────────
//! ```
//!
//! An eviction frees a block in a page and no page, so it lowers the charges at once and the memory later. Free blocks that a
//! compaction is about to return are therefore not overhead: else each eviction would be a reason for the next one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use larder_engine::raw::{Measurement, RecordMemory};
use parking_lot::Mutex;

use super::{BYTES_PER_ALLOCATOR_BYTE, ENTRY_OVERHEAD_BYTES, MAX_MEMORY_BYTES, MIN_MEMORY_BYTES, Store};
use crate::system::Moment;

/// Interval of the measurements.
const INTERVAL: Duration = Duration::from_millis(100);
/// Shards that are measured at a time, at least.
const MEASURED_SHARDS: usize = 64;
/// A round of measurements of all shards takes at most so many intervals.
const INTERVALS_PER_ROUND: usize = 64;
/// Overhead that is not subtracted: as much as the pages that the engine keeps when they are empty.
const ALLOWANCE_BYTES: u64 = 4 << 20;
/// This much is always left to the charges, and half of what `max_memory` is beyond it. The pages of a few records of many
/// sizes would be most of a smaller limit.
const MIN_LIMIT_BYTES: u64 = 16 << 20;
/// The part of the difference by which the overhead follows a higher measurement in an interval, and a lower one. It
/// decreases slowly, so that it stays while free blocks become more and a compaction returns them, again and again.
const RISE_DIVISOR: u64 = 4;
const FALL_DIVISOR: u64 = 16;

/// The configured limit, and what is known about the memory that the charges do not count.
#[derive(Debug)]
pub(super) struct MemoryLimit {
    max_memory: AtomicU64,
    /// What is subtracted from it.
    overhead: AtomicU64,
    /// What the keyspace took at the last measurement.
    resident: AtomicU64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    measurement: Measurement,
    measured_at: Option<Moment>,
    /// The smoothed overhead, before the allowance.
    overhead: u64,
}

/// What one measurement has found.
#[derive(Debug, Clone, Copy)]
struct Measured {
    charged: u64,
    /// The entries of the shards, and the bytes of their arrays.
    entries: u64,
    arrays: u64,
    records: RecordMemory,
}

impl Measured {
    /// What the entries own: blocks, long values and objects.
    fn owned(&self) -> u64 {
        let without_arrays = self.charged.saturating_sub(self.entries * ENTRY_OVERHEAD_BYTES);
        without_arrays - without_arrays / (BYTES_PER_ALLOCATOR_BYTE + 1)
    }

    /// What the keyspace takes if so many bytes of the arena's pages are free.
    fn bytes(&self, free: usize) -> u64 {
        let taken = (self.records.used_bytes - self.records.free_bytes) as u64;
        let in_arena = self.owned().min(taken);
        // Another keyspace of the process has a part of what is free: as it has of what is taken.
        let free = free as u128 * u128::from(in_arena) / u128::from(taken.max(1));
        // Only what lies outside of the arena is from the allocator.
        let outside = self.owned() - in_arena;
        self.owned() + free as u64 + outside / BYTES_PER_ALLOCATOR_BYTE + self.arrays
    }

    /// What the keyspace takes now.
    fn resident(&self) -> u64 {
        self.bytes(self.records.free_bytes + self.records.kept_bytes)
    }

    /// By how much it exceeds the charges after a compaction.
    fn overhead(&self) -> u64 {
        let free = self.records.free_bytes.min(self.records.tolerated_bytes);
        self.bytes(free + self.records.kept_bytes).saturating_sub(self.charged)
    }
}

/// The overhead that is subtracted from `max_memory`.
fn subtracted(overhead: u64, max_memory: u64) -> u64 {
    overhead.saturating_sub(ALLOWANCE_BYTES).min(max_memory.saturating_sub(MIN_LIMIT_BYTES) / 2)
}

/// The smoothed overhead after one that was measured.
fn smoothed(before: u64, measured: u64) -> u64 {
    match measured >= before {
        true => before + (measured - before).div_ceil(RISE_DIVISOR),
        false => before - (before - measured).div_ceil(FALL_DIVISOR),
    }
}

impl MemoryLimit {
    pub(super) fn new(max_memory: u64) -> Self {
        MemoryLimit {
            max_memory: AtomicU64::new(max_memory),
            overhead: AtomicU64::new(0),
            resident: AtomicU64::new(0),
            state: Mutex::default(),
        }
    }
}

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
    fn apply(&self, overhead: u64) {
        let max_memory = self.max_memory();
        let subtracted = subtracted(overhead, max_memory);
        self.limit.overhead.store(subtracted, Ordering::Relaxed);
        if self.cache.capacity() != max_memory - subtracted {
            self.cache.resize(max_memory - subtracted);
        }
    }
}

#[cfg(test)]
mod tests;
