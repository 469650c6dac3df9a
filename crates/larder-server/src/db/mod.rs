//! The keyspace: sixteen databases of byte strings with deadlines, bounded by bytes.
//!
//! This is the only module that uses the engine's cache. Commands see keys and values as bytes, and deadlines as
//! milliseconds of Unix time.

mod changes;
mod clock;
mod held;
mod locked;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::Instant;

use larder_engine::raw::{self, Cache};
use larder_engine::{Cause, EntryRef, Ttl};

use crate::ServerError;
use crate::observers::{Event, Observers, Origin};
use changes::EntryState;
pub(crate) use clock::unix_time;
use clock::{CachedTime, ServerClock};
pub(crate) use held::HeldLocks;
pub(crate) use larder_engine::raw::{Key, PrefetchBatch, Record};
pub(crate) use locked::LockedKeys;

/// The number of databases.
pub(crate) const DATABASE_COUNT: usize = 16;

/// Bytes that an entry is charged in addition to its block: for the table, the policy's queue and sketch, and the timer
/// wheel, assuming that half of the entries have a deadline. Measured as the resident memory of a full cache.
const ENTRY_OVERHEAD_BYTES: u64 = 60;
/// The typical overhead of the allocator: one byte per this many bytes.
const BYTES_PER_ALLOCATOR_BYTE: u64 = 16;

/// Values up to this length are copied while their shard is locked; longer ones are copied before.
const MAX_BYTES_COPIED_UNDER_LOCK: usize = 4096;

/// Entries that the search for a random key visits at a time.
const RANDOM_SCAN: usize = 16;

/// The lowest valid `max_memory`.
pub(crate) const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// The keyspace of a server. It is independent of the server, so the next server can use it.
///
/// Cheap to clone; all clones are the same keyspace.
#[derive(Clone)]
pub struct Store {
    cache: Cache,
    time: Arc<CachedTime>,
    clock: ServerClock,
    /// The number of entries per space. Space 0 is not counted: most servers use only database 0, so its number is
    /// computed from the total instead of updating a counter with each write.
    entries_per_space: Arc<[AtomicI64; DATABASE_COUNT]>,
    /// The space of each database in the engine, four bits each; `SWAPDB` exchanges two of them.
    spaces: Arc<AtomicU64>,
    /// Those who are told of changes.
    pub(crate) observers: Arc<Observers>,
}

/// Database 0 has space 0, and so on.
const INITIAL_SPACES: u64 = 0xfedc_ba98_7654_3210;

