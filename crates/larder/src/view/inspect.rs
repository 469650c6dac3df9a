//! What memory has under a key, for tools that explain what a cache does.

use super::View;
use crate::key::{CacheKey, KeyBuf};
use crate::node::entry::Validity;
use crate::node::validity::Proof;
use std::time::Duration;

/// The entry that memory has under a key at one moment; see [`View::inspect`].
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Inspection {
    /// The key in Redis: namespace, view and key.
    pub redis_key: Vec<u8>,
    /// Whether the cache has Redis as its second tier.
    pub has_redis: bool,
    /// The entry in memory.
    pub entry: Option<EntryInspection>,
}

/// An entry in memory at one moment.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct EntryInspection {
    /// Whether a read would serve it.
    pub validity: Validity,
    /// The time since the value was loaded, as far as Redis knew it.
    pub age: Duration,
    /// The rest of its time to live; zero once it is stale.
    pub ttl: Duration,
    /// The time after that in which it may still be served stale.
    pub grace: Duration,
    /// Its tags.
    pub tags: Vec<Box<str>>,
    /// Whether it is a remembered absence.
    pub is_absence: bool,
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// The entry that memory has under a key. It asks no Redis, loads nothing, and changes neither policy nor counters.
    ///
    /// Cost: a lookup in memory.
    pub fn inspect(&self, key: &K) -> Inspection {
        let (state, node) = (&self.state, self.state.node());
        let key = KeyBuf::of(key);
        // Before memory: what was known before is known of the entry.
        let now = node.now();
        let (trust, epoch) = (node.trust.snapshot(), node.ledger.epoch());
        let in_memory = (!node.is_inherited()).then(|| node.memory.peek(&state.memory_key(&key))).flatten();
        let entry = in_memory.and_then(|entry| {
            let value = entry.value::<V>()?;
            let times = entry.state();
            let ttl = times.remaining_ttl(now);
            Some(EntryInspection {
                validity: node.judge(times, Proof::Trust(trust), epoch, now),
                age: times.initial_age + now.saturating_sub(times.stored_at),
                ttl,
                grace: times.remaining(now).saturating_sub(ttl),
                tags: times.tags.to_vec(),
                is_absence: state.config.is_negative(value),
            })
        });
        Inspection { redis_key: state.redis_key(&key), has_redis: node.redis.is_some(), entry }
    }
}
