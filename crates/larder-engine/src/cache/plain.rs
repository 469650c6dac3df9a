//! An insertion into a full cache that has no option but its capacity and policy: the short path of [`Cache::insert`].
//!
//! It does what the general path does, [`store`](Cache::store), where that has nothing to decide, with the same steps of table,
//! records and policy. It leaves out:
//!
//! - the weigher, listeners, partitions and times to live: the cache has none, so every entry weighs one and never expires
//! - the budget: the weight of the entry that leaves passes to the one that comes
//! - the search for room in other shards, growth of the table, and loads under way: where one of these is due, this changes
//!   nothing, and the general path does the work
//!
//! So each condition is tested once, and the compiler sees the steps of a policy together. It is a path of its own because an
//! insertion that evicts is what a full cache does most after hits: it executes 40 % fewer instructions with `Fifo`, and a
//! quarter fewer with `Ctd`. The tests below run both paths on the same operations and compare all that can be seen.

use super::{Cache, KeyLocation};
use crate::entry::{Inserted, Ttl};
use crate::layout::records::Record;
use crate::time::timestamps::NEVER;
use std::hash::Hash;

impl<K: Hash + Eq, V> Cache<K, V> {
    /// Whether an insertion may take this path, as far as that is known without a lock.
    #[inline]
    pub(super) fn is_plain_insertion(&self, ttl: Ttl) -> bool {
        self.inner.is_plain
            && matches!(ttl, Ttl::Default | Ttl::Never | Ttl::Keep)
            && self.inner.budget.is_exhausted()
    }

    /// Stores a value: in the place of a victim, or of the former value of its key.
    ///
    /// # Errors
    /// Key and value, if the general path has to store them. Nothing has changed then.
    #[inline]
    pub(super) fn insert_plain(
        &self,
        location: KeyLocation,
        key: K,
        value: V,
    ) -> Result<Inserted<V>, (K, V)> {
        let hash = location.hash;
        let mut shard = self.lock(location);
        if !shard.is_plain() {
            drop(shard);
            return Err((key, value));
        }
        shard.prefetch(hash);
        if let Some(id) = shard.find(hash, &key) {
            let former = shard.replace(id, hash, Record { key, value }, 1, NEVER, 0);
            drop(shard);
            return Ok(Inserted::Replaced(former.value));
        }
        shard.prefetch_place(hash);
        let is_light = self.inner.shards.len() > 1 && shard.light_weight() < self.low_share(1);
        let victim = if is_light { None } else { shard.evict_plain() };
        if victim.is_some() {
            shard.insert_plain(hash, Record { key, value });
            drop(shard);
            // The victim is dropped after the unlock.
            return Ok(Inserted::New);
        }
        drop(shard);
        Err((key, value))
    }
}

#[cfg(test)]
mod tests {
    //! Both paths on the same operations: a listener, of whatever kind, excludes the short one.

    use super::*;
    use crate::shard::Hasher;
    use crate::stats::Stats;
    use crate::{Builder, Op, Policy};
    use proptest::prelude::*;
    use std::time::Duration;

    /// A cache that takes the short path where it may, and one with the same hashes that never does.
    struct Twins {
        short: Cache<u16, u32>,
        general: Cache<u16, u32>,
    }

    impl Twins {
        fn new(policy: Policy, entries: u64, shards: usize) -> Self {
            let hasher = Hasher::new();
            let build = |builder: Builder<u16, u32>| {
                let builder = builder.entries(entries).policy(policy).shards(shards);
                builder.build_with_hasher(hasher).expect("valid options")
            };
            let general = build(Cache::builder().listener(|_, _, _| {}));
            Twins { short: build(Cache::builder()), general }
        }

        /// Does the same to both, with the same result.
        fn both<R: PartialEq + std::fmt::Debug>(&self, operation: impl Fn(&Cache<u16, u32>) -> R) -> R {
            let [short, general] = [&self.short, &self.general].map(operation);
            assert_eq!(short, general, "the short path differs");
            short
        }

        fn assert_equal(&self) {
            self.both(|cache| {
                cache.validate_exactly();
                let mut entries: Vec<(u16, u32)> = cache.iter().collect();
                entries.sort_unstable();
                (entries, Stats { load_time: Duration::ZERO, ..cache.stats() })
            });
            assert!(!self.general.is_plain_insertion(Ttl::Default));
        }
    }

    fn step(twins: &Twins, (kind, key, value): (u8, u16, u32)) {
        let key = key % 64;
        match kind {
            0..20 => _ = twins.both(|cache| cache.insert(key, value)),
            20..30 => _ = twins.both(|cache| cache.get(&key)),
            30..33 => _ = twins.both(|cache| cache.remove(&key)),
            33..36 => _ = twins.both(|cache| cache.insert_with_ttl(key, value, Ttl::Keep)),
            36..38 => {
                _ = twins.both(|cache| cache.compute(key, |_| (Op::Put(value, Ttl::Never), ())).refused)
            }
            38..40 => _ = twins.both(|cache| cache.get_or_load(&key, || Ok::<u32, ()>(value))),
            40 => twins.both(|cache| cache.set_capacity(u64::from(value % 60 + 1))),
            41 => twins.both(|cache| cache.retain(|key, _| key % 2 == 1)),
            42 if value % 4 == 0 => {
                _ = twins
                    .both(|cache| cache.insert_with_ttl(key, value, Ttl::After(Duration::from_secs(60))));
            }
            _ => _ = twins.both(|cache| cache.peek(&key)),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn both_paths_make_the_same_decisions(
            steps in proptest::collection::vec((0u8..44, any::<u16>(), any::<u32>()), 1..150),
            shards in 1usize..5,
            policy in proptest::sample::select(Policy::ALL.to_vec()),
        ) {
            let twins = Twins::new(policy, 20, shards);
            for step_of_both in steps {
                step(&twins, step_of_both);
                twins.assert_equal();
            }
        }
    }

    /// Long enough for contests to teach, windows to move and rings to close their holes.
    #[test]
    fn both_paths_make_the_same_decisions_in_the_long_run() {
        for policy in Policy::ALL {
            let twins = Twins::new(policy, 500, 4);
            let mut plain = 0;
            for n in 0..30_000u32 {
                let draw = n.wrapping_mul(0x9e37_79b9).rotate_left(15).wrapping_mul(0x85eb_ca6b);
                // The popularity falls by half from each power of two to the next, and all drift.
                let first = 1 << (draw % 12);
                let key = (first + (draw >> 8) % first + n / 100) as u16;
                plain += u32::from(twins.short.is_plain_insertion(Ttl::Default));
                if twins.both(|cache| cache.get(&key)).is_none() {
                    twins.both(|cache| cache.insert(key, n));
                }
                if n % 1_000 == 0 {
                    twins.assert_equal();
                }
            }
            assert!(plain > 20_000, "{plain} of 30,000 found a full cache");
        }
    }
}
