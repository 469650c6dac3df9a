//! Counts per partition: how many entries of each kind of key a shard holds, and how many of them have a deadline.

use crate::stats::PartitionStats;

/// Computes the partition of a key.
pub(crate) type Partition<K> = fn(&K) -> usize;

/// The counts of a shard.
#[derive(Debug)]
pub(super) struct Partitions<K> {
    partition: Partition<K>,
    /// How many partitions there are.
    count: usize,
    /// Those of the first partitions, up to the last one that ever had an entry: most caches use the first one alone.
    counts: Vec<PartitionStats>,
}

impl<K> Partitions<K> {
    pub(super) fn new(count: usize, partition: Partition<K>) -> Self {
        Partitions { partition, count, counts: Vec::new() }
    }

    pub(super) fn bytes_allocated(&self) -> usize {
        self.counts.capacity() * size_of::<PartitionStats>()
    }

    pub(super) fn get(&self, index: usize) -> PartitionStats {
        assert!(index < self.count, "partition {index} of {}", self.count);
        self.counts.get(index).copied().unwrap_or_default()
    }

    /// Panics if there is no partition for a key.
    pub(super) fn check(&self, key: &K) {
        let index = (self.partition)(key);
        assert!(index < self.count, "partition {index} of {}", self.count);
    }

    /// An entry was stored, as yet without a deadline.
    pub(super) fn inserted(&mut self, key: &K) {
        let index = (self.partition)(key);
        if index >= self.counts.len() {
            self.counts.resize_with(index + 1, PartitionStats::default);
        }
        self.counts[index].entries += 1;
    }

    pub(super) fn removed(&mut self, key: &K, had_deadline: bool) {
        let counts = &mut self.counts[(self.partition)(key)];
        counts.entries -= 1;
        counts.with_deadline -= u64::from(had_deadline);
    }

    /// An entry got a deadline, or lost it.
    pub(super) fn deadline_changed(&mut self, key: &K, has_deadline: bool) {
        let with_deadline = &mut self.counts[(self.partition)(key)].with_deadline;
        *with_deadline = if has_deadline { *with_deadline + 1 } else { *with_deadline - 1 };
    }

    /// Panics unless these are the counts of the entries: their keys, and whether they have a deadline.
    pub(super) fn validate<'a>(&self, entries: impl Iterator<Item = (&'a K, bool)>)
    where
        K: 'a,
    {
        let mut counts = vec![PartitionStats::default(); self.counts.len()];
        for (key, has_deadline) in entries {
            let counts = &mut counts[(self.partition)(key)];
            counts.entries += 1;
            counts.with_deadline += u64::from(has_deadline);
        }
        assert_eq!(self.counts, counts, "the counts per partition are those of the entries");
    }
}
