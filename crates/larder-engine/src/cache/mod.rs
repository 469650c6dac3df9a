//! The public operations: each picks the shard, reads the clock, and runs user code only where that is allowed. The steps
//! that they share are in [`steps`].

pub(crate) mod builder;
mod capacity;
pub(crate) mod iter;
pub(crate) mod many;
mod plain;
pub(crate) mod removals;
pub(crate) mod room;
pub(crate) mod steps;
pub(crate) mod write;

use crate::cache::builder::{Builder, Listener, Weigher};
use crate::cache::iter::Iter;
use crate::entry::{Cause, Computed, EntryRef, Inserted, Op, Ttl};
use crate::layout::records::Record;
use crate::layout::table::{RANK_END, rank};
use crate::lock::Locks;
use crate::policy::{Evictable, Policy};
use crate::shard::budget::{Budget, InHand};
use crate::shard::{Hasher, LossListener, Partition, Shard, Shared};
use crate::stats::{PartitionStats, Stats};
use crate::sync::Mutex;
use crate::time::clock::Clock;
use hashbrown::Equivalent;
use removals::{Drained, Removals};
use std::hash::Hash;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize};
use std::time::Duration;
use steps::Decision;
use write::Write;

/// About how many entries are visited each time a shard's lock is held.
pub(crate) const ENTRIES_PER_LOCK: usize = 128;

/// A bounded, concurrent cache. Cheap to clone: clones are handles to the same entries.
///
/// `Send` and `Sync` if keys and values are `Send`. See the [crate's page](crate) for what a caller may rely on.
pub struct Cache<K, V> {
    inner: Arc<Inner<K, V>>,
}

pub(crate) struct Settings<K, V> {
    pub(crate) capacity: u64,
    pub(crate) max_share: f64,
    pub(crate) ttl_ms: Option<u64>,
    pub(crate) tti_ms: Option<u64>,
    pub(crate) jitter: f32,
    pub(crate) policy: Policy,
    /// At the start.
    pub(crate) evictable: Evictable,
    pub(crate) shards: usize,
    /// The number of entries expected when the cache is full.
    pub(crate) expected: u64,
    pub(crate) clock: Clock,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) listener: Option<Listener<K, V>>,
    pub(crate) loss_listener: Option<LossListener<K>>,
    /// Their number, and the partition of a key.
    pub(crate) partitions: Option<(usize, Partition<K>)>,
}

/// What many operations write, in a cache line apart from what every operation reads: a write takes its line from the
/// other processors.
#[derive(Debug)]
#[repr(align(64))]
struct Apart<T>(T);

impl<T> Deref for Apart<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.0
    }
}

/// As aligned as its fields, so that the counts of its `Arc` have a line of their own too.
struct Inner<K, V> {
    shards: Locks<Shard<K, V>>,
    budget: Apart<Budget>,
    hasher: Hasher,
    settings: Settings<K, V>,
    /// Whether the options leave everything to the policy: see [`plain`].
    is_plain: bool,
    /// Whether any entry may have a deadline: if not, no operation reads the clock.
    timed: AtomicBool,
    /// Whether every shard may evict all of its entries, so that a write that waits finds room.
    evicts_all: AtomicBool,
    /// Held while that changes.
    changing_evictable: Mutex<()>,
    shared: Arc<Shared>,
    /// The last [search](room::Search) of all shards that has found nothing to evict.
    searched_in_vain: AtomicU64,
    /// The shard to evict from next when the weight exceeds the capacity.
    next_victim: AtomicUsize,
    /// Held by the write whose turn it is to wait for room.
    making_room: Mutex<()>,
    jitter_state: Apart<AtomicU64>,
}

/// The hash of a key and the index of its shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct KeyLocation {
    pub(crate) hash: u64,
    pub(crate) shard: usize,
}

