//! Reading without loading.

use super::View;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::fetch::view_state::ViewState;
use crate::key::{CacheKey, KeyBuf};
use crate::node::StartState;
use crate::node::entry::{MemoryTicket, Validity};
use crate::node::fetched::{Fetched, Source};
use crate::node::lookup::{Candidate, MemoryLookup};
use crate::node::sealing::{DecodedEntry, OpenedEntry};
use larder_engine::Leader;
use std::time::Duration;

/// A [`View`] that can only be read.
pub struct ReadView<K: ?Sized, V, E = std::convert::Infallible>(pub(crate) View<K, V, E>);

impl<K, V, E> ReadView<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// See [`View::hit`].
    pub fn hit(&self, key: &K) -> Option<Fetched<V>> {
        self.0.hit(key)
    }

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

    /// See [`View::ttl`].
    pub async fn ttl(&self, key: &K) -> Option<Duration> {
        self.0.ttl(key).await
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
    /// The value in memory, if it may be served at once: what a fetch or a read answers without waiting. It asks no Redis, needs
    /// no runtime and leads no load. As a fetch, it restarts no time to live.
    ///
    /// `None` says nothing of Redis, and counts as no miss: fetch or read the key then, which does.
    ///
    /// Cost: a shard lock; a second lookup once for each entry after any invalidation of a tag.
    pub fn hit(&self, key: &K) -> Option<Fetched<V>> {
        let node = self.state.node();
        if !node.is_usable() {
            return None;
        }
        let found = node.hit(&self.state.config, &KeyBuf::of(key));
        found.iter().for_each(Fetched::note_freshness);
        found
    }

    /// The value in memory or in Redis, if either has a valid one. Does not wait for running loads.
    ///
    /// Cancel safe. Cost: a shard lock; on a miss in memory one round trip to Redis, if there is one.
    ///
    /// # Panics
    /// Outside a tokio runtime, if Redis is asked.
    pub async fn read(&self, key: &K) -> Option<Fetched<V>> {
        let (state, key) = (&self.state, KeyBuf::of(key));
        let found = state.find(&key).await;
        state.renew_on_read(&key, found.as_ref());
        found.iter().for_each(Fetched::note_freshness);
        found
    }

    /// The values of many keys, in the order of the keys. Cost: one round trip to Redis for all keys that memory does
    /// not have, and another one if their values have tags that this node does not know.
    ///
    /// Cancel safe.
    ///
    /// # Panics
    /// As [`View::read`].
    pub async fn read_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Vec<Option<Fetched<V>>>
    where
        K: 'k,
    {
        self.state.read_many(keys.into_iter().map(KeyBuf::of).collect()).await
    }

    /// Whether memory or Redis has a valid value. Cost: as [`View::read`].
    ///
    /// # Panics
    /// As [`View::read`].
    pub async fn exist(&self, key: &K) -> bool {
        self.read(key).await.is_some()
    }
}

