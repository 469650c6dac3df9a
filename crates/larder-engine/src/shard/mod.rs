//! One shard, guarded by one lock: a table that maps hashes to slots, a record and optional deadlines for each slot, the
//! queues of the policy, and the loads under way. The only user code that runs here is `Eq` and `Hash` of keys, the function
//! of partitions, and the listener of losses.
//!
//! ```text
//! hash ──► table ──► slot ─┬─► records[slot]   key, value
//!          mark            ├─► slots[slot]     index in a queue of the policy; weight
//!                          └─► timing[slot]    deadline, last use; only in caches whose entries expire
//! ```
//!
//! `docs/engine-design.md` has the ledger of bytes.

pub(crate) mod budget;
mod memory;
mod misses;
mod partitions;
mod plain;
mod prefetch;
mod queued;
mod removed;
mod shared;
mod timing;
mod validate;
mod victims;

use self::misses::MissLog;
pub(crate) use self::partitions::Partition;
use self::partitions::Partitions;
pub(crate) use self::removed::{LossListener, RemovedEntries, RemovedEntry};
pub(crate) use self::shared::Shared;
use self::timing::Timing;
use crate::entry::Cause;
use crate::layout::queue::Queued;
use crate::layout::records::{Record, Records};
use crate::layout::slots::Slots;
use crate::layout::table::{Growth, RANK_END, Table, rank};
use crate::load::flights::Flights;
use crate::policy::{Evictable, Hits, MAX_HITS, OnHit, Policy, Queues, with_one_more_hit};
use crate::shard::budget::InHand;
use crate::stats::{PartitionStats, Stats};
use crate::time::expiry::Wheel;
use crate::time::timestamps::NEVER;
use hashbrown::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// The hasher of the keys of a cache. The fast variant of it maps consecutive integers to equal steps, and in a few of a
/// hundred processes, which differ by their seeds, these steps share few groups and tags.
pub(crate) type Hasher = rapidhash::quality::RandomState;

/// The fields that a hit reads come first, so that they lie in two cache lines; what it writes, in the line of the lock.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Shard<K, V> {
    hits: Hits,
    table: Table,
    records: Records<K, V>,
    /// Allocated when the first entry gets a deadline.
    timing: Option<Box<Timing>>,
    on_hit: OnHit,
    /// Whether a hit only raises a count: no deadlines, and a policy that reads the counts.
    counts_only: bool,
    slots: Slots,
    queues: Queues,
    policy: Policy,
    evictable: Evictable,
    shared: Arc<Shared>,
    /// The surplus of the entries that the policy has.
    surplus: u64,
    tti_ms: Option<u64>,
    hasher: Hasher,
    /// The number of entries that this shard is expected to hold when the cache is full.
    expected: usize,
    partitions: Option<Partitions<K>>,
    pub(crate) flights: Flights<K, V>,
    misses: MissLog,
    pub(crate) stats: Stats,
    pub(crate) loss_listener: Option<LossListener<K>>,
}

/// Where the count of hits ends in a shard.
#[cfg(test)]
pub(crate) const HITS_END: usize = std::mem::offset_of!(Shard<u64, u64>, hits) + size_of::<Hits>();

