//! The steps that operations and loads share: locating a key, time, weight, deadlines, and making room.

use super::removals::Removals;
use super::write::{Postponed, StoreResult, Write};
use super::{Cache, ENTRIES_PER_LOCK, KeyLocation};
use crate::MAX_TTL;
use crate::entry::{Cause, EntryRef, Refusal, Ttl};
use crate::layout::records::Record;
use crate::layout::table::{RANK_END, rank};
use crate::lock::{Guard, Locks};
use crate::shard::budget::InHand;
use crate::shard::{Hasher, RemovedEntries, Shard};
use crate::time::clock::whole_ms;
use crate::time::timestamps::NEVER;
use hashbrown::Equivalent;
use std::hash::{BuildHasher, Hash};
use std::sync::atomic::Ordering;

/// How many entries that may have expired a write examines in its shard.
const RECLAIM_PER_WRITE: usize = 4;

/// What larger weights of edited entries count as: more than any capacity, and the sum of two does not overflow.
const MAX_WEIGHT: u64 = i64::MAX as u64;

/// What a closure decided about the entry that it was shown.
pub(crate) enum Decision<K, V> {
    Keep,
    Put(Write<K, V>),
    SetTtl { ttl: Ttl, now: u64 },
    Remove,
}

impl<K: Hash + Eq, V> Cache<K, V> {
    #[inline]
    pub(crate) fn locate<Q: Hash + ?Sized>(&self, key: &Q) -> KeyLocation {
        let hash = self.inner.hasher.hash_one(key);
        // The table uses the low 40 bits for rank and tag.
        let shard = (hash >> 40) as usize & (self.inner.shards.len() - 1);
        KeyLocation { hash, shard }
    }

