//! Our own caches: the engine with each of its policies, and an exact LRU as the reference.

use super::cache::{OURS, ReplayedCache, Setup, Value};
use super::replay::Replay;
use crate::lru::Lru;
use anyhow::{Context, Result};
use larder_engine::{Cache, Clock, ManualClock, Policy, Ttl};
use std::time::Duration;

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
    let (clock, hand) = Clock::manual();
    let cache = builder.clock(clock).build().context("cannot build the cache")?;
    let hand = setup.expires.then_some(hand);
    Ok(Replay::new(OURS, policy.name(), Box::new(Engine { cache, hand, now: 0 })))
}

/// The engine, on a clock that advances by a millisecond with each request if values expire.
struct Engine {
    cache: Cache<u64, Value>,
    hand: Option<ManualClock>,
    now: u64,
}

impl ReplayedCache for Engine {
    fn get(&mut self, key: u64, now: u64) -> bool {
        if let Some(hand) = &self.hand {
            hand.advance(Duration::from_millis(now - self.now));
            self.now = now;
        }
        self.cache.get_with(&key, |_| ()).is_some()
    }

    fn insert(&mut self, key: u64, value: Value) {
        let ttl = value.ttl().map_or(Ttl::Never, |ttl| Ttl::After(Duration::from_millis(ttl.into())));
        self.cache.insert_with_ttl(key, value, ttl);
    }

    fn weight(&self) -> Option<u64> {
        Some(self.cache.weight())
    }
}

/// The reference for all policies.
pub(super) fn exact_lru(setup: &Setup) -> Replay {
    Replay::new("reference", "lru", Box::new(Lru::new(setup.capacity)))
}

impl ReplayedCache for Lru<u64, Value> {
    fn get(&mut self, key: u64, now: u64) -> bool {
        Lru::get(self, &key).is_some_and(|value| value.is_fresh(now))
    }

    fn insert(&mut self, key: u64, value: Value) {
        let weight = value.weight();
        Lru::insert(self, key, value, weight);
    }

    fn weight(&self) -> Option<u64> {
        Some(Lru::weight(self))
    }
}
