//! Writing and deleting: at once in memory, and in Redis together with the announcement.

use super::View;
use crate::coherence::mutation::spawn_mutation;
use crate::coherence::replay_log::Invalidated;
use crate::fetch::view_state::ViewState;
use crate::key::{CacheKey, KeyBuf, MemoryKey};
use crate::node::StartState;
use crate::node::entry::{MemoryEntry, MemoryTicket};
use crate::node::ledger::members_of;
use crate::node::sealing::{NewEntry, SealedValue, Sealing};
use crate::policy::{Lifetime, Policy};
use crate::report::error::CacheError;
use crate::report::reach::{Reach, Removal};
use crate::tier::{BATCH, Operation};
use crate::value::envelope;
use larder_engine::{CommitOutcome, Load};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// The options of a write or an add. Options that are not set are the view's.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are passed to a write"]
pub struct WriteOptions {
    pub(crate) policy: Policy,
    pub(crate) tags: Vec<Box<str>>,
}

impl WriteOptions {
    /// Options that leave everything to the view.
    pub fn new() -> Self {
        WriteOptions::default()
    }

    /// The TTL of the value. A negative value keeps the negative TTL of the view.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = Some(ttl);
        self
    }

    /// The times of the value. Times that the policy does not set are the view's.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy.or(self.policy);
        self
    }

    /// Adds a tag to the value.
    pub fn tag(mut self, tag: impl AsRef<str>) -> Self {
        self.tags.push(tag.as_ref().into());
        self
    }
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Stores a value in both tiers. Running loads of the key can no longer store their values, on any node.
    ///
    /// The write continues if the caller is dropped. Cost: one round trip to Redis; another one before it if this node
    /// may have missed an invalidation, and one after it if it did.
    ///
    /// [`Reach::HereAndQueued`] if Redis did not confirm: this process has the value, and the key is deleted everywhere
    /// as soon as Redis replies. A value that weighs more than the capacity of memory is stored in Redis alone, and
    /// without Redis nowhere; [`TierStats::too_heavy`](crate::TierStats::too_heavy) counts it.
    ///
    /// # Errors
    /// If the value cannot be encoded, or has too many or too long tags: nothing has changed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write(&self, key: &K, value: V) -> Result<Reach, CacheError> {
        self.write_with(key, value, &WriteOptions::new()).await
    }

    /// As [`View::write`], with options.
    ///
    /// # Errors
    /// As [`View::write`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write_with(&self, key: &K, value: V, options: &WriteOptions) -> Result<Reach, CacheError> {
        self.write_all(vec![(KeyBuf::of(key), value, options.clone())]).await
    }

    /// Stores many values: 500 in a request. [`Reach::HereAndQueued`] if Redis did not confirm one of the requests; the others
    /// are sent all the same. It is not one step: others may read some of the values before the last one is stored.
    ///
    /// # Errors
    /// If one cannot be encoded: none is stored.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write_multi<'k>(
        &self,
        values: impl IntoIterator<Item = (&'k K, V)>,
    ) -> Result<Reach, CacheError>
    where
        K: 'k,
    {
        let values = values.into_iter().map(|(key, value)| (KeyBuf::of(key), value, WriteOptions::new()));
        self.write_all(values.collect()).await
    }

    /// As [`View::write_multi`], with options for each value.
    ///
    /// # Errors
    /// As [`View::write_multi`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write_multi_with<'k>(
        &self,
        values: impl IntoIterator<Item = (&'k K, V, WriteOptions)>,
    ) -> Result<Reach, CacheError>
    where
        K: 'k,
    {
        let values = values.into_iter().map(|(key, value, options)| (KeyBuf::of(key), value, options));
        self.write_all(values.collect()).await
    }

    async fn write_all(&self, values: Vec<(KeyBuf, V, WriteOptions)>) -> Result<Reach, CacheError> {
        if values.is_empty() {
            return Ok(Reach::Everywhere);
        }
        if !self.state.node().is_enabled() {
            for (.., options) in &values {
                self.state.config.check_tags(&options.tags)?;
            }
            // An older value must not be served once the cache is turned on again.
            let keys = values.iter().map(|(key, ..)| self.state.both_keys(key)).collect();
            return Ok(self.state.delete(keys).await?.reach);
        }
        let state = self.state.clone();
        let writing = async move { Ok(state.write(values).await) };
        let confirmed = spawn_mutation(self.state.node(), writing).await?;
        self.state.coordinator.reach(confirmed)
    }

    /// Removes a key from both tiers. Running loads of the key can no longer store their values, on any node.
    ///
    /// The removal continues if the caller is dropped. [`Reach::HereAndQueued`] if Redis did not confirm: this process
    /// has removed the key, and the removal is queued and replayed until Redis confirms it.
    ///
    /// # Errors
    /// [`CacheError::Redis`] if the runtime shuts down.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &K) -> Result<Removal, CacheError> {
        let Removal { existed, reach } = self.delete_multi([key]).await?;
        Ok(Removal { existed: existed.first() == Some(&true), reach })
    }

    /// Removes many keys: 500 in a request. It is not one step: others may still find the last one when the first is gone.
    ///
    /// # Errors
    /// As [`View::delete`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete_multi<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
    ) -> Result<Removal<Vec<bool>>, CacheError>
    where
        K: 'k,
    {
        let keys: Vec<_> = keys.into_iter().map(|key| self.state.both_keys(&KeyBuf::of(key))).collect();
        if keys.is_empty() {
            return Ok(Removal { existed: Vec::new(), reach: Reach::Everywhere });
        }
        self.state.delete(keys).await
    }
}

