//! Counts, and counters that only one thread changes.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one wake-up, or of one thread since its start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) commands: u64,
    pub(crate) errors: u64,
    pub(crate) hits: u64,
    pub(crate) misses: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Counts {
    pub(super) fn plus(self, other: Counts) -> Counts {
        Counts {
            commands: self.commands + other.commands,
            errors: self.errors + other.errors,
            hits: self.hits + other.hits,
            misses: self.misses + other.misses,
            bytes_in: self.bytes_in + other.bytes_in,
            bytes_out: self.bytes_out + other.bytes_out,
        }
    }

    pub(super) fn minus(self, other: Counts) -> Counts {
        Counts {
            commands: self.commands - other.commands,
            errors: self.errors - other.errors,
            hits: self.hits - other.hits,
            misses: self.misses - other.misses,
            bytes_in: self.bytes_in - other.bytes_in,
            bytes_out: self.bytes_out - other.bytes_out,
        }
    }
}

/// A counter that only one thread changes, so that an addition is no atomic operation.
#[derive(Debug, Default)]
pub(crate) struct OwnCounter(AtomicU64);

impl OwnCounter {
    #[inline]
    pub(crate) fn add(&self, n: u64) {
        self.0.store(self.get().wrapping_add(n), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
