//! The keyspace: sixteen databases of byte strings with a deadline each, bounded by bytes.
//!
//! The only module that knows the engine. Commands see keys and values as bytes and deadlines as milliseconds of Unix
//! time; how entries are laid out, counted and evicted is settled here.

mod clock;

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Instant;

use larder_engine::raw::{self, Cache, Key};
use larder_engine::{Cause, Inserted, Ttl};

use crate::ServerError;
pub(crate) use clock::unix_time;
use clock::{CachedTime, ServerClock};
pub(crate) use larder_engine::raw::{PrefetchBatch, Record};

/// How many databases `SELECT` knows.
pub(crate) const DATABASES: usize = 16;

/// Bytes that an entry is charged beyond its block: its place in the table, in the policy's queue and sketch, and in the
/// wheel of deadlines, which about half of the entries of a cache have. Measured as resident memory of a full cache.
const ENTRY_OVERHEAD_BYTES: u64 = 56;
/// What the allocator adds to blocks as a rule: one part in so many.
const BYTES_PER_BYTE_ROUNDED: u64 = 16;

/// Values up to this length are copied while their shard is locked; longer ones before.
const MAX_COPIED_BYTES: usize = 4096;

/// The least `max_memory` that makes sense.
pub(crate) const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// The data of a server, apart from the server: it may outlive one and be given to the next.
///
/// Cheap to clone; clones are the same keyspace.
#[derive(Clone)]
pub struct Store {
    cache: Cache,
    time: Arc<CachedTime>,
    clock: ServerClock,
    /// Entries per database but the first, whose number is what is left of the whole: most servers use only that one,
    /// and it is spared a shared counter.
    others: Arc<[AtomicI64; DATABASES]>,
}

impl Store {
    /// An empty keyspace of at most `max_memory` bytes; `None` takes half of what the machine or the cgroup has.
    ///
    /// # Errors
    ///
    /// [`ServerError::Range`] if `max_memory` is less than 1 MiB.
    pub fn new(max_memory: Option<u64>) -> Result<Store, ServerError> {
        let bytes = max_memory.unwrap_or_else(default_memory_bytes);
        if !(MIN_MEMORY_BYTES..=i64::MAX as u64 / 2).contains(&bytes) {
            return Err(ServerError::Range {
                option: "max_memory",
                value: bytes,
                least: MIN_MEMORY_BYTES,
                most: i64::MAX as u64 / 2,
            });
        }
        let others: Arc<[AtomicI64; DATABASES]> = Arc::default();
        let leaving = Arc::clone(&others);
        let time = Arc::new(CachedTime::new());
        let cache = Cache::builder()
            .weight(bytes, |record: &Record, ()| charge(record.bytes_allocated() as u64))
            .listener(move |record: &Record, (), cause| {
                let database = usize::from(record.key().space);
                if database != 0 && cause != Cause::Replaced {
                    leaving[database].fetch_sub(1, Ordering::Relaxed);
                }
            })
            .clock(CachedTime::clock(&time))
            .build()?;
        Ok(Store { cache, time, clock: ServerClock::new(0), others })
    }

    /// Bytes that entries may take together.
    #[must_use]
    pub fn max_memory(&self) -> u64 {
        self.cache.stats().capacity
    }

    /// Changes the limit; entries that no longer fit are evicted by the writes that follow.
    pub fn set_max_memory(&self, bytes: u64) {
        self.cache.set_capacity(bytes.max(MIN_MEMORY_BYTES));
    }

    /// Bytes that entries are charged with now.
    #[must_use]
    pub fn used_memory(&self) -> u64 {
        self.cache.weight()
    }

    /// Entries in all databases, among them such as have expired and are not reclaimed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether there is no entry at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Lets time go on to `now`: what follows happens at that moment, until this is called again.
    pub(crate) fn advance_to(&self, now: Instant) {
        self.time.advance_to(now);
    }

    /// Server time in milliseconds of Unix time: that of the system at start, and monotonic since.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.to_unix_ms(self.cache.now_ms())
    }

    pub(crate) fn engine_stats(&self) -> larder_engine::Stats {
        self.cache.stats()
    }

    /// Reclaims expired entries that no write has come across, a bounded number; returns how many.
    pub(crate) fn reclaim_expired(&self, budget: usize) -> usize {
        self.advance_to(Instant::now());
        self.cache.run_due(budget)
    }

    pub(crate) fn database(&self, index: u8) -> Database<'_> {
        Database { store: self, index }
    }

    /// Empties every database.
    pub(crate) fn clear(&self) {
        self.cache.clear();
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).field("used_memory", &self.used_memory()).finish()
    }
}

/// Half of what the machine or the cgroup has.
pub(crate) fn default_memory_bytes() -> u64 {
    (crate::system::available_bytes() / 2).max(MIN_MEMORY_BYTES)
}

/// What an entry is charged for a block of so many bytes.
fn charge(bytes: u64) -> u64 {
    bytes + bytes / BYTES_PER_BYTE_ROUNDED + ENTRY_OVERHEAD_BYTES
}

/// One database of a [`Store`].
#[derive(Clone, Copy)]
pub(crate) struct Database<'a> {
    store: &'a Store,
    index: u8,
}

/// An entry as a command sees it while it is held; the work done with it must be short.
pub(crate) struct Entry<'a> {
    entry: raw::Entry<'a>,
    clock: ServerClock,
}

impl Entry<'_> {
    pub(crate) fn value(&self) -> &[u8] {
        self.entry.value()
    }

    /// The value, to be changed without changing its length, and then [`EntryOp::Edited`].
    pub(crate) fn value_mut(&mut self) -> &mut [u8] {
        self.entry.value_mut()
    }

    /// When it expires, in milliseconds of Unix time.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        self.entry.deadline_ms().map(|ms| self.clock.to_unix_ms(ms))
    }
}

