//! The choice of the entry that leaves: by the policy, which sees the entries through a view, or by their deadlines.

use super::timing::Timing;
use super::{Hasher, RemovedEntries, Shard};
use crate::entry::Cause;
use crate::layout::queue::Queued;
use crate::layout::records::Records;
use crate::layout::table::{Table, rank};
use crate::policy::{Entries, Evictable};
use std::hash::{BuildHasher, Hash};

/// The entries as the policy sees them.
pub(super) struct View<'a, K, V> {
    pub(super) table: &'a mut Table,
    pub(super) records: &'a Records<K, V>,
    pub(super) timing: Option<&'a Timing>,
    pub(super) hasher: &'a Hasher,
    pub(super) now: u64,
}

impl<K: Hash, V> Entries for View<'_, K, V> {
    fn is_used(&self, id: u32) -> bool {
        self.table.is_used(id)
    }

    fn rank(&self, id: u32) -> u32 {
        // SAFETY: the policy asks after `is_used`: the slot is in use.
        rank(self.hasher.hash_one(unsafe { &self.records.get(id).key }))
    }

    fn is_due(&self, id: u32) -> bool {
        self.timing.is_some_and(|timing| timing.due(id) <= self.now)
    }

    fn mark(&self, id: u32) -> u8 {
        self.table.mark(id)
    }

    fn set_mark(&mut self, id: u32, mark: u8) {
        self.table.set_mark(id, mark);
    }

    fn prefetch(&self, id: u32) {
        self.records.prefetch(id);
        self.table.prefetch_slot(id);
    }
}

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Evicts the next entry that may be evicted, to make room for a weight of `incoming`. Returns its weight, which the
    /// caller releases or uses.
    pub(crate) fn evict(
        &mut self,
        incoming: u64,
        keep: Option<u32>,
        now: u64,
        removed: &mut RemovedEntries<K, V>,
    ) -> Option<u64> {
        let victim = match self.evictable {
            Evictable::All => self.victim_of_policy(incoming, keep, now),
            _ => self.victim_of_some(incoming, keep, now),
        }?;
        let cause = if self.is_live(victim.slot, now) { Cause::Evicted } else { Cause::Expired };
        let left = self.remove_entry(victim, cause);
        removed.push(left.key, left.value, cause);
        Some(left.weight)
    }

    #[inline]
    fn victim_of_policy(&mut self, incoming: u64, keep: Option<u32>, now: u64) -> Option<Queued> {
        let mut view = View {
            table: &mut self.table,
            records: &self.records,
            timing: self.timing.as_deref(),
            hasher: &self.hasher,
            now,
        };
        self.queues.victim(&mut self.slots, &mut view, incoming, keep)
    }

    /// The next victim where not every entry is one: first those that have expired.
    #[cold]
    fn victim_of_some(&mut self, incoming: u64, keep: Option<u32>, now: u64) -> Option<Queued> {
        let slots = &self.slots;
        let nearest = self.timing.as_mut().and_then(|timing| {
            let expired = timing.next_expired(now).filter(|id| Some(*id) != keep);
            expired.or_else(|| timing.nearest(now, keep, |id| slots.weight(id) > 0))
        });
        let expired = nearest.filter(|&id| !self.is_live(id, now));
        let slot = match self.evictable {
            Evictable::All | Evictable::Timed if expired.is_none() => {
                return self.victim_of_policy(incoming, keep, now);
            }
            // More than a sample of the entries weigh nothing.
            Evictable::NearestDeadline if nearest.is_none() => {
                return self.victim_of_policy(incoming, keep, now);
            }
            Evictable::NearestDeadline => nearest,
            Evictable::All | Evictable::Timed | Evictable::Nothing => expired,
        }?;
        Some(Queued { slot, rank: rank(self.hash_of(slot)) })
    }
}