impl Store {
    /// An empty keyspace of at most `max_memory` bytes; `None` means half of the memory of the machine or the cgroup.
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
                min: MIN_MEMORY_BYTES,
                max: i64::MAX as u64 / 2,
            });
        }
        let entries_per_space: Arc<[AtomicI64; DATABASE_COUNT]> = Arc::default();
        let listener_counts = Arc::clone(&entries_per_space);
        let observers = Arc::<Observers>::default();
        let listener_observers = Arc::clone(&observers);
        let spaces = Arc::new(AtomicU64::new(INITIAL_SPACES));
        let listener_spaces = Arc::clone(&spaces);
        let time = Arc::new(CachedTime::new());
        let cache = Cache::builder()
            .weight(bytes, |record: &Record, ()| charge(record.bytes_allocated() as u64))
            .listener(move |record: &Record, (), cause| {
                let space = usize::from(record.key().space);
                if space != 0 && cause != Cause::Replaced {
                    listener_counts[space].fetch_sub(1, Ordering::Relaxed);
                }
                // The other causes were reported by the command.
                let event = match cause {
                    Cause::Expired => Event::Expired,
                    Cause::Evicted => Event::Evicted,
                    _ => return,
                };
                if listener_observers.is_active() {
                    let spaces = Spaces(listener_spaces.load(Ordering::Relaxed));
                    let key = record.key();
                    listener_observers.removed(key.name, spaces.database(key.space), event);
                }
            })
            .clock(CachedTime::clock(&time))
            .build()?;
        Ok(Store { cache, time, clock: ServerClock::new(0), entries_per_space, spaces, observers })
    }

    /// Capacity for entries in bytes.
    #[must_use]
    pub fn max_memory(&self) -> u64 {
        self.cache.capacity()
    }

    /// Changes the capacity. Later writes evict the entries that no longer fit.
    pub fn set_max_memory(&self, bytes: u64) {
        self.cache.set_capacity(bytes.max(MIN_MEMORY_BYTES));
    }

    /// Bytes that all entries are charged.
    #[must_use]
    pub fn used_memory(&self) -> u64 {
        self.cache.weight()
    }

    /// Entries in all databases, including expired ones that are not reclaimed yet.
    #[must_use]
    pub fn len(&self) -> usize {
        self.cache.len()
    }

    /// Whether there are no entries.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Advances the time to `now`. Later operations use this time until the next call.
    pub(crate) fn advance_to(&self, now: Instant) {
        self.time.advance_to(now);
    }

    /// Server time in milliseconds of Unix time. It is read from the system at start and is monotonic afterwards.
    pub(crate) fn now_ms(&self) -> i64 {
        self.clock.to_unix_ms(self.cache.now_ms())
    }

    pub(crate) fn engine_stats(&self) -> larder_engine::Stats {
        self.cache.stats()
    }

    /// Reclaims up to `budget` expired entries; returns their number.
    pub(crate) fn reclaim_expired(&self, budget: usize) -> usize {
        self.advance_to(Instant::now());
        self.cache.run_due(budget)
    }

    pub(crate) fn database(&self, index: u8) -> Database<'_> {
        self.space(self.spaces().of(index))
    }

    /// The database in a space: see [`Database::space`].
    pub(crate) fn space(&self, space: u8) -> Database<'_> {
        Database { store: self, space, held: None, origin: Origin::default() }
    }

    /// The spaces of all databases. They change only while all keys are locked.
    #[inline]
    pub(crate) fn spaces(&self) -> Spaces {
        Spaces(self.spaces.load(Ordering::Relaxed))
    }

    /// Exchanges two databases. All keys must be locked, so that no transaction sees a part of it.
    pub(crate) fn swap_databases(&self, first: u8, second: u8) {
        if first != second {
            let spaces = self.spaces();
            let swapped = [first, second].map(|database| spaces.of(database));
            self.observers.swapped(swapped);
            let changed = u64::from(swapped[0] ^ swapped[1]);
            // Nobody else exchanges databases: all keys are locked.
            self.spaces.fetch_xor(changed << (4 * first) ^ changed << (4 * second), Ordering::Relaxed);
        }
    }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("len", &self.len()).field("used_memory", &self.used_memory()).finish()
    }
}

/// Half of the memory of the machine or the cgroup.
pub(crate) fn default_memory_bytes() -> u64 {
    (crate::system::available_bytes() / 2).max(MIN_MEMORY_BYTES)
}

/// The charge of an entry whose block has this many bytes.
fn charge(bytes: u64) -> u64 {
    bytes + bytes / BYTES_PER_ALLOCATOR_BYTE + ENTRY_OVERHEAD_BYTES
}

/// The space of each database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Spaces(u64);

impl Spaces {
    /// The space of a database.
    #[inline]
    pub(crate) fn of(self, database: u8) -> u8 {
        (self.0 >> (4 * database)) as u8 & 0xf
    }

    /// The database that has this space.
    fn database(self, space: u8) -> u8 {
        (0..DATABASE_COUNT as u8).find(|database| self.of(*database) == space).unwrap_or(0)
    }
}

/// One database of a [`Store`].
#[derive(Clone, Copy)]
pub(crate) struct Database<'a> {
    store: &'a Store,
    space: u8,
    /// The locks of the transaction that uses it.
    held: Option<&'a dyn HeldLocks>,
    origin: Origin,
}

/// An entry while its shard is locked. Commands must use it only briefly.
pub(crate) struct Entry<'a> {
    entry: raw::Entry<'a>,
    clock: ServerClock,
}

impl Entry<'_> {
    pub(crate) fn value(&self) -> &[u8] {
        self.entry.value()
    }

    /// The value, for a change in place that keeps its length. Return [`EntryOp::Edited`] afterwards.
    pub(crate) fn value_mut(&mut self) -> &mut [u8] {
        self.entry.value_mut()
    }

    /// When it expires, in milliseconds of Unix time.
    pub(crate) fn expires_at(&self) -> Option<i64> {
        self.entry.deadline_ms().map(|ms| self.clock.to_unix_ms(ms))
    }
}

/// When an entry expires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Expiry {
    Never,
    /// At this time, in milliseconds of Unix time. A time in the past is allowed: the entry expires at once.
    At(i64),
    /// At the same time as before.
    Keep,
}

/// The operation of a command on an entry.
pub(crate) enum EntryOp {
    Keep,
    /// Its value was changed in place; the deadline is kept.
    Edited,
    /// Replace it by a record of the same key.
    Put(Record, Expiry),
    Expire(Expiry),
    Remove,
}

