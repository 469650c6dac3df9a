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

use std::sync::atomic::AtomicU64;
use std::time::Duration;

use larder_engine::raw::{Measurement, RecordMemory};
use parking_lot::Mutex;

use super::record::{BYTES_PER_ALLOCATOR_BYTE, ENTRY_OVERHEAD_BYTES};
use crate::system::Moment;

/// Interval of the measurements.
pub(super) const INTERVAL: Duration = Duration::from_millis(100);
/// Shards that are measured at a time, at least.
pub(super) const MEASURED_SHARDS: usize = 64;
/// A round of measurements of all shards takes at most so many intervals.
pub(super) const INTERVALS_PER_ROUND: usize = 64;
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
    pub(super) max_memory: AtomicU64,
    /// What is subtracted from it.
    pub(super) overhead: AtomicU64,
    /// What the keyspace took at the last measurement.
    pub(super) resident: AtomicU64,
    pub(super) state: Mutex<State>,
}

#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) measurement: Measurement,
    pub(super) measured_at: Option<Moment>,
    /// The smoothed overhead, before the allowance.
    pub(super) overhead: u64,
}

/// What one measurement has found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Measured {
    pub(super) charged: u64,
    /// The entries of the shards, and the bytes of their arrays.
    pub(super) entries: u64,
    pub(super) arrays: u64,
    pub(super) records: RecordMemory,
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
    pub(super) fn resident(&self) -> u64 {
        self.bytes(self.records.free_bytes + self.records.kept_bytes)
    }

    /// By how much it exceeds the charges after a compaction.
    pub(super) fn overhead(&self) -> u64 {
        let free = self.records.free_bytes.min(self.records.tolerated_bytes);
        self.bytes(free + self.records.kept_bytes).saturating_sub(self.charged)
    }
}

/// The overhead that is subtracted from `max_memory`.
pub(super) fn subtracted(overhead: u64, max_memory: u64) -> u64 {
    overhead.saturating_sub(ALLOWANCE_BYTES).min(max_memory.saturating_sub(MIN_LIMIT_BYTES) / 2)
}

/// The smoothed overhead after one that was measured.
pub(super) fn smoothed(before: u64, measured: u64) -> u64 {
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

#[cfg(test)]
mod tests;