/// A value that is written.
struct WrittenValue<V> {
    memory_key: MemoryKey,
    redis_key: Vec<u8>,
    value: Arc<V>,
    lifetime: Lifetime,
    tags: Vec<Box<str>>,
}

/// The ticket of a key that is written.
struct WriteTicket {
    ticket: Option<MemoryTicket>,
    /// The count of tracked writes when the write started.
    tracked_writes: u64,
}

/// Values for both tiers, under one ledger clock.
struct SealedValues {
    operations: Vec<Operation>,
    entries: Vec<MemoryEntry>,
}

impl<V> ViewState<V> {
    async fn delete(&self, keys: Vec<(MemoryKey, Vec<u8>)>) -> Result<Removal<Vec<bool>>, CacheError> {
        let coordinator = self.coordinator.clone();
        let deletion = async move { Ok(coordinator.delete_keys(keys).await) };
        let (existed, confirmed) = spawn_mutation(self.node(), deletion).await?;
        Ok(Removal { existed, reach: self.coordinator.reach(confirmed)? })
    }
}

impl<V: Send + Sync + 'static> ViewState<V> {
    async fn write(self: Arc<Self>, values: Vec<(KeyBuf, V, WriteOptions)>) -> Result<(), CacheError> {
        let coordinator = &self.coordinator;
        let values: Vec<_> =
            values.into_iter().map(|(key, value, options)| self.written(&key, value, &options)).collect();
        for value in &values {
            envelope::check_tags(&value.tags).map_err(CacheError::Encode)?;
        }
        coordinator.replay_members_first().await;
        let clock = self.current_clock(&values).await;
        if let Err(error @ CacheError::Unsupported(_)) = clock {
            values.iter().for_each(|value| self.node().invalidate_memory(&value.memory_key));
            return Err(error);
        }
        let known_clock = clock.as_ref().ok().copied();
        // A value that cannot be encoded changes nothing.
        let batches = values.chunks(BATCH).map(|batch| self.seal_all(batch, known_clock.unwrap_or(0)));
        let batches: Vec<SealedValues> = batches.collect::<Result<_, _>>()?;
        let tickets: Vec<_> = values.iter().map(|value| self.start_write(value)).collect();
        let mut failed = clock.err();
        let mut values = values.into_iter().zip(tickets);
        for sealed in batches {
            let (batch, tickets): (Vec<_>, Vec<_>) = values.by_ref().take(sealed.entries.len()).unzip();
            if let Err(error) = self.write_batch(batch, tickets, sealed, known_clock).await {
                failed.get_or_insert(error);
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn written(&self, key: &KeyBuf, value: V, options: &WriteOptions) -> WrittenValue<V> {
        let (memory_key, redis_key) = self.both_keys(key);
        let lifetime = self.lifetime(&value, options.policy);
        let tags = self.config.tags(&options.tags);
        WrittenValue { memory_key, redis_key, value: Arc::new(value), lifetime, tags }
    }

    /// Writes values in one request, then to memory. Without a ledger clock only to memory: a value without one would
    /// be served by no node.
    async fn write_batch(
        &self,
        values: Vec<WrittenValue<V>>,
        tickets: Vec<WriteTicket>,
        mut sealed: SealedValues,
        clock: Option<u64>,
    ) -> Result<(), CacheError> {
        let (coordinator, node) = (&self.coordinator, self.node());
        let written = match clock {
            Some(clock) => {
                let operations = std::mem::take(&mut sealed.operations);
                let members = members_of(tags_of(&values));
                let seal_again = |clock| {
                    sealed = self.seal_all(&values, clock)?;
                    Ok(std::mem::take(&mut sealed.operations))
                };
                coordinator.put(operations, &members, clock, seal_again).await
            }
            None => {
                let redis_keys = values.iter().map(|value| Invalidated::key(&value.redis_key));
                let seq = coordinator.replay_log.next_seq();
                coordinator.record_outcome(redis_keys, seq, Err(CacheError::NotAsked))
            }
        };
        let stays = written.as_deref().unwrap_or_default();
        for (number, ((value, WriteTicket { ticket, tracked_writes }), entry)) in
            values.into_iter().zip(tickets).zip(sealed.entries).enumerate()
        {
            if node.redis.is_none() {
                // There is no other copy: of two overlapping writes the later one stays, and loads under way are void.
                node.insert(value.memory_key, entry);
                continue;
            }
            if written.is_err() {
                // Valid on this node until it can be compared with Redis.
                entry.state().mark_suspect();
            }
            // Unless Redis has another value already.
            let ticket = ticket.filter(|_| stays.get(number) != Some(&false));
            let outcome = ticket.map(|ticket| node.commit(&value.redis_key, ticket, &entry, tracked_writes));
            if outcome != Some(CommitOutcome::Stored) {
                // Another mutation voided the ticket: Redis has the right value.
                node.invalidate_memory(&value.memory_key);
            }
        }
        written.map(drop)
    }

    /// The ledger clock for values that are written now. Reads it if this node may have missed an invalidation. Their
    /// deadlines need the server's clock too.
    async fn current_clock(&self, values: &[WrittenValue<V>]) -> Result<u64, CacheError> {
        let node = self.node();
        if node.redis.is_none() {
            return Ok(0);
        }
        self.coordinator.ensure_connected().await;
        self.coordinator.node.learn_server_time().await?;
        match node.known_clock() {
            Some(clock) => Ok(clock),
            None => {
                let mut clock = u64::MAX;
                for members in members_of(tags_of(values)).chunks(BATCH) {
                    clock = clock.min(node.read_stamps(members).await?);
                }
                Ok(clock)
            }
        }
    }

    /// Voids the tickets of running loads, which must not store. Callers that come now follow the write.
    fn start_write(&self, WrittenValue { memory_key, redis_key, .. }: &WrittenValue<V>) -> WriteTicket {
        let node = self.node();
        node.invalidate_memory(memory_key);
        // Not a read, which would count as a miss.
        let ticket = match node.memory.load_after_miss(memory_key) {
            Load::Lead(ticket) => Some(ticket),
            Load::Hit(_) | Load::Follow(_) => None,
        };
        WriteTicket { ticket, tracked_writes: node.tracked_writes.count(redis_key) }
    }

    fn seal_all(&self, values: &[WrittenValue<V>], clock: u64) -> Result<SealedValues, CacheError> {
        let node = self.node();
        let mut sealed = SealedValues { operations: Vec::new(), entries: Vec::new() };
        for WrittenValue { redis_key, value, lifetime, tags, .. } in values {
            let (id, lifetime) = (node.random.id(), *lifetime);
            let sealing = Sealing { id, clock, lifetime, cost: Duration::ZERO, tags: tags.clone() };
            let SealedValue { envelope, encoded_bytes } =
                node.seal(&self.config, value, sealing).map_err(CacheError::Encode)?;
            let start = StartState { clock, ..node.start_state(redis_key) };
            let new = NewEntry::written(encoded_bytes, lifetime, tags.clone(), Some(id));
            sealed.entries.push(node.new_entry(&self.config, value.clone(), new, &start));
            let put = envelope.and_then(|envelope| node.with_deadline(envelope, lifetime.kept_for()));
            sealed.operations.push(match put {
                Some((envelope, expiry)) => Operation::Put(redis_key.clone(), envelope, expiry),
                None => Operation::Remove(redis_key.clone()),
            });
        }
        Ok(sealed)
    }
}

/// The tags of all values, each once.
fn tags_of<V>(values: &[WrittenValue<V>]) -> BTreeSet<&str> {
    values.iter().flat_map(|value| &value.tags).map(|tag| &**tag).collect()
}
