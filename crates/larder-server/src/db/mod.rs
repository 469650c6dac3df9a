//! The keyspace: sixteen databases of strings and sorted sets with deadlines, bounded by bytes.
//!
//! This is the only module that uses the engine's cache. Commands see keys and values as bytes, and deadlines as
//! milliseconds of Unix time.

mod changes;
mod clock;
mod entry;
mod held;
mod locked;
mod memory_limit;
mod object;
mod policy;
mod room;
pub(crate) mod sorted_sets;
#[cfg(feature = "scripts")]
mod undo;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::Duration;

use larder_engine::raw;
use larder_engine::stats::PartitionStats;
use larder_engine::{Cause, EntryRef, Ttl};
use larder_resp::Args;

use crate::ServerError;
use crate::large::{self, LARGE_BYTES};
use crate::moment::Moment;
use crate::observers::{Event, Observers, Origin};
use changes::EntryState;
use clock::{CachedTime, ServerClock};
pub(crate) use entry::{Entry, EntryOp, Expiry, OutOfMemory, StringEntry, UpdateError};
pub(crate) use held::HeldLocks;
pub(crate) use larder_engine::raw::{Key, PrefetchBatch};
pub(crate) use locked::LockedKeys;
use memory_limit::MemoryLimit;
pub(crate) use object::{Object, WrongType, encoding, type_name};
pub use policy::{MemoryPolicy, MemoryPolicyError};
#[cfg(feature = "scripts")]
pub(crate) use undo::UndoableLocks;

/// An entry's key and value.
pub(crate) type Record = raw::Record<Object>;

/// The locks of some keys, or of all.
pub(crate) type Locked<'a> = raw::Locked<'a, Object>;

/// The number of databases.
pub(crate) const DATABASE_COUNT: usize = 16;

/// Bytes that an entry is charged in addition to its block: for the table, the policy's queue and sketch, and the timer
/// wheel, assuming that half of the entries have a deadline. What is missing is measured: see [`memory_limit`].
const ENTRY_OVERHEAD_BYTES: u64 = 40;
/// The length of an entry that the number of shards is made for.
const EXPECTED_ENTRY_BYTES: u64 = 512;
/// The typical overhead of the allocator: one byte per this many bytes.
const BYTES_PER_ALLOCATOR_BYTE: u64 = 16;

/// Entries that the search for a random key visits at a time.
const RANDOM_SCAN: usize = 16;

/// The lowest valid `max_memory`.
pub(crate) const MIN_MEMORY_BYTES: u64 = 1 << 20;

