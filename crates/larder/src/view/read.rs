//! Reading without loading.

use super::View;
use crate::coherence::lookup::{Purpose, RedisLookup};
use crate::fetch::view_state::ViewState;
use crate::key::{CacheKey, KeyBuf};
use crate::node::StartState;
use crate::node::entry::{MemoryTicket, Validity};
use crate::node::fetched::{Fetched, Source};
use crate::node::lookup::{Candidate, MemoryLookup, source_in_memory};
use crate::node::sealing::OpenedEntry;
use crate::policy::Lifetime;

/// A [`View`] that can only be read.
pub struct ReadView<K: ?Sized, V, E = std::convert::Infallible>(pub(crate) View<K, V, E>);

impl<K, V, E> ReadView<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// See [`View::read`].
    pub async fn read(&self, key: &K) -> Option<Fetched<V>> {
        self.0.read(key).await
    }

    /// See [`View::read_multi`].
    pub async fn read_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Vec<Option<Fetched<V>>>
    where
        K: 'k,
    {
        self.0.read_multi(keys).await
    }

    /// See [`View::exist`].
    pub async fn exist(&self, key: &K) -> bool {
        self.0.exist(key).await
    }
}

impl<K: ?Sized, V, E> Clone for ReadView<K, V, E> {
    fn clone(&self) -> Self {
        ReadView(self.0.clone())
    }
}

impl<K: ?Sized, V, E> std::fmt::Debug for ReadView<K, V, E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("ReadView").field(&self.0).finish()
    }
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// The value in memory or in Redis, if either has a valid one. Does not wait for running loads.
    ///
    /// Cancel safe. Cost: a shard lock; on a miss in memory one round trip to Redis, if there is one.
    pub async fn read(&self, key: &K) -> Option<Fetched<V>> {
        let state = &self.state;
        if state.is_off() {
            return None;
        }
        let key = KeyBuf::of(key);
        let found = match state.lookup(&key) {
            MemoryLookup::Hit(fetched) => Some(fetched),
            missed => state.read_from_redis(vec![(key.clone(), missed)]).await.pop().flatten(),
        };
        state.touch(&key, found.as_ref());
        found
    }

    /// The values of many keys, in the order of the keys. Cost: one round trip to Redis for all keys that memory does
    /// not have, and another one if their values have tags that this node does not know.
    ///
    /// Cancel safe.
    pub async fn read_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Vec<Option<Fetched<V>>>
    where
        K: 'k,
    {
        let keys = keys.into_iter().map(KeyBuf::of);
        if self.state.is_off() {
            return keys.map(|_| None).collect();
        }
        let (mut answers, mut all_missed, mut unanswered) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            let found = match self.state.lookup(&key) {
                MemoryLookup::Hit(fetched) => {
                    self.state.touch(&key, Some(&fetched));
                    Some(fetched)
                }
                missed => {
                    unanswered.push((answers.len(), key.clone()));
                    all_missed.push((key, missed));
                    None
                }
            };
            answers.push(found);
        }
        if !all_missed.is_empty() {
            let found = self.state.read_from_redis(all_missed).await;
            for ((index, key), found) in unanswered.into_iter().zip(found) {
                self.state.touch(&key, found.as_ref());
                answers[index] = found;
            }
        }
        answers
    }

    /// Whether memory or Redis has a valid value. Cost: as [`View::read`].
    pub async fn exist(&self, key: &K) -> bool {
        self.read(key).await.is_some()
    }
}

