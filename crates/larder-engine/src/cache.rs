//! The cache: picks the shard, reads the clock, keeps the budget, and lets user code run only where it may.

use crate::budget::Budget;
use crate::builder::{Builder, Listener, Weigher};
use crate::clock::Clock;
use crate::entry::{Cause, Computed, EntryRef, Inserted, Op, Refusal, Ttl};
use crate::expiry::NEVER;
use crate::iter::Iter;
use crate::lock::{ShardGuard, ShardLock};
use crate::policy::Policy;
use crate::shard::{Departed, Hasher, Shard};
use crate::stats::Stats;
use hashbrown::Equivalent;
use parking_lot::Mutex;
use std::hash::{BuildHasher, Hash};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// How many registrations of expired entries a write looks at in its shard.
const RECLAIM_PER_WRITE: usize = 4;
/// How many slots are visited under one hold of a shard's lock.
pub(crate) const SLOTS_PER_HOLD: u32 = 128;
/// How often a write looks for room in the other shards before it gives up.
const STEAL_ROUNDS: usize = 64;

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
    pub(crate) shards: usize,
    /// How many entries are expected when the cache is full.
    pub(crate) expected: u64,
    pub(crate) clock: Clock,
    pub(crate) weigher: Option<Weigher<K, V>>,
    pub(crate) listener: Option<Listener<K, V>>,
}

struct Inner<K, V> {
    shards: Box<[ShardLock<Shard<K, V>>]>,
    budget: Budget,
    hasher: Hasher,
    settings: Settings<K, V>,
    /// Whether any entry may have a deadline: without, no operation reads the clock.
    timed: AtomicBool,
    /// One change of the capacity at a time.
    resizing: Mutex<()>,
    jitter_state: AtomicU64,
}

/// The hash of a key and the shard that it leads to.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub(crate) hash: u64,
    pub(crate) shard: usize,
}

impl<K: Hash + Eq, V> Cache<K, V> {
    /// Starts the options of a cache.
    pub fn builder() -> Builder<K, V> {
        Builder::new()
    }

    pub(crate) fn new(settings: Settings<K, V>) -> Self {
        let hasher = Hasher::new();
        let expected = expected_share(settings.expected, settings.shards);
        let weighed = settings.weigher.is_some();
        let shard =
            |_| ShardLock::new(Shard::new(settings.policy, weighed, settings.tti_ms, expected, hasher));
        Cache {
            inner: Arc::new(Inner {
                shards: (0..settings.shards).map(shard).collect(),
                budget: Budget::new(settings.capacity),
                hasher,
                timed: AtomicBool::new(settings.ttl_ms.is_some() || settings.tti_ms.is_some()),
                resizing: Mutex::new(()),
                jitter_state: AtomicU64::new(0x9e37_79b9_7f4a_7c15),
                settings,
            }),
        }
    }

    /// The value of `key`, cloned while its shard is locked: make `V` cheap to clone, an `Arc` for instance.
    pub fn get<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V>
    where
        V: Clone,
    {
        self.get_with(key, V::clone)
    }

