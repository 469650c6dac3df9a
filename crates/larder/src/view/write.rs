//! Writing and invalidating: here at once, in Redis in one step with the announcement.

use super::entry::Sealing;
use super::{Shared, View};
use crate::coherence::announce;
use crate::coherence::lease::Claim;
use crate::coherence::ledger::members_of;
use crate::error::CacheError;
use crate::fetch::{Lifetime, Policy};
use crate::key::{CacheKey, KeyBuf, MemoryKey};
use crate::load::{Said, Start};
use crate::tier::memory::{MemoryEntry, MemoryTicket};
use crate::tier::{LedgerQuery, Operation, Transaction};
use larder_engine::Load;
use std::sync::Arc;
use std::time::Duration;
use tracing::Instrument;

/// How a value is written, for [`View::write_with`]; what is not said here the view decides.
#[derive(Clone, Debug, Default)]
#[must_use = "options do nothing until they are written with"]
pub struct WriteOptions {
    policy: Policy,
    tags: Vec<Box<str>>,
}

impl WriteOptions {
    /// Options that leave everything to the view.
    pub fn new() -> Self {
        WriteOptions::default()
    }

    /// How long the value is fresh.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = Some(ttl);
        self
    }

    /// The times of the value; what the policy leaves open is the view's.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy.or(self.policy);
        self
    }

    /// Adds a tag to the value.
    pub fn tag(mut self, tag: impl Into<Box<str>>) -> Self {
        self.tags.push(tag.into());
        self
    }
}

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Stores a value in both tiers. Loads of the key that are under way can no longer store theirs, on any node.
    ///
    /// The write goes on if the caller is dropped. Cost: one round trip to Redis; another one before it if this node may
    /// have missed an invalidation, and one after it if it did.
    ///
    /// # Errors
    /// If Redis did not confirm; this process has the value all the same, and the key is deleted everywhere as soon as
    /// Redis answers. If the value cannot be encoded; then nothing has changed.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write(&self, key: &K, value: V) -> Result<(), CacheError> {
        self.write_with(key, value, &WriteOptions::new()).await
    }

    /// As [`View::write`], with times and tags of its own.
    ///
    /// # Errors
    /// As [`View::write`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write_with(&self, key: &K, value: V, options: &WriteOptions) -> Result<(), CacheError> {
        self.write_all(vec![(KeyBuf::of(key), value)], options).await
    }

    /// Stores many values, in one transaction.
    ///
    /// # Errors
    /// As [`View::write`]; if one cannot be encoded, none is stored.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write_multi<'k>(
        &self,
        values: impl IntoIterator<Item = (&'k K, V)>,
    ) -> Result<(), CacheError>
    where
        K: 'k,
    {
        let values = values.into_iter().map(|(key, value)| (KeyBuf::of(key), value)).collect();
        self.write_all(values, &WriteOptions::new()).await
    }

    async fn write_all(&self, values: Vec<(KeyBuf, V)>, options: &WriteOptions) -> Result<(), CacheError> {
        if values.is_empty() {
            return Ok(());
        }
        if self.shared.is_off() {
            // What was there before the cache was turned off must not come back.
            let keys = values.iter().map(|(key, _)| self.shared.both_keys(key)).collect();
            let inner = self.shared.cache.inner.clone();
            return detached(async move { inner.delete_keys(keys).await }).await.map(drop);
        }
        let (shared, options) = (self.shared.clone(), options.clone());
        detached(async move { shared.write(values, &options).await }).await
    }

    /// Removes a key from both tiers; whether either had it. Loads of the key that are under way can no longer store
    /// their value, on any node.
    ///
    /// The removal goes on if the caller is dropped.
    ///
    /// # Errors
    /// If Redis did not confirm; this process has forgotten the key all the same, and Redis is told again until it
    /// does.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &K) -> Result<bool, CacheError> {
        Ok(self.delete_multi([key]).await?.first().copied().unwrap_or(false))
    }

    /// Removes many keys; whether either tier had them, in their order.
    ///
    /// # Errors
    /// As [`View::delete`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete_multi<'k>(
        &self,
        keys: impl IntoIterator<Item = &'k K>,
    ) -> Result<Vec<bool>, CacheError>
    where
        K: 'k,
    {
        let keys: Vec<_> = keys.into_iter().map(|key| self.shared.both_keys(&KeyBuf::of(key))).collect();
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let inner = self.shared.cache.inner.clone();
        detached(async move { inner.delete_keys(keys).await }).await
    }
}

