//! The cache of a server: byte strings under byte strings, each entry one block of memory, changed where it is.
//!
//! ```
//! use larder_engine::raw::{Cache, Change, Key, Record};
//! use larder_engine::Ttl;
//!
//! let cache = Cache::builder().weight(1 << 20, |record, ()| record.bytes_allocated() as u64 + 48).build()?;
//! let visits = Key { space: 0, name: b"visits" };
//! cache.insert_with_ttl(Record::new(visits, &[b"7"]), (), Ttl::Never);
//! cache.update(visits, |entry| {
//!     if let Some(mut entry) = entry {
//!         entry.value_mut()[0] += 1;
//!     }
//!     (Change::Edited(Ttl::Keep), ())
//! })?;
//! assert_eq!(cache.read(visits, |value| value.to_vec()), Some(b"8".to_vec()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! It is the cache of the rest of this crate with a [`Record`] for a key and nothing for a value, and with four more
//! operations: to read the bytes of a record, to change them where they are, to change several keys in one step, and to
//! fetch ahead what finding several keys will need.

mod ahead;
mod locked;
mod record;

pub use ahead::Ahead;
pub use locked::Locked;
pub use record::{Key, Record};

use crate::cache::steps::{Decision, Write};
use crate::entry::{Refusal, Ttl};
use crate::expiry::NEVER;
use crate::shard::Departed;

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

    /// The value, to be changed without changing its length.
    pub fn value_mut(&mut self) -> &mut [u8] {
        self.record.value_mut()
    }

    /// When the entry expires, in milliseconds on the cache's clock; `None` if it does not.
    pub fn deadline_ms(&self) -> Option<u64> {
        (self.deadline < NEVER).then_some(self.deadline)
    }
}

/// What the closure of [`Cache::update`] wants done with the entry.
#[derive(Debug)]
pub enum Change {
    /// Leave it as it is.
    Keep,
    /// It was changed where it is, which counts as a use of it, and lives for as long as this says.
    Edited(Ttl),
    /// Store this record, which must have the key that was asked for.
    Put(Record, Ttl),
    /// Change the deadline only.
    SetTtl(Ttl),
    /// Remove it.
    Remove,
}

/// What [`Cache::update`] did.
#[derive(Debug)]
pub struct Updated<R> {
    /// What the closure returned beside its [`Change`].
    pub result: R,
    /// Whether there is an entry where there was none.
    pub is_new: bool,
}

impl Cache {
    /// What `f` makes of the value of `key`, which counts as a use of it. `f` runs while the shard is locked: it must be
    /// short.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    #[inline]
    pub fn read<R>(&self, key: Key<'_>, f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        let place = self.place(&key);
        let now = self.now();
        self.lock(place).read(place.hash, &key, now).map(|record| f(record.key.value()))
    }

    /// Looks at an entry, changes it where it is, and decides what else is to be done with it, in one step that nothing
    /// can come between. `f` runs while the shard is locked: it must be short.
    ///
    /// # Errors
    /// Why the record of a [`Change::Put`] was not stored; the former entry is gone then.
    ///
    /// # Panics
    /// If `f` calls the same cache, or returns a record of another key. If `f` panics, the entry stays.
    pub fn update<R>(
        &self,
        key: Key<'_>,
        f: impl FnOnce(Option<Entry<'_>>) -> (Change, R),
    ) -> Result<Updated<R>, Refusal> {
        let mut departed = Departed::new();
        let place = self.place(&key);
        let now = self.now_ms();
        let mut shard = self.lock(place);
        let id = shard.find_live(place.hash, &key, now);
        let entry = id.map(|id| {
            let deadline = shard.deadline(id);
            Entry { record: &mut shard.record_mut(id).key, deadline }
        });
        let (change, result) = f(entry);
        let is_new = id.is_none() && matches!(change, Change::Put(..));
        let decision = match change {
            Change::Keep => Decision::Keep,
            Change::Edited(ttl) => {
                id.into_iter().for_each(|id| shard.note_edit(id));
                if ttl == Ttl::Keep { Decision::Keep } else { Decision::SetTtl { ttl, now } }
            }
            Change::Remove => Decision::Remove,
            Change::SetTtl(ttl) => Decision::SetTtl { ttl, now },
            Change::Put(record, ttl) => {
                assert_eq!(record.key(), key, "a record of another key was offered");
                Decision::Put(Write::of(self, place, record, (), ttl, now))
            }
        };
        let applied = self.apply(&mut shard, id, decision, &mut departed);
        drop(shard);
        self.depart(departed);
        applied.map(|()| Updated { result, is_new }).map_err(|(_, reason)| reason)
    }
}
