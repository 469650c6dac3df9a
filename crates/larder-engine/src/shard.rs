//! One shard: an index from hashes to slots, the slots, the policy's view of them, their deadlines, and the loads that
//! are under way. Everything here happens under the shard's lock, and no user code runs but `Eq` of keys.
//!
//! ```text
//! hash ──► index ──► id ──► slab[id] = key, value, weight, deadline
//!                    │
//!                    ├────► policy   (who leaves next)
//!                    └────► expiry   (who may be due)
//! ```

use crate::entry::Cause;
use crate::expiry::{Expiry, NEVER};
use crate::load::Flight;
use crate::policy::{Evict, Policy};
use crate::slab::Slab;
use crate::stats::Stats;
use hashbrown::{Equivalent, HashTable};
use std::hash::Hash;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Entry<K, V> {
    pub(crate) key: K,
    pub(crate) value: V,
    pub(crate) weight: u64,
    /// When its time to live is over, in milliseconds, or `NEVER`.
    pub(crate) deadline: u64,
    hash: u64,
    /// When it was last read or written; kept only in caches with a time to idle.
    used_at: u64,
    /// The moment under which `expiry` knows it.
    registered_at: u64,
}

impl<K, V> Entry<K, V> {
    /// When the entry stops being readable: after its time to live or its time to idle.
    pub(crate) fn due(&self, tti_ms: Option<u64>) -> u64 {
        match tti_ms {
            Some(tti) => self.deadline.min(self.used_at.saturating_add(tti)),
            None => self.deadline,
        }
    }
}

/// Entries that have left their shard and wait for its lock to be released, to be shown to the listener and dropped.
#[derive(Debug)]
pub(crate) struct Departed<K, V>(pub(crate) Vec<(K, V, Cause)>);

impl<K, V> Departed<K, V> {
    pub(crate) fn new() -> Self {
        Departed(Vec::new())
    }
}

#[derive(Debug)]
pub(crate) struct Shard<K, V> {
    index: HashTable<u32>,
    pub(crate) slab: Slab<Entry<K, V>>,
    policy: Box<dyn Evict>,
    expiry: Expiry,
    tti_ms: Option<u64>,
    /// The loads under way, by hash. A shard has few at a time, so a list that is walked is the smallest table.
    flights: Vec<(u64, K, Arc<Flight<V>>)>,
    pub(crate) stats: Stats,
}

impl<K: Hash + Eq, V> Shard<K, V> {
    pub(crate) fn new(policy: Policy, tti_ms: Option<u64>) -> Self {
        Shard {
            index: HashTable::new(),
            slab: Slab::new(),
            policy: policy.build(),
            expiry: Expiry::default(),
            tti_ms,
            flights: Vec::new(),
            stats: Stats::default(),
        }
    }

