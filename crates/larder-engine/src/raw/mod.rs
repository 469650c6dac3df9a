//! The cache of a server: byte strings as keys and values, one block of memory per entry, updated in place.
//!
//! ```
//! use larder_engine::raw::{Cache, UpdateOp, Key, Record};
//! use larder_engine::Ttl;
//!
//! let cache = Cache::builder().weight(1 << 20, |record, ()| record.bytes_allocated() as u64 + 48).build()?;
//! let visits = Key { space: 0, name: b"visits" };
//! cache.insert_with_ttl(Record::new(visits, &[b"7"]), (), Ttl::Never);
//! cache.update(visits, |entry| {
//!     if let Some(mut entry) = entry {
//!         entry.value_mut()[0] += 1;
//!     }
//!     (UpdateOp::Edited(Ttl::Keep), ())
//! })?;
//! assert_eq!(cache.read(visits, |value| value.to_vec()), Some(b"8".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It is the [`crate::Cache`] with a [`Record`] as key and `()` as value, and with four more operations: read the bytes of
//! a record, update them in place, change several keys atomically, and prefetch for several lookups.

mod everything;
mod locked;
mod prefetch_batch;
mod record;

pub use locked::Locked;
pub use prefetch_batch::PrefetchBatch;
pub use record::{Key, Record, TooLong};

use crate::cache::steps::{Decision, Write};
use crate::entry::{Refusal, Ttl};
use crate::expiry::NEVER;
use crate::shard::RemovedEntries;

/// A cache of records.
pub type Cache = crate::Cache<Record, ()>;

/// A record as a closure sees it while its shard is locked.
#[derive(Debug)]
pub struct Entry<'a> {
    record: &'a mut Record,
    deadline: u64,
}

impl Entry<'_> {
    /// The value.
    pub fn value(&self) -> &[u8] {
        self.record.value()
    }

    /// Mutable access to the value, whose length stays.
    pub fn value_mut(&mut self) -> &mut [u8] {
        self.record.value_mut()
    }

    /// When the entry expires, in milliseconds on the cache's clock; `None` if it does not.
    pub fn deadline_ms(&self) -> Option<u64> {
        (self.deadline < NEVER).then_some(self.deadline)
    }
}

/// What [`Cache::update`] does with the entry after its closure returned.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpdateOp {
    /// Keep it as it is.
    Keep,
    /// The closure changed it in place, which counts as a use; set this time to live.
    Edited(Ttl),
    /// Store this record, which must have the same key.
    Put(Record, Ttl),
    /// Change the deadline only.
    SetTtl(Ttl),
    /// Remove it.
    Remove,
}

/// The outcome of [`Cache::update`].
#[derive(Debug)]
pub struct Updated<R> {
    /// The second value that the closure returned.
    pub result: R,
    /// Whether the key had no live entry and has one now.
    pub is_new: bool,
}

impl Cache {
    /// Calls `f` with the value of `key` and returns its result. Counts as a use. `f` runs while the shard is locked: it
    /// must be short.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    #[inline]
    pub fn read<R>(&self, key: Key<'_>, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let location = self.locate(&key);
        let now = self.now();
        self.lock(location).read(location.hash, &key, now).map(|record| f(record.key.value()))
    }

    /// A cursor for [`Cache::scan`] at a position that depends on `random`, which should be any 64 bits.
    pub fn random_cursor(&self, random: u64) -> u64 {
        let shard = (random >> 32) as usize % self.shards().len();
        (shard as u64) << 32 | u64::from(random as u32)
    }

    /// Whether a record is not too heavy to be stored, whatever is evicted for it.
    pub fn can_hold(&self, record: &Record) -> bool {
        self.weigh(record, &()) <= self.limit()
    }

    /// Reads an entry, changes it in place, and decides what else to do with it, in one atomic step. `f` runs while the
    /// shard is locked: it must be short.
    ///
    /// # Errors
    /// Why the record of an [`UpdateOp::Put`] was not stored; the former entry is removed then.
    ///
    /// # Panics
    /// If `f` calls the same cache, or returns a record of another key. If `f` panics, the entry stays.
    pub fn update<R>(
        &self,
        key: Key<'_>,
        f: impl FnOnce(Option<Entry<'_>>) -> (UpdateOp, R),
    ) -> Result<Updated<R>, Refusal> {
        let mut removed = RemovedEntries::new();
        let location = self.locate(&key);
        let now = self.now_ms();
        let mut shard = self.lock(location);
        let id = shard.find_live(location.hash, &key, now);
        let entry = id.map(|id| {
            let deadline = shard.deadline(id);
            Entry { record: &mut shard.record_mut(id).key, deadline }
        });
        let (change, result) = f(entry);
        let is_new = id.is_none() && matches!(change, UpdateOp::Put(..));
        let decision = match change {
            UpdateOp::Keep => Decision::Keep,
            UpdateOp::Edited(ttl) => {
                id.into_iter().for_each(|id| shard.record_edit(id));
                if ttl == Ttl::Keep { Decision::Keep } else { Decision::SetTtl { ttl, now } }
            }
            UpdateOp::Remove => Decision::Remove,
            UpdateOp::SetTtl(ttl) => Decision::SetTtl { ttl, now },
            UpdateOp::Put(record, ttl) => {
                assert_eq!(record.key(), key, "the record has another key");
                Decision::Put(Write::of(self, location, record, (), ttl, now))
            }
        };
        let applied = self.apply(&mut shard, id, decision, &mut removed);
        drop(shard);
        self.notify_removed(removed);
        applied.map(|()| Updated { result, is_new }).map_err(|(_, reason)| reason)
    }
}
