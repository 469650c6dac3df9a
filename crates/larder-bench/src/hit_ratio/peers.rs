//! Other caches, as their crates are, each built in the way that its documentation shows first.

use super::contender::{Contender, Setup, Value};
use super::replay::Replay;

/// The peers that are always built.
pub(super) fn always(setup: &Setup) -> Vec<Replay> {
    vec![
        Replay::new("quick_cache", "clock-pro", Box::new(QuickCache::new(setup))),
        Replay::new("moka", "tinylfu", Box::new(Moka::new(setup, moka::policy::EvictionPolicy::tiny_lfu()))),
    ]
}

/// All peers that are built in.
pub(super) fn all(setup: &Setup) -> Vec<Replay> {
    let mut replays = always(setup);
    replays.push(Replay::new("moka", "lru", Box::new(Moka::new(setup, moka::policy::EvictionPolicy::lru()))));
    #[cfg(feature = "bench-peers")]
    replays.extend(more::all(setup));
    replays
}

#[derive(Clone)]
struct Weight;

impl quick_cache::Weighter<u64, Value> for Weight {
    fn weight(&self, _: &u64, value: &Value) -> u64 {
        value.weight()
    }
}

struct QuickCache(quick_cache::sync::Cache<u64, Value, Weight>);

impl QuickCache {
    fn new(setup: &Setup) -> Self {
        let cache = quick_cache::sync::Cache::with_weighter(setup.expected_entries(), setup.capacity, Weight);
        QuickCache(cache)
    }
}

impl Contender for QuickCache {
    fn get(&mut self, key: u64) -> bool {
        self.0.get(&key).is_some()
    }

    fn insert(&mut self, key: u64, value: Value) {
        self.0.insert(key, value);
    }
}

struct Moka(moka::sync::Cache<u64, Value>);

impl Moka {
    fn new(setup: &Setup, policy: moka::policy::EvictionPolicy) -> Self {
        let builder = moka::sync::Cache::builder().max_capacity(setup.capacity).eviction_policy(policy);
        let builder =
            if setup.weighed { builder.weigher(|_, value: &Value| value.weight() as u32) } else { builder };
        Moka(builder.build())
    }
}

impl Contender for Moka {
    fn get(&mut self, key: u64) -> bool {
        self.0.get(&key).is_some()
    }

    fn insert(&mut self, key: u64, value: Value) {
        self.0.insert(key, value);
    }
}

/// The peers with larger dependency trees.
#[cfg(feature = "bench-peers")]
mod more {
    use super::{Contender, Replay, Setup, Value};
    use foyer_memory::{CacheBuilder, CacheProperties, EvictionConfig};
    use std::hash::RandomState;

    pub(super) fn all(setup: &Setup) -> Vec<Replay> {
        let mut replays = vec![Replay::new("mini-moka", "tinylfu", Box::new(MiniMoka::new(setup)))];
        let foyer: [(&str, EvictionConfig); 4] = [
            ("fifo", foyer_memory::FifoConfig::default().into()),
            ("lru", foyer_memory::LruConfig::default().into()),
            ("lfu", foyer_memory::LfuConfig::default().into()),
            ("s3fifo", foyer_memory::S3FifoConfig::default().into()),
        ];
        for (policy, config) in foyer {
            replays.push(Replay::new("foyer-memory", policy, Box::new(Foyer::new(setup, config))));
        }
        // Its weights have 16 bits.
        if !setup.weighed {
            replays.push(Replay::new("TinyUFO", "s3fifo+tinylfu", Box::new(TinyUfo::new(setup))));
        }
        replays
    }

    struct MiniMoka(mini_moka::sync::Cache<u64, Value>);

    impl MiniMoka {
        fn new(setup: &Setup) -> Self {
            let builder = mini_moka::sync::Cache::builder().max_capacity(setup.capacity);
            let weigh = |_: &u64, value: &Value| value.weight() as u32;
            MiniMoka(if setup.weighed { builder.weigher(weigh).build() } else { builder.build() })
        }
    }

    impl Contender for MiniMoka {
        fn get(&mut self, key: u64) -> bool {
            self.0.get(&key).is_some()
        }

        fn insert(&mut self, key: u64, value: Value) {
            self.0.insert(key, value);
        }
    }

    struct Foyer(foyer_memory::Cache<u64, Value, RandomState, CacheProperties>);

    impl Foyer {
        fn new(setup: &Setup, config: EvictionConfig) -> Self {
            let builder = CacheBuilder::new(setup.capacity as usize)
                .with_eviction_config(config)
                .with_hash_builder(RandomState::new())
                .with_weighter(|_: &u64, value: &Value| value.weight() as usize);
            Foyer(builder.build())
        }
    }

    impl Contender for Foyer {
        fn get(&mut self, key: u64) -> bool {
            self.0.get(&key).is_some()
        }

        fn insert(&mut self, key: u64, value: Value) {
            self.0.insert(key, value);
        }
    }

    struct TinyUfo(tinyufo::TinyUfo<u64, Value>);

    impl TinyUfo {
        fn new(setup: &Setup) -> Self {
            TinyUfo(tinyufo::TinyUfo::new(setup.capacity as usize, setup.capacity as usize))
        }
    }

    impl Contender for TinyUfo {
        fn get(&mut self, key: u64) -> bool {
            self.0.get(&key).is_some()
        }

        fn insert(&mut self, key: u64, value: Value) {
            self.0.put(key, value, 1);
        }
    }
}
