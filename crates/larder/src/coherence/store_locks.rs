//! Locks that order the stores and mutations of one node, for a server without compare-and-set.

use tokio::sync::{Mutex, MutexGuard};
use twox_hash::XxHash3_64;

const STRIPES: usize = 64;

pub(super) struct StoreLocks(Box<[Mutex<()>]>);

impl StoreLocks {
    pub(super) fn new() -> Self {
        StoreLocks((0..STRIPES).map(|_| Mutex::new(())).collect())
    }

    pub(super) async fn lock(&self, key: &[u8]) -> MutexGuard<'_, ()> {
        self.0[stripe(key)].lock().await
    }

    /// Locks the stripes of all keys.
    pub(super) async fn lock_all<'k>(&self, keys: impl Iterator<Item = &'k [u8]>) -> Vec<MutexGuard<'_, ()>> {
        // In ascending order, so that two callers do not deadlock.
        let mut stripes: Vec<usize> = keys.map(stripe).collect();
        stripes.sort_unstable();
        stripes.dedup();
        let mut guards = Vec::with_capacity(stripes.len());
        for stripe in stripes {
            guards.push(self.0[stripe].lock().await);
        }
        guards
    }
}

fn stripe(key: &[u8]) -> usize {
    XxHash3_64::oneshot(key) as usize % STRIPES
}