impl<V: Send + Sync + 'static> ViewState<V> {
    /// What a read finds, which restarts no time to live.
    pub(super) async fn find(&self, key: &KeyBuf) -> Option<Fetched<V>> {
        let node = self.node();
        if !node.is_usable() {
            return None;
        }
        let mut found = None;
        match self.look_up_to_read(key, node.now()) {
            MemoryLookup::Hit(fetched) => found = Some(fetched),
            missed => {
                let missed = MissedKey::new(0, key.clone(), missed).into_iter().collect();
                let reading = self.read_from_redis(missed, std::slice::from_mut(&mut found));
                node.tasks.within(reading).await;
            }
        }
        found
    }

    /// What a read finds under many keys, in their order.
    pub(super) async fn read_many(&self, keys: Vec<KeyBuf>) -> Vec<Option<Fetched<V>>> {
        if !self.node().is_usable() {
            return keys.iter().map(|_| None).collect();
        }
        let mut answers = Vec::with_capacity(keys.len());
        let mut all_missed = Vec::new();
        // After the keys, whose iterator is the caller's.
        let now = self.node().now();
        for (index, key) in keys.iter().enumerate() {
            answers.push(match self.look_up_to_read(key, now) {
                MemoryLookup::Hit(fetched) => {
                    self.renew_on_read(key, Some(&fetched));
                    Some(fetched)
                }
                missed => {
                    if all_missed.is_empty() {
                        all_missed.reserve_exact(keys.len() - index);
                    }
                    all_missed.extend(MissedKey::new(index, key.clone(), missed));
                    None
                }
            });
        }
        if !all_missed.is_empty() {
            let touched = all_missed.iter().filter(|_| self.config.touch_on_read);
            let touched: Vec<usize> = touched.map(|missed| missed.index).collect();
            self.node().tasks.within(self.read_from_redis(all_missed, &mut answers)).await;
            touched.into_iter().for_each(|index| self.renew_on_read(&keys[index], answers[index].as_ref()));
        }
        answers.iter().flatten().for_each(Fetched::note_freshness);
        answers
    }

    /// Looks up memory at this time, which the caller has just read. The ticket gives way to those who load: a caller may
    /// stop polling its read while Redis is asked.
    fn look_up_to_read(&self, key: &KeyBuf, now: Duration) -> MemoryLookup<V> {
        self.node().lookup_at(&self.config, key, now, Leader::GivesWay)
    }

    /// Looks up Redis for the keys that memory could not answer. If Redis does not reply, what memory has may do.
    async fn read_from_redis(&self, mut all_missed: Vec<MissedKey>, answers: &mut [Option<Fetched<V>>]) {
        let (coordinator, node) = (&self.coordinator, self.node());
        if node.redis.is_none() {
            return;
        }
        coordinator.ensure_connected().await;
        if node.supported_redis().is_none() {
            return;
        }
        if let [missed] = &all_missed[..]
            && let Some(candidate) = missed.unproved_candidate()
            && let Some(fetched) = self.revalidated(&missed.key, candidate).await
        {
            answers[missed.index] = Some(fetched);
            return;
        }
        let (epoch, generation) = (node.ledger.epoch(), node.trust.generation());
        let mut redis_keys = Vec::with_capacity(all_missed.len());
        all_missed.retain_mut(|missed| {
            let redis_key = self.redis_key(&missed.key);
            if coordinator.replay_log.blocks(&redis_key) {
                // What this node stored since is valid until it can be compared with Redis.
                answers[missed.index] = self.valid_without_redis(missed);
                return false;
            }
            missed.tracked_writes = node.tracked_writes.count(&redis_key);
            redis_keys.push(redis_key);
            true
        });
        if redis_keys.is_empty() {
            return;
        }
        let (lookups, clock) = match coordinator.lookup_redis(&redis_keys, Purpose::Read).await {
            Ok(reply) => reply,
            Err(error) => {
                node.observers.report(&error);
                for missed in &all_missed {
                    answers[missed.index] = self.valid_without_redis(missed);
                }
                return;
            }
        };
        let decoded =
            lookups.into_iter().zip(&all_missed).zip(&redis_keys).map(|((lookup, missed), redis_key)| {
                if let RedisLookup::Bytes(bytes) = lookup {
                    return node.decode(&self.config, redis_key, bytes);
                }
                // Redis does not have it, so memory must not serve it.
                if let Some(candidate) = missed.unproved_candidate() {
                    candidate.entry.state().mark_dead();
                }
                None
            });
        let decoded: Vec<Option<DecodedEntry>> = decoded.collect();
        let mut clocks = node.clocks();
        for ((missed, decoded), redis_key) in all_missed.iter_mut().zip(decoded).zip(&redis_keys) {
            let ticket = missed.ticket.take();
            let Some(decoded) = decoded else { continue };
            let tracked_writes = missed.tracked_writes;
            let start = StartState { clock, epoch, generation, tracked_writes };
            let opened = node.admit(decoded, &start, &mut clocks).await;
            if let Some(OpenedEntry { entry, validity: Validity::Valid, .. }) = opened {
                if let Some(ticket) = ticket {
                    node.commit_at(redis_key, ticket, &entry, tracked_writes, clocks.now);
                }
                answers[missed.index] = node.fetched(entry, Source::Redis, false);
            }
        }
    }

    /// A candidate that Redis has too, if it is valid.
    async fn revalidated(&self, key: &KeyBuf, candidate: &Candidate) -> Option<Fetched<V>> {
        let validity = self.coordinator.revalidate(&self.redis_key(key), candidate.entry.state()).await;
        self.fetched_if_fresh(candidate, validity?)
    }

    /// A candidate that is valid although Redis does not reply.
    fn valid_without_redis(&self, missed: &MissedKey) -> Option<Fetched<V>> {
        let candidate = missed.unproved_candidate()?;
        let validity = self.node().judge_without_redis(candidate.entry.state());
        self.fetched_if_fresh(candidate, validity)
    }

    fn fetched_if_fresh(&self, candidate: &Candidate, validity: Validity) -> Option<Fetched<V>> {
        if !candidate.entry.state().is_fresh_if(validity) {
            return None;
        }
        self.node().observers.counts.served_late.add(1);
        self.node().fetched(candidate.entry.clone(), Source::Memory, false)
    }

    /// Restarts the time to live with which a value was stored, if the view does that. Does not wait for Redis.
    fn renew_on_read(&self, key: &KeyBuf, found: Option<&Fetched<V>>) {
        let Some(found) = found.filter(|_| self.config.touch_on_read) else { return };
        let (node, state) = (self.node(), found.state());
        let stored = state.lifetime();
        if !state.renew(node.now(), stored) {
            return;
        }
        node.renew_memory(self.memory_key(key), found.entry(), stored.kept_for());
        if let (Some(_), Some(id)) = (node.supported_redis(), state.id) {
            let (coordinator, redis_key) = (self.coordinator.clone(), self.redis_key(key));
            node.tasks.spawn(async move {
                // If this fails, the value expires earlier. No caller needs to know.
                _ = coordinator.renew(redis_key, id, stored.kept_for()).await;
            });
        }
    }
}

/// A key that memory could not answer.
struct MissedKey {
    /// The position among the answers.
    index: usize,
    key: KeyBuf,
    ticket: Option<MemoryTicket>,
    candidate: Option<Candidate>,
    /// The count of tracked writes of the key before Redis was looked up.
    tracked_writes: u64,
}

impl MissedKey {
    /// `None` for a hit.
    fn new<V>(index: usize, key: KeyBuf, lookup: MemoryLookup<V>) -> Option<Self> {
        let (ticket, candidate) = match lookup {
            MemoryLookup::Lead { ticket, candidate, .. } => (Some(ticket), candidate),
            MemoryLookup::Follow(waiter) => (None, waiter.candidate),
            MemoryLookup::Hit(_) => return None,
        };
        Some(MissedKey { index, key, ticket, candidate, tracked_writes: 0 })
    }

    /// An entry in memory that may be valid, if Redis has it too.
    fn unproved_candidate(&self) -> Option<&Candidate> {
        self.candidate.as_ref().filter(|candidate| candidate.needs_revalidation)
    }
}