    /// The slot of `key`, whether or not its time is over.
    pub(crate) fn find<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q) -> Option<u32> {
        self.index.find(hash, |&id| key.equivalent(&self.slab[id].key)).copied()
    }

    /// The slot of `key` if it can be read at `now`.
    pub(crate) fn find_live<Q: Equivalent<K> + ?Sized>(&self, hash: u64, key: &Q, now: u64) -> Option<u32> {
        self.find(hash, key).filter(|&id| self.is_live(id, now))
    }

    pub(crate) fn is_live(&self, id: u32, now: u64) -> bool {
        self.slab[id].due(self.tti_ms) > now
    }

    /// A counted read, which the policy hears of.
    pub(crate) fn read<Q: Equivalent<K> + ?Sized>(&mut self, hash: u64, key: &Q, now: u64) -> Option<&V> {
        let Some(id) = self.find_live(hash, key, now) else {
            self.stats.misses += 1;
            return None;
        };
        self.stats.hits += 1;
        self.policy.hit(id);
        let entry = &mut self.slab[id];
        entry.used_at = now;
        Some(&entry.value)
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
        let mut entry = Entry { key, value, weight, deadline, hash, used_at: now, registered_at: NEVER };
        entry.registered_at = entry.due(self.tti_ms);
        let due = entry.registered_at;
        let id = self.slab.insert(entry);
        let slab = &self.slab;
        self.index.insert_unique(hash, id, |&id| slab[id].hash);
        self.policy.insert(id);
        self.expiry.register(due, id);
        self.stats.inserts += 1;
        id
    }

    /// Stores another value in a slot. The difference of the weights has been settled with the budget.
    pub(crate) fn replace(&mut self, id: u32, value: V, weight: u64, deadline: u64, now: u64) -> V {
        self.policy.hit(id);
        self.set_deadline(id, deadline, now);
        self.stats.inserts += 1;
        self.stats.replaced += 1;
        let entry = &mut self.slab[id];
        entry.weight = weight;
        std::mem::replace(&mut entry.value, value)
    }

    pub(crate) fn set_deadline(&mut self, id: u32, deadline: u64, now: u64) {
        let entry = &mut self.slab[id];
        entry.deadline = deadline;
        entry.used_at = now;
        let due = entry.due(self.tti_ms);
        if due != entry.registered_at {
            self.expiry.unregister(entry.registered_at, id);
            entry.registered_at = due;
            self.expiry.register(due, id);
        }
    }

    /// Takes an entry out, counted under its cause. Its weight is the caller's to give back.
    pub(crate) fn remove(&mut self, id: u32, cause: Cause) -> Entry<K, V> {
        let entry = self.slab.remove(id);
        let found = self.index.find_entry(entry.hash, |&other| other == id);
        found.expect("each slot in use is indexed").remove();
        self.policy.remove(id);
        self.expiry.unregister(entry.registered_at, id);
        match cause {
            Cause::Expired => self.stats.expired += 1,
            Cause::Evicted => self.stats.evicted += 1,
            Cause::Invalidated => self.stats.invalidated += 1,
            Cause::Purged => self.stats.purged += 1,
            Cause::Replaced => self.stats.replaced += 1,
        }
        entry
    }

    /// Evicts the policy's next victim; its weight is the caller's to give back.
    pub(crate) fn evict(&mut self, keep: Option<u32>, departed: &mut Departed<K, V>) -> Option<u64> {
        let id = self.policy.victim(keep)?;
        let entry = self.remove(id, Cause::Evicted);
        departed.0.push((entry.key, entry.value, Cause::Evicted));
        Some(entry.weight)
    }

    /// Removes up to `budget` entries whose time is over; returns how many registrations were looked at and the
    /// weight that is the caller's to give back.
    pub(crate) fn reclaim(&mut self, now: u64, budget: usize, departed: &mut Departed<K, V>) -> (usize, u64) {
        let mut freed = 0;
        for looked_at in 0..budget {
            let Some(id) = self.expiry.pop_due(now) else { return (looked_at, freed) };
            let due = self.slab[id].due(self.tti_ms);
            if due > now {
                self.slab[id].registered_at = due;
                self.expiry.register(due, id);
                continue;
            }
            let entry = self.remove(id, Cause::Expired);
            freed += entry.weight;
            departed.0.push((entry.key, entry.value, Cause::Expired));
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
        assert_eq!(self.index.len(), self.slab.len(), "each slot in use is indexed once");
        let mut weight = 0;
        let mut timed = 0;
        for id in 0..self.slab.end() {
            let Some(entry) = self.slab.get(id) else { continue };
            weight += entry.weight;
            assert_eq!(self.find(entry.hash, &entry.key), Some(id), "the index leads to the slot");
            if entry.registered_at != NEVER {
                timed += 1;
                assert!(self.expiry.contains(entry.registered_at, id), "a deadline is registered");
            }
            assert!(entry.registered_at <= entry.due(self.tti_ms), "no entry is looked at too late");
        }
        assert_eq!(self.expiry.len(), timed, "nothing else is registered");
        #[cfg(test)]
        {
            let mut order = self.policy.order();
            order.sort_unstable();
            let used: Vec<u32> = (0..self.slab.end()).filter(|&id| self.slab.get(id).is_some()).collect();
            assert_eq!(order, used, "the policy knows each entry once");
        }
        weight
    }
}
