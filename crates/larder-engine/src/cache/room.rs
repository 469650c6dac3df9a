//! Making room for a new entry: from what is free, then from its own shard, then from the others.
//!
//! A write that evicts from other shards holds its own, so it must not wait for theirs: two writes that do could wait for
//! each other. It skips shards that are locked. If it finds no room in this way, it makes room *in turn*: one write at a
//! time, which tries again until it succeeds. The writes that wait for their turn hold nothing that it could need: their
//! shards have no other victims, the former entries of their keys are removed, and they have no weight in hand. So the
//! write whose turn it is finds room as soon as the other operations are done, and no write fails by chance.

use super::Cache;
use super::steps::{StoreResult, Write};
use crate::budget::InHand;
use crate::entry::{Cause, Refusal};
use crate::shard::{RemovedEntries, Shard};
use crate::sync::back_off;
use std::hash::Hash;

/// How often a write looks for room in the shards that are not locked before it waits for its turn.
const ROUNDS_AT_ONCE: u32 = 2;
/// How often a write whose turn it is looks for room: about a second. More means that a closure under a lock does not end.
const ROUNDS_IN_TURN: u32 = 10_000;

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
    ) -> bool {
        let mut room = InHand::new(&self.inner.budget);
        while !room.reserve_rest(needed) {
            match shard.evict(needed, keep, now, removed) {
                Some(freed) => room.add(freed),
                None if (0..ROUNDS_AT_ONCE)
                    .any(|_| self.steal(shard_index, needed, &mut room, now, removed)) =>
                {
                    break;
                }
                None => return false,
            }
        }
        room.keep(needed);
        true
    }

    /// Stores a record for which [`Cache::store_at_once`] found no room. The shard has no victims left, except the former
    /// entry of the key.
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
            shard.insert(location.hash, record, weight, deadline, now);
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
            if self.steal(shard_index, needed, &mut room, now, removed) {
                room.keep(needed);
                return true;
            }
            back_off(round);
        }
        false
    }

    /// Evicts from the other shards until `needed` is in hand, skipping those that are locked. Returns whether it is.
    fn steal(
        &self,
        shard_index: usize,
        needed: u64,
        room: &mut InHand<'_>,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> bool {
        let shards = &self.inner.shards;
        for step in 1..shards.len() {
            if room.reserve_rest(needed) {
                return true;
            }
            let other = shards.try_lock_beside((shard_index + step) % shards.len());
            let Some(mut other) = other else { continue };
            while !room.reserve_rest(needed) {
                let Some(freed) = other.evict(needed, None, now, removed) else { break };
                room.add(freed);
            }
        }
        room.reserve_rest(needed)
    }
}
