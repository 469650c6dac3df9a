//! The caches that load what they do not have, behind the traits that all experiments use.
//!
//! Each is built as its documentation advises for many callers: with one load per key at a time, where that is a choice.

#[cfg(feature = "bench-peers")]
mod cachet;
#[cfg(feature = "bench-peers")]
mod foyer;
mod gate;
#[cfg(feature = "bench-peers")]
mod hitbox;
mod ours;
mod peers;

#[cfg(feature = "bench-peers")]
pub(super) use cachet::Cachet;
#[cfg(feature = "bench-peers")]
pub(super) use foyer::Foyer;
pub(super) use gate::Gate;
#[cfg(feature = "bench-peers")]
pub(super) use hitbox::{Hitbox, InMoka, InMokaAndRedis};
pub(super) use ours::Larder;
pub(super) use peers::{Moka, QuickCache};

use std::fmt;
use std::future::Future;
use std::time::Duration;

/// How many entries a memory has room for.
const CAPACITY: u64 = 10_000;
/// Longer than any run.
const TTL: Duration = Duration::from_secs(3_600);

/// What a loader says that has no value.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadFailed;

impl fmt::Display for LoadFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("there is no value")
    }
}

impl std::error::Error for LoadFailed {}

/// A cache that loads what it does not have. Clones are the same cache.
pub(super) trait FetchThrough: Clone + Send + Sync + 'static {
    /// By which it is known in results.
    const NAME: &'static str;

    /// What the cache has, or else what the loader returns.
    fn fetch<L, F>(&self, key: u64, load: L) -> impl Future<Output = Result<u64, LoadFailed>> + Send
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static;

    /// What the cache has.
    fn read(&self, key: u64) -> impl Future<Output = Option<u64>> + Send;

    fn write(&self, key: u64, value: u64) -> impl Future<Output = ()> + Send;

    /// Returns when the cache says that the value is gone.
    fn invalidate(&self, key: u64) -> impl Future<Output = ()> + Send;
}

/// A cache that can do with its memory alone.
pub(super) trait InMemory: FetchThrough {
    /// An empty one. To be called in a runtime.
    fn in_memory() -> Self;
}

/// A cache that has a second tier over Redis.
pub(super) trait OverRedis: FetchThrough {
    /// A node with a memory of its own and the Redis that all nodes share. What it finds in Redis passes the gate before
    /// it gets into memory.
    fn node(url: &str, gate: &Gate) -> Self;
}
