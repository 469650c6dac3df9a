//! Writes that depend on the current content: add, take, expire.

use super::{View, WriteOptions};
use crate::coherence::lease::is_lease;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::coherence::mutation::spawn_mutation;
use crate::fetch::view_state::ViewState;
use crate::key::{CacheKey, KeyBuf, MemoryKey};
use crate::node::entry::{MemoryEntry, Validity};
use crate::node::fetched::{Fetched, Source};
use crate::node::ledger::untagged_members;
use crate::node::sealing::{NewEntry, OpenedEntry, Sealing};
use crate::node::validity::Proof;
use crate::node::{Node, StartState};
use crate::policy::Lifetime;
use crate::report::error::CacheError;
use crate::report::reach::{Reach, Removal};
use crate::tier::{CasAction, CompareAndSet, Expiry, HEAD_BYTES, KeyContent, Operation, OperationResult};
use crate::value::envelope::{self, Head, value_id};
use larder_engine::Op;
use std::sync::Arc;
use std::time::Duration;

/// How many times a compare-and-set is tried because another one came first.
const MAX_TRIES: usize = 8;

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Stores a value if neither tier has a valid one. Returns whether it was stored: never while the cache is off.
    /// Running loads of the key have stored nothing yet, and can no longer do so, on any node.
    ///
    /// # Errors
    /// If the value cannot be encoded: nothing is stored. If Redis did not confirm: nothing is stored on this node, and a
    /// deletion is queued. Until Redis confirms that, other nodes may read the value.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn add(&self, key: &K, value: V) -> Result<bool, CacheError> {
        self.add_with(key, value, &WriteOptions::new()).await
    }

    /// As [`View::add`], with options.
    ///
    /// # Errors
    /// As [`View::add`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn add_with(&self, key: &K, value: V, options: &WriteOptions) -> Result<bool, CacheError> {
        if !self.state.node().is_enabled() {
            self.state.config.check_tags(&options.tags)?;
            return Ok(false);
        }
        let (state, key) = (self.state.clone(), KeyBuf::of(key));
        let tags = state.config.tags(&options.tags);
        let lifetime = state.lifetime(&value, options.policy);
        let adding = async move { state.add(&key, AddedValue { value, lifetime, tags }).await };
        spawn_mutation(self.state.node(), adding).await
    }

    /// Removes a key and returns its value. One of several concurrent callers gets it. While the cache is off, the key is
    /// removed and no caller gets the value.
    ///
    /// # Errors
    /// If Redis could not be asked, nothing has changed. If it was asked and did not confirm, no caller gets the
    /// value, the key is removed on this node, and its removal is queued.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn take(&self, key: &K) -> Result<Option<Fetched<V>>, CacheError> {
        let (state, key) = (self.state.clone(), KeyBuf::of(key));
        let is_off = !state.node().is_enabled();
        let taken = spawn_mutation(self.state.node(), async move { state.take(&key).await }).await?;
        let taken = taken.filter(|_| !is_off);
        taken.iter().for_each(Fetched::note_freshness);
        Ok(taken)
    }

    /// Marks a value stale: a fetch serves it only within its grace period, and only if the load fails or is slow. A
    /// value without a grace period is removed. [`Reach::HereAndQueued`] as for [`View::delete`]: then the value is
    /// removed.
    ///
    /// # Errors
    /// If Redis could not be looked up: nothing has changed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn expire(&self, key: &K) -> Result<Removal, CacheError> {
        let (state, key) = (self.state.clone(), KeyBuf::of(key));
        spawn_mutation(self.state.node(), async move { state.expire(&key).await }).await
    }
}

/// A value to add.
struct AddedValue<V> {
    value: V,
    lifetime: Lifetime,
    tags: Vec<Box<str>>,
}

