//! The caches and maps whose speed and memory are measured, behind the two traits that all workloads use.
//!
//! Whoever lets the hasher be chosen gets the one that our engine uses: what differs is the cache. Capacities are given
//! alike, and everything else is left at its default.

mod floors;
#[cfg(feature = "bench-peers")]
mod more_peers;
mod ours;
mod peers;

pub(crate) use floors::{BareMap, LockedMap, MutexLru};
#[cfg(feature = "bench-peers")]
pub(crate) use more_peers::{Foyer, MiniMoka, TinyUfo};
pub(crate) use ours::Larder;
pub(crate) use peers::{Moka, QuickCache};

use std::hash::Hash;
use std::time::Duration;

pub(crate) type Hasher = rapidhash::fast::RandomState;

/// What builds the hashers of a cache.
pub(crate) trait BuildHasher:
    std::hash::BuildHasher + Clone + Default + Send + Sync + 'static
{
}
impl<S: std::hash::BuildHasher + Clone + Default + Send + Sync + 'static> BuildHasher for S {}

/// What a key can be.
pub(crate) trait Key: Hash + Eq + Clone + Send + Sync + 'static {}
impl<K: Hash + Eq + Clone + Send + Sync + 'static> Key for K {}

/// What a value can be.
pub(crate) trait Value: Clone + Send + Sync + 'static {}
impl<V: Clone + Send + Sync + 'static> Value for V {}

/// Something that can be filled once and then be read by several threads.
pub(crate) trait Readable<K, V>: Send + Sync + 'static {
    /// By which it is known in results.
    const NAME: &'static str;

    /// An empty one for `capacity` entries.
    fn new(capacity: usize) -> Self;

    /// Stores an entry before anything is measured.
    fn fill(&mut self, key: K, value: V);

    fn get(&self, key: &K) -> Option<V>;

    /// Does what is still pending, for those who put work off.
    fn settle(&self) {}
}

/// Something that several threads can write as well.
pub(crate) trait Writable<K, V>: Readable<K, V> {
    fn insert(&self, key: K, value: V);
}

/// A cache whose entries can expire.
pub(crate) trait Expiring<K, V>: Writable<K, V> {
    /// An empty one whose entries live for `ttl`, if they are not given another time.
    fn expiring(capacity: usize, ttl: Duration) -> Self;
}

/// A list of what a generic function returns for each of the caches.
macro_rules! each_cache {
    ($call:ident($($argument:expr),*)) => {{
        #[allow(unused_mut, reason = "it grows only with the feature")]
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