/// The keyspace of a server. It is independent of the server, so the next server can use it.
///
/// Cheap to clone; all clones are the same keyspace.
#[derive(Clone)]
pub struct Store {
    cache: raw::Cache<Object>,
    time: Arc<CachedTime>,
    clock: ServerClock,
    /// The space of each database in the engine, four bits each; `SWAPDB` exchanges two of them.
    spaces: Arc<AtomicU64>,
    /// The position in [`MemoryPolicy::ALL`] of the policy.
    policy: Arc<AtomicU8>,
    limit: Arc<MemoryLimit>,
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
        let observers = Arc::<Observers>::default();
        let listener_observers = Arc::clone(&observers);
        let spaces = Arc::new(AtomicU64::new(INITIAL_SPACES));
        let listener_spaces = Arc::clone(&spaces);
        let time = Arc::new(CachedTime::new());
        let cache = raw::Cache::builder()
            .weight(bytes, |record, ()| charge(record))
            // Fewer shards than for the shortest entries: half-empty ones waste more than large ones take to grow.
            .expected_entries(bytes / EXPECTED_ENTRY_BYTES)
            .partitions(DATABASE_COUNT, |record: &Record| usize::from(record.space()))
            .listener(|record: &Record, (), _| {
                // It is dropped next, on this thread.
                if let Some(value) = record.share().filter(|value| value.len() >= LARGE_BYTES) {
                    large::release_removed(value);
                }
            })
            // The other causes are reported by the command.
            .loss_listener(move |record: &Record, cause| {
                if listener_observers.is_active() {
                    let event = if cause == Cause::Expired { Event::Expired } else { Event::Evicted };
                    let spaces = Spaces(listener_spaces.load(Ordering::Relaxed));
                    let key = record.key();
                    listener_observers.lost(key.name, spaces.database(key.space), event);
                }
            })
            .clock(CachedTime::clock(&time))
            .build()?;
        let policy = Arc::new(AtomicU8::new(MemoryPolicy::default() as u8));
        let limit = Arc::new(MemoryLimit::new(bytes));
        Ok(Store { cache, time, clock: ServerClock::new(0), spaces, policy, limit, observers })
    }

    /// Walks the whole keyspace, and panics if its parts do not agree or an entry is charged other than it is long.
    #[cfg(test)]
    pub(crate) fn validate(&self) {
        self.cache.validate();
        let mut cursor = 0;
        loop {
            cursor = self.cache.scan(cursor, 1_000, |entry| {
                let name = entry.key().key().name.escape_ascii();
                assert_eq!(entry.weight(), charge(entry.key()), "the charge of {name}");
            });
            if cursor == 0 {
                return;
            }
        }
    }

    /// Which keys are evicted when memory is used up.
    #[must_use]
    pub fn policy(&self) -> MemoryPolicy {
        MemoryPolicy::ALL[usize::from(self.policy.load(Ordering::SeqCst))]
    }

    /// Changes which keys are evicted when memory is used up. Cost: to and from the policies named `volatile`, a visit of
    /// each entry.
    pub fn set_policy(&self, policy: MemoryPolicy) {
        self.policy.store(policy as u8, Ordering::SeqCst);
        // Of two threads, the one that comes last applies the policy that was set last.
        let mut applied = None;
        while applied != Some(self.policy()) {
            let policy = self.policy();
            self.cache.set_evictable(policy.evictable());
            applied = Some(policy);
        }
    }

    /// Whether any key may be evicted, so that no write is refused because memory is used up.
    #[inline]
    pub(crate) fn evicts_all(&self) -> bool {
        self.policy.load(Ordering::Relaxed) <= MemoryPolicy::AllkeysRandom as u8
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
    pub(crate) fn advance_to(&self, now: Moment) {
        self.time.advance_to(now);
    }

    /// Server time as Unix time, by the clock of the deadlines: a client that adds to it has the deadline that it means, also
    /// after the system clock was adjusted.
    pub(crate) fn unix_time(&self) -> Duration {
        self.clock.unix_time(self.time.elapsed())
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
        self.advance_to(Moment::now());
        self.cache.run_due(budget)
    }

    /// Looks at some slots for a compaction. Returns whether there are more.
    pub(crate) fn compact(&self, compaction: &mut raw::Compaction, budget: usize) -> bool {
        self.cache.compact(compaction, budget)
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

/// The charge of an entry.
fn charge(record: &Record) -> u64 {
    let bytes = (record.bytes_allocated() + record.object().map_or(0, Object::bytes_allocated)) as u64;
    bytes + bytes / BYTES_PER_ALLOCATOR_BYTE + ENTRY_OVERHEAD_BYTES
}

/// Whether the value of a record is this very one, and not another with the same bytes.
pub(crate) fn is_value_of(record: &Record, value: &Arc<[u8]>) -> bool {
    record.share().is_some_and(|shared| Arc::ptr_eq(&shared, value))
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

/// What a read has found while the shard was locked.
enum Read<R, F> {
    /// The result of the reader.
    Done(R),
    /// A long value, for the reader.
    Long(Arc<[u8]>, F),
    WrongType,
}

/// What a read of a string has found.
pub(crate) enum Found<R> {
    /// The result of the reader.
    Read(R),
    /// A large value, which is not read.
    Large(Arc<[u8]>),
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

    /// A record of `name` with an argument as its value, which is copied unless it is shared.
    pub(crate) fn record_of_argument(&self, name: &[u8], args: Args<'_>, index: usize) -> Record {
        match args.shared(index) {
            Some(value) => Record::with_value(self.key(name), Arc::clone(value)),
            None => self.record(name, &[&args[index]]),
        }
    }

    /// The same, if the value is long: to make it before the entry is locked.
    pub(crate) fn record_of_long(&self, name: &[u8], args: Args<'_>, index: usize) -> Option<Record> {
        (args[index].len() > raw::MAX_INLINE_BYTES).then(|| self.record_of_argument(name, args, index))
    }

    /// Calls `f` with the string of `name`. This counts as a use of the entry. No lock is held while `f` reads a long value.
    #[inline]
    pub(crate) fn get<R>(&self, name: &[u8], f: impl FnOnce(&[u8]) -> R) -> Result<Option<R>, WrongType> {
        let read = |record: &Record| match record.inline_bytes() {
            Some(value) => Read::Done(f(value)),
            None => record.share().map_or(Read::WrongType, |value| Read::Long(value, f)),
        };
        match self.read(name, read) {
            None => Ok(None),
            Some(Read::Done(result)) => Ok(Some(result)),
            Some(Read::Long(value, f)) => {
                let result = f(&value);
                large::release(value);
                Ok(Some(result))
            }
            Some(Read::WrongType) => Err(WrongType),
        }
    }

    /// As [`get`](Self::get), but returns a large string instead of reading it.
    #[inline]
    pub(crate) fn get_or_share<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(&[u8]) -> R,
    ) -> Result<Option<Found<R>>, WrongType> {
        let read = |record: &Record| match record.inline_bytes() {
            Some(value) => Read::Done(f(value)),
            None => record.share().map_or(Read::WrongType, |value| Read::Long(value, f)),
        };
        match self.read(name, read) {
            None => Ok(None),
            Some(Read::Done(result)) => Ok(Some(Found::Read(result))),
            Some(Read::Long(value, _)) if value.len() >= LARGE_BYTES => Ok(Some(Found::Large(value))),
            Some(Read::Long(value, f)) => Ok(Some(Found::Read(f(&value)))),
            Some(Read::WrongType) => Err(WrongType),
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

    /// Calls `f` with the record of `name`. This counts as a use of the entry.
    #[inline]
    fn read<R>(&self, name: &[u8], f: impl FnOnce(&Record) -> R) -> Option<R> {
        match self.held {
            None => self.store.cache.read(self.key(name), f),
            Some(locks) => held::read(locks, self.key(name), f),
        }
    }

    /// Calls `f` with the record of `name`. Does not count as a use.
    pub(crate) fn peek<R>(&self, name: &[u8], f: impl FnOnce(&Record) -> R) -> Option<R> {
        self.peek_entry(name, |entry| f(entry.key()))
    }

    /// Whether the value of `name` is this very one, and not another with the same bytes.
    pub(crate) fn has_value(&self, name: &[u8], value: &Arc<[u8]>) -> bool {
        self.peek(name, |record| is_value_of(record, value)).unwrap_or(false)
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
                cursor = self.scan(cursor, RANDOM_SCAN, |name, _| {
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
        if value.len() <= raw::MAX_INLINE_BYTES {
            return self.set_in_place(name, value, ttl);
        }
        let record = self.record(name, &[value]);
        self.change(name, |_| (raw::UpdateOp::Put(record, ttl), ()))
    }

    /// Stores an argument, with or without a former value.
    #[inline]
    pub(crate) fn set_argument(
        &self,
        name: &[u8],
        args: Args<'_>,
        index: usize,
        expiry: Expiry,
    ) -> Result<(), OutOfMemory> {
        match args.shared(index) {
            None => self.set(name, &args[index], expiry),
            Some(_) => {
                let record = self.record_of_argument(name, args, index);
                self.update(name, |_| (EntryOp::Put(record, expiry), ()))
            }
        }
    }

    /// Stores a value in place if the former value has the same length. This allocates and frees nothing and reads only
    /// memory that the lookup has read.
    fn set_in_place(&self, name: &[u8], value: &[u8], ttl: Ttl) -> Result<(), OutOfMemory> {
        self.change(name, |entry| match entry.map(raw::Entry::into_value_mut) {
            Some(raw::ValueMut::Bytes(former)) if former.len() == value.len() => {
                former.copy_from_slice(value);
                (raw::UpdateOp::Edited(ttl), ())
            }
            _ => (raw::UpdateOp::Put(self.record(name, &[value]), ttl), ()),
        })
    }

    /// Reads and changes an entry of any type atomically.
    pub(crate) fn update<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<Entry<'_>>) -> (EntryOp, R),
    ) -> Result<R, OutOfMemory> {
        let clock = self.store.clock;
        self.change(name, |entry| {
            let (operation, result) = f(entry.map(|entry| Entry::new(entry, clock)));
            (operation.into_raw(clock), result)
        })
    }

    /// As [`update`](Self::update), of a string. `f` is not called if the entry has another type.
    pub(crate) fn update_string<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<StringEntry<'_>>) -> (EntryOp, R),
    ) -> Result<R, UpdateError> {
        let updated = self.update(name, |entry| match entry.map(Entry::into_string).transpose() {
            Ok(entry) => {
                let (operation, result) = f(entry);
                (operation, Ok(result))
            }
            Err(WrongType) => (EntryOp::Keep, Err(WrongType)),
        })?;
        Ok(updated?)
    }

    /// Every change of one entry. The observers are told while its shard is locked.
    #[inline]
    fn change<R>(
        &self,
        name: &[u8],
        f: impl FnOnce(Option<raw::Entry<'_, Object>>) -> (raw::UpdateOp<Object>, R),
    ) -> Result<R, OutOfMemory> {
        if !self.store.evicts_all() {
            return self.change_if_room(name, f);
        }
        let key = self.key(name);
        let f = |entry: Option<raw::Entry<'_, Object>>| {
            let before = EntryState::of(entry.as_ref());
            let (operation, result) = f(entry);
            self.report(key, before, &operation);
            (operation, result)
        };
        let changed = match self.held {
            None => self.store.cache.update(key, f).map(|updated| updated.result),
            Some(locks) => held::update(locks, key, f),
        };
        changed.map_err(|_| OutOfMemory)
    }

    /// Removes an entry; returns whether there was one.
    pub(crate) fn remove(&self, name: &[u8]) -> bool {
        // Without a record to store, a change cannot fail.
        self.change(name, |entry| (raw::UpdateOp::Remove, entry.is_some())).unwrap_or(false)
    }

    /// Visits about `count` entries of all databases and calls `f` with the names of this one. Returns the next
    /// cursor, 0 at the end. An entry that exists from the first call to the last is visited at least once.
    pub(crate) fn scan(&self, cursor: u64, count: usize, mut f: impl FnMut(&[u8], &Record)) -> u64 {
        let mut visit = |record: &Record| {
            let key = record.key();
            if key.space == self.space {
                f(key.name, record);
            }
        };
        match self.held {
            None => self.store.cache.scan(cursor, count, |entry| visit(entry.key())),
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

    /// The number of entries, and of those with a deadline, including expired ones that are not reclaimed yet.
    pub(crate) fn counts(&self) -> PartitionStats {
        let partition = usize::from(self.space);
        match self.held {
            None => self.store.cache.partition_stats(partition),
            Some(locks) => locks.partition_stats(partition),
        }
    }

    /// Entries, including expired ones that are not reclaimed yet.
    pub(crate) fn len(&self) -> usize {
        self.counts().entries as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name that was stored last and the choice that was applied last were those of two threads.
    #[test]
    fn policies_set_concurrently_agree_with_what_is_evicted() {
        let store = Store::new(Some(1 << 20)).expect("a valid limit");
        let db = store.database(0);
        for round in 0..300 {
            std::thread::scope(|scope| {
                for policy in [MemoryPolicy::Noeviction, MemoryPolicy::AllkeysLfu] {
                    let store = &store;
                    scope.spawn(move || store.set_policy(policy));
                }
            });
            let policy = store.policy();
            store.cache.clear();
            for (name, fits) in [(b"a", true), (b"b", policy == MemoryPolicy::AllkeysLfu)] {
                assert_eq!(
                    db.set(name, &[0; 700_000], Expiry::Never).is_ok(),
                    fits,
                    "{policy} in round {round}"
                );
            }
        }
    }

    /// Another operation on the same entry would panic if its shard were still locked.
    #[test]
    fn long_value_is_read_without_its_lock() {
        let store = Store::new(Some(1 << 20)).expect("a valid limit");
        let db = store.database(0);
        let value = vec![7; raw::MAX_INLINE_BYTES + 1];
        assert_eq!(db.set(b"k", &value, Expiry::Never), Ok(()));
        let read = db.get(b"k", |read| {
            assert_eq!(db.set(b"k", b"short", Expiry::Never), Ok(()));
            read == value
        });
        assert_eq!(read, Ok(Some(true)), "the reader keeps the value that it has found");
        assert_eq!(db.get(b"k", |value| value == b"short"), Ok(Some(true)));
    }
}
