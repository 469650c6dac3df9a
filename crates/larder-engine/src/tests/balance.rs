//! Shards have equal shares of the capacity, whatever their entries weigh.

use crate::{Cache, Policy};

/// Small numbers are frequent.
struct Random(u64);

impl Random {
    fn unit(&mut self) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 11) as f64 / (1u64 << 53) as f64
    }

    fn key(&mut self, keys: f64) -> u64 {
        keys.powf(self.unit()) as u64
    }
}

fn weighed(capacity: u64, shards: usize, policy: Policy) -> Cache<u64, u64> {
    let builder = Cache::builder().weight(capacity, |_, weight| *weight).shards(shards).policy(policy);
    builder.build().expect("valid options")
}

/// A shard that evicted a heavy entry for a light one left its room to the others, and never got it back.
#[test]
fn shard_that_has_evicted_heavy_entries_keeps_its_share() {
    for policy in Policy::ALL {
        let cache = weighed(10_000, 4, policy);
        let mut keys_of_first = (0..).filter(|key| cache.locate(key).shard == 0);
        for light in 0..20_000 {
            cache.insert(1 << 40 | light, 10);
            if light % 400 == 0 {
                cache.insert(keys_of_first.next().expect("there are more"), 2_000);
            }
        }
        let mut weights = [0; 4];
        cache.iter().for_each(|(key, weight)| weights[cache.locate(&key).shard] += weight);
        assert!(weights.iter().all(|weight| (1_000..5_500).contains(weight)), "{policy:?}: {weights:?}");
        cache.validate();
    }
}

/// A response of a megabyte beside many of a kilobyte: an entry may weigh as much as the share of a shard.
#[test]
fn shards_cost_few_hits_if_weights_differ() {
    let hit_ratio = |policy, shards| {
        let cache = weighed(1 << 20, shards, policy);
        let (mut random, mut hits) = (Random(42), 0);
        // The weight of a key is always the same.
        let weight = |key: u64| (1_000.0 * (1.0 - Random(key).unit()).powf(-1.0 / 1.2)).min(131_072.0) as u64;
        for _ in 0..200_000 {
            let key = random.key(40_000.0);
            hits += u32::from(cache.get(&key).is_some());
            if !cache.contains(&key) {
                cache.insert(key, weight(key));
            }
        }
        f64::from(hits) / 200_000.0
    };
    for policy in [Policy::Ctd, Policy::S3Fifo, Policy::Lru] {
        let (one, eight) = (hit_ratio(policy, 1), hit_ratio(policy, 8));
        assert!(eight > one - 0.06, "{policy:?}: {one} with one shard, {eight} with eight");
    }
}