impl<K: Hash + Eq, V> Shard<K, V> {
    pub(crate) fn new(
        (policy, evictable): (Policy, Evictable),
        shared: Arc<Shared>,
        weighed: bool,
        tti_ms: Option<u64>,
        expected: usize,
        hasher: Hasher,
        partitions: Option<(usize, Partition<K>)>,
    ) -> Self {
        let queues = Queues::new(policy);
        let table = Table::new(Growth::of(weighed));
        let slots = table.slots();
        Shard {
            records: Records::new(slots),
            table,
            hits: Hits::default(),
            timing: None,
            on_hit: queues.on_hit(),
            counts_only: queues.on_hit() == OnHit::Count,
            slots: Slots::new(slots, weighed),
            queues,
            policy,
            evictable,
            shared,
            surplus: 0,
            tti_ms,
            hasher,
            expected,
            partitions: partitions.map(|(count, partition)| Partitions::new(count, partition)),
            flights: Flights::new(),
            misses: MissLog::new(expected),
            stats: Stats::default(),
            loss_listener: None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.table.len()
    }

    /// How many slots there are.
    pub(crate) fn slots(&self) -> u32 {
        self.table.slots()
    }

    #[inline]
    pub(crate) fn is_used(&self, id: u32) -> bool {
        self.table.is_used(id)
    }

    /// The record of a slot in use.
    ///
    /// # Panics
    /// If the slot is not in use.
    pub(crate) fn record(&self, id: u32) -> &Record<K, V> {
        assert!(self.is_used(id), "slot {id} is not in use");
        // SAFETY: a slot in use holds a record: `insert` and `remove` change both together.
        unsafe { self.records.get(id) }
    }

    /// Mutable access to the record of a slot in use. Its key must stay equal.
    ///
    /// # Panics
    /// If the slot is not in use.
    pub(crate) fn record_mut(&mut self, id: u32) -> &mut Record<K, V> {
        assert!(self.is_used(id), "slot {id} is not in use");
        // SAFETY: as in `record`.
        unsafe { self.records.get_mut(id) }
    }

    pub(crate) fn weight(&self, id: u32) -> u64 {
        self.slots.weight(id)
    }

    /// The hits that the policy has counted since it last looked at the entry.
    pub(crate) fn hits(&self, id: u32) -> u8 {
        self.table.mark(id) & MAX_HITS
    }

    /// # Panics
    /// If there is no such partition.
    pub(crate) fn partition_stats(&self, index: usize) -> PartitionStats {
        self.partitions.as_ref().expect("the cache has partitions").get(index)
    }

    fn hash_of(&self, id: u32) -> u64 {
        self.hasher.hash_one(&self.record(id).key)
    }

    /// The end of an entry's time to live, or `NEVER`.
    pub(crate) fn deadline(&self, id: u32) -> u64 {
        self.timing.as_ref().map_or(NEVER, |timing| timing.deadlines.get(id))
    }

    fn has_deadline(&self, id: u32) -> bool {
        self.deadline(id) < NEVER
    }

    /// The slot of `key`, expired or not.
    #[inline]
    pub(crate) fn find<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<u32> {
        self.prefetch_home_records(hash);
        // SAFETY: the table yields slots in use only, and those hold a record.
        self.table.find(hash, |id| key.equivalent(unsafe { &self.records.get(id).key }))
    }

    /// The slot of `key` if it can be read at `now`.
    #[inline]
    pub(crate) fn find_live<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q, now: u64) -> Option<u32> {
        self.find(hash, key).filter(|&id| self.is_live(id, now))
    }

    #[inline]
    pub(crate) fn is_live(&self, id: u32, now: u64) -> bool {
        self.timing.as_ref().is_none_or(|timing| timing.due(id) > now)
    }

