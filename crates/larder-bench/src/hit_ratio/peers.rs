//! Other caches, each built in the way that its documentation shows first.

use super::cache::{ReplayedCache, Setup, Value};
use super::replay::Replay;
use crate::subject::{Moka, QuickCache, Readable, Writable};
use std::hash::RandomState;

/// The peers that are always built.
pub(super) fn always(setup: &Setup) -> Vec<Replay> {
    vec![quick_cache(setup), moka(setup, "tinylfu", moka::policy::EvictionPolicy::tiny_lfu())]
}

/// All peers that are built in.
pub(super) fn all(setup: &Setup) -> Vec<Replay> {
    let mut replays = always(setup);
    replays.push(moka(setup, "lru", moka::policy::EvictionPolicy::lru()));
    #[cfg(feature = "bench-peers")]
    replays.extend(more::all(setup));
    replays
}

fn replay<C: Writable<u64, Value>>(policy: &'static str, cache: C) -> Replay {
    Replay::new(C::NAME, policy, Box::new(cache))
}

impl<C: Writable<u64, Value>> ReplayedCache for C {
    /// By the deadline in the value: quick_cache has no times to live, and those of moka follow the machine's clock.
    fn get(&mut self, key: u64, now: u64) -> bool {
        Readable::get(self, &key).is_some_and(|value| value.is_fresh(now))
    }

    fn insert(&mut self, key: u64, value: Value) {
        Writable::insert(self, key, value);
    }
}

#[derive(Clone, Default)]
struct Weight;

impl quick_cache::Weighter<u64, Value> for Weight {
    fn weight(&self, _: &u64, value: &Value) -> u64 {
        value.weight()
    }
}

fn quick_cache(setup: &Setup) -> Replay {
    type Weighed = QuickCache<u64, Value, Weight, RandomState>;
    replay("clock-pro", Weighed::with_weight(setup.expected_entries(), setup.capacity))
}

fn moka(setup: &Setup, name: &'static str, policy: moka::policy::EvictionPolicy) -> Replay {
    let builder = moka::sync::Cache::builder().max_capacity(setup.capacity).eviction_policy(policy);
    let weigh = |_: &u64, value: &Value| value.weight() as u32;
    replay(name, Moka(if setup.weighed { builder.weigher(weigh).build() } else { builder.build() }))
}

/// The peers with larger dependency trees.
#[cfg(feature = "bench-peers")]
mod more {
    use super::{RandomState, Replay, Setup, Value, replay};
    use crate::subject::{Foyer, MiniMoka, TinyUfo};
    use foyer_memory::{CacheBuilder, EvictionConfig};

    pub(super) fn all(setup: &Setup) -> Vec<Replay> {
        let mut replays = vec![mini_moka(setup)];
        let policies: [(&str, EvictionConfig); 4] = [
            ("fifo", foyer_memory::FifoConfig::default().into()),
            ("lru", foyer_memory::LruConfig::default().into()),
            ("lfu", foyer_memory::LfuConfig::default().into()),
            ("s3fifo", foyer_memory::S3FifoConfig::default().into()),
        ];
        replays.extend(policies.map(|(policy, config)| foyer(setup, policy, config)));
        // TinyUFO's weights have only 16 bits.
        if !setup.weighed {
            let cache = tinyufo::TinyUfo::new(setup.capacity as usize, setup.expected_entries());
            replays.push(replay("s3fifo+tinylfu", TinyUfo(cache)));
        }
        replays
    }

    fn mini_moka(setup: &Setup) -> Replay {
        let builder = mini_moka::sync::Cache::builder().max_capacity(setup.capacity);
        let weigh = |_: &u64, value: &Value| value.weight() as u32;
        let cache = if setup.weighed { builder.weigher(weigh).build() } else { builder.build() };
        replay("tinylfu", MiniMoka(cache))
    }

    fn foyer(setup: &Setup, policy: &'static str, config: EvictionConfig) -> Replay {
        let builder = CacheBuilder::new(setup.capacity as usize)
            .with_eviction_config(config)
            .with_hash_builder(RandomState::new())
            .with_weighter(|_: &u64, value: &Value| value.weight() as usize);
        replay(policy, Foyer(builder.build()))
    }
}
