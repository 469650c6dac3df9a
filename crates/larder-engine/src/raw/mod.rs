//! The cache of a server: byte strings as keys and values, one block of memory per entry, updated in place.
//!
//! ```
//! use larder_engine::raw::{Cache, UpdateOp, Key, Record};
//! use larder_engine::Ttl;
//!
//! let cache: Cache = Cache::builder().weight(1 << 20, |record, ()| record.bytes_allocated() as u64 + 48).build()?;
//! let visits = Key { space: 0, name: b"visits" };
//! cache.insert_with_ttl(Record::new(visits, &[b"7"]), (), Ttl::Never);
//! cache.update(visits, |mut entry| {
//!     if let Some(value) = entry.as_mut().and_then(|entry| entry.bytes_mut()) {
//!         value[0] += 1;
//!     }
//!     (UpdateOp::Edited(Ttl::Keep), ())
//! })?;
//! assert_eq!(cache.read(visits, |record| record.bytes() == Some(b"8")), Some(true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It is the [`crate::Cache`] with a [`Record`] as key and `()` as value, and with four more operations: read a record,
//! update it in place, change several keys atomically, and prefetch for several lookups. A value is bytes, or an object of
//! a type that the user of the cache chooses: a structure which changes in place, and whose weight changes with it.

mod arena;
mod compaction;
mod everything;
mod locked;
mod long_value;
mod measurement;
mod page_move;
mod prefetch_batch;
mod record;
mod shared_bytes;

pub use compaction::{Compaction, RecordMemory};
pub use locked::Locked;
pub use long_value::LongValue;
pub use measurement::Measurement;
pub use page_move::MIN_MOVED_BYTES;
pub use prefetch_batch::PrefetchBatch;
pub use record::{Key, Lengthened, MAX_INLINE_BYTES, Record, SPACES, TooLong, Value};
pub use shared_bytes::SharedBytes;

use crate::cache::KeyLocation;
use crate::cache::removals::Removals;
use crate::cache::steps::Decision;
use crate::cache::write::Write;
use crate::entry::{Refusal, Ttl};
use crate::shard::{RemovedEntries, Shard};
use crate::time::timestamps::NEVER;
use std::convert::Infallible;

/// A cache of records, whose values are bytes or objects of type `O`.
pub type Cache<O = Infallible> = crate::Cache<Record<O>, ()>;

/// A record as a closure sees it while its shard is locked.
#[derive(Debug)]
pub struct Entry<'a, O = Infallible> {
    record: &'a mut Record<O>,
    deadline: u64,
}

impl<'a, O> Entry<'a, O> {
    /// The record, with the value.
    pub fn record(&self) -> &Record<O> {
        self.record
    }

    /// Mutable access to bytes: see [`Record::bytes_mut`]. Return [`UpdateOp::Edited`] afterwards.
    pub fn bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.record.bytes_mut()
    }

    /// Mutable access to a short value: see [`Record::inline_bytes_mut`]. Return [`UpdateOp::Edited`] afterwards.
    #[inline]
    pub fn inline_bytes_mut(&mut self) -> Option<&mut [u8]> {
        self.record.inline_bytes_mut()
    }

    /// Mutable access to an object. Return [`UpdateOp::Edited`] afterwards.
    pub fn object_mut(&mut self) -> Option<&mut O> {
        self.record.object_mut()
    }

    /// Makes a long value longer: see [`Record::lengthen`]. Return [`UpdateOp::Edited`] afterwards.
    pub fn lengthen(&mut self, length: usize, capacity: usize) -> Lengthened {
        self.record.lengthen(length, capacity)
    }

    /// As [`Entry::object_mut`], for as long as the shard is locked.
    pub fn into_object_mut(self) -> Option<&'a mut O> {
        self.record.object_mut()
    }

    /// As [`EntryRef::deadline_ms`](crate::EntryRef::deadline_ms).
    pub fn deadline_ms(&self) -> Option<u64> {
        (self.deadline < NEVER).then_some(self.deadline)
    }
}

/// The effect of [`Cache::update`] on the entry after its closure returned.
#[derive(Debug)]
#[non_exhaustive]
pub enum UpdateOp<O = Infallible> {
    /// Keep it as it is.
    Keep,
    /// The closure changed it in place, which counts as a use; set this time to live. An object and
    /// a long value are weighed again.
    Edited(Ttl),
    /// Store this record, which must have the same key.
    Put(Record<O>, Ttl),
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

impl<O> Cache<O> {
    /// Calls `f` with the record of `key` and returns its result. Counts as a use. `f` runs while the shard is locked: it
    /// must be short, so that long values should be [shared](Record::share) with the caller.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    #[inline]
    pub fn read<R>(&self, key: Key<'_>, f: impl FnOnce(&Record<O>) -> R) -> Option<R> {
        let location = self.locate(&key);
        let now = self.now();
        self.lock(location).read(location.hash, &key, now).map(|record| f(&record.key))
    }

