//! The keyspace as a whole: its policy, its time, and what a thread does for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use larder_engine::{Cause, raw};
use parking_lot::RwLock;

use super::clock::{CachedTime, ServerClock};
use super::memory_limit::MemoryLimit;
use super::object::Object;
use super::policy::{COPYING, LOADING, MemoryPolicy, POSITION};
use super::record::{DATABASE_COUNT, Record, charge};
use super::snapshot::Loading;
use crate::error::ServerError;
use crate::observers::{Event, Observers};
use crate::system::Moment;
use crate::values::hash::Alarms;
use crate::values::large::{self, LARGE_BYTES};

/// The length of an entry that the number of shards is made for.
const EXPECTED_ENTRY_BYTES: u64 = 512;

/// The lowest valid `max_memory`.
pub(crate) const MIN_MEMORY_BYTES: u64 = 1 << 20;
/// The largest `max_memory`: the engine adds weights, and clients see them as signed numbers.
pub(crate) const MAX_MEMORY_BYTES: u64 = i64::MAX as u64 / 2;

/// The keyspace of a server. It is independent of the server, so the next server can use it.
///
/// Cheap to clone; all clones are the same keyspace.
#[derive(Clone)]
pub struct Store {
    pub(super) cache: raw::Cache<Object>,
    pub(super) time: Arc<CachedTime>,
    pub(super) clock: ServerClock,
    /// The position in [`MemoryPolicy::ALL`] of the policy, with bits while a snapshot is loaded or a Redis is copied.
    pub(super) policy: Arc<AtomicU8>,
    /// The snapshot that is being loaded.
    pub(super) loading: Arc<RwLock<Option<Arc<Loading>>>>,
    pub(super) limit: Arc<MemoryLimit>,
    /// Those who are told of changes.
    pub(crate) observers: Arc<Observers>,
    /// The hashes whose fields expire.
    pub(super) alarms: Alarms,
}

impl Store {
    /// An empty keyspace of at most `max_memory` bytes; `None` means half of the memory of the machine or the cgroup.
    ///
    /// # Errors
    ///
    /// [`ServerError::Range`] if `max_memory` is less than 1 MiB, or more than 2^62 - 1.
    pub fn new(max_memory: Option<u64>) -> Result<Store, ServerError> {
        let bytes = max_memory.unwrap_or_else(default_memory_bytes);
        if !(MIN_MEMORY_BYTES..=MAX_MEMORY_BYTES).contains(&bytes) {
            return Err(ServerError::Range {
                option: "max_memory",
                value: bytes,
                min: MIN_MEMORY_BYTES,
                max: MAX_MEMORY_BYTES,
            });
        }
        let observers = Arc::<Observers>::default();
        let listener_observers = Arc::clone(&observers);
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
                    listener_observers.lost(record.key(), event);
                }
            })
            .clock(CachedTime::clock(&time))
            .build()?;
        let policy = Arc::new(AtomicU8::new(MemoryPolicy::default() as u8));
        let limit = Arc::new(MemoryLimit::new(bytes));
        Ok(Store {
            cache,
            time,
            clock: ServerClock::new(0),
            policy,
            loading: Arc::default(),
            limit,
            observers,
            alarms: Alarms::default(),
        })
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
        MemoryPolicy::ALL[usize::from(self.policy.load(Ordering::SeqCst) & POSITION)]
    }

    /// Changes which keys are evicted when memory is used up. Cost: to and from the policies named `volatile`, a visit of
    /// each entry.
    pub fn set_policy(&self, policy: MemoryPolicy) {
        _ = self.policy.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |former| {
            Some(former & !POSITION | policy as u8)
        });
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
        self.policy.load(Ordering::Relaxed) & POSITION <= MemoryPolicy::AllkeysRandom as u8
    }

    /// Whether writes of clients may be refused: because memory is used up, or because a Redis is being copied.
    #[inline]
    pub(crate) fn may_refuse_writes(&self) -> bool {
        self.policy.load(Ordering::Relaxed) & !LOADING > MemoryPolicy::AllkeysRandom as u8
    }

    /// Refuses the writes of clients from now on.
    pub(crate) fn begin_copying(&self) {
        self.policy.fetch_or(COPYING, Ordering::SeqCst);
    }

    /// Takes the writes of clients again.
    pub(crate) fn end_copying(&self) {
        self.policy.fetch_and(!COPYING, Ordering::SeqCst);
    }

    /// Whether a running Redis is being copied.
    #[inline]
    pub(crate) fn is_copying(&self) -> bool {
        self.policy.load(Ordering::Relaxed) & COPYING != 0
    }

    /// Whether any key may be evicted, and nothing is being loaded or copied: then there is nothing to do before a write.
    #[inline]
    pub(super) fn writes_at_once(&self) -> bool {
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

    /// Reclaims up to `budget` expired entries and expired fields of hashes; returns their number.
    pub(crate) fn reclaim_expired(&self, budget: usize) -> usize {
        self.advance_to(Moment::now());
        let entries = self.cache.run_due(budget);
        entries + self.reclaim_fields(budget - entries.min(budget))
    }

    /// Looks at some slots for a compaction. Returns whether there are more.
    pub(crate) fn compact(&self, compaction: &mut raw::Compaction, budget: usize) -> bool {
        self.cache.compact(compaction, budget)
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::Expiry;

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
