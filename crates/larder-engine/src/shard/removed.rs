//! What leaves a shard: its key and value are handed out of the lock.

use crate::entry::Cause;
use crate::layout::records::Record;
use std::sync::Arc;

/// An entry that was removed from its slot.
#[derive(Debug)]
pub(crate) struct RemovedEntry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
    pub(crate) weight: u64,
}

impl<K, V> RemovedEntry<K, V> {
    pub(crate) fn into_record(self) -> Record<K, V> {
        Record { key: self.key, value: self.value }
    }
}

/// The function of a [`LossListener`].
type OnLoss<K> = dyn Fn(&K, Cause) + Send + Sync;

/// Is told of entries that expire or are evicted, under the lock of their shard.
pub(crate) struct LossListener<K>(Arc<OnLoss<K>>);

impl<K> LossListener<K> {
    pub(crate) fn new(listener: impl Fn(&K, Cause) + Send + Sync + 'static) -> Self {
        LossListener(Arc::new(listener))
    }

    pub(super) fn tell(&self, key: &K, cause: Cause) {
        (self.0)(key, cause);
    }
}

impl<K> Clone for LossListener<K> {
    fn clone(&self) -> Self {
        LossListener(Arc::clone(&self.0))
    }
}

impl<K> std::fmt::Debug for LossListener<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LossListener")
    }
}

/// Entries that were removed under a shard's lock. The listener is called, and the entries are dropped, after the lock is
/// released. The first entry needs no allocation: most operations remove at most one.
#[derive(Debug)]
pub(crate) struct RemovedEntries<K, V> {
    first: Option<(K, V, Cause)>,
    more: Vec<(K, V, Cause)>,
}

impl<K, V> RemovedEntries<K, V> {
    pub(crate) fn new() -> Self {
        RemovedEntries { first: None, more: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.first.is_none()
    }

    pub(crate) fn are_several(&self) -> bool {
        !self.more.is_empty()
    }

    pub(crate) fn push(&mut self, key: K, value: V, cause: Cause) {
        if self.first.is_none() {
            self.first = Some((key, value, cause));
        } else {
            self.more.push((key, value, cause));
        }
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = (K, V, Cause)> {
        self.first.into_iter().chain(self.more)
    }
}
