//! What a cache must do to take part, and values that count themselves.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The source of our own rows.
pub(super) const OURS: &str = "larder";

/// What every cache is told when it is built.
pub(super) struct Setup {
    /// In entries, or in bytes if `weighed`.
    pub(super) capacity: u64,
    pub(super) weighed: bool,
    /// What an entry weighs by the first requests: some peers want to know how many entries to expect.
    pub(super) mean_weight: u64,
}

impl Setup {
    pub(super) fn expected_entries(&self) -> usize {
        (self.capacity / self.mean_weight).max(1) as usize
    }
}

/// A cache in the contest.
pub(super) trait Contender {
    /// Whether the key hits; counts as a use.
    fn get(&mut self, key: u64) -> bool;
    fn insert(&mut self, key: u64, value: Value);
    /// The weight that the cache says it holds, if it knows at once.
    fn weight(&self) -> Option<u64> {
        None
    }
}

/// The weight of all values that live.
#[derive(Debug, Default)]
pub(super) struct Ledger(AtomicU64);

impl Ledger {
    pub(super) fn weight(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A value that is in the ledger until its cache drops it.
#[derive(Clone, Debug)]
pub(super) struct Value(Arc<Charge>);

#[derive(Debug)]
struct Charge {
    weight: u64,
    ledger: Arc<Ledger>,
}

impl Value {
    pub(super) fn new(weight: u64, ledger: &Arc<Ledger>) -> Self {
        ledger.0.fetch_add(weight, Ordering::Relaxed);
        Value(Arc::new(Charge { weight, ledger: ledger.clone() }))
    }

    pub(super) fn weight(&self) -> u64 {
        self.0.weight
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.ledger.0.fetch_sub(self.weight, Ordering::Relaxed);
    }
}
