//! One shard: what one lock guards. An index from hashes to slots, a record, a mark and perhaps deadlines for each slot,
//! the policy's queues, and the loads that are under way. No user code runs here but `Eq` and `Hash` of keys.
//!
//! ```text
//! hash ──► index ──► id ─┬─► records[id]   key, value
//!     mark               ├─► slots[id]     link, in which the policy keeps its queues; weight
//!                        └─► timing[id]    deadline, last use; only in caches whose entries expire
//! ```
//!
//! Bytes per entry beside key and value: 7.1 in the index, 8 in the slots, 4 in the policy's sketch: 19. With expiry
//! 12 more as filled and up to 17 while the wheel is littered, with time to idle 6 more, with weights 8 more.

use crate::entry::Cause;
use crate::expiry::{Moments, NEVER, Wheel};
use crate::index::{Index, Position};
use crate::load::Flight;
use crate::policy::{Entries, Evict, Policy, Queues};
use crate::records::{Record, Records};
use crate::slots::Slots;
use crate::stats::Stats;
use hashbrown::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;

/// What hashes the keys of a cache.
pub(crate) type Hasher = rapidhash::fast::RandomState;

#[derive(Debug)]
pub(crate) struct Shard<K, V> {
    index: Index,
    records: Records<K, V>,
    slots: Slots,
    queues: Queues,
    /// Made when the first entry gets a deadline.
    timing: Option<Box<Timing>>,
    tti_ms: Option<u64>,
    hasher: Hasher,
    /// How many entries this shard is expected to hold in the end.
    expected: usize,
    /// The loads under way, by hash. A shard has few at a time, so a list that is walked is the smallest table.
    flights: Vec<(u64, K, Arc<Flight<V>>)>,
    pub(crate) stats: Stats,
}

/// When the entries of a shard are due.
#[derive(Debug)]
struct Timing {
    /// When the time to live is over.
    deadlines: Moments,
    /// When an entry was last read or written; kept only in caches with a time to idle.
    used_at: Moments,
    wheel: Wheel,
}

/// An entry that has left its slot.
#[derive(Debug)]
pub(crate) struct Left<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
    pub(crate) weight: u64,
}

/// Entries that have left their shard and wait for its lock to be released, to be shown to the listener and dropped. The
/// first is kept without an allocation: most operations make one leave at most.
#[derive(Debug)]
pub(crate) struct Departed<K, V> {
    first: Option<(K, V, Cause)>,
    more: Vec<(K, V, Cause)>,
}

impl<K, V> Departed<K, V> {
    pub(crate) fn new() -> Self {
        Departed { first: None, more: Vec::new() }
    }

    pub(crate) fn push(&mut self, key: K, value: V, cause: Cause) {
        if self.first.is_none() {
            self.first = Some((key, value, cause));
        } else {
            self.more.push((key, value, cause));
        }
    }

    pub(crate) fn into_iter(self) -> impl Iterator<Item = (K, V, Cause)> {
        self.first.into_iter().chain(self.more)
    }
}

/// What the policy may ask about entries.
struct View<'a, K, V> {
    index: &'a mut Index,
    records: &'a Records<K, V>,
    timing: Option<&'a Timing>,
    tti_ms: Option<u64>,
    hasher: &'a Hasher,
    now: u64,
}

impl<K: Hash, V> Entries for View<'_, K, V> {
    fn hash(&self, id: u32) -> u64 {
        // SAFETY: the policy asks about entries that are on its queues, and those are in use.
        self.hasher.hash_one(unsafe { &self.records.get(id).key })
    }

    fn is_due(&self, id: u32) -> bool {
        self.timing.is_some_and(|timing| timing.due(id, self.tti_ms) <= self.now)
    }

    fn mark(&self, id: u32) -> u8 {
        self.index.mark(self.index.position(self.hash(id), id))
    }

    fn set_mark(&mut self, id: u32, mark: u8) {
        self.index.set_mark(self.index.position(self.hash(id), id), mark);
    }

    fn foresee(&self, id: u32) -> u64 {
        let hash = self.hash(id);
        self.index.foresee(hash);
        hash
    }
}

