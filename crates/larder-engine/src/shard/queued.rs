//! Which entries the policy has in its queues, and with what weight.

use super::Shard;
use crate::layout::queue::Queued;
use crate::layout::table::rank;
use crate::policy::{Evictable, NOT_QUEUED};
use std::hash::Hash;
use std::sync::atomic::Ordering;

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Whether the policy has an entry of this weight: not if its eviction would free nothing, or is not allowed.
    #[inline]
    pub(super) fn is_queued(&self, id: u32, weight: u64) -> bool {
        weight > 0 && (!self.evictable.is_timed() || self.has_deadline(id))
    }

    /// Whether only some entries may be evicted, and this is one.
    pub(crate) fn is_evictable(&self, id: u32) -> bool {
        self.evictable.is_timed() && self.is_queued(id, self.weight(id))
    }

    /// Passes an entry to the policy, if it may be evicted.
    #[inline]
    pub(super) fn enqueue(&mut self, entry: Queued, weight: u64) {
        if self.evictable.is_timed() {
            self.shared.newly_evictable.fetch_add(1, Ordering::Release);
        }
        let mark = if self.is_queued(entry.slot, weight) {
            self.change_surplus(0, weight);
            self.queues.insert(&mut self.slots, entry, &self.hits)
        } else {
            NOT_QUEUED
        };
        self.table.set_mark(entry.slot, mark);
    }

    /// Takes an entry back from the policy, to which it was passed with this weight.
    #[inline]
    pub(super) fn dequeue(&mut self, entry: Queued, weight: u64) {
        if self.is_queued(entry.slot, weight) {
            self.change_surplus(weight, 0);
            self.queues.remove(&mut self.slots, entry, self.table.mark(entry.slot));
        }
    }

    /// Counts the surplus of an entry whose weight changes. Zero is that of one that the policy does not have.
    #[inline]
    fn change_surplus(&mut self, from: u64, to: u64) {
        let (less, more) = (self.shared.surplus_of(from), self.shared.surplus_of(to));
        if more != less {
            self.surplus = self.surplus - less + more;
            self.shared.change_surplus(more, less);
        }
    }

    /// What the entries that the policy has weigh without their surplus.
    #[inline]
    pub(crate) fn light_weight(&self) -> u64 {
        self.queues.weight() - self.surplus
    }

    /// Changes which entries may be evicted.
    pub(crate) fn set_evictable(&mut self, evictable: Evictable) {
        if evictable.is_timed() == self.evictable.is_timed() {
            self.evictable = evictable;
            return;
        }
        let used: Vec<u32> = self.table.used().collect();
        let others = used.into_iter().filter(|&id| self.weight(id) > 0 && !self.has_deadline(id));
        let others: Vec<Queued> =
            others.map(|id| Queued { slot: id, rank: rank(self.hash_of(id)) }).collect();
        if evictable.is_timed() {
            others.iter().for_each(|entry| self.dequeue(*entry, self.weight(entry.slot)));
        }
        self.evictable = evictable;
        others.iter().for_each(|entry| self.enqueue(*entry, self.weight(entry.slot)));
    }

    /// Changes the weight of an entry. The difference is already reserved or released.
    pub(crate) fn set_weight(&mut self, id: u32, weight: u64) {
        let rank = rank(self.hash_of(id));
        self.set_weight_of(Queued { slot: id, rank }, weight);
    }

    /// The same where the rank is known.
    pub(super) fn set_weight_of(&mut self, entry: Queued, weight: u64) {
        let id = entry.slot;
        let former = self.slots.weight(id);
        if (former == 0) == (weight == 0) {
            self.slots.set_weight(id, weight);
            if self.is_queued(id, weight) {
                self.change_surplus(former, weight);
                self.queues.reweigh(self.table.mark(id), former, weight);
            }
        } else {
            self.dequeue(entry, former);
            self.slots.set_weight(id, weight);
            self.enqueue(entry, weight);
        }
    }
}