/// Runs a mutation in a task of its own: half of one must not be what a caller leaves behind when it is dropped.
pub(crate) async fn detached<R: Send + 'static>(mutation: impl Future<Output = R> + Send + 'static) -> R {
    match tokio::spawn(mutation.instrument(tracing::debug_span!("larder.change"))).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A value on its way into both tiers.
struct Writing<V> {
    memory_key: MemoryKey,
    redis_key: Vec<u8>,
    value: Arc<V>,
    life: Lifetime,
}

/// What a write has taken of its key.
struct Begun {
    ticket: Option<MemoryTicket>,
    /// How often the key was known to have changed then.
    changes: u64,
}

/// Values as Redis and memory get them, under one clock.
struct Sealed {
    changes: Vec<Operation>,
    entries: Vec<MemoryEntry>,
}

impl<V: Send + Sync + 'static> Shared<V> {
    async fn write(
        self: Arc<Self>,
        values: Vec<(KeyBuf, V)>,
        options: &WriteOptions,
    ) -> Result<(), CacheError> {
        let inner = &self.cache.inner;
        let tags = self.tags(&options.tags, &Said::default());
        crate::envelope::check_tags(&tags).map_err(CacheError::Encode)?;
        inner.pay_members_first().await;
        let clock = self.clock_for(&tags).await;
        let policy = options.policy.or(self.policy);
        let writings: Vec<_> = values
            .into_iter()
            .map(|(key, value)| {
                let life = self.lifetime(&value, policy, &Said::default());
                let (memory_key, redis_key) = self.both_keys(&key);
                Writing { memory_key, redis_key, value: Arc::new(value), life }
            })
            .collect();
        // What cannot be encoded changes nothing.
        let mut sealed = self.seal_all(&writings, &tags, clock.as_ref().copied().unwrap_or(0))?;
        let begun: Vec<_> = writings.iter().map(|writing| self.begin_write(writing)).collect();
        let written = match clock {
            Ok(clock) => self.put(&writings, &tags, clock, &mut sealed).await,
            // A value without a clock would be nobody's.
            Err(error) => {
                let keys = writings.iter().map(|writing| &writing.redis_key[..]);
                inner.settle_keys(keys, inner.journal.turn(), false);
                Err(error)
            }
        };
        for ((Writing { memory_key, redis_key, .. }, Begun { ticket, changes }), entry) in
            writings.into_iter().zip(begun).zip(sealed.entries)
        {
            if written.is_err() {
                // It holds here, until it can be compared.
                entry.facts().suspect();
            }
            let committed = ticket.map(|ticket| self.commit(&redis_key, ticket, &entry, changes));
            if committed != Some(larder_engine::CommitOutcome::Stored) {
                // An announcement came between, or another change: what is right is in Redis.
                inner.forget_key(&memory_key);
            }
        }
        written
    }

    /// The clock for values that are written now, as far as this node knows; asked for if it may have missed something.
    async fn clock_for(&self, tags: &[Box<str>]) -> Result<u64, CacheError> {
        let inner = &self.cache.inner;
        if inner.shared.is_none() {
            return Ok(0);
        }
        inner.awake().await;
        if inner.trust.is_alone() {
            return Ok(0);
        }
        let is_current = inner.trust.now_believed().at(inner.memory.clock().now());
        match inner.ledger.known_clock() {
            Some(clock) if is_current => Ok(clock),
            _ => inner.learn_stamps(&members_of(tags.iter().map(|tag| &**tag))).await,
        }
    }

    /// Voids the loads of the key that are under way, which must not store; whoever comes now waits for the write.
    fn begin_write(&self, Writing { memory_key, redis_key, .. }: &Writing<V>) -> Begun {
        let inner = &self.cache.inner;
        inner.memory.remove(memory_key);
        let ticket = match inner.memory.load(memory_key) {
            Load::Lead(ticket) => Some(ticket),
            Load::Hit(_) | Load::Follow(_) => None,
        };
        Begun { ticket, changes: inner.changes.count(redis_key) }
    }

    fn seal_all(&self, writings: &[Writing<V>], tags: &[Box<str>], clock: u64) -> Result<Sealed, CacheError> {
        let inner = &self.cache.inner;
        // Tags that no ledger keeps could not be invalidated in Redis.
        let memory_only = inner.trust.is_alone() && !tags.is_empty();
        let mut sealed = Sealed { changes: Vec::new(), entries: Vec::new() };
        for Writing { redis_key, value, life, .. } in writings {
            let id = inner.random.id();
            let sealing = Sealing { id, clock, life: *life, cost: Duration::ZERO, tags: tags.to_vec() };
            let bytes = self.seal(value, sealing).map_err(CacheError::Encode)?;
            let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
            let start = Start { claim: Claim::Plain(id), clock, epoch, generation, changes: 0 };
            sealed.entries.push(self.entry(value.clone(), bytes.len(), *life, tags.to_vec(), &start));
            sealed.changes.push(match memory_only {
                true => Operation::Remove(redis_key.clone()),
                false => Operation::Put(redis_key.clone(), bytes, life.kept()),
            });
        }
        Ok(sealed)
    }

    /// Puts values into Redis.
    ///
    /// What another node invalidated just before may not have been heard of here: the values would be taken for older
    /// than that. The ledger is read in the same step, and if it says so, they are sealed and put once more with its
    /// clock.
    async fn put(
        &self,
        writings: &[Writing<V>],
        tags: &[Box<str>],
        clock: u64,
        sealed: &mut Sealed,
    ) -> Result<(), CacheError> {
        let inner = &self.cache.inner;
        let Some(shared) = &inner.shared else { return Ok(()) };
        let _not_paid_meanwhile = inner.paying.read().await;
        let turn = inner.journal.turn();
        let keys = || writings.iter().map(|writing| &writing.redis_key[..]);
        let members = members_of(tags.iter().map(|tag| &**tag));
        let announcement = announce::keys(&inner.names.channel, inner.origin, keys());
        let mutate = async |changes: &[Operation]| {
            let ledger = (!inner.trust.is_alone())
                .then_some(LedgerQuery { key: &inner.names.ledger, members: &members });
            let mutation = Transaction { operations: changes, ledger, announce: Some(&announcement) };
            let gaps = inner.ledger.gaps();
            let stamps = shared.ask(shared.tier.transact(&mutation)).await?.stamps;
            stamps.iter().for_each(|stamps| inner.ledger.learn(&members, stamps, gaps));
            Ok(stamps)
        };
        let guards = inner.guard_fills(keys()).await;
        let mut stamps = mutate(&sealed.changes).await;
        if let Ok(Some(now)) = &stamps
            && now.newest() > clock
        {
            stamps = match self.seal_all(writings, tags, now.clock) {
                Ok(again) => {
                    *sealed = again;
                    mutate(&sealed.changes).await
                }
                Err(error) => Err(error),
            };
        }
        drop(guards);
        inner.settle_keys(keys(), turn, stamps.is_ok());
        stamps.map(drop)
    }
}