/// The entry is larger than the capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OutOfMemory;

impl<'a> Database<'a> {
    /// The same database, used in a transaction.
    pub(crate) fn with_locks(self, held: Option<&'a dyn HeldLocks>) -> Self {
        Database { held, ..self }
    }

    /// The same database, used by a command.
    #[inline]
    pub(crate) fn used_by(self, origin: Origin) -> Self {
        Database { origin, ..self }
    }

    /// Where its entries are in the engine. It stays the same when databases are exchanged.
    pub(crate) fn space(&self) -> u8 {
        self.space
    }

    /// The key of `name` in this database.
    pub(crate) fn key<'n>(&self, name: &'n [u8]) -> Key<'n> {
        Key { space: self.space, name }
    }

    /// A record of `name` for [`EntryOp::Put`]. Its value is the concatenation of `parts`.
    pub(crate) fn record(&self, name: &[u8], parts: &[&[u8]]) -> Record {
        Record::new(self.key(name), parts)
    }

    /// Calls `f` with the value of `name`. This counts as a use of the entry.
    #[inline]
    pub(crate) fn get<R>(&self, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        match self.held {
            None => self.store.cache.read(self.key(name), f),
            Some(locks) => held::read(locks, self.key(name), f),
        }
    }

    /// Adds a key to the batch for [`prefetch`](Self::prefetch).
    pub(crate) fn add_to_batch(&self, batch: &mut PrefetchBatch, name: &[u8]) {
        batch.add(&self.store.cache, self.key(name));
    }

    /// Prefetches the memory that lookups of these keys read.
    pub(crate) fn prefetch(&self, batch: &PrefetchBatch) {
        self.store.cache.prefetch(batch);
    }

    /// The deadline of the entry of `name` in milliseconds of Unix time, if it has one. Does not count as a use.
    pub(crate) fn deadline(&self, name: &[u8]) -> Option<Option<i64>> {
        let clock = self.store.clock;
        let deadline = self.peek_entry(name, |entry| entry.deadline_ms())?;
        Some(deadline.map(|ms| clock.to_unix_ms(ms)))
    }

    /// Calls `f` with the value of `name`. Does not count as a use.
    pub(crate) fn peek<R>(&self, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> Option<R> {
        self.peek_entry(name, |entry| f(entry.key().value()))
    }

    fn peek_entry<R>(&self, name: &[u8], f: impl FnOnce(EntryRef<'_, Record, ()>) -> R) -> Option<R> {
        match self.held {
            None => self.store.cache.peek_with(&self.key(name), f),
            Some(locks) => held::peek(locks, self.key(name), f),
        }
    }

    /// The bytes that the entry of `name` is charged.
    pub(crate) fn charge(&self, name: &[u8]) -> Option<u64> {
        self.peek_entry(name, |entry| entry.weight())
    }

    /// The name of any entry. Cost: in a database with a small part of all entries, a scan of many others.
    pub(crate) fn random_name(&self) -> Option<Vec<u8>> {
        if self.len() == 0 {
            return None;
        }
        let start = self.store.cache.random_cursor(RandomState::new().hash_one(()));
        // From there to the end, and then from the start.
        for mut cursor in [start, 0] {
            loop {
                let mut found = None;
                cursor = self.scan(cursor, RANDOM_SCAN, |name| {
                    found.get_or_insert_with(|| name.to_vec());
                });
                if found.is_some() {
                    return found;
                }
                if cursor == 0 {
                    break;
                }
            }
        }
        None
    }

    /// Whether `name` has an entry.
    pub(crate) fn contains(&self, name: &[u8]) -> bool {
        self.peek_entry(name, |_| ()).is_some()
    }

    /// Stores a value, with or without a former one.
    pub(crate) fn set(&self, name: &[u8], value: &[u8], expiry: Expiry) -> Result<(), OutOfMemory> {
        let ttl = self.store.clock.ttl(expiry);
        if value.len() <= MAX_BYTES_COPIED_UNDER_LOCK {
            return self.set_in_place(name, value, ttl);
        }
        let record = self.record(name, &[value]);
        self.change(name, |_| (raw::UpdateOp::Put(record, ttl), ()))
    }

    /// Stores a value in place if the former value has the same length. This allocates and frees nothing and reads only
    /// memory that the lookup has read.
    fn set_in_place(&self, name: &[u8], value: &[u8], ttl: Ttl) -> Result<(), OutOfMemory> {
        self.change(name, |entry| match entry {
            Some(mut entry) if entry.value().len() == value.len() => {
                entry.value_mut().copy_from_slice(value);
                (raw::UpdateOp::Edited(ttl), ())
            }
            _ => (raw::UpdateOp::Put(self.record(name, &[value]), ttl), ()),
        })
    }

    /// Reads and changes an entry atomically.
    pub(crate) fn update<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<Entry<'_>>) -> (EntryOp, R),
    ) -> Result<R, OutOfMemory> {
        let clock = self.store.clock;
        self.change(name, |entry| {
            let (operation, result) = f(entry.map(|entry| Entry { entry, clock }));
            let operation = match operation {
                EntryOp::Keep => raw::UpdateOp::Keep,
                EntryOp::Edited => raw::UpdateOp::Edited(Ttl::Keep),
                EntryOp::Put(record, expiry) => raw::UpdateOp::Put(record, clock.ttl(expiry)),
                EntryOp::Expire(expiry) => raw::UpdateOp::SetTtl(clock.ttl(expiry)),
                EntryOp::Remove => raw::UpdateOp::Remove,
            };
            (operation, result)
        })
    }

    /// Every change of one entry. The observers are told while its shard is locked.
    #[inline]
    fn change<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<raw::Entry<'_>>) -> (raw::UpdateOp, R),
    ) -> Result<R, OutOfMemory> {
        let key = self.key(name);
        let mut is_new = false;
        let f = |entry: Option<raw::Entry<'_>>| {
            let before = EntryState::of(entry.as_ref());
            let (operation, result) = f(entry);
            self.report(key, before, &operation);
            is_new = before == EntryState::Missing && matches!(operation, raw::UpdateOp::Put(..));
            (operation, result)
        };
        let changed = match self.held {
            None => self.store.cache.update(key, f).map(|updated| updated.result),
            Some(locks) => held::update(locks, key, f),
        };
        let result = changed.map_err(|_| OutOfMemory)?;
        if is_new {
            self.count_new();
        }
        Ok(result)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        // Without a record to store, a change cannot fail.
        self.change(name, |entry| (raw::UpdateOp::Remove, entry.is_some())).unwrap_or(false)
    }

    /// Visits about `count` entries of all databases and calls `f` with the names of this one. Returns the next
    /// cursor, 0 at the end. An entry that exists from the first call to the last is visited at least once.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8])) -> u64 {
        let mut visit = |key: Key<'_>| {
            if key.space == self.space {
                f(key.name);
            }
        };
        match self.held {
            None => self.store.cache.scan(cursor, count, |entry| visit(entry.key().key())),
            Some(locks) => locks.scan(cursor, count, &mut visit),
        }
    }

    /// Visits about `count` entries and removes those of this database, or of `all`. Returns the next cursor, 0 at the
    /// end. An entry that exists from the first call to the last is removed. In a transaction, one call removes them all.
    pub(crate) fn clear_from(&self, cursor: u64, count: usize, all: bool) -> u64 {
        let keep = |key: Key<'_>| {
            let is_kept = !all && key.space != self.space;
            if !is_kept {
                self.report_purge(key);
            }
            is_kept
        };
        match self.held {
            None => self.store.cache.retain_from(cursor, count, |record, ()| keep(record.key())),
            Some(locks) => {
                locks.retain(&mut |key| keep(key));
                0
            }
        }
    }

    /// The counters of the engine.
    pub(crate) fn engine_stats(&self) -> larder_engine::Stats {
        self.held.map_or_else(|| self.store.cache.stats(), HeldLocks::stats)
    }

    /// Entries, including expired ones that are not reclaimed yet.
    pub(crate) fn len(&self) -> usize {
        if let Some(locks) = self.held {
            return self.len_under(locks);
        }
        let count =
            |space: usize| self.store.entries_per_space[space].load(Ordering::Relaxed).max(0) as usize;
        match self.space {
            0 => self.store.len().saturating_sub((1..DATABASE_COUNT).map(count).sum()),
            space => count(usize::from(space)),
        }
    }

    /// Counts the live entries: what a transaction has removed is subtracted from the counters at its end.
    fn len_under(&self, locks: &dyn HeldLocks) -> usize {
        let mut entries = 0;
        locks.scan(0, usize::MAX, &mut |key| entries += usize::from(key.space == self.space));
        entries
    }

    fn count_new(&self) {
        if self.space != 0 {
            self.store.entries_per_space[usize::from(self.space)].fetch_add(1, Ordering::Relaxed);
        }
    }
}
