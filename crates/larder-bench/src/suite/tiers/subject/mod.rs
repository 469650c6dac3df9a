//! Caches with read-through, behind the traits that all experiments use.
//!
//! Each is built as its documentation recommends for many callers: with single-flight, if that is an option.

#[cfg(feature = "bench-peers")]
mod cachet;
#[cfg(feature = "bench-peers")]
mod foyer;
mod gate;
#[cfg(feature = "bench-peers")]
mod hitbox;
mod ours;
mod peers;
mod redis_rs;

#[cfg(feature = "bench-peers")]
pub(super) use cachet::Cachet;
#[cfg(feature = "bench-peers")]
pub(super) use foyer::Foyer;
pub(super) use gate::Gate;
#[cfg(feature = "bench-peers")]
pub(super) use hitbox::{Hitbox, InMoka, InMokaAndRedis};
pub(super) use ours::Larder;
pub(super) use peers::{Moka, QuickCache};
pub(super) use redis_rs::RedisRs;

use crate::tool::Cluster;
use std::fmt;
use std::future::Future;
use std::time::Duration;

/// The capacity of a memory tier in entries.
const CAPACITY: u64 = 10_000;
/// Longer than any run.
const TTL: Duration = Duration::from_secs(3_600);

/// The error of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct LoadFailed;

impl fmt::Display for LoadFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the load failed")
    }
}

impl std::error::Error for LoadFailed {}

/// A cache that loads a missing value. Clones share the cache.
pub(super) trait FetchThrough: Clone + Send + Sync + 'static {
    /// Its name in results.
    const NAME: &'static str;

    /// The cached value, or the result of the loader.
    fn fetch<L, F>(&self, key: u64, load: L) -> impl Future<Output = Result<u64, LoadFailed>> + Send
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static;

    /// The cached value.
    fn read(&self, key: u64) -> impl Future<Output = Option<u64>> + Send;

    fn write(&self, key: u64, value: u64) -> impl Future<Output = ()> + Send;

    /// Returns when the cache reports that the value is invalidated, or that it could not do that now.
    fn try_invalidate(&self, key: u64) -> impl Future<Output = bool> + Send;

    /// Returns when the cache reports that the value is invalidated.
    fn invalidate(&self, key: u64) -> impl Future<Output = ()> + Send {
        async move { assert!(self.try_invalidate(key).await, "every tier accepts the operation") }
    }
}

/// A cache with a memory tier alone.
pub(super) trait InMemory: FetchThrough {
    /// An empty cache. Must be called in a runtime.
    fn in_memory() -> Self;
}

/// A cache whose second tier is Redis.
pub(super) trait OverRedis: FetchThrough {
    /// A node with its own memory and the shared Redis. A value from Redis passes the gate before the node stores it in
    /// memory.
    fn node(url: &str, gate: &Gate) -> Self;
}

/// A cache whose second tier is a Redis cluster.
pub(super) trait OverCluster: FetchThrough {
    /// A node with its own memory and the shared cluster. Must be called in a runtime.
    fn cluster_node(cluster: &Cluster) -> Self;

    /// The name of the key in Redis, which has a slot.
    fn redis_key(key: u64) -> impl Future<Output = Vec<u8>> + Send;
}
