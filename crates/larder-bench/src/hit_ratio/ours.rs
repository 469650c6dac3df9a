//! Our own caches: the engine with each of its policies, and an exact LRU as the reference.

use super::cache::{OURS, ReplayedCache, Setup, Value};
use super::replay::Replay;
use crate::lru::Lru;
use anyhow::{Context, Result};
use larder_engine::{Cache, Policy};

/// One of our own policies.
pub(super) fn larder(setup: &Setup, policy: Policy, shards: Option<u32>) -> Result<Replay> {
    let builder = Cache::<u64, Value>::builder().policy(policy);
    let builder = if setup.weighed {
        builder.weight(setup.capacity, |_, value| value.weight())
    } else {
        builder.entries(setup.capacity)
    };
    let builder = match shards {
        Some(shards) => builder.shards(shards as usize),
        None => builder,
    };
    let cache = builder.build().context("cannot build the cache")?;
    Ok(Replay::new(OURS, policy.name(), Box::new(cache)))
}

impl ReplayedCache for Cache<u64, Value> {
    fn get(&mut self, key: u64) -> bool {
        self.get_with(&key, |_| ()).is_some()
    }

    fn insert(&mut self, key: u64, value: Value) {
        Cache::insert(self, key, value);
    }

    fn weight(&self) -> Option<u64> {
        Some(Cache::weight(self))
    }
}

/// The reference for all policies.
pub(super) fn exact_lru(setup: &Setup) -> Replay {
    Replay::new("reference", "lru", Box::new(Lru::new(setup.capacity)))
}

impl ReplayedCache for Lru<u64, Value> {
    fn get(&mut self, key: u64) -> bool {
        Lru::get(self, &key).is_some()
    }

    fn insert(&mut self, key: u64, value: Value) {
        let weight = value.weight();
        Lru::insert(self, key, value, weight);
    }

    fn weight(&self) -> Option<u64> {
        Some(Lru::weight(self))
    }
}