    #[inline]
    pub(crate) fn lock(&self, location: KeyLocation) -> Guard<'_, Shard<K, V>> {
        self.inner.shards.lock(location.shard)
    }

    pub(crate) fn hasher(&self) -> &Hasher {
        &self.inner.hasher
    }

    pub(crate) fn shards(&self) -> &Locks<Shard<K, V>> {
        &self.inner.shards
    }

    /// Releases the weight of removed entries.
    pub(crate) fn release_weight(&self, weight: u64) {
        self.inner.budget.release(weight);
    }

    /// Weight that is reserved for an entry which is not stored yet.
    pub(super) fn reserved(&self, weight: u64) -> InHand<'_> {
        let mut room = self.room();
        room.add(weight);
        room
    }

    /// Nothing in hand yet.
    pub(crate) fn room(&self) -> InHand<'_> {
        InHand::new(&self.inner.budget)
    }

    pub(crate) fn shard_at(&self, index: usize) -> Option<Guard<'_, Shard<K, V>>> {
        (index < self.inner.shards.len()).then(|| self.inner.shards.lock(index))
    }

    #[inline]
    pub(crate) fn now(&self) -> u64 {
        if self.inner.timed.load(Ordering::Relaxed) { self.now_ms() } else { 0 }
    }

    /// The current time for a write, which needs the clock if its own entry gets a deadline.
    pub(crate) fn now_for(&self, ttl: Ttl) -> u64 {
        self.mark_timed(ttl);
        self.now()
    }

    pub(crate) fn mark_timed(&self, ttl: Ttl) {
        if matches!(ttl, Ttl::After(_) | Ttl::At(_)) && !self.inner.timed.load(Ordering::Relaxed) {
            self.inner.timed.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) fn weigh(&self, key: &K, value: &V) -> u64 {
        self.inner.settings.weigher.as_ref().map_or(1, |weigher| weigher(key, value))
    }

    pub(crate) fn entry_ref<'a>(&'a self, shard: &'a Shard<K, V>, id: u32) -> EntryRef<'a, K, V> {
        let record = shard.record(id);
        let deadline = Some(shard.deadline(id)).filter(|at| *at != NEVER);
        let weight = shard.weight(id);
        let hits = shard.hits(id);
        EntryRef { key: &record.key, value: &record.value, weight, deadline, hits, clock: self.clock() }
    }

    pub(super) fn deadline(&self, ttl: Ttl, kept: Option<u64>, now: u64) -> u64 {
        let settings = &self.inner.settings;
        let after = |ms: u64| {
            if ms > whole_ms(MAX_TTL) { NEVER } else { now + self.jittered(ms) }
        };
        match ttl {
            Ttl::Keep if kept.is_some() => kept.expect("just checked"),
            Ttl::Default | Ttl::Keep => settings.ttl_ms.map_or(NEVER, after),
            Ttl::Never => NEVER,
            Ttl::After(ttl) => after(whole_ms(ttl)),
            Ttl::At(ms) => ms,
        }
    }

    /// Shortens a time to live by a random share. A scrambled additive sequence is random enough to spread deadlines, and
    /// costs one relaxed addition.
    pub(super) fn jittered(&self, ttl_ms: u64) -> u64 {
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
    pub(crate) fn limit(&self) -> u64 {
        let capacity = self.capacity();
        if self.inner.settings.max_share == 1.0 {
            return capacity;
        }
        let share = capacity as f64 * self.inner.settings.max_share;
        // It may be too low by the rounding of the share and of the product: 0.29 of 100 is less than 29.
        ((share * (1.0 + 2.0 * f64::EPSILON)) as u64).clamp(1, capacity)
    }

    /// Whether every shard may evict all of its entries.
    #[inline]
    pub(crate) fn evicts_all(&self) -> bool {
        self.inner.evicts_all.load(Ordering::Acquire)
    }

    /// Stores a record in a locked shard: makes room, then inserts or replaces. Returns the replaced record, or the given
    /// one if it was refused; the former entry is removed then, if all entries may be evicted.
    pub(crate) fn store(
        &self,
        shard: &mut Shard<K, V>,
        write: Write<K, V>,
        removed: &mut RemovedEntries<K, V>,
    ) -> StoreResult<K, V> {
        self.store_at_once(shard, write, removed)
            .unwrap_or_else(|postponed| self.store_postponed(shard, postponed, removed))
    }

    /// As [`Cache::store`], without waiting for room.
    ///
    /// # Errors
    /// The write, if it found no room. The former entry stays.
    pub(crate) fn store_at_once(
        &self,
        shard: &mut Shard<K, V>,
        write: Write<K, V>,
        removed: &mut RemovedEntries<K, V>,
    ) -> Result<StoreResult<K, V>, Postponed<K, V>> {
        let &Write { location, weight, now, .. } = &write;
        shard.check_partition(&write.record.key);
        let mut existing = shard.find(location.hash, &write.record.key);
        if let Some(id) = existing.filter(|&id| !shard.is_live(id, now)) {
            self.discard(shard, id, Cause::Expired, removed);
            existing = None;
        }
        if existing.is_none() {
            shard.prefetch_place(location.hash);
        }
        if shard.is_timed() {
            shard.reclaim(now, RECLAIM_PER_WRITE, &mut InHand::new(&self.inner.budget), removed);
        }

        let limit = self.limit();
        if weight > limit {
            shard.stats.refused += 1;
            if let Some(id) = existing
                && self.evicts_all()
            {
                self.discard(shard, id, Cause::Invalidated, removed);
            }
            return Ok(Err((write.record, Refusal::TooHeavy { weight, limit })));
        }
        let held = existing.map_or(0, |id| shard.weight(id));
        let more = weight.saturating_sub(held);
        if let Err(shortage) = self.make_room_at_once(shard, location.shard, more, existing, now, removed) {
            return Err((write, shortage));
        }
        self.inner.budget.release(held.saturating_sub(weight));
        Ok(Ok(self.put(shard, existing, write)))
    }

    /// Stores a record in the room that was made for it, or beyond the capacity if that is too little, for steps that must
    /// not end halfway.
    pub(crate) fn store_beyond(
        &self,
        shard: &mut Shard<K, V>,
        mut write: Write<K, V>,
        room: InHand<'_>,
    ) -> Option<Record<K, V>> {
        let existing = shard.find(write.location.hash, &write.record.key);
        let held = existing.map_or(0, |id| shard.weight(id));
        write.weight = self.reserve_beyond(held, write.weight, room);
        self.put(shard, existing, write)
    }

    /// Replaces an existing record or inserts a new one. The difference of the weights is already reserved or released.
    #[inline]
    fn put(
        &self,
        shard: &mut Shard<K, V>,
        existing: Option<u32>,
        write: Write<K, V>,
    ) -> Option<Record<K, V>> {
        let Write { location, record, weight, ttl, now } = write;
        let kept = existing.map(|id| shard.deadline(id));
        let deadline = self.deadline(ttl, kept, now);
        match existing {
            Some(id) => Some(shard.replace(id, location.hash, record, weight, deadline, now)),
            None => {
                shard.insert(location.hash, record, (weight, self.reserved(weight)), deadline, now);
                None
            }
        }
    }

    /// Applies a decision to a locked entry; `id` is its slot, if it is live. If the record is refused, the caller drops it
    /// after the shard is unlocked.
    pub(crate) fn apply(
        &self,
        shard: &mut Shard<K, V>,
        id: Option<u32>,
        decision: Decision<K, V>,
        removed: &mut RemovedEntries<K, V>,
    ) -> Result<(), (Record<K, V>, Refusal)> {
        match (decision, id) {
            (Decision::Keep, _) | (Decision::Remove | Decision::SetTtl { .. }, None) => {}
            (Decision::Put(write), _) => {
                self.mark_timed(write.ttl);
                let replaced = self.store(shard, write, removed)?;
                if let Some(Record { key, value }) = replaced {
                    removed.push(key, value, Cause::Replaced);
                }
            }
            (Decision::Remove, Some(id)) => self.discard(shard, id, Cause::Invalidated, removed),
            (Decision::SetTtl { ttl, now }, Some(id)) => {
                self.mark_timed(ttl);
                let deadline = self.deadline(ttl, Some(shard.deadline(id)), now);
                shard.set_deadline(id, None, deadline, now);
            }
        }
        Ok(())
    }

    /// The weight of an entry as it is now, at most [`MAX_WEIGHT`]: it may be stored beyond the capacity.
    pub(crate) fn weigh_slot(&self, shard: &Shard<K, V>, id: u32) -> u64 {
        let Record { key, value } = shard.record(id);
        self.weigh(key, value).min(MAX_WEIGHT)
    }

    /// Changes the weight of an entry that was edited, and makes room if it has become heavier. An entry that is too heavy
    /// is removed, if all entries may be evicted. `None` if there is no room, and the other shards that could make some are
    /// locked or have nothing to evict.
    pub(crate) fn reweigh_at_once(
        &self,
        shard: &mut Shard<K, V>,
        location: KeyLocation,
        id: u32,
        weight: u64,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> Option<Result<(), Refusal>> {
        let limit = self.limit();
        if weight > limit && self.evicts_all() {
            shard.stats.refused += 1;
            self.discard(shard, id, Cause::Invalidated, removed);
            return Some(Err(Refusal::TooHeavy { weight, limit }));
        }
        let held = shard.weight(id);
        let more = weight.saturating_sub(held);
        self.make_room_at_once(shard, location.shard, more, Some(id), now, removed).ok()?;
        self.inner.budget.release(held.saturating_sub(weight));
        shard.set_weight(id, weight);
        Some(Ok(()))
    }

    /// Changes the weight of an entry in the room that was made for it, or beyond the capacity if that is too little.
    pub(crate) fn reweigh_beyond(&self, shard: &mut Shard<K, V>, id: u32, weight: u64, room: InHand<'_>) {
        let weight = self.reserve_beyond(shard.weight(id), weight, room);
        shard.set_weight(id, weight);
    }

    /// Reserves or releases the difference between the former weight of an entry and the new one. Returns what is reserved
    /// for it now: the new weight, except beside others that exceed the capacity by far.
    fn reserve_beyond(&self, former: u64, weight: u64, room: InHand<'_>) -> u64 {
        let more = room.keep_or_exceed(weight.saturating_sub(former));
        self.inner.budget.release(former.saturating_sub(weight));
        weight.min(former + more)
    }

    /// As [`Cache::reweigh_at_once`], if that found no room: the entry is taken out meanwhile.
    pub(crate) fn reweigh_in_turn(
        &self,
        shard: &mut Shard<K, V>,
        location: KeyLocation,
        id: u32,
        weight: u64,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> Result<(), Refusal> {
        let ttl = Some(shard.deadline(id)).filter(|at| *at < NEVER).map_or(Ttl::Never, Ttl::At);
        let entry = shard.remove(id, Cause::Replaced);
        self.inner.budget.release(entry.weight);
        let write = Write { location, record: entry.into_record(), weight, ttl, now };
        match self.store_in_turn(shard, write, removed) {
            Ok(_) => Ok(()),
            Err((Record { key, value }, reason)) => {
                removed.push(key, value, Cause::Invalidated);
                Err(reason)
            }
        }
    }

    pub(crate) fn discard(
        &self,
        shard: &mut Shard<K, V>,
        id: u32,
        cause: Cause,
        removed: &mut RemovedEntries<K, V>,
    ) {
        let entry = shard.remove(id, cause);
        self.inner.budget.release(entry.weight);
        removed.push(entry.key, entry.value, cause);
    }

    /// The slot of the live entry of a key. Removes the entry if it has expired.
    pub(crate) fn find_or_discard<Q: Equivalent<K> + ?Sized>(
        &self,
        shard: &mut Shard<K, V>,
        location: KeyLocation,
        key: &Q,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> Option<u32> {
        let id = shard.find(location.hash, key)?;
        let is_live = shard.is_live(id, now);
        if !is_live {
            self.discard(shard, id, Cause::Expired, removed);
        }
        is_live.then_some(id)
    }

    /// Voids the loads under way and walks about `count` entries starting at `cursor`, a bounded number each time a lock is
    /// held. `visit` removes some of them and records what is gone. Returns the cursor to continue with, as
    /// [`Cache::scan`].
    ///
    /// A load is voided when the walk comes to its shard. If it commits before that, its entry is visited.
    pub(super) fn remove_from(
        &self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(&mut Shard<K, V>, &[u32], &mut Removed<'_, K, V>),
    ) -> u64 {
        let (mut index, mut from) = ((cursor >> 32) as usize, u64::from(rank(cursor)));
        let mut left = count.max(1);
        let mut slots = Vec::new();
        while index < self.inner.shards.len() {
            // Declared before the guard, so that it is dropped after the unlock.
            let mut _voided = None;
            let mut gone = Removed { freed: InHand::new(&self.inner.budget), entries: Removals::new(self) };
            let mut shard = self.inner.shards.lock(index);
            if from == 0 {
                _voided = Some(shard.flights.take());
            }
            from = shard.walk(from, left.min(ENTRIES_PER_LOCK), &mut slots);
            visit(&mut shard, &slots, &mut gone);
            shard.shrink_if_empty();
            drop(shard);
            drop(gone);
            left = left.saturating_sub(slots.len());
            if from == RANK_END {
                (index, from) = (index + 1, 0);
            }
            if left == 0 && index < self.inner.shards.len() {
                return (index as u64) << 32 | from;
            }
        }
        0
    }
}

impl<K, V> Cache<K, V> {
    pub(super) fn has_listener(&self) -> bool {
        self.inner.settings.listener.is_some()
    }

    pub(crate) fn notify(&self, key: &K, value: &V, cause: Cause) {
        if let Some(listener) = &self.inner.settings.listener {
            listener(key, value, cause);
        }
    }
}

/// What a walk removes. Its weight is released before the listener is called.
pub(super) struct Removed<'a, K, V> {
    pub(super) freed: InHand<'a>,
    pub(super) entries: Removals<'a, K, V>,
}
