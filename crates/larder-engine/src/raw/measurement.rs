//! What the shards of a cache have allocated, measured some shards at a time: a look at thousands of them at once would be a
//! stall.

use super::Cache;

/// The memory of the shards, each as it was when it was last measured: see [`Cache::measure`].
#[derive(Debug, Default)]
pub struct Measurement {
    /// The bytes and the entries of each shard that was measured.
    shards: Vec<(usize, usize)>,
    next: usize,
    bytes: usize,
    entries: usize,
}

impl Measurement {
    /// The bytes that the shards have allocated, without memory that keys and values own: as [`Cache::bytes_allocated`].
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The entries that were in the shards at the same time.
    pub fn entries(&self) -> usize {
        self.entries
    }
}

impl<O> Cache<O> {
    /// Measures the next `count` shards again, or all if there are fewer. If another thread holds a shard for longer than
    /// most operations take, its last measurement stays until its next turn.
    ///
    /// Cost: a lock and some reads for each of these shards.
    ///
    /// # Panics
    /// If the measurement is of another cache, which has more shards.
    pub fn measure(&self, measurement: &mut Measurement, count: usize) {
        let shards = self.shards();
        measurement.shards.resize(shards.len(), (0, 0));
        for _ in 0..count.min(shards.len()) {
            let index = measurement.next;
            measurement.next = (index + 1) % shards.len();
            let Some(shard) = shards.lock_without_sleep(index) else { continue };
            let now = (shard.bytes_allocated(), shard.len());
            drop(shard);
            let before = std::mem::replace(&mut measurement.shards[index], now);
            measurement.bytes = measurement.bytes - before.0 + now.0;
            measurement.entries = measurement.entries - before.1 + now.1;
        }
    }

    /// The number of shards.
    pub fn shard_count(&self) -> usize {
        self.shards().len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Ttl;
    use crate::raw::{Key, Record};

    #[test]
    fn measurement_agrees_with_the_cache_after_a_round() {
        let cache: Cache = Cache::builder()
            .weight(1 << 20, |record: &Record, ()| record.bytes_allocated() as u64)
            .shards(8)
            .build()
            .expect("valid options");
        let mut measurement = Measurement::default();
        for entries in [0u32, 5_000, 100] {
            cache.clear();
            for n in 0..entries {
                let record = Record::new(Key { space: 0, name: &n.to_le_bytes() }, &[b"value"]);
                cache.insert_with_ttl(record, (), Ttl::Never);
            }
            // Three rounds of eight shards in slices of three.
            (0..8).for_each(|_| cache.measure(&mut measurement, 3));
            assert_eq!((measurement.bytes(), measurement.entries()), (cache.bytes_allocated(), cache.len()));
        }
        cache.clear();
        cache.measure(&mut measurement, usize::MAX);
        assert_eq!((measurement.bytes(), measurement.entries()), (cache.bytes_allocated(), 0));
    }
}