impl<K, V> Settings<K, V> {
    /// Whether entries all weigh one, do not expire by default, and nobody is told of them.
    fn are_plain(&self) -> bool {
        self.weigher.is_none()
            && self.ttl_ms.is_none()
            && self.tti_ms.is_none()
            && self.listener.is_none()
            && self.loss_listener.is_none()
            && self.partitions.is_none()
    }
}

impl<K: Hash + Eq, V> Cache<K, V> {
    /// Starts the options of a cache.
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }

    pub(crate) fn new(settings: Settings<K, V>, hasher: Hasher) -> Self {
        let is_plain = settings.are_plain();
        let expected = expected_share(settings.expected, settings.shards);
        let weighed = settings.weigher.is_some();
        let partitions = settings.partitions;
        let policy = (settings.policy, settings.evictable);
        let shared = Arc::new(Shared::new(settings.capacity, settings.shards));
        let shard = |_| {
            let shared = Arc::clone(&shared);
            let mut shard =
                Shard::new(policy, shared, weighed, settings.tti_ms, expected, hasher, partitions);
            shard.loss_listener.clone_from(&settings.loss_listener);
            shard
        };
        Cache {
            inner: Arc::new(Inner {
                shards: Locks::new((0..settings.shards).map(shard)),
                budget: Apart(Budget::new(settings.capacity)),
                hasher,
                is_plain,
                timed: AtomicBool::new(settings.ttl_ms.is_some() || settings.tti_ms.is_some()),
                evicts_all: AtomicBool::new(settings.evictable == Evictable::All),
                changing_evictable: Mutex::new(()),
                shared,
                searched_in_vain: AtomicU64::new(room::NO_SEARCH),
                next_victim: AtomicUsize::new(0),
                making_room: Mutex::new(()),
                jitter_state: Apart(AtomicU64::new(0x9e37_79b9_7f4a_7c15)),
                settings,
            }),
        }
    }

    /// The value of `key`, cloned while its shard is locked: make `V` cheap to clone, an `Arc` for instance.
    #[inline]
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// Calls `f` with the value of `key` and returns its result. `f` runs while the shard is locked: it must be short.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    #[inline]
    pub fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        let now = self.now();
        self.lock(location).read(location.hash, key, now).map(|record| f(&record.value))
    }

    /// Calls `f` with the value of `key` and returns its result, if there is a value and `f` has a result for it. Only then it
    /// counts as a read: for a caller that loads the key else, which counts as one. `now` is a time that the caller has just read
    /// from [`Cache::clock`]. `f` runs while the shard is locked: it must be short.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    #[inline]
    pub fn get_if<Q, R>(&self, key: &Q, now: Duration, f: impl FnOnce(&V) -> Option<R>) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        self.lock(location).read_if(location.hash, key, now.as_millis() as u64, f)
    }

    /// Calls `f` with the entry of `key` and returns its result, without an effect on policy, time to idle or statistics.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    pub fn peek_with<Q, R>(&self, key: &Q, f: impl FnOnce(EntryRef<'_, K, V>) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        let now = self.now();
        let shard = self.lock(location);
        let id = shard.find_live(location.hash, key, now)?;
        Some(f(self.entry_ref(&shard, id)))
    }

    /// The value of `key`, without an effect on policy, time to idle or statistics.
    pub fn peek<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.peek_with(key, |entry| entry.value().clone())
    }

    /// Whether `key` has a live entry. No effect on policy or statistics.
    pub fn contains<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> bool {
        self.peek_with(key, |_| ()).is_some()
    }

    /// Stores a value with the time to live of the cache.
    pub fn insert(&self, key: K, value: V) -> Inserted<V> {
        self.insert_with_ttl(key, value, Ttl::Default)
    }

    /// Stores a value. A load of the key under way can no longer commit.
    ///
    /// Cost: one shard lock; evicts as many entries as the weight of the value needs.
    pub fn insert_with_ttl(&self, key: K, value: V, ttl: Ttl) -> Inserted<V> {
        let location = self.locate(&key);
        let (key, value) = if self.is_plain_insertion(ttl) {
            match self.insert_plain(location, key, value) {
                Ok(inserted) => return inserted,
                Err(pair) => pair,
            }
        } else {
            (key, value)
        };
        let mut removed = Removals::new(self);
        let write = Write::of(self, location, key, value, ttl, self.now_for(ttl));
        let mut shard = self.lock(location);
        shard.prefetch(location.hash);
        let voided = shard.flights.remove(location.hash, &write.record.key);
        let stored = self.store(&mut shard, write, &mut removed);
        drop(shard);
        drop(voided);
        // Before `removed` is dropped: if the listener panics for one of those, it has been told of the replaced value.
        match stored {
            Ok(None) => Inserted::New,
            Ok(Some(Record { key, value })) => {
                self.notify(&key, &value, Cause::Replaced);
                Inserted::Replaced(value)
            }
            Err((Record { value, .. }, reason)) => Inserted::Refused { value, reason },
        }
    }

    /// Removes the entry of `key` and returns its value. A load of the key under way can no longer commit.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        self.remove_if(key, |_| true)
    }

    /// As [`Cache::remove`], if `remove` returns true for the live entry, in one atomic step. It runs while the shard is
    /// locked: it must be short.
    ///
    /// A load of the key under way can no longer commit, unless `remove` returns false: the load has no value to judge.
    ///
    /// # Panics
    /// If `remove` calls the same cache. If it panics, the entry stays.
    pub fn remove_if<Q>(&self, key: &Q, remove: impl FnOnce(EntryRef<'_, K, V>) -> bool) -> Option<V>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let location = self.locate(key);
        let now = self.now();
        // Declared before the guard, so that it is dropped after the unlock.
        let _voided;
        let mut shard = self.lock(location);
        let id = shard.find(location.hash, key);
        let live = id.is_some_and(|id| shard.is_live(id, now));
        if let Some(id) = id.filter(|_| live)
            && !remove(self.entry_ref(&shard, id))
        {
            return None;
        }
        _voided = shard.flights.remove(location.hash, key);
        let cause = if live { Cause::Invalidated } else { Cause::Expired };
        let entry = shard.remove(id?, cause);
        drop(shard);
        self.inner.budget.release(entry.weight);
        self.notify(&entry.key, &entry.value, cause);
        live.then_some(entry.value)
    }

    /// Reads, decides and writes in one atomic step.
    ///
    /// `f` runs while the shard is locked, and so does the weigher on the value of an [`Op::Put`]: both must be short.
    /// A load of the key under way can no longer commit, unless `f` returns [`Op::Keep`].
    ///
    /// # Panics
    /// If `f` calls the same cache. If `f` panics, the entry is unchanged.
    pub fn compute<R>(
        &self,
        key: K,
        f: impl FnOnce(Option<EntryRef<'_, K, V>>) -> (Op<V>, R),
    ) -> Computed<R> {
        let mut removed = Removals::new(self);
        let location = self.locate(&key);
        let now = self.now_ms();
        // Declared before the guard, so that it is dropped after the unlock.
        let mut _voided = None;
        let mut shard = self.lock(location);
        let id = shard.find_live(location.hash, &key, now);
        let (op, result) = f(id.map(|id| self.entry_ref(&shard, id)));
        if !matches!(op, Op::Keep) {
            _voided = shard.flights.remove(location.hash, &key);
        }
        let decision = match op {
            Op::Keep => Decision::Keep,
            Op::Remove => Decision::Remove,
            Op::SetTtl(ttl) => Decision::SetTtl { ttl, now },
            Op::Put(value, ttl) => Decision::Put(Write::of(self, location, key, value, ttl, now)),
        };
        let applied = self.apply(&mut shard, id, decision, &mut removed);
        drop(shard);
        drop(removed);
        Computed { result, refused: applied.err().map(|(_, reason)| reason) }
    }

    /// Removes every entry for which `keep` returns false. `keep` runs under the lock of a shard, about 128 entries at a
    /// time; entries that are stored meanwhile may or may not be passed to it. Expired entries that are not reclaimed yet
    /// are passed. Loads under way can no longer commit, since they have no value yet that `keep` could judge.
    pub fn retain(&self, keep: impl FnMut(&K, &V) -> bool) {
        self.retain_from(0, usize::MAX, keep);
    }

    /// As [`Cache::retain`] for about `count` entries starting at `cursor`, for callers that have other work in between.
    /// Returns the cursor to continue with. Zero starts a walk and, when returned, ends it; every entry that exists from its
    /// first call to its last is passed to `keep`.
    pub fn retain_from(&self, cursor: u64, count: usize, mut keep: impl FnMut(&K, &V) -> bool) -> u64 {
        self.remove_from(cursor, count, |shard, ids, gone| {
            for &id in ids {
                let record = shard.record(id);
                if !keep(&record.key, &record.value) {
                    let entry = shard.remove(id, Cause::Purged);
                    gone.freed.add(entry.weight);
                    gone.entries.push(entry.key, entry.value, Cause::Purged);
                }
            }
        })
    }

    /// Removes all entries; loads under way can no longer commit.
    pub fn clear(&self) {
        self.retain(|_, _| false);
    }

    /// Removes all entries and returns the entries that had not expired. Loads under way can no longer commit.
    pub fn drain(&self) -> Vec<(K, V)> {
        let now = self.now();
        let mut drained = Drained { cache: self, entries: Vec::new() };
        self.remove_from(0, usize::MAX, |shard, ids, gone| {
            for &id in ids {
                let live = shard.is_live(id, now);
                let entry = shard.remove(id, if live { Cause::Purged } else { Cause::Expired });
                gone.freed.add(entry.weight);
                if live {
                    drained.entries.push((entry.key, entry.value));
                } else {
                    gone.entries.push(entry.key, entry.value, Cause::Expired);
                }
            }
        });
        drained.tell()
    }

    /// Clones of all live entries, in no order. Entries that stay throughout are returned exactly once; entries that are
    /// stored or removed meanwhile may or may not be returned.
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        K: Clone,
        V: Clone,
    {
        Iter::new(self)
    }

    /// Visits about `count` entries starting at `cursor` and returns the cursor to continue with. Zero starts a scan and,
    /// when returned, ends it. Entries that stay throughout are visited exactly once, whatever other operations run
    /// meanwhile.
    ///
    /// # Panics
    /// If `visit` calls the same cache.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(EntryRef<'_, K, V>)) -> u64 {
        let now = self.now();
        let (mut shard_index, mut from) = ((cursor >> 32) as usize, u64::from(rank(cursor)));
        let mut left = count.max(1);
        let mut slots = Vec::new();
        while shard_index < self.inner.shards.len() {
            let shard = self.inner.shards.lock(shard_index);
            from = shard.walk(from, left.min(ENTRIES_PER_LOCK), &mut slots);
            for &id in slots.iter().filter(|&&id| shard.is_live(id, now)) {
                visit(self.entry_ref(&shard, id));
            }
            left = left.saturating_sub(slots.len());
            if from == RANK_END {
                (shard_index, from) = (shard_index + 1, 0);
            }
            if left == 0 && shard_index < self.inner.shards.len() {
                return (shard_index as u64) << 32 | from;
            }
        }
        0
    }

    /// The bytes that the cache itself has allocated, without memory that keys and values own, and without loads under way.
    ///
    /// Cost: locks each shard in turn.
    pub fn bytes_allocated(&self) -> usize {
        self.inner.shards.each().map(|shard| shard.bytes_allocated()).sum()
    }

    /// The number of entries, including expired ones that are not reclaimed yet.
    pub fn len(&self) -> usize {
        self.inner.shards.each().map(|shard| shard.len()).sum()
    }

    /// Whether the cache is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The counters so far, and the present number and weight of the entries.
    pub fn stats(&self) -> Stats {
        let mut total = Stats { capacity: self.capacity(), weight: self.weight(), ..Stats::default() };
        self.inner.shards.each().for_each(|shard| total.add(&shard.stats()));
        total
    }

    /// The present counters of a partition.
    ///
    /// # Panics
    /// If there is no such [partition](crate::Builder::partitions).
    pub fn partition_stats(&self, index: usize) -> PartitionStats {
        let mut total = PartitionStats::default();
        for shard in self.inner.shards.each() {
            total.add(shard.partition_stats(index));
        }
        total
    }

    /// Reclaims expired entries, examining up to `budget` of them; returns how many it examined. Optional: writes reclaim
    /// expired entries too. Useful in idle time. A shard that another thread holds for longer than most operations take is
    /// skipped: the next call looks at it.
    pub fn run_due(&self, budget: usize) -> usize {
        let now = self.now();
        let mut looked_at = 0;
        for index in 0..self.inner.shards.len() {
            let mut removed = Removals::new(self);
            let mut freed = InHand::new(&self.inner.budget);
            let Some(mut shard) = self.inner.shards.lock_without_sleep(index) else { continue };
            let n = shard.reclaim(now, budget - looked_at, &mut freed, &mut removed);
            shard.shrink_if_empty();
            drop(shard);
            drop(freed);
            drop(removed);
            looked_at += n;
            if looked_at == budget {
                break;
            }
        }
        looked_at
    }

    /// The time on the cache's clock in milliseconds, the unit of [`Ttl::At`] and [`EntryRef::deadline_ms`].
    #[inline(never)]
    pub fn now_ms(&self) -> u64 {
        self.inner.settings.clock.now_ms()
    }

    /// The cache's clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.settings.clock
    }

    /// Walks the whole structure and panics if its parts do not agree. For tests and fuzzing.
    pub fn validate(&self) {
        let weight: u64 = self.inner.shards.each().map(|shard| shard.validate()).sum();
        let allowed = self.capacity() + self.inner.budget.excess();
        assert!(weight <= allowed, "{weight} is held, {allowed} is allowed");
    }

    /// Walks as [`Cache::validate`] while nobody else uses the cache: the entries weigh what is reserved.
    #[cfg(test)]
    pub(crate) fn validate_exactly(&self) {
        let weight: u64 = self.inner.shards.each().map(|shard| shard.validate()).sum();
        assert_eq!(weight, self.weight(), "what is reserved is the weight of the entries");
    }
}

