//! Turns of the calls of this node that read a key and then replace what they read: they wait for each other, so that only
//! other nodes can come first, and each of them costs the round trips of one try.

use tokio::sync::{Mutex, MutexGuard};
use twox_hash::XxHash3_64;

/// How many keys can be in their turn at the same time.
const TURNS: usize = 64;

pub(crate) struct KeyTurns(Box<[Mutex<()>]>);

impl KeyTurns {
    pub(super) fn new() -> Self {
        KeyTurns((0..TURNS).map(|_| Mutex::new(())).collect())
    }

    /// Waits for the turn of a key, which lasts until the guard is dropped. Another key with the same hash waits too.
    pub(crate) async fn turn(&self, redis_key: &[u8]) -> MutexGuard<'_, ()> {
        self.0[XxHash3_64::oneshot(redis_key) as usize % TURNS].lock().await
    }
}