    /// A read that counts as a hit or miss and as a use.
    #[inline]
    pub(crate) fn read<Q>(&mut self, hash: u64, key: &Q, now: u64) -> Option<&Record<K, V>>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let Some(id) = self.find(hash, key) else { return self.record_miss(hash, false) };
        if !self.counts_only && !self.record_use(id, now) {
            return self.record_miss(hash, true);
        }
        let mark = self.table.mark(id);
        self.hits.count(mark);
        if self.counts_only {
            self.count_hit(id, mark);
        }
        // SAFETY: the table gave out the slot, so it is in use.
        Some(unsafe { self.records.get(id) })
    }

    /// A read that counts as a hit and as a use where `f` has a result; it counts as nothing where it has none.
    #[inline]
    pub(crate) fn read_if<Q, R>(
        &mut self,
        hash: u64,
        key: &Q,
        now: u64,
        f: impl FnOnce(&V) -> Option<R>,
    ) -> Option<R>
    where
        Q: Equivalent<K> + ?Sized,
    {
        let id = self.find_live(hash, key, now)?;
        // SAFETY: the table gave out the slot, so it is in use.
        let result = f(unsafe { &self.records.get(id).value })?;
        if !self.counts_only {
            self.touch(id, now);
        }
        self.hits.count(self.table.mark(id));
        self.record_hit(id);
        Some(result)
    }

    #[cold]
    fn record_miss(&mut self, hash: u64, has_expired: bool) -> Option<&Record<K, V>> {
        self.stats.misses += 1;
        self.misses.missed(rank(hash), has_expired);
        None
    }

    /// Updates time to idle and policy for a hit. Returns false if the entry has expired.
    #[inline(never)]
    fn record_use(&mut self, id: u32, now: u64) -> bool {
        let live = self.is_live(id, now);
        if live {
            self.touch(id, now);
            self.record_hit(id);
        }
        live
    }

    fn touch(&mut self, id: u32, now: u64) {
        if let Some(timing) = &mut self.timing {
            timing.touch(id, now);
        }
    }

    /// Records that an entry was changed in place.
    pub(crate) fn record_edit(&mut self, id: u32) {
        self.record_hit(id);
        self.stats.inserts += 1;
        self.stats.replaced += 1;
    }

    /// Updates the policy for a hit.
    fn record_hit(&mut self, id: u32) {
        match self.on_hit {
            OnHit::Nothing => {}
            OnHit::Count => self.count_hit(id, self.table.mark(id)),
            OnHit::Tell if self.is_queued(id, self.slots.weight(id)) => self.queues.hit(&mut self.slots, id),
            OnHit::Tell => {}
        }
    }

    #[inline]
    fn count_hit(&mut self, id: u32, mark: u8) {
        // Most hits are on entries whose count is saturated: then nothing is written.
        if with_one_more_hit(mark) != mark {
            self.table.set_mark(id, with_one_more_hit(mark));
        }
    }

    /// Panics if there is no partition for a key: before weight is reserved for its entry.
    #[inline]
    pub(crate) fn check_partition(&self, key: &K) {
        if let Some(partitions) = &self.partitions {
            partitions.check(key);
        }
    }

    /// Stores an entry for a key that has none, with the weight that is in hand. Other entries may move to other slots. If the
    /// hash of one of them panics, nothing is stored.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        record: Record<K, V>,
        (weight, room): (u64, InHand<'_>),
        deadline: u64,
        now: u64,
    ) {
        if let Some(groups) = self.table.growth_target(self.expected) {
            self.grow(groups, now);
        }
        if let Some(partitions) = &mut self.partitions {
            partitions.inserted(&record.key);
        }
        let id = self.table.allocate(hash);
        self.records.write(id, record);
        self.slots.set_weight(id, weight);
        room.keep(weight);
        self.enqueue(Queued { slot: id, rank: rank(hash) }, weight);
        self.set_deadline(id, Some(hash), deadline, now);
        self.stats.inserts += 1;
    }

    /// Replaces the record of a slot by one of the same key, which has this hash. The difference of the weights is already
    /// reserved or released, so no code of the key runs before the slot has the new weight.
    pub(crate) fn replace(
        &mut self,
        id: u32,
        hash: u64,
        record: Record<K, V>,
        weight: u64,
        deadline: u64,
        now: u64,
    ) -> Record<K, V> {
        self.set_weight_of(Queued { slot: id, rank: rank(hash) }, weight);
        self.record_edit(id);
        self.set_deadline(id, Some(hash), deadline, now);
        std::mem::replace(self.record_mut(id), record)
    }

    /// Without the hash of the key it is computed where it is needed.
    #[inline]
    pub(crate) fn set_deadline(&mut self, id: u32, hash: Option<u64>, deadline: u64, now: u64) {
        if self.timing.is_some() || deadline < NEVER || self.tti_ms.is_some() {
            self.store_deadline(id, hash, deadline, now);
        }
    }

    fn store_deadline(&mut self, id: u32, hash: Option<u64>, deadline: u64, now: u64) {
        if self.evictable.is_timed() && self.has_deadline(id) != (deadline < NEVER) {
            self.change_deadline_and_queue(id, hash, deadline, now);
        } else {
            self.write_deadline(id, deadline, now);
        }
    }

    /// An entry gets a deadline, or loses it, and with it its place in the queues.
    fn change_deadline_and_queue(&mut self, id: u32, hash: Option<u64>, deadline: u64, now: u64) {
        let hash = hash.unwrap_or_else(|| self.hash_of(id));
        let (entry, weight) = (Queued { slot: id, rank: rank(hash) }, self.weight(id));
        self.dequeue(entry, weight);
        self.write_deadline(id, deadline, now);
        self.enqueue(entry, weight);
    }

    fn write_deadline(&mut self, id: u32, deadline: u64, now: u64) {
        let timing = self.timing.get_or_insert_with(|| {
            self.counts_only = false;
            Box::new(Timing::new(self.table.slots(), self.tti_ms, now))
        });
        let had_deadline = timing.deadlines.get(id) < NEVER;
        timing.deadlines.set(id, deadline);
        let has_deadline = timing.deadlines.get(id) < NEVER;
        timing.touch(id, now);
        timing.register(id);
        if timing.wheel.needs_rebuild() {
            timing.wheel = Wheel::new(self.table.slots(), now);
            self.register_all();
        }
        if let Some(partitions) = &mut self.partitions
            && had_deadline != has_deadline
        {
            assert!(self.table.is_used(id), "slot {id} is not in use");
            // SAFETY: a slot in use holds a record.
            partitions.deadline_changed(unsafe { &self.records.get(id).key }, has_deadline);
        }
    }

    /// Registers all entries in a new wheel. The cost is amortized over the writes that left stale registrations.
    fn register_all(&mut self) {
        let Some(timing) = &mut self.timing else { return };
        self.table.used().for_each(|id| timing.register(id));
    }

    /// Removes an entry and counts it under its cause. The caller releases its weight.
    pub(crate) fn remove(&mut self, id: u32, cause: Cause) -> RemovedEntry<K, V> {
        self.remove_entry(Queued { slot: id, rank: rank(self.hash_of(id)) }, cause)
    }

    fn remove_entry(&mut self, entry: Queued, cause: Cause) -> RemovedEntry<K, V> {
        let id = entry.slot;
        if let Some(listener) = self.loss_listener.as_ref().filter(|_| cause.is_loss()) {
            listener.tell(&self.record(id).key, cause);
        }
        assert!(self.is_used(id), "slot {id} is not in use");
        let had_deadline = self.has_deadline(id);
        // Before anything is changed, because it may panic.
        if let Some(partitions) = &mut self.partitions {
            // SAFETY: a slot in use holds a record.
            partitions.removed(unsafe { &self.records.get(id).key }, had_deadline);
        }
        let weight = self.slots.weight(id);
        self.dequeue(entry, weight);
        if let Some(timing) = &mut self.timing {
            timing.forget(id);
        }
        self.table.release(entry.rank, id);
        // SAFETY: the slot was in use until the line above, so it holds a record, and it is not in use any more.
        let Record { key, value } = unsafe { self.records.take(id) };
        self.misses.removed(entry.rank, cause);
        match cause {
            Cause::Expired => self.stats.expired += 1,
            Cause::Evicted => self.stats.evicted += 1,
            Cause::Invalidated => self.stats.invalidated += 1,
            Cause::Purged => self.stats.purged += 1,
            Cause::Replaced => self.stats.replaced += 1,
        }
        RemovedEntry { key, value, weight }
    }

    /// Finds the slots of at least `count` entries of rank `from` or above, if there are that many, and returns the rank at
    /// which to continue. A walk up to `RANK_END` finds each entry that stays throughout exactly once, even if the table
    /// grows in between.
    pub(crate) fn walk(&self, mut from: u64, count: usize, found: &mut Vec<u32>) -> u64 {
        found.clear();
        while from < RANK_END && found.len() < count {
            let begin = found.len();
            let next = self.table.visit_home(from, |id| found.push(id));
            let mut kept = begin;
            for at in begin..found.len() {
                if (from..next).contains(&rank(self.hash_of(found[at])).into()) {
                    found[kept] = found[at];
                    kept += 1;
                }
            }
            found.truncate(kept);
            from = next;
        }
        from
    }

    /// Whether any entry was ever given a deadline.
    #[inline]
    pub(crate) fn is_timed(&self) -> bool {
        self.timing.is_some()
    }

    /// Examines up to `most` entries that may be due and removes those that are. Returns how many it examined.
    pub(crate) fn reclaim(
        &mut self,
        now: u64,
        most: usize,
        freed: &mut InHand<'_>,
        removed: &mut RemovedEntries<K, V>,
    ) -> usize {
        for examined in 0..most {
            let Some(timing) = &mut self.timing else { return examined };
            let Some(id) = timing.next_leaving(now) else { return examined };
            if timing.due(id) > now {
                timing.register(id);
                continue;
            }
            let entry = self.remove(id, Cause::Expired);
            freed.add(entry.weight);
            removed.push(entry.key, entry.value, Cause::Expired);
        }
        most
    }

    /// The counters so far and the number of entries.
    pub(crate) fn stats(&self) -> Stats {
        let (hits, entries) = (self.stats.hits + self.hits.sum(), self.len() as u64);
        Stats { hits, entries, miss_causes: self.misses.causes(), ..self.stats }
    }
}

impl<K, V> Drop for Shard<K, V> {
    fn drop(&mut self) {
        for id in self.table.used() {
            // SAFETY: a slot in use holds a record, and it is not read again.
            drop(unsafe { self.records.take(id) });
        }
    }
}