/// When an entry is to expire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    /// In milliseconds of Unix time; the past is allowed and means at once.
    At(i64),
    /// As before.
    Keep,
}

/// What a command does to an entry it has looked at.
pub(crate) enum EntryOp {
    Keep,
    /// It was changed where it is; its deadline stays.
    Edited,
    /// Another record of the same key takes its place.
    Put(Record, Expiry),
    Expire(Expiry),
    Remove,
}

/// An entry is larger than all memory that entries may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

impl Database<'_> {
    /// The key under which this database has `name`.
    fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        Key { space: self.index, name }
    }

    /// A record of `name` whose value is the concatenation of `parts`: to be [put](EntryOp::Put).
    pub(crate) fn record(&self, name: &[u8], parts: &[&[u8]]) -> Record {
        Record::new(self.key(name), parts)
    }

    /// Calls `f` with the value of `name`, which counts as a use of it.
    #[inline]
    pub(crate) fn get<R>(&self, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.store.cache.read(self.key(name), f)
    }

    /// Adds a key to those that are [fetched](Self::fetch) batch.
    pub(crate) fn add_to_batch(&self, batch: &mut PrefetchBatch, name: &[u8]) {
        batch.add(&self.store.cache, self.key(name));
    }

    /// Asks for the memory that finding these keys will touch, so that it is there when they are looked for.
    pub(crate) fn prefetch(&self, batch: &PrefetchBatch) {
        self.store.cache.prefetch(batch);
    }

    /// When the entry of `name` expires, in milliseconds of Unix time, if it does; not a use of it.
    pub(crate) fn deadline(&self, name: &[u8]) -> Option<Option<i64>> {
        let clock = self.store.clock;
        let deadline = self.store.cache.peek_with(&self.key(name), |entry| entry.deadline_ms())?;
        Some(deadline.map(|ms| clock.to_unix_ms(ms)))
    }

    /// Whether there is an entry of `name`.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.store.cache.contains(&self.key(name))
    }

    /// Stores a value, whatever was there before.
    pub(crate) fn set(&self, name: &[u8], value: &[u8], expiry: Expiry) -> Result<(), OutOfMemory> {
        let ttl = self.store.clock.ttl(expiry);
        if value.len() <= MAX_COPIED_BYTES {
            return self.set_in_place(name, value, ttl);
        }
        match self.store.cache.insert_with_ttl(self.record(name, &[value]), (), ttl) {
            Inserted::New => self.count_new(),
            Inserted::Replaced(()) => {}
            Inserted::Refused { .. } => return Err(OutOfMemory),
        }
        Ok(())
    }

    /// Stores a value where the former one is, if that is as long: no memory is asked for, given back, or looked at that
    /// finding the key has not brought already.
    fn set_in_place(&self, name: &[u8], value: &[u8], ttl: Ttl) -> Result<(), OutOfMemory> {
        let updated = self.store.cache.update(self.key(name), |entry| match entry {
            Some(mut entry) if entry.value().len() == value.len() => {
                entry.value_mut().copy_from_slice(value);
                (raw::UpdateOp::Edited(ttl), ())
            }
            _ => (raw::UpdateOp::Put(self.record(name, &[value]), ttl), ()),
        });
        if updated.map_err(|_| OutOfMemory)?.is_new {
            self.count_new();
        }
        Ok(())
    }

    /// Looks at an entry and changes it in one step that nothing can come between.
    pub(crate) fn update<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<Entry<'_>>) -> (EntryOp, R),
    ) -> Result<R, OutOfMemory> {
        let clock = self.store.clock;
        let updated = self.store.cache.update(self.key(name), |entry| {
            let (change, result) = f(entry.map(|entry| Entry { entry, clock }));
            let change = match change {
                EntryOp::Keep => raw::UpdateOp::Keep,
                EntryOp::Edited => raw::UpdateOp::Edited(Ttl::Keep),
                EntryOp::Put(record, expiry) => raw::UpdateOp::Put(record, clock.ttl(expiry)),
                EntryOp::Expire(expiry) => raw::UpdateOp::SetTtl(clock.ttl(expiry)),
                EntryOp::Remove => raw::UpdateOp::Remove,
            };
            (change, result)
        });
        let updated = updated.map_err(|_| OutOfMemory)?;
        if updated.is_new {
            self.count_new();
        }
        Ok(updated.result)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        self.store.cache.remove(&self.key(name)).is_some()
    }

    /// Visits about `count` entries of all databases and calls `f` with the names of this one. Returns the cursor to
    /// go on with, 0 at the end. Whatever stays from the first call to the last is visited at least once.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8])) -> u64 {
        self.store.cache.scan(cursor, count, |entry| {
            let key = entry.key().key();
            if key.space == self.index {
                f(key.name);
            }
        })
    }

    /// Removes every entry of this database.
    pub(crate) fn clear(&self) {
        if self.len() == self.store.len() {
            return self.store.cache.clear();
        }
        self.store.cache.retain(|record, ()| record.key().space != self.index);
    }

    /// Entries, among them such as have expired and are not reclaimed yet.
    pub(crate) fn len(&self) -> usize {
        let count = |index: usize| self.store.others[index].load(Ordering::Relaxed).max(0) as usize;
        match self.index {
            0 => self.store.len().saturating_sub((1..DATABASES).map(count).sum()),
            index => count(usize::from(index)),
        }
    }

    fn count_new(&self) {
        if self.index != 0 {
            self.store.others[usize::from(self.index)].fetch_add(1, Ordering::Relaxed);
        }
    }
}