/// The number of entries that a shard of a full cache will hold: its share and three standard deviations.
fn expected_share(expected: u64, shards: usize) -> usize {
    let share = expected as f64 / shards as f64;
    if shards == 1 { share as usize } else { (share + 3.0 * share.sqrt()) as usize }
}

impl<K, V> Clone for Cache<K, V> {
    fn clone(&self) -> Self {
        Cache { inner: self.inner.clone() }
    }
}

impl<K, V> std::fmt::Debug for Cache<K, V> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cache").field("capacity", &self.inner.budget.capacity()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The lines that a value lies in.
    fn lines<T>(value: &T) -> std::ops::RangeInclusive<usize> {
        let start = std::ptr::from_ref(value) as usize;
        start / 64..=(start + size_of::<T>() - 1) / 64
    }

    /// A write of one thread must not take from the others the line that each of their operations reads.
    #[test]
    fn fields_that_writes_change_share_no_line_with_those_that_reads_need() {
        let cache: Cache<u64, u64> = Cache::builder().entries(10).build().expect("valid options");
        let inner = &*cache.inner;
        // The counts of an `Arc` come before what it shares.
        let counts = inner as *const _ as usize / 64 - 1;
        let changed = [lines(&inner.budget), lines(&inner.jitter_state), counts..=counts];
        let read = [lines(&inner.shards), lines(&inner.hasher), lines(&inner.settings), lines(&inner.timed)];
        for changed in changed {
            assert!(read.iter().all(|read| changed.start() > read.end() || read.start() > changed.end()));
        }
        assert_eq!(std::ptr::from_ref(inner) as usize % 64, 0, "the counts are in another line");
    }
}
