//! A write on its way into a shard, and how it ends: stored, refused, or postponed for want of room.

use super::{Cache, KeyLocation};
use crate::entry::{Refusal, Ttl};
use crate::layout::records::Record;
use std::hash::Hash;

/// Why no room could be made at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shortage {
    /// Other shards, which may have entries to evict, are locked.
    OthersLocked,
    /// No entry is left that may be evicted.
    NothingLeft,
}

/// A record on its way into a shard.
pub(crate) struct Write<K, V> {
    pub(crate) location: KeyLocation,
    pub(crate) record: Record<K, V>,
    pub(crate) weight: u64,
    pub(crate) ttl: Ttl,
    pub(crate) now: u64,
}

impl<K: Hash + Eq, V> Write<K, V> {
    pub(crate) fn of(
        cache: &Cache<K, V>,
        location: KeyLocation,
        key: K,
        value: V,
        ttl: Ttl,
        now: u64,
    ) -> Self {
        let weight = cache.weigh(&key, &value);
        Write { location, record: Record { key, value }, weight, ttl, now }
    }
}

/// The record that was replaced, if any; or the record that was refused, and why.
pub(crate) type StoreResult<K, V> = Result<Option<Record<K, V>>, (Record<K, V>, Refusal)>;

/// A write that found no room, and why.
pub(crate) type Postponed<K, V> = (Write<K, V>, Shortage);