    /// What `f` makes of the value of `key`. `f` runs while the shard is locked: it must be short.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    pub fn get_with<Q, R>(&self, key: &Q, f: impl FnOnce(&V) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let place = self.place(key);
        let now = self.now();
        self.lock(place).read(place.hash, key, now).map(f)
    }

    /// What `f` makes of the entry of `key`, without an effect on policy, time to idle or statistics.
    ///
    /// # Panics
    /// If `f` calls the same cache.
    pub fn peek_with<Q, R>(&self, key: &Q, f: impl FnOnce(EntryRef<'_, K, V>) -> R) -> Option<R>
    where
        Q: Hash + Equivalent<K> + ?Sized,
    {
        let place = self.place(key);
        let now = self.now();
        let shard = self.lock(place);
        let id = shard.find_live(place.hash, key, now)?;
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

    /// Stores a value with the time to live that the cache was built with.
    pub fn insert(&self, key: K, value: V) -> Inserted<V> {
        self.insert_with_ttl(key, value, Ttl::Default)
    }

    /// Stores a value. A load of the key that is under way can no longer commit.
    ///
    /// Cost: one shard lock; evicts as many entries as the value's weight asks for.
    pub fn insert_with_ttl(&self, key: K, value: V, ttl: Ttl) -> Inserted<V> {
        let weight = self.weigh(&key, &value);
        let mut departed = Departed::new();
        let place = self.place(&key);
        let now = self.now_for(ttl);
        let mut shard = self.lock(place);
        shard.foresee(place.hash);
        shard.void_flight(place.hash, &key);
        // The listener sees a replaced value by reference, after the lock; the key that stays is the stored one.
        let listened = self.inner.settings.listener.is_some();
        let stored = self.store(&mut shard, place, key, value, weight, ttl, now, &mut departed);
        drop(shard);
        self.depart(departed);
        match stored {
            Ok(None) => Inserted::New,
            Ok(Some((key, old))) => {
                if listened {
                    self.notify(&key, &old, Cause::Replaced);
                }
                Inserted::Replaced(old)
            }
            Err((value, reason)) => Inserted::Refused { value, reason },
        }
    }

    /// Removes the entry of `key` and returns its value. A load of the key that is under way can no longer commit.
    pub fn remove<Q: Hash + Equivalent<K> + ?Sized>(&self, key: &Q) -> Option<V> {
        let place = self.place(key);
        let now = self.now();
        let mut shard = self.lock(place);
        shard.void_flight(place.hash, key);
        let id = shard.find(place.hash, key)?;
        let live = shard.is_live(id, now);
        let cause = if live { Cause::Invalidated } else { Cause::Expired };
        let entry = shard.remove(id, cause);
        drop(shard);
        self.inner.budget.give(entry.weight);
        self.notify(&entry.key, &entry.value, cause);
        live.then_some(entry.value)
    }

    /// Reads, decides and writes as one step: nobody else sees or changes the entry in between.
    ///
    /// `f` runs while the shard is locked, and so does the weigher on the value of an [`Op::Put`]: both must be short.
    /// A load of the key that is under way can no longer commit, unless `f` answers [`Op::Keep`].
    ///
    /// # Panics
    /// If `f` calls the same cache. If `f` panics, the entry is unchanged.
    pub fn compute<R>(
        &self,
        key: K,
        f: impl FnOnce(Option<EntryRef<'_, K, V>>) -> (Op<V>, R),
    ) -> Computed<R> {
        let mut departed = Departed::new();
        let place = self.place(&key);
        let now = self.now_ms();
        let mut shard = self.lock(place);
        let id = shard.find_live(place.hash, &key, now);
        let (op, result) = f(id.map(|id| self.entry_ref(&shard, id)));
        let mut refused = None;
        if !matches!(op, Op::Keep) {
            shard.void_flight(place.hash, &key);
        }
        match (op, id) {
            (Op::Keep, _) | (Op::Remove | Op::SetTtl(_), None) => {}
            (Op::Put(value, ttl), _) => {
                self.mark_timed(ttl);
                let weight = self.weigh(&key, &value);
                match self.store(&mut shard, place, key, value, weight, ttl, now, &mut departed) {
                    Ok(None) => {}
                    Ok(Some((key, old))) => departed.push(key, old, Cause::Replaced),
                    Err((_, reason)) => refused = Some(reason),
                }
            }
            (Op::Remove, Some(id)) => {
                let entry = shard.remove(id, Cause::Invalidated);
                self.inner.budget.give(entry.weight);
                departed.push(entry.key, entry.value, Cause::Invalidated);
            }
            (Op::SetTtl(ttl), Some(id)) => {
                self.mark_timed(ttl);
                let deadline = self.deadline(ttl, Some(shard.deadline(id)), now);
                shard.set_deadline(id, deadline, now);
            }
        }
        drop(shard);
        self.depart(departed);
        Computed { result, refused }
    }

    /// Removes every entry for which `keep` answers false. `keep` runs under the lock of a shard, at most 128 entries at
    /// a time; entries that are stored meanwhile may or may not be shown to it.
    pub fn retain(&self, mut keep: impl FnMut(&K, &V) -> bool) {
        self.for_each_hold(|shard, ids, departed| {
            let mut freed = 0;
            for id in ids {
                if !shard.is_used(id) {
                    continue;
                }
                let record = shard.record(id);
                if !keep(&record.key, &record.value) {
                    let entry = shard.remove(id, Cause::Purged);
                    freed += entry.weight;
                    departed.push(entry.key, entry.value, Cause::Purged);
                }
            }
            freed
        });
    }

    /// Removes all entries; loads that are under way can no longer commit.
    pub fn clear(&self) {
        for shard in &self.inner.shards {
            shard.lock(self.id()).void_flights();
        }
        self.retain(|_, _| false);
    }

    /// Removes all entries and returns those that could still be read.
    pub fn drain(&self) -> Vec<(K, V)> {
        let now = self.now();
        let mut drained = Vec::new();
        for shard in &self.inner.shards {
            shard.lock(self.id()).void_flights();
        }
        self.for_each_hold(|shard, ids, departed| {
            let mut freed = 0;
            for id in ids {
                if !shard.is_used(id) {
                    continue;
                }
                let live = shard.is_live(id, now);
                let entry = shard.remove(id, if live { Cause::Purged } else { Cause::Expired });
                freed += entry.weight;
                if live {
                    drained.push((entry.key, entry.value));
                } else {
                    departed.push(entry.key, entry.value, Cause::Expired);
                }
            }
            freed
        });
        for (key, value) in &drained {
            self.notify(key, value, Cause::Purged);
        }
        drained
    }

    /// Clones of all live entries, in no order. Entries that stay throughout are returned exactly once; such as come
    /// or go meanwhile may or may not be.
    pub fn iter(&self) -> Iter<'_, K, V>
    where
        K: Clone,
        V: Clone,
    {
        Iter::new(self)
    }

    /// Visits about `count` slots from `cursor` on and returns the cursor to go on with. Zero starts and, when
    /// returned, ends a scan. Entries that stay throughout are visited exactly once, whatever the cache does meanwhile.
    ///
    /// # Panics
    /// If `visit` calls the same cache.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(EntryRef<'_, K, V>)) -> u64 {
        let now = self.now();
        let (mut shard_index, mut slot) = ((cursor >> 32) as usize, cursor as u32);
        let mut left = count.clamp(1, u32::MAX as usize) as u32;
        while let Some(shard) = self.inner.shards.get(shard_index) {
            let shard = shard.lock(self.id());
            let end = shard.end();
            let stop = end.min(slot.saturating_add(left.min(SLOTS_PER_HOLD)));
            for id in slot..stop {
                if shard.is_used(id) && shard.is_live(id, now) {
                    visit(self.entry_ref(&shard, id));
                }
            }
            left -= stop.saturating_sub(slot).min(left);
            (shard_index, slot) = if stop >= end { (shard_index + 1, 0) } else { (shard_index, stop) };
            if left == 0 && shard_index < self.inner.shards.len() {
                return (shard_index as u64) << 32 | u64::from(slot);
            }
        }
        0
    }

    /// How many entries are held, among them such as have expired and are not reclaimed yet.
    pub fn len(&self) -> usize {
        self.inner.shards.iter().map(|shard| shard.lock(self.id()).len()).sum()
    }

    /// Whether no entry is held.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The sum of the weights held; weight that a write has just set aside counts.
    pub fn weight(&self) -> u64 {
        self.inner.budget.used()
    }

    /// The total weight allowed.
    pub fn capacity(&self) -> u64 {
        self.inner.budget.capacity()
    }

    /// Changes the total weight allowed. A lower capacity takes effect, and is shown, once enough has been evicted.
    ///
    /// # Panics
    /// If `capacity` is zero or above 2^62.
    pub fn set_capacity(&self, capacity: u64) {
        assert!((1..=1 << 62).contains(&capacity), "capacity is {capacity}; it must be from 1 to 2^62");
        let _one_at_a_time = self.inner.resizing.lock();
        let before = self.capacity();
        if capacity >= before {
            self.inner.budget.grow(capacity - before);
            return;
        }
        let surplus = before - capacity;
        let mut in_hand = 0;
        let mut next_shard = 0;
        while in_hand < surplus && !self.inner.budget.take(surplus - in_hand) {
            let mut departed = Departed::new();
            let mut shard = self.inner.shards[next_shard].lock(self.id());
            in_hand += shard.evict(0, None, self.now(), &mut departed).unwrap_or(0);
            drop(shard);
            self.depart(departed);
            next_shard = (next_shard + 1) % self.inner.shards.len();
        }
        self.inner.budget.give(in_hand.saturating_sub(surplus));
        self.inner.budget.shrink(surplus);
    }

    /// The counters so far and what is held now.
    pub fn stats(&self) -> Stats {
        let mut total = Stats { capacity: self.capacity(), weight: self.weight(), ..Stats::default() };
        for shard in &self.inner.shards {
            let shard = shard.lock(self.id());
            total.add(&shard.stats);
            total.entries += shard.len() as u64;
        }
        total
    }

    /// Reclaims expired entries, looking at up to `budget` of them; returns how many it looked at. Never needed: writes
    /// reclaim too. For those who have idle time to spend.
    pub fn run_due(&self, budget: usize) -> usize {
        let now = self.now();
        let mut looked_at = 0;
        for shard in &self.inner.shards {
            let mut departed = Departed::new();
            let (n, freed) = shard.lock(self.id()).reclaim(now, budget - looked_at, &mut departed);
            self.inner.budget.give(freed);
            self.depart(departed);
            looked_at += n;
            if looked_at == budget {
                break;
            }
        }
        looked_at
    }

    /// The time on the cache's clock, in milliseconds: what [`Ttl::At`] and [`EntryRef::deadline_ms`] count in.
    pub fn now_ms(&self) -> u64 {
        self.inner.settings.clock.now_ms()
    }

    /// The cache's clock.
    pub fn clock(&self) -> &Clock {
        &self.inner.settings.clock
    }

    /// Walks the whole structure and panics if its parts do not agree. For tests and fuzzers.
    pub fn validate(&self) {
        let weight: u64 = self.inner.shards.iter().map(|shard| shard.lock(self.id()).validate()).sum();
        assert!(weight <= self.capacity(), "{weight} is held, {} is allowed", self.capacity());
    }
}

/// What the operations above and the loads are made of.
impl<K: Hash + Eq, V> Cache<K, V> {
    pub(crate) fn place<Q: Hash + ?Sized>(&self, key: &Q) -> Place {
        let hash = self.inner.hasher.hash_one(key);
        // The index uses the low bits for the bucket and the top seven for the tag: the shard takes others.
        let shard = (hash >> 40) as usize & (self.inner.shards.len() - 1);
        Place { hash, shard }
    }

    pub(crate) fn lock(&self, place: Place) -> ShardGuard<'_, Shard<K, V>> {
        self.inner.shards[place.shard].lock(self.id())
    }

    /// What the locks know this cache by.
    fn id(&self) -> usize {
        Arc::as_ptr(&self.inner) as usize
    }

    pub(crate) fn shard_at(&self, index: usize) -> Option<ShardGuard<'_, Shard<K, V>>> {
        self.inner.shards.get(index).map(|shard| shard.lock(self.id()))
    }

    pub(crate) fn now(&self) -> u64 {
        if self.inner.timed.load(Ordering::Relaxed) { self.now_ms() } else { 0 }
    }

    /// The present, for a write: it needs the clock if its own entry has a deadline.
    pub(crate) fn now_for(&self, ttl: Ttl) -> u64 {
        self.mark_timed(ttl);
        self.now()
    }

    fn mark_timed(&self, ttl: Ttl) {
        if matches!(ttl, Ttl::After(_) | Ttl::At(_)) && !self.inner.timed.load(Ordering::Relaxed) {
            self.inner.timed.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn weigh(&self, key: &K, value: &V) -> u64 {
        self.inner.settings.weigher.as_ref().map_or(1, |weigher| weigher(key, value))
    }

    fn entry_ref<'a>(&'a self, shard: &'a Shard<K, V>, id: u32) -> EntryRef<'a, K, V> {
        let record = shard.record(id);
        let deadline = Some(shard.deadline(id)).filter(|at| *at != NEVER);
        let weight = shard.weight(id);
        EntryRef { key: &record.key, value: &record.value, weight, deadline, clock: self.clock() }
    }

    fn deadline(&self, ttl: Ttl, kept: Option<u64>, now: u64) -> u64 {
        let settings = &self.inner.settings;
        let after = |ms: u64| {
            if ms > crate::MAX_TTL.as_millis() as u64 { NEVER } else { now + self.jittered(ms) }
        };
        match ttl {
            Ttl::Keep if kept.is_some() => kept.expect("just checked"),
            Ttl::Default | Ttl::Keep => settings.ttl_ms.map_or(NEVER, after),
            Ttl::Never => NEVER,
            Ttl::After(ttl) => after(duration_to_ms(ttl)),
            Ttl::At(ms) => ms,
        }
    }

    /// Shortens a time to live by a random share. A plain additive sequence, scrambled, is random enough to spread
    /// deadlines and costs one relaxed addition.
    fn jittered(&self, ttl_ms: u64) -> u64 {
        let jitter = self.inner.settings.jitter;
        if jitter == 0.0 {
            return ttl_ms;
        }
        let step = self.inner.jitter_state.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
        let scrambled = (step ^ (step >> 31)).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 40;
        let share = scrambled as f64 / (1u64 << 24) as f64 * f64::from(jitter);
        ttl_ms - (ttl_ms as f64 * share) as u64
    }

    /// The heaviest entry that is accepted.
    fn limit(&self) -> u64 {
        let capacity = self.capacity();
        if self.inner.settings.max_share == 1.0 {
            return capacity;
        }
        ((capacity as f64 * self.inner.settings.max_share) as u64).max(1)
    }

    /// Stores a value in a locked shard: makes room, then inserts or replaces. Returns the replaced value with the key
    /// that was offered, or the value if it was refused; the former entry is gone then.
    #[allow(
        clippy::too_many_arguments,
        reason = "one step of three operations, which know these things already"
    )]
    pub(crate) fn store(
        &self,
        shard: &mut Shard<K, V>,
        place: Place,
        key: K,
        value: V,
        weight: u64,
        ttl: Ttl,
        now: u64,
        departed: &mut Departed<K, V>,
    ) -> Result<Option<(K, V)>, (V, Refusal)> {
        let mut existing = shard.find(place.hash, &key);
        if let Some(id) = existing.filter(|&id| !shard.is_live(id, now)) {
            self.discard(shard, id, Cause::Expired, departed);
            existing = None;
        }
        let (_, freed) = shard.reclaim(now, RECLAIM_PER_WRITE, departed);
        self.inner.budget.give(freed);

        let held = existing.map_or(0, |id| shard.weight(id));
        let room = if weight > self.limit() {
            Err(Refusal::TooHeavy { weight, limit: self.limit() })
        } else {
            self.make_room(shard, place.shard, weight.saturating_sub(held), existing, now, departed)
        };
        if let Err(reason) = room {
            shard.stats.refused += 1;
            if let Some(id) = existing {
                self.discard(shard, id, Cause::Invalidated, departed);
            }
            return Err((value, reason));
        }
        self.inner.budget.give(held.saturating_sub(weight));

        let kept = existing.map(|id| shard.deadline(id));
        let deadline = self.deadline(ttl, kept, now);
        match existing {
            Some(id) => Ok(Some((key, shard.replace(id, value, weight, deadline, now)))),
            None => {
                shard.insert(place.hash, key, value, weight, deadline, now);
                Ok(None)
            }
        }
    }

    fn discard(&self, shard: &mut Shard<K, V>, id: u32, cause: Cause, departed: &mut Departed<K, V>) {
        let entry = shard.remove(id, cause);
        self.inner.budget.give(entry.weight);
        departed.push(entry.key, entry.value, cause);
    }

    /// Takes `needed` from the budget: what is free, then what this shard's victims held, then what others' did.
    fn make_room(
        &self,
        shard: &mut Shard<K, V>,
        shard_index: usize,
        needed: u64,
        keep: Option<u32>,
        now: u64,
        departed: &mut Departed<K, V>,
    ) -> Result<(), Refusal> {
        let budget = &self.inner.budget;
        let mut in_hand = 0;
        let mut rounds = 0;
        while in_hand < needed && !budget.take(needed - in_hand) {
            if let Some(freed) = shard.evict(needed, keep, now, departed) {
                in_hand += freed;
                continue;
            }
            in_hand += self.steal(shard_index, needed - in_hand, now, departed);
            rounds += 1;
            if rounds == STEAL_ROUNDS {
                budget.give(in_hand);
                return Err(Refusal::NoRoom);
            }
        }
        budget.give(in_hand.saturating_sub(needed));
        Ok(())
    }

    /// Evicts from the other shards until `wanted` is freed, passing over those that are locked.
    fn steal(&self, shard_index: usize, wanted: u64, now: u64, departed: &mut Departed<K, V>) -> u64 {
        let shards = &self.inner.shards;
        let mut freed = 0;
        for step in 1..shards.len() {
            let other = &shards[(shard_index + step) % shards.len()];
            let Some(mut other) = other.try_lock_beside() else { continue };
            while freed < wanted {
                let Some(weight) = other.evict(wanted, None, now, departed) else { break };
                freed += weight;
            }
            if freed >= wanted {
                break;
            }
        }
        freed
    }

    /// Walks all slots, a bounded number under each hold of a lock. `visit` returns the weight that it freed.
    fn for_each_hold(
        &self,
        mut visit: impl FnMut(&mut Shard<K, V>, std::ops::Range<u32>, &mut Departed<K, V>) -> u64,
    ) {
        for shard in &self.inner.shards {
            let mut slot = 0;
            loop {
                let mut departed = Departed::new();
                let mut shard = shard.lock(self.id());
                let end = shard.end();
                let stop = end.min(slot + SLOTS_PER_HOLD);
                let freed = visit(&mut shard, slot..stop, &mut departed);
                drop(shard);
                self.inner.budget.give(freed);
                self.depart(departed);
                slot = stop;
                if slot >= end {
                    break;
                }
            }
        }
    }

    /// Shows entries to the listener and drops them, with no lock held.
    pub(crate) fn depart(&self, departed: Departed<K, V>) {
        for (key, value, cause) in departed.into_iter() {
            self.notify(&key, &value, cause);
        }
    }

    pub(crate) fn notify(&self, key: &K, value: &V, cause: Cause) {
        if let Some(listener) = &self.inner.settings.listener {
            listener(key, value, cause);
        }
    }
}

/// How many entries a shard of a full cache will hold: its share, and as much more as chance makes likely.
fn expected_share(expected: u64, shards: usize) -> usize {
    let share = expected as f64 / shards as f64;
    if shards == 1 { share as usize } else { (share + 3.0 * share.sqrt()) as usize }
}

fn duration_to_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
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