impl Timing {
    fn due(&self, id: u32, tti_ms: Option<u64>) -> u64 {
        let deadline = self.deadlines.get(id);
        tti_ms.map_or(deadline, |tti| deadline.min(self.used_at.get(id).saturating_add(tti)))
    }
}

impl<K: Hash + Eq, V> Shard<K, V> {
    pub(crate) fn new(
        policy: Policy,
        weighed: bool,
        tti_ms: Option<u64>,
        expected: usize,
        hasher: Hasher,
    ) -> Self {
        Shard {
            index: Index::new(expected),
            records: Records::new(),
            slots: Slots::new(weighed),
            queues: Queues::new(policy),
            timing: None,
            tti_ms,
            hasher,
            expected,
            flights: Vec::new(),
            stats: Stats::default(),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.slots.len()
    }

    /// One more than the highest slot ever in use.
    pub(crate) fn end(&self) -> u32 {
        self.slots.end()
    }

    #[inline]
    pub(crate) fn is_used(&self, id: u32) -> bool {
        self.slots.is_used(id)
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

    pub(crate) fn weight(&self, id: u32) -> u64 {
        self.slots.weight(id)
    }

    fn hash_of(&self, id: u32) -> u64 {
        self.hasher.hash_one(&self.record(id).key)
    }

    /// The end of an entry's time to live, or `NEVER`.
    pub(crate) fn deadline(&self, id: u32) -> u64 {
        self.timing.as_ref().map_or(NEVER, |timing| timing.deadlines.get(id))
    }

    /// The slot of `key`, whether or not its time is over, and where the index has it.
    #[inline]
    fn look_up<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<(u32, Position)> {
        // SAFETY: the index holds slots in use only, and those hold a record.
        self.index.find(hash, |id| key.equivalent(unsafe { &self.records.get(id).key }))
    }

    /// The slot of `key`, whether or not its time is over.
    pub(crate) fn find<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<u32> {
        self.look_up(hash, key).map(|(id, _)| id)
    }

    /// The slot of `key` if it can be read at `now`.
    #[inline]
    pub(crate) fn find_live<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q, now: u64) -> Option<u32> {
        self.find(hash, key).filter(|&id| self.is_live(id, now))
    }

    #[inline]
    pub(crate) fn is_live(&self, id: u32, now: u64) -> bool {
        self.timing.as_ref().is_none_or(|timing| timing.due(id, self.tti_ms) > now)
    }

    /// A counted read, which the policy hears of.
    #[inline]
    pub(crate) fn read<Q: Equivalent<K> + ?Sized>(&mut self, hash: u64, key: &Q, now: u64) -> Option<&V> {
        let Some((id, at)) = self.look_up(hash, key).filter(|&(id, _)| self.is_live(id, now)) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.note_hit(id, at);
        if self.tti_ms.is_some() {
            self.touch(id, now);
        }
        // SAFETY: the index gave out the slot, so it is in use.
        Some(unsafe { &self.records.get(id).value })
    }

    /// A value is about to be stored under this hash: asks for what that will need.
    pub(crate) fn foresee(&self, hash: u64) {
        self.index.foresee(hash);
        self.queues.foresee(hash);
    }

    /// Tells the policy of a hit.
    #[inline]
    fn note_hit(&mut self, id: u32, at: Position) {
        let before = self.index.mark(at);
        let after = self.queues.hit(&mut self.slots, id, before);
        // Most hits are on entries that have had many: nothing is written for those.
        if after != before {
            self.index.set_mark(at, after);
        }
    }

    /// Stores an entry of a key that has none. Its weight has been taken from the budget.
    pub(crate) fn insert(
        &mut self,
        hash: u64,
        key: K,
        value: V,
        weight: u64,
        deadline: u64,
        now: u64,
    ) -> u32 {
        let id = self.slots.take(weight, self.expected);
        self.records.write(id, Record { key, value }, self.expected);
        let mark = self.queues.insert(&mut self.slots, id, hash);
        let (records, hasher) = (&self.records, &self.hasher);
        // SAFETY: the index asks about the slots that it holds, which are in use.
        self.index.insert(hash, id, mark, |id| hasher.hash_one(unsafe { &records.get(id).key }));
        self.set_deadline(id, deadline, now);
        self.stats.inserts += 1;
        id
    }

    /// Stores another value in a slot. The difference of the weights has been settled with the budget.
    pub(crate) fn replace(&mut self, id: u32, value: V, weight: u64, deadline: u64, now: u64) -> V {
        let former = self.slots.weight(id);
        self.slots.set_weight(id, weight);
        let at = self.index.position(self.hash_of(id), id);
        self.queues.reweigh(self.index.mark(at), former, weight);
        self.note_hit(id, at);
        self.set_deadline(id, deadline, now);
        self.stats.inserts += 1;
        self.stats.replaced += 1;
        assert!(self.is_used(id), "slot {id} is not in use");
        // SAFETY: a slot in use holds a record.
        std::mem::replace(unsafe { &mut self.records.get_mut(id).value }, value)
    }

    pub(crate) fn set_deadline(&mut self, id: u32, deadline: u64, now: u64) {
        if self.timing.is_none() {
            if deadline >= NEVER && self.tti_ms.is_none() {
                return;
            }
            let (deadlines, used_at, wheel) = (Moments::default(), Moments::default(), Wheel::new(now));
            self.timing = Some(Box::new(Timing { deadlines, used_at, wheel }));
        }
        let Some(timing) = &mut self.timing else { return };
        timing.deadlines.set(id, deadline);
        if self.tti_ms.is_some() {
            timing.used_at.set(id, now);
        }
        timing.wheel.register(id, timing.due(id, self.tti_ms));
        if timing.wheel.is_littered() {
            self.renew_wheel(now);
        }
    }

    /// Registers all entries in a new wheel. Amortized over the writes that littered the old one.
    fn renew_wheel(&mut self, now: u64) {
        let Some(timing) = &mut self.timing else { return };
        timing.wheel = Wheel::new(now);
        for id in (0..self.slots.end()).filter(|&id| self.slots.is_used(id)) {
            timing.wheel.register(id, timing.due(id, self.tti_ms));
        }
    }

    fn touch(&mut self, id: u32, now: u64) {
        if let Some(timing) = &mut self.timing {
            timing.used_at.set(id, now);
        }
    }

    /// Takes an entry out, counted under its cause. Its weight is the caller's to give back.
    pub(crate) fn remove(&mut self, id: u32, cause: Cause) -> Left<K, V> {
        let hash = self.hash_of(id);
        let weight = self.slots.weight(id);
        let at = self.index.position(hash, id);
        let mark = self.index.mark(at);
        self.index.remove(hash, at);
        self.queues.remove(&mut self.slots, id, hash, mark);
        if let Some(timing) = &mut self.timing {
            timing.wheel.forget(id);
        }
        self.slots.release(id);
        // SAFETY: the slot was in use until the line above, so it holds a record; now it does not any more.
        let Record { key, value } = unsafe { self.records.take(id) };
        match cause {
            Cause::Expired => self.stats.expired += 1,
            Cause::Evicted => self.stats.evicted += 1,
            Cause::Invalidated => self.stats.invalidated += 1,
            Cause::Purged => self.stats.purged += 1,
            Cause::Replaced => self.stats.replaced += 1,
        }
        Left { key, value, weight }
    }

    /// Evicts the policy's next victim to make room for `incoming`; its weight is the caller's to give back.
    pub(crate) fn evict(
        &mut self,
        incoming: u64,
        keep: Option<u32>,
        now: u64,
        departed: &mut Departed<K, V>,
    ) -> Option<u64> {
        let mut view = View {
            index: &mut self.index,
            records: &self.records,
            timing: self.timing.as_deref(),
            tti_ms: self.tti_ms,
            hasher: &self.hasher,
            now,
        };
        let id = self.queues.victim(&mut self.slots, &mut view, incoming, keep)?;
        let cause = if self.is_live(id, now) { Cause::Evicted } else { Cause::Expired };
        let left = self.remove(id, cause);
        departed.push(left.key, left.value, cause);
        Some(left.weight)
    }

    /// Looks at up to `budget` entries that may be due and removes those that are; returns at how many it looked and the
    /// weight that is the caller's to give back.
    pub(crate) fn reclaim(&mut self, now: u64, budget: usize, departed: &mut Departed<K, V>) -> (usize, u64) {
        let mut freed = 0;
        for looked_at in 0..budget {
            let Some(timing) = &mut self.timing else { return (looked_at, freed) };
            let Some(id) = timing.wheel.next(now) else { return (looked_at, freed) };
            let due = timing.due(id, self.tti_ms);
            if due > now {
                timing.wheel.register(id, due);
                continue;
            }
            let left = self.remove(id, Cause::Expired);
            freed += left.weight;
            departed.push(left.key, left.value, Cause::Expired);
        }
        (budget, freed)
    }

    /// The load of `key` that is under way, if there is one.
    pub(crate) fn flight<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<&Arc<Flight<V>>> {
        let same = |(of, candidate, _): &&(u64, K, _)| *of == hash && key.equivalent(candidate);
        self.flights.iter().find(same).map(|(_, _, flight)| flight)
    }

    pub(crate) fn begin_flight(&mut self, hash: u64, key: K, flight: Arc<Flight<V>>) {
        self.flights.push((hash, key, flight));
    }

    /// Takes this very load out of the table; false if it had been voided.
    pub(crate) fn end_flight(&mut self, flight: &Arc<Flight<V>>) -> bool {
        let position = self.flights.iter().position(|(_, _, other)| Arc::ptr_eq(other, flight));
        position.map(|at| self.flights.swap_remove(at)).is_some()
    }

    /// Makes the load of `key` unable to commit, because the key has changed since the load began.
    #[inline]
    pub(crate) fn void_flight<Q: Equivalent<K> + ?Sized>(&mut self, hash: u64, key: &Q) {
        if !self.flights.is_empty() {
            self.flights.retain(|(of, other, _)| *of != hash || !key.equivalent(other));
        }
    }

    pub(crate) fn void_flights(&mut self) {
        self.flights.clear();
    }

    /// Walks the whole structure and checks that its parts agree; returns the sum of the weights.
    pub(crate) fn validate(&self) -> u64 {
        let used: Vec<u32> = (0..self.end()).filter(|&id| self.is_used(id)).collect();
        assert_eq!(used.len(), self.len(), "as many slots are in use as are counted");
        assert_eq!(self.index.len(), self.len(), "each slot in use is indexed once");
        for &id in &used {
            let key = &self.record(id).key;
            assert_eq!(self.find(self.hash_of(id), key), Some(id), "the index leads to the slot");
        }
        let mut queued = self.queues.walk(&self.slots);
        queued.sort_unstable();
        assert_eq!(queued, used, "the policy knows each entry once");
        if let Some(timing) = &self.timing {
            let timed: Vec<u32> =
                used.iter().copied().filter(|&id| timing.due(id, self.tti_ms) < NEVER).collect();
            assert!(timed.iter().all(|&id| timing.wheel.knows(id)), "each deadline is registered");
            assert_eq!(timing.wheel.valid(), timed.len(), "nothing else is registered");
        }
        used.iter().map(|&id| self.weight(id)).sum()
    }
}

impl<K, V> Drop for Shard<K, V> {
    fn drop(&mut self) {
        for id in (0..self.slots.end()).filter(|&id| self.slots.is_used(id)) {
            // SAFETY: a slot in use holds a record, and nobody looks at it again.
            drop(unsafe { self.records.take(id) });
        }
    }
}
