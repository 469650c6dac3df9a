//! Making room for a new entry: from what is free, then from its own shard, then from the others.
//!
//! If entries differ in weight, writes that evict from their own shards alone let these drift apart: who evicts a heavy entry
//! for a light one leaves the rest to all shards, and never gets it back. So a write whose shard has clearly less than an equal
//! share evicts from shards that have more.
//!
//! A write that evicts from other shards holds its own, so it must not wait for theirs: two writes that do could wait for
//! each other. It skips shards that are locked. If it finds no room in this way, it makes room *in turn*: one write at a
//! time, which tries again until it succeeds. The writes that wait for their turn hold nothing that it could need: their
//! shards have no other victims, the former entries of their keys are removed, and they have no weight in hand. Nor does an
//! operation that locks several shards hold some while it waits for others. So the write whose turn it is finds room as soon as
//! the other operations are done, and no write fails by chance.
//!
//! If not all entries may be evicted, a write keeps the former entry of its key, and so must not wait for others that could
//! need it. It tries again for a moment while other shards are locked, and is then refused.

use super::Cache;
use super::write::{Postponed, Shortage, StoreResult, Write};
use crate::entry::{Cause, Refusal};
use crate::shard::budget::InHand;
use crate::shard::{RemovedEntries, Shard};
use crate::sync::back_off;
use std::hash::Hash;
use std::sync::atomic::Ordering;

/// How often a write that must not wait looks for room while other shards are locked: some microseconds.
pub(crate) const ROUNDS_BEFORE_REFUSAL: u32 = 20;
/// How often a write whose turn it is looks for room: about a second. More means that a closure under a lock does not end.
const ROUNDS_IN_TURN: u32 = 10_000;

/// A shard that lacks less than this fraction of its share evicts its own entries: equal ones are never quite equally many.
const TOLERATED_LACK: u64 = 16;
/// How many shards in a row a write looks at that have no more than their share.
const MAX_IN_VAIN: usize = 16;

/// A search of all shards: its time in milliseconds, and how often an entry had become evictable at its start.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Search(u64);

/// None, at any time.
pub(super) const NO_SEARCH: u64 = u64::MAX;

