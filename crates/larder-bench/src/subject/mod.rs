//! The caches and maps whose speed and memory are measured, behind the traits that all workloads use.
//!
//! A cache with a configurable hasher gets that of our engine, so that only the caches differ. All get the same
//! capacity; every other option has its default.

mod baselines;
#[cfg(feature = "bench-peers")]
mod more_peers;
mod ours;
mod peers;

pub(crate) use baselines::{BareMap, LockedMap, MutexLru};
#[cfg(feature = "bench-peers")]
pub(crate) use more_peers::{Foyer, MiniMoka, TinyUfo};
pub(crate) use ours::{Larder, LarderFifo};
pub(crate) use peers::{Moka, QuickCache};

use std::hash::Hash;
use std::time::Duration;

pub(crate) type Hasher = rapidhash::quality::RandomState;

/// Builds the hashers of a cache.
pub(crate) trait BuildHasher:
    std::hash::BuildHasher + Clone + Default + Send + Sync + 'static
{
}
impl<S: std::hash::BuildHasher + Clone + Default + Send + Sync + 'static> BuildHasher for S {}

/// The bounds of a key.
pub(crate) trait Key: Hash + Eq + Clone + Send + Sync + 'static {}
impl<K: Hash + Eq + Clone + Send + Sync + 'static> Key for K {}

/// The bounds of a value.
pub(crate) trait Value: Clone + Send + Sync + 'static {}
impl<V: Clone + Send + Sync + 'static> Value for V {}

/// A cache or map that is filled once and then read by several threads.
pub(crate) trait Readable<K, V>: Send + Sync + 'static {
    /// Its name in results.
    const NAME: &'static str;

    /// An empty cache for `capacity` entries.
    fn new(capacity: usize) -> Self;

    /// Stores an entry before the measurement.
    fn fill(&mut self, key: K, value: V);

    fn get(&self, key: &K) -> Option<V>;

    /// Completes deferred work, if the cache defers any.
    fn complete_deferred_work(&self) {}
}

/// A cache or map that several threads can also write.
pub(crate) trait Writable<K, V>: Readable<K, V> {
    fn insert(&self, key: K, value: V);
}

/// A cache that loads what it does not have.
pub(crate) trait Loading<K, V>: Writable<K, V> {
    /// The value of the key, or that of `load`, which is stored.
    fn get_or_load(&self, key: &K, load: impl FnOnce() -> V) -> V;
}

/// A cache whose entries can expire.
pub(crate) trait Expiring<K, V>: Writable<K, V> {
    /// An empty cache whose entries expire after `ttl`.
    fn with_ttl(capacity: usize, ttl: Duration) -> Self;
}

/// Calls a generic function for each cache and collects the results in a `Vec`.
macro_rules! each_cache {
    ($call:ident($($argument:expr),*)) => {{
        #[allow(unused_mut, reason = "it is extended only with the feature bench-peers")]
        let mut list = vec![
            $call::<$crate::subject::Larder<_, _>>($($argument),*),
            $call::<$crate::subject::QuickCache<_, _>>($($argument),*),
            $call::<$crate::subject::Moka<_, _>>($($argument),*),
            $call::<$crate::subject::MutexLru<_, _>>($($argument),*),
        ];
        #[cfg(feature = "bench-peers")]
        list.extend([
            $call::<$crate::subject::MiniMoka<_, _>>($($argument),*),
            $call::<$crate::subject::Foyer<_, _>>($($argument),*),
            $call::<$crate::subject::TinyUfo<_, _>>($($argument),*),
        ]);
        list
    }};
}
pub(crate) use each_cache;
