//! The steps of a shard for the short path of an insertion (`cache/plain.rs`): one entry leaves and another one comes, where all weigh
//! one and none has a deadline. The general steps are [`Shard::evict`] and [`Shard::insert`].

use super::Shard;
use super::victims::View;
use crate::entry::Cause;
use crate::layout::queue::Queued;
use crate::layout::records::Record;
use crate::layout::table::rank;
use crate::policy::{Entries, Evict, Evictable, each};
use std::hash::Hash;

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Whether the policy alone decides what leaves, and no load of the shard can be voided.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.timing.is_none() && self.evictable == Evictable::All && self.flights.is_empty()
    }

    /// Evicts the next victim, which the caller drops after the unlock. `None` if there is none, or if the table has to grow for
    /// the entry that comes: nothing has changed then.
    #[inline]
    pub(crate) fn evict_plain(&mut self) -> Option<Record<K, V>> {
        // A policy that is asked in vain may have learned something meanwhile.
        if self.len() == 0 || !self.table.has_room_after_removal() {
            return None;
        }
        let Shard { table, records, slots, queues, hasher, .. } = self;
        let mut view = View { table, records, timing: None, hasher, now: 0 };
        let Queued { slot, rank } = each!(queues, queues => {
            let victim = queues.victim(slots, &mut view, 1, None)?;
            queues.remove(slots, victim, view.mark(victim.slot));
            victim
        });
        assert!(self.table.is_used(slot), "slot {slot} is not in use");
        self.table.release(rank, slot);
        self.misses.removed(rank, Cause::Evicted);
        self.stats.evicted += 1;
        // SAFETY: the slot was in use until now, so it holds a record, and it is not in use any more.
        Some(unsafe { self.records.take(slot) })
    }

    /// Stores an entry for a key that has none, after [`evict_plain`](Self::evict_plain) has made room for it.
    #[inline]
    pub(crate) fn insert_plain(&mut self, hash: u64, record: Record<K, V>) {
        let entry = Queued { slot: self.table.allocate(hash), rank: rank(hash) };
        self.records.write(entry.slot, record);
        let mark = each!(&mut self.queues, queues => queues.insert(&mut self.slots, entry, &self.hits));
        self.table.set_mark(entry.slot, mark);
        self.stats.inserts += 1;
    }
}
