//! The keyspace while a snapshot is being loaded: each key is loaded before it is used.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use larder_engine::Ttl;
use larder_engine::raw::UpdateOp;

use super::policy::LOADING;
use super::snapshot::{BLOCK_BYTES, Destination, Loading, StoredEntry};
use super::{Expiry, Key, MemoryPolicy, Record, Store};

/// What the entries of a block take in memory, about.
const ROOM_OF_BLOCK: u64 = 3 * BLOCK_BYTES as u64;

impl Store {
    /// Begins to load a snapshot. The keyspace must be empty, and nobody may use it yet.
    pub(crate) fn begin_loading(&self, loading: Loading) {
        *self.loading.write() = Some(Arc::new(loading));
        self.policy.fetch_or(LOADING, Ordering::SeqCst);
    }

    /// Whether a snapshot is being loaded, so that there are keys which are not in memory yet. If not, it stays so.
    #[inline]
    pub(crate) fn is_loading(&self) -> bool {
        self.policy.load(Ordering::Relaxed) & LOADING != 0
    }

    /// The snapshot that is being loaded.
    pub(crate) fn loading(&self) -> Option<Arc<Loading>> {
        self.loading.read().clone()
    }

    /// Loads these keys, before they are locked. The calling thread must hold no locks.
    #[cold]
    pub(super) fn load_keys(&self, keys: &[Key<'_>]) {
        if let Some(loading) = self.loading() {
            keys.iter().for_each(|key| loading.load_key(self, *key));
        }
    }

    /// Whether all that there is of a key is in memory.
    #[inline]
    pub(crate) fn has_loaded(&self, key: Key<'_>) -> bool {
        !self.is_loading() || self.loading().is_none_or(|loading| loading.has_loaded(key))
    }

    /// Loads no further entry of a database, or of any, since they are to be removed. The calling thread must hold no locks.
    pub(crate) fn skip_loading(&self, database: Option<u8>) {
        if let Some(loading) = self.loading() {
            loading.skip(database);
        }
    }

    /// Loads the rest of the snapshot, as long as there is room and `goes_on` allows it. Returns whether the snapshot is at
    /// its end.
    pub(crate) fn load_rest(&self, goes_on: impl Fn() -> bool) -> bool {
        let Some(loading) = self.loading() else { return true };
        while goes_on() {
            // What is left was used least. It would evict what was used more.
            let is_full = self.cache.weight() + ROOM_OF_BLOCK > self.cache.capacity();
            if is_full && self.policy() != MemoryPolicy::Noeviction {
                loading.skip(None);
            }
            if !loading.load_next(self) {
                loading.finish(self);
                self.policy.fetch_and(!LOADING, Ordering::SeqCst);
                *self.loading.write() = None;
                return true;
            }
        }
        false
    }
}

impl Destination for Store {
    fn now_ms(&self) -> i64 {
        self.now_ms()
    }

    fn store(&self, entry: &StoredEntry<'_>) -> bool {
        let record = match entry.is_serialized {
            false => Record::try_new(entry.key, &[entry.value]).ok(),
            true => self.restored(entry.key, entry.value).ok(),
        };
        let Some(record) = record else { return false };
        let ttl = entry.deadline.map_or(Ttl::Never, |deadline| self.clock.ttl(Expiry::At(deadline)));
        // The observers are told nothing.
        self.cache.update(entry.key, |_| (UpdateOp::Put(record, ttl), ())).is_ok()
    }
}