impl<K: Hash + Eq, V> Cache<K, V> {
    /// Reserves `needed`, without waiting for other shards. `keep` is not evicted.
    pub(super) fn make_room_at_once(
        &self,
        shard: &mut Shard<K, V>,
        shard_index: usize,
        needed: u64,
        keep: Option<u32>,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> Result<(), Shortage> {
        let mut room = InHand::new(&self.inner.budget);
        let mut may_balance = self.evicts_all() && self.inner.shards.len() > 1;
        while !room.reserve_rest(needed) {
            if may_balance && shard.light_weight() < self.low_share(needed) {
                // Once: if the heavier shards are locked, this one has to do.
                may_balance = false;
                self.evict_from_heavier(shard_index, needed, &mut room, now, removed);
                continue;
            }
            match shard.evict(needed, keep, now, removed) {
                Some(freed) => room.add(freed),
                None => {
                    let search = self.begin_search(now).ok_or(Shortage::NothingLeft)?;
                    let mut steal = || self.steal(self.beside(shard_index), needed, &mut room, now, removed);
                    // Twice: the shards that were locked may be free.
                    if let Err(shortage) = steal().or_else(|_| steal()) {
                        if shortage == Shortage::NothingLeft && keep.is_none_or(|id| !shard.is_evictable(id))
                        {
                            self.end_in_vain(search);
                        }
                        return Err(shortage);
                    }
                    break;
                }
            }
        }
        room.keep(needed);
        Ok(())
    }

    /// What each shard has if they are equally heavy, beside an entry that weighs `needed`.
    #[inline]
    fn fair_share(&self, needed: u64) -> u64 {
        let for_all = self.capacity().saturating_sub(needed).saturating_sub(self.inner.shared.surplus());
        for_all >> self.inner.shards.len().trailing_zeros()
    }

    /// A shard that has less does not evict its own entries for one that weighs `needed`.
    #[inline]
    pub(super) fn low_share(&self, needed: u64) -> u64 {
        let fair = self.fair_share(needed);
        fair - fair / TOLERATED_LACK
    }

    /// Evicts from shards that have more than their share until `needed` is in hand, skipping those that are locked.
    fn evict_from_heavier(
        &self,
        shard_index: usize,
        needed: u64,
        room: &mut InHand<'_>,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) {
        let (shards, fair) = (&self.inner.shards, self.fair_share(needed));
        let first = self.inner.next_victim.fetch_add(1, Ordering::Relaxed);
        let mut in_vain = 0;
        for other in (0..shards.len()).map(|step| first.wrapping_add(step) % shards.len()) {
            if in_vain == MAX_IN_VAIN || room.reserve_rest(needed) {
                return;
            }
            let other = if other == shard_index { None } else { shards.try_lock_beside(other) };
            in_vain += 1;
            if let Some(mut other) = other.filter(|other| other.light_weight() > fair) {
                in_vain = 0;
                evict_while(&mut other, |other| other.light_weight() > fair, needed, room, now, removed);
            }
        }
    }

    /// Begins a search of all shards for an entry to evict; `None` if such a search was in vain. A refused write should not
    /// cost a lock per shard, and until the clock advances, only an entry that becomes evictable changes the result.
    pub(crate) fn begin_search(&self, now: u64) -> Option<Search> {
        let changes = self.inner.shared.newly_evictable.load(Ordering::Acquire);
        let search = Search(now << 16 | changes & 0xffff);
        (self.evicts_all() || self.inner.searched_in_vain.load(Ordering::Relaxed) != search.0)
            .then_some(search)
    }

    /// The search has found nothing in any shard.
    pub(crate) fn end_in_vain(&self, search: Search) {
        self.inner.searched_in_vain.store(search.0, Ordering::Relaxed);
    }

    /// Stores a record for which [`Cache::store_at_once`] found no room. The shard has no victims left, except the former
    /// entry of the key.
    pub(crate) fn store_postponed(
        &self,
        shard: &mut Shard<K, V>,
        (mut write, mut shortage): Postponed<K, V>,
        removed: &mut RemovedEntries<K, V>,
    ) -> StoreResult<K, V> {
        for round in 0..ROUNDS_BEFORE_REFUSAL {
            if self.evicts_all() {
                return self.store_in_turn(shard, write, removed);
            }
            if shortage == Shortage::NothingLeft {
                break;
            }
            back_off(round);
            (write, shortage) = match self.store_at_once(shard, write, removed) {
                Ok(stored) => return stored,
                Err(postponed) => postponed,
            };
        }
        shard.stats.refused += 1;
        Err((write.record, Refusal::NoRoom))
    }

    /// Stores a record in a cache that may evict all entries.
    pub(crate) fn store_in_turn(
        &self,
        shard: &mut Shard<K, V>,
        write: Write<K, V>,
        removed: &mut RemovedEntries<K, V>,
    ) -> StoreResult<K, V> {
        let Write { location, record, weight, ttl, now } = write;
        let former = shard.find(location.hash, &record.key).map(|id| {
            let deadline = shard.deadline(id);
            let entry = shard.remove(id, Cause::Replaced);
            self.inner.budget.release(entry.weight);
            (entry.into_record(), deadline)
        });
        let (former, kept) = former.unzip();
        if self.make_room_in_turn(location.shard, weight, now, removed) {
            let deadline = self.deadline(ttl, kept, now);
            shard.insert(location.hash, record, (weight, self.reserved(weight)), deadline, now);
            return Ok(former);
        }
        shard.stats.refused += 1;
        if let Some(former) = former {
            removed.push(former.key, former.value, Cause::Replaced);
        }
        Err((record, Refusal::NoRoom))
    }

    fn make_room_in_turn(
        &self,
        shard_index: usize,
        needed: u64,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> bool {
        let _turn = self.inner.making_room.lock();
        let mut room = InHand::new(&self.inner.budget);
        for round in 0..ROUNDS_IN_TURN {
            if needed > self.capacity() {
                // It was lowered meanwhile.
                return false;
            }
            let stolen = self.steal(self.beside(shard_index), needed, &mut room, now, removed);
            // The entries that may be evicted may have become fewer meanwhile. The former entry is removed already.
            if stolen.is_ok() || !self.evicts_all() {
                room.keep_or_exceed(needed);
                return true;
            }
            back_off(round);
        }
        false
    }

    /// The indices of the other shards, the next one first.
    fn beside(&self, shard_index: usize) -> impl Iterator<Item = usize> + use<K, V> {
        let shards = self.inner.shards.len();
        (1..shards).map(move |step| (shard_index + step) % shards)
    }

    /// Evicts from these shards until `needed` is in hand, skipping those that are locked.
    pub(crate) fn steal(
        &self,
        others: impl Iterator<Item = usize>,
        needed: u64,
        room: &mut InHand<'_>,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> Result<(), Shortage> {
        let shards = &self.inner.shards;
        let mut shortage = Shortage::NothingLeft;
        for other in others {
            if room.reserve_rest(needed) {
                return Ok(());
            }
            let Some(mut other) = shards.try_lock_beside(other) else {
                shortage = Shortage::OthersLocked;
                continue;
            };
            evict_while(&mut other, |_| true, needed, room, now, removed);
        }
        if room.reserve_rest(needed) { Ok(()) } else { Err(shortage) }
    }
}

/// Evicts from a shard, while it `may` lose entries, until `needed` is in hand.
fn evict_while<K: Hash + Eq, V>(
    shard: &mut Shard<K, V>,
    may: impl Fn(&Shard<K, V>) -> bool,
    needed: u64,
    room: &mut InHand<'_>,
    now: u64,
    removed: &mut RemovedEntries<K, V>,
) {
    while !room.reserve_rest(needed) && may(shard) {
        let Some(freed) = shard.evict(needed, None, now, removed) else { return };
        room.add(freed);
    }
}