impl<V: Send + Sync + 'static> ViewState<V> {
    fn lookup(&self, key: &KeyBuf) -> MemoryLookup<V> {
        self.node().lookup(&self.config, key)
    }

    /// Looks up Redis for the keys that memory could not answer.
    async fn read_from_redis(&self, missed: Vec<(KeyBuf, MemoryLookup<V>)>) -> Vec<Option<Fetched<V>>> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let mut answers: Vec<Option<Fetched<V>>> = missed.iter().map(|_| None).collect();
        if node.redis.is_none() {
            return answers;
        }
        coordinator.ensure_connected().await;
        if let [(key, lookup)] = &missed[..]
            && let Some(candidate) = candidate_of(lookup).filter(|candidate| candidate.needs_revalidation)
            && let Some(fetched) = self.revalidated(key, candidate).await
        {
            return vec![Some(fetched)];
        }
        let (epoch, generation) = (node.ledger.epoch(), node.trust.generation());
        let (mut redis_keys, mut pending) = (Vec::new(), Vec::new());
        for (index, (key, lookup)) in missed.into_iter().enumerate() {
            let (ticket, candidate) = match lookup {
                MemoryLookup::Lead { ticket, candidate } => (Some(ticket), candidate),
                MemoryLookup::Follow(waiter) => (None, waiter.candidate),
                MemoryLookup::Hit(_) => continue,
            };
            let redis_key = self.redis_key(&key);
            if coordinator.replay_log.blocks(&redis_key) {
                // What this node stored since is valid until it can be compared with Redis.
                answers[index] = candidate.and_then(|candidate| self.valid_without_redis(&candidate));
                continue;
            }
            let tracked_writes = node.tracked_writes.count(&redis_key);
            pending.push(PendingRead { index, ticket, candidate, tracked_writes });
            redis_keys.push(redis_key);
        }
        if redis_keys.is_empty() {
            return answers;
        }
        let (lookups, clock) = match coordinator.lookup_redis(&redis_keys, Purpose::Read).await {
            Ok(reply) => reply,
            Err(error) => {
                node.observers.report(&error);
                for PendingRead { index, candidate, .. } in pending {
                    answers[index] = candidate.and_then(|candidate| self.valid_without_redis(&candidate));
                }
                return answers;
            }
        };
        for ((read, lookup), redis_key) in pending.into_iter().zip(lookups).zip(&redis_keys) {
            let PendingRead { index, ticket, candidate, tracked_writes } = read;
            let start = StartState { clock, epoch, generation, tracked_writes };
            let RedisLookup::Bytes(bytes) = lookup else {
                // Redis does not have it, so memory must not serve it.
                if let Some(candidate) = candidate.filter(|candidate| candidate.needs_revalidation) {
                    candidate.entry.state().mark_dead();
                }
                continue;
            };
            let opened = node.open(&self.config, redis_key, &bytes, &start).await;
            if let Some(OpenedEntry { entry, validity: Validity::Valid, .. }) = opened {
                if let Some(ticket) = ticket {
                    node.commit(redis_key, ticket, &entry, tracked_writes);
                }
                answers[index] = node.fetched(entry, Source::Redis, false);
            }
        }
        answers
    }

    /// A candidate that Redis has too, if it is valid.
    async fn revalidated(&self, key: &KeyBuf, candidate: &Candidate) -> Option<Fetched<V>> {
        let validity = self.coordinator.revalidate(&self.redis_key(key), candidate.entry.state()).await;
        self.fetched_if_valid(candidate, validity?)
    }

    /// A candidate that is valid although Redis does not reply.
    fn valid_without_redis(&self, candidate: &Candidate) -> Option<Fetched<V>> {
        if !candidate.needs_revalidation {
            return None;
        }
        self.fetched_if_valid(candidate, self.node().judge_without_redis(candidate.entry.state()))
    }

    fn fetched_if_valid(&self, candidate: &Candidate, validity: Validity) -> Option<Fetched<V>> {
        let is_valid = validity == Validity::Valid;
        is_valid
            .then(|| self.node().fetched(candidate.entry.clone(), source_in_memory(&candidate.entry), false))
            .flatten()
    }

    /// Restarts the time to live with which a value was stored, if the view does that. Does not wait for Redis.
    fn touch(&self, key: &KeyBuf, found: Option<&Fetched<V>>) {
        let Some(found) = found.filter(|_| self.config.touch_on_read) else { return };
        let (node, state) = (self.node(), found.state());
        let stored = state.lifetime();
        // As after a lookup in Redis, memory has a value of another node no longer than the TTL of this view.
        let fresh_here = match state.promoted {
            true => stored.fresh.min(self.lifetime(found, self.config.policy).fresh),
            false => stored.fresh,
        };
        let here = Lifetime { fresh: fresh_here, ..stored };
        if !state.renew(node.now(), here) {
            return;
        }
        node.renew_memory(self.memory_key(key), here.kept_for());
        if let (Some(_), Some(id)) = (&node.redis, state.id) {
            let (coordinator, redis_key) = (self.coordinator.clone(), self.redis_key(key));
            tokio::spawn(async move {
                // If the touch fails, the value expires earlier. No caller needs to know.
                _ = coordinator.touch(redis_key, id, stored.kept_for()).await;
            });
        }
    }
}

fn candidate_of<V>(lookup: &MemoryLookup<V>) -> Option<&Candidate> {
    match lookup {
        MemoryLookup::Lead { candidate, .. } => candidate.as_ref(),
        MemoryLookup::Follow(waiter) => waiter.candidate.as_ref(),
        MemoryLookup::Hit(_) => None,
    }
}

/// A key that is looked up in Redis.
struct PendingRead {
    /// The position among the answers.
    index: usize,
    ticket: Option<MemoryTicket>,
    candidate: Option<Candidate>,
    tracked_writes: u64,
}
