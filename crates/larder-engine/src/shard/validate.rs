//! The check of a shard's whole structure, for tests.

use super::Shard;
use crate::layout::queue::Queued;
use crate::layout::table::rank;
use crate::time::timestamps::NEVER;
use std::hash::Hash;

impl<K: Hash + Eq, V> Shard<K, V> {
    /// Walks the whole structure, panics if its parts do not agree, and returns the sum of the weights.
    pub(crate) fn validate(&self) -> u64 {
        let used: Vec<u32> = self.table.used().collect();
        assert_eq!(used.len(), self.len(), "the length is the number of slots in use");
        for &id in &used {
            let key = &self.record(id).key;
            assert_eq!(self.find(self.hash_of(id), key), Some(id), "the table finds the slot of each key");
        }
        let mut queued = self.queues.walk(&self.slots);
        queued.sort_unstable_by_key(|entry| entry.slot);
        let evictable = used.iter().copied().filter(|&id| self.is_queued(id, self.weight(id)));
        let evictable: Vec<Queued> =
            evictable.map(|id| Queued { slot: id, rank: rank(self.hash_of(id)) }).collect();
        assert_eq!(
            queued, evictable,
            "each entry that may be evicted and weighs something is on one queue, once"
        );
        let surplus = evictable.iter().map(|entry| self.shared.surplus_of(self.weight(entry.slot)));
        assert_eq!(self.surplus, surplus.sum::<u64>(), "each entry on a queue has its surplus counted");
        if let Some(timing) = &self.timing {
            let timed: Vec<u32> = used.iter().copied().filter(|&id| timing.due(id) < NEVER).collect();
            let registered = timed.iter().filter(|&&id| timing.wheel.is_registered(id)).count();
            assert_eq!(timing.wheel.valid(), registered, "nothing else is registered");
            let stayed =
                timing.leaving.is_some_and(|id| timing.due(id) < NEVER && !timing.wheel.is_registered(id));
            assert_eq!(timed.len(), registered + usize::from(stayed), "each deadline is registered");
        }
        if let Some(partitions) = &self.partitions {
            partitions.validate(used.iter().map(|&id| (&self.record(id).key, self.has_deadline(id))));
        }
        used.iter().map(|&id| self.weight(id)).sum()
    }
}