impl<V: Send + Sync + 'static> ViewState<V> {
    async fn add(self: Arc<Self>, key: &KeyBuf, added: AddedValue<V>) -> Result<bool, CacheError> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let (memory_key, redis_key) = self.both_keys(key);
        if node.redis.is_none() {
            return self.add_without_redis(memory_key, &redis_key, added);
        }
        coordinator.ensure_connected().await;
        coordinator.replay_members_first().await;
        for _ in 0..MAX_TRIES {
            let seq = coordinator.replay_log.next_seq();
            let start = node.start_state(&redis_key);
            if coordinator.replay_log.blocks(&redis_key) {
                return Err(CacheError::NotAsked);
            }
            let (mut lookups, clock) =
                coordinator.lookup_redis(std::slice::from_ref(&redis_key), Purpose::Read).await?;
            let start = StartState { clock, ..start };
            let expected = match lookups.pop() {
                Some(RedisLookup::Bytes(bytes)) => {
                    let opened = node.open(&self.config, &redis_key, &bytes, &start).await;
                    if matches!(opened, Some(OpenedEntry { validity: Validity::Valid, .. })) {
                        return Ok(false);
                    }
                    bytes[..bytes.len().min(HEAD_BYTES)].to_vec()
                }
                // The running load has stored nothing. Its store will be refused.
                Some(RedisLookup::LeaseHeldByOther(id)) => Head::Lease(id).to_bytes().to_vec(),
                _ => Vec::new(),
            };
            let AddedValue { value, lifetime, tags } = &added;
            let id = node.id_in_place_of(value_id(&expected));
            let (lifetime, tags) = (*lifetime, tags.clone());
            let sealing = Sealing { id, clock, lifetime, cost: Duration::ZERO, tags };
            let sealed = node.seal(&self.config, value, sealing).map_err(CacheError::Encode)?;
            let bytes = sealed.envelope.ok_or(CacheError::NoRedis)?;
            let (bytes, expiry) =
                node.with_deadline(bytes, lifetime.kept_for()).ok_or(CacheError::NotAsked)?;
            let action = CasAction::Put(bytes, expiry);
            let request = CompareAndSet { key: redis_key.clone(), expected, action };
            if coordinator.compare_and_set(request, seq).await? {
                node.invalidate_memory(&memory_key);
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Adds a value where memory is the only tier.
    fn add_without_redis(
        &self,
        memory_key: MemoryKey,
        redis_key: &[u8],
        AddedValue { value, lifetime, tags }: AddedValue<V>,
    ) -> Result<bool, CacheError> {
        let node = self.node();
        let id = node.random.id();
        let sealing = Sealing { id, clock: 0, lifetime, cost: Duration::ZERO, tags: tags.clone() };
        let sealed = node.seal(&self.config, &value, sealing).map_err(CacheError::Encode)?;
        let new = NewEntry::written(sealed.encoded_bytes, lifetime, tags, Some(id));
        let entry = node.new_entry(&self.config, Arc::new(value), new, &node.start_state(redis_key));
        let ttl = entry.state().memory_ttl();
        let (now, trust, epoch) = (node.now(), node.trust.snapshot(), node.ledger.epoch());
        let is_valid = |found: &MemoryEntry| {
            let validity = node.judge(found.state(), Proof::Trust(trust), epoch, now);
            found.state().is_fresh_if(validity) && found.value::<V>().is_some()
        };
        // In one step: a load may store its value in between.
        let stored = node.memory.compute(memory_key, |found| match found {
            Some(found) if is_valid(found.value()) => (Op::Keep, false),
            _ => (Op::Put(entry, ttl), true),
        });
        Ok(stored.result && stored.refused.is_none())
    }

    async fn take(self: Arc<Self>, key: &KeyBuf) -> Result<Option<Fetched<V>>, CacheError> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let (memory_key, redis_key) = self.both_keys(key);
        if node.redis.is_none() {
            return Ok(node.take_from_memory(&memory_key));
        }
        coordinator.ensure_supported(&memory_key).await?;
        let replay_epoch = coordinator.replay_log.replay_epoch();
        if coordinator.replay_log.blocks(&redis_key) {
            return Err(CacheError::NotAsked);
        }
        // What is taken must be readable.
        coordinator.node.learn_server_time().await?;
        let start = StartState { clock: node.ledger.clock(), ..node.start_state(&redis_key) };
        // Also shows that Redis replies: what it is not asked for stays in memory.
        node.read_stamps(&untagged_members()).await?;
        node.invalidate_memory(&memory_key);
        let results = coordinator.remove(vec![Operation::Take(redis_key.clone())]).await?;
        let Some(OperationResult::Taken(KeyContent::Bytes(bytes))) = results.into_iter().next() else {
            return Ok(None);
        };
        if coordinator.replay_log.replay_epoch() != replay_epoch {
            return Err(CacheError::NotAsked);
        }
        if is_lease(&bytes) {
            return Ok(None);
        }
        Ok(match node.open(&self.config, &redis_key, &bytes, &start).await {
            Some(OpenedEntry { entry, validity: Validity::Valid, .. }) => {
                node.fetched(entry, Source::Redis, false)
            }
            _ => None,
        })
    }

    async fn expire(self: Arc<Self>, key: &KeyBuf) -> Result<Removal, CacheError> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let (memory_key, redis_key) = self.both_keys(key);
        if node.redis.is_none() {
            return Ok(Removal { existed: node.expire_memory(memory_key), reach: Reach::Everywhere });
        }
        coordinator.ensure_supported(&memory_key).await?;
        for _ in 0..MAX_TRIES {
            let seq = coordinator.replay_log.next_seq();
            let (mut lookups, _) =
                coordinator.lookup_redis(std::slice::from_ref(&redis_key), Purpose::Read).await?;
            let (request, existed) = match lookups.pop() {
                Some(RedisLookup::Bytes(bytes)) => (make_stale(node, &redis_key, bytes), true),
                Some(RedisLookup::LeaseHeldByOther(id)) => {
                    let expected = Head::Lease(id).to_bytes().to_vec();
                    (CompareAndSet { key: redis_key.clone(), expected, action: CasAction::Remove }, false)
                }
                _ => {
                    // Another node may have it in memory: Redis tells nobody what it evicts.
                    node.invalidate_memory(&memory_key);
                    let removed = coordinator.remove(vec![Operation::Remove(redis_key)]).await;
                    return Ok(Removal { existed: false, reach: coordinator.reach(removed.map(drop))? });
                }
            };
            node.invalidate_memory(&memory_key);
            let accepted = coordinator.compare_and_set(request, seq).await;
            node.invalidate_memory(&memory_key);
            match accepted {
                Ok(true) => return Ok(Removal { existed, reach: Reach::Everywhere }),
                Ok(false) => {}
                Err(error) => return Ok(Removal { existed, reach: self.coordinator.reach(Err(error))? }),
            }
        }
        // Other writers replace the value all the time: the present one is newer than this call.
        Ok(Removal { existed: true, reach: Reach::Everywhere })
    }
}

/// Leaves a value for its grace period, under another id, so that a load that started before cannot replace it.
fn make_stale(node: &Node, redis_key: &[u8], bytes: Vec<u8>) -> CompareAndSet {
    let expected = bytes[..bytes.len().min(HEAD_BYTES)].to_vec();
    let put = match envelope::parse(&bytes) {
        Ok((meta, _)) if !meta.grace.is_zero() => {
            let deadline_ms = node.server_clock.deadline(meta.grace);
            deadline_ms.map(|deadline_ms| {
                let (mut bytes, deadline_ms) = (bytes.clone(), deadline_ms.min(meta.deadline_ms));
                // The age of a value follows from its deadline and its TTL, and must stay the time since its store.
                let earlier = Duration::from_millis(meta.deadline_ms - deadline_ms);
                envelope::set_lifetime(&mut bytes, meta.ttl.saturating_sub(earlier), meta.grace);
                envelope::set_id(&mut bytes, node.random.id());
                envelope::set_deadline(&mut bytes, deadline_ms);
                (bytes, Expiry::At(deadline_ms))
            })
        }
        _ => None,
    };
    CompareAndSet { key: redis_key.to_vec(), expected, action: CasAction::put_or_remove(put) }
}
