//! How the memory of a shard follows its entries: it grows with them, and goes back when they are gone.

use super::Shard;
use crate::layout::records::Records;
use crate::layout::slots::{Moves, Slots};
use crate::layout::table::rank;
use crate::policy::{Hits, OnHit, Queues};
use std::hash::Hash;

impl<K: Hash + Eq, V> Shard<K, V> {
    /// The bytes of this shard and of what it has allocated, but for loads under way.
    pub(crate) fn bytes_allocated(&self) -> usize {
        let timing = self.timing.as_ref().map_or(0, |timing| timing.bytes_allocated());
        let entries = self.table.bytes_allocated() + self.records.bytes_allocated();
        let policy = self.slots.bytes_allocated() + self.queues.bytes_allocated();
        let statistics = self.misses.bytes_allocated()
            + self.partitions.as_ref().map_or(0, |partitions| partitions.bytes_allocated());
        size_of_val(self) + entries + policy + timing + statistics
    }

    /// The rank of each entry, by slot. That of an entry on a queue is there; a hash of its key would read its memory.
    fn ranks(&self) -> Vec<u32> {
        let mut ranks = vec![0; self.table.slots() as usize];
        self.queues.visit(|entry| ranks[entry.slot as usize] = entry.rank);
        let others = self.table.used().filter(|&id| !self.is_queued(id, self.weight(id)));
        others.for_each(|id| ranks[id as usize] = rank(self.hash_of(id)));
        ranks
    }

    /// Gives the memory for entries back if there are none, with what the policy has learned from them.
    pub(crate) fn shrink_if_empty(&mut self) {
        if self.len() > 0 || self.table.has_one_group() {
            return;
        }
        self.table = self.table.resized(1);
        self.records = Records::new(self.table.slots());
        self.slots = Slots::new(self.table.slots(), self.slots.is_weighed());
        self.queues = Queues::new(self.policy);
        self.timing = None;
        self.counts_only = self.on_hit == OnHit::Count;
        // The policy begins to count them anew.
        self.stats.hits += self.hits.sum();
        self.hits = Hits::default();
    }

    /// Moves all entries and their state to a larger table.
    pub(super) fn grow(&mut self, groups: usize, now: u64) {
        let mut table = self.table.resized(groups);
        let mut records = Records::new(table.slots());
        let mut moves = Moves::new(self.table.slots(), table.slots());
        let ranks = self.ranks();
        for from in self.table.used() {
            let hash = self.table.hash_like(from, ranks[from as usize]);
            let to = table.allocate(hash);
            table.set_mark(to, self.table.mark(from));
            // SAFETY: a slot in use holds a record. If the hash of a later key panics, the old table stays in use and
            // the copies are never read.
            records.write(to, unsafe { self.records.take(from) });
            moves.record(from, to);
        }
        self.slots = self.slots.moved(&moves);
        self.queues.relocate(&moves);
        if let Some(timing) = &mut self.timing {
            **timing = timing.moved(&moves, now);
        }
        (self.table, self.records) = (table, records);
        self.register_all();
    }
}