    /// A cursor for [`Cache::scan`] at a position that depends on `random`, which should be any 64 bits.
    pub fn random_cursor(&self, random: u64) -> u64 {
        let shard = (random >> 32) as usize % self.shards().len();
        (shard as u64) << 32 | u64::from(random as u32)
    }

    /// Whether a record is light enough to be stored once other entries are evicted.
    pub fn can_hold(&self, record: &Record<O>) -> bool {
        self.weigh(record, &()) <= self.limit()
    }

    /// Reads an entry, changes it in place, and keeps, replaces or removes it, in one atomic step. `f` runs while the shard
    /// is locked: it must be short.
    ///
    /// # Errors
    /// The reason why the record of an [`UpdateOp::Put`] was not stored, or that an edited value has become too
    /// heavy. The entry is removed then. If not all entries [may be evicted](crate::Evictable), the entry stays, and an
    /// edited value is not refused: it may exceed the capacity.
    ///
    /// # Panics
    /// If `f` calls the same cache, or returns a record of another key. If `f` panics, the entry stays, and an object that
    /// `f` has changed keeps its former weight.
    pub fn update<R>(
        &self,
        key: Key<'_>,
        f: impl FnOnce(Option<Entry<'_, O>>) -> (UpdateOp<O>, R),
    ) -> Result<Updated<R>, Refusal> {
        let mut removed = Removals::new(self);
        let location = self.locate(&key);
        let now = self.now_ms();
        let mut shard = self.lock(location);
        let update = self.update_locked(&mut shard, location, key, now, f, &mut removed);
        let edited = update.edited;
        let reweighed = edited.map_or(Ok(()), |id| self.reweigh(&mut shard, location, id, now, &mut removed));
        drop(shard);
        drop(removed);
        update.outcome.map_err(|(_, reason)| reason).and_then(|updated| reweighed.map(|()| updated))
    }

    /// Weighs a value again that was edited.
    fn reweigh(
        &self,
        shard: &mut Shard<Record<O>, ()>,
        location: KeyLocation,
        id: u32,
        now: u64,
        removed: &mut RemovedEntries<Record<O>, ()>,
    ) -> Result<(), Refusal> {
        let weight = self.weigh_slot(shard, id);
        if let Some(reweighed) = self.reweigh_at_once(shard, location, id, weight, now, removed) {
            return reweighed;
        }
        if self.evicts_all() {
            return self.reweigh_in_turn(shard, location, id, weight, now, removed);
        }
        self.reweigh_beyond(shard, id, weight, self.room());
        Ok(())
    }

    /// As [`Cache::update`], in a shard that is locked. What was edited is not yet weighed.
    fn update_locked<R>(
        &self,
        shard: &mut Shard<Record<O>, ()>,
        location: KeyLocation,
        key: Key<'_>,
        now: u64,
        f: impl FnOnce(Option<Entry<'_, O>>) -> (UpdateOp<O>, R),
        removed: &mut RemovedEntries<Record<O>, ()>,
    ) -> Update<O, R> {
        // First: whoever is told of losses must hear of this one before `f` tells of the new entry.
        let id = self.find_or_discard(shard, location, &key, now, removed);
        let entry = id.map(|id| {
            let deadline = shard.deadline(id);
            Entry { record: &mut shard.record_mut(id).key, deadline }
        });
        let (operation, result) = f(entry);
        let is_new = id.is_none() && matches!(operation, UpdateOp::Put(..));
        let mut edited = None;
        let decision = match operation {
            UpdateOp::Keep => Decision::Keep,
            UpdateOp::Edited(ttl) => {
                id.into_iter().for_each(|id| shard.record_edit(id));
                edited = id.filter(|&id| shard.record(id).key.inline_bytes().is_none());
                if ttl == Ttl::Keep { Decision::Keep } else { Decision::SetTtl { ttl, now } }
            }
            UpdateOp::Remove => Decision::Remove,
            UpdateOp::SetTtl(ttl) => Decision::SetTtl { ttl, now },
            UpdateOp::Put(record, ttl) => {
                assert_eq!(record.key(), key, "the record has another key");
                Decision::Put(Write::of(self, location, record, (), ttl, now))
            }
        };
        let applied = self.apply(shard, id, decision, removed);
        Update { outcome: applied.map(|()| Updated { result, is_new }), edited }
    }
}

/// A record that was not stored, and why.
type Refused<O> = (crate::layout::records::Record<Record<O>, ()>, Refusal);

/// What [`Cache::update_locked`] did.
struct Update<O, R> {
    /// A record that was refused is dropped after the shard is unlocked.
    outcome: Result<Updated<R>, Refused<O>>,
    /// The slot of an object or a long value that was edited: its weight may have changed.
    edited: Option<u32>,
}
