//! Writing and invalidating: here at once, in Redis in one step with the announcement.

use super::entry::Sealing;
use super::{Looked, Opened, Shared, View};
use crate::coherence::lease::{Claim, Seen, is_value};
use crate::coherence::ledger::members_of;
use crate::coherence::{announce, journal::Turn};
use crate::envelope::Id;
use crate::error::CacheError;
use crate::fetch::{Fetched, Policy, Source};
use crate::key::{CacheKey, KeyBuf};
use crate::load::{Said, Start};
use crate::tier::memory::{MemoryEntry, MemoryTicket};
use crate::tier::{Change, Changed, Commit};
use larder_engine::Load;
use std::sync::Arc;
use std::time::Duration;

/// How often a change that compares is tried again when somebody else was faster.
const TRIES: usize = 8;

/// How a value is written. Made by [`View::writing`]; without it the view decides.
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
    /// The write goes on if the caller is dropped. Cost: one round trip to Redis; another one before it if the value has
    /// tags, or if this node has never asked Redis anything.
    ///
    /// # Errors
    /// If Redis did not confirm; this process has the value all the same, and the key is deleted everywhere as soon as
    /// Redis answers. If the value cannot be encoded; then no tier has it.
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

    /// Stores a value if neither tier has a fresh one; whether it did.
    ///
    /// # Errors
    /// As [`View::write`]; if Redis did not confirm, nothing is stored.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn add(&self, key: &K, value: V) -> Result<bool, CacheError> {
        if self.shared.is_off() {
            return Ok(false);
        }
        let (shared, key) = (self.shared.clone(), KeyBuf::of(key));
        detached(async move { shared.add(&key, value).await }).await
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

    /// Removes a key and returns the value that it had, which nobody else gets then.
    ///
    /// # Errors
    /// As [`View::delete`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn take(&self, key: &K) -> Result<Option<Fetched<V>>, CacheError> {
        let (shared, key) = (self.shared.clone(), KeyBuf::of(key));
        detached(async move { shared.take(&key).await }).await
    }

    /// Marks a value stale: from now on it is given only while it cannot be loaded anew, as its grace allows. Without
    /// grace it is removed. Whether there was one.
    ///
    /// # Errors
    /// As [`View::delete`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn expire(&self, key: &K) -> Result<bool, CacheError> {
        let (shared, key) = (self.shared.clone(), KeyBuf::of(key));
        detached(async move { shared.expire(&key).await }).await
    }
}

/// Runs a mutation in a task of its own: half of one must not be what a caller leaves behind when it is dropped.
pub(crate) async fn detached<R: Send + 'static>(mutation: impl Future<Output = R> + Send + 'static) -> R {
    match tokio::spawn(mutation).await {
        Ok(result) => result,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}

/// A value on its way into both tiers.
struct Writing {
    redis_key: Vec<u8>,
    bytes: Vec<u8>,
    kept: Duration,
    entry: MemoryEntry,
    ticket: Option<MemoryTicket>,
}

impl<V: Send + Sync + 'static> Shared<V> {
    /// The clock for a value that is written now. That of the last answer will do, if nothing can have been missed
    /// since: a value with tags asks, because an invalidation that its writer knows of must not hit it.
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
            Some(clock) if is_current && tags.is_empty() => Ok(clock),
            _ => inner.learn_stamps(&members_of(tags.iter().map(|tag| &**tag))).await,
        }
    }

    async fn write(
        self: Arc<Self>,
        values: Vec<(KeyBuf, V)>,
        options: &WriteOptions,
    ) -> Result<(), CacheError> {
        let inner = &self.cache.inner;
        let tags = self.tags(&options.tags, &Said::default());
        crate::envelope::check_tags(&tags).map_err(CacheError::Encode)?;
        let clock = self.clock_for(&tags).await;
        let policy = options.policy.or(self.policy);
        let mut writings = Vec::with_capacity(values.len());
        for (key, value) in values {
            let id = Id::random();
            let life = self.lifetime(&value, policy, &Said::default());
            let stamp = clock.as_ref().copied().unwrap_or(0);
            let sealing = Sealing { id, clock: stamp, life, cost: Duration::ZERO, tags: tags.clone() };
            let bytes = self.seal(&value, sealing).map_err(CacheError::Encode)?;
            let (memory_key, redis_key) = self.both_keys(&key);
            // Loads that are under way must not store; whoever comes now waits for the write.
            inner.memory.remove(&memory_key);
            let ticket = match inner.memory.load(&memory_key) {
                Load::Lead(ticket) => Some(ticket),
                Load::Hit(_) | Load::Follow(_) => None,
            };
            let changes = inner.changes.count(&redis_key);
            let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
            let start = Start { claim: Claim::Plain(id), clock: stamp, epoch, generation, changes };
            let entry = self.entry(Arc::new(value), bytes.len(), life, tags.clone(), &start);
            writings.push((
                Writing { redis_key, bytes, kept: life.kept(), entry, ticket },
                memory_key,
                changes,
            ));
        }
        let written = match clock {
            Ok(_) => self.put(&mut writings).await,
            // A value without a clock would be nobody's.
            Err(error) => {
                let keys = writings.iter().map(|(writing, ..)| &writing.redis_key[..]);
                inner.settle_keys(keys, inner.journal.turn(), false);
                Err(error)
            }
        };
        for (Writing { redis_key, entry, ticket, .. }, memory_key, changes) in writings {
            if written.is_err() {
                // It holds here, until it can be compared.
                entry.facts().suspect();
            }
            let committed = ticket.map(|ticket| self.commit(&redis_key, ticket, &entry, changes));
            if committed != Some(larder_engine::Commit::Stored) {
                // An announcement came between, or another change: what is right is in Redis.
                inner.forget_key(&memory_key);
            }
        }
        written
    }

    async fn put(&self, writings: &mut [(Writing, crate::key::MemoryKey, u64)]) -> Result<(), CacheError> {
        let inner = &self.cache.inner;
        let Some(shared) = &inner.shared else { return Ok(()) };
        let _not_paid_meanwhile = inner.paying.read().await;
        let turn = inner.journal.turn();
        // Tags that no ledger keeps could not be invalidated in Redis.
        let memory_only =
            inner.trust.is_alone() && writings.iter().any(|(w, ..)| !w.entry.facts().tags.is_empty());
        let changes: Vec<Change> = writings
            .iter_mut()
            .map(|(writing, ..)| match memory_only {
                true => Change::Remove(writing.redis_key.clone()),
                false => {
                    Change::Put(writing.redis_key.clone(), std::mem::take(&mut writing.bytes), writing.kept)
                }
            })
            .collect();
        let keys = || changes.iter().map(Change::key);
        let announcement = announce::keys(&inner.names.channel, inner.origin, keys());
        let guards = inner.guard_fills(keys()).await;
        let done = shared.ask(shared.tier.mutate(&changes, Some(&announcement))).await;
        drop(guards);
        inner.settle_keys(keys(), turn, done.is_ok());
        done.map(drop)
    }

    async fn add(self: Arc<Self>, key: &KeyBuf, value: V) -> Result<bool, CacheError> {
        let inner = &self.cache.inner;
        let (memory_key, redis_key) = self.both_keys(key);
        if inner.shared.is_none() {
            return Ok(match self.look(key) {
                Looked::Lead { ticket, .. } => self.add_here(&redis_key, ticket, value)?,
                Looked::Hit(_) | Looked::Follow(_) => false,
            });
        }
        inner.awake().await;
        for _ in 0..TRIES {
            let turn = inner.journal.turn();
            let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
            let changes = inner.changes.count(&redis_key);
            if inner.journal.blocks(&redis_key) {
                return Err(CacheError::Resting);
            }
            let (mut seen, clock) = inner.see(std::slice::from_ref(&redis_key), false).await?;
            let start = Start { claim: Claim::None, clock, epoch, generation, changes };
            let there = match seen.pop() {
                Some(Seen::Bytes { bytes, left }) => {
                    if let Opened::Fresh(_) = self.open(&redis_key, &bytes, left, &start).await {
                        return Ok(false);
                    }
                    Claim::replacing(&bytes)
                }
                // A load that is under way has added nothing yet, and now never will.
                Some(Seen::Theirs(id)) => Claim::mine(id),
                _ => Claim::Swap { seen: Vec::new(), id: Id::random() },
            };
            let Claim::Swap { seen, .. } = there else { return Ok(false) };
            let id = Id::random();
            let life = self.lifetime(&value, self.policy, &Said::default());
            let tags = self.tags(&[], &Said::default());
            let sealing = Sealing { id, clock, life, cost: Duration::ZERO, tags };
            let bytes = self.seal(&value, sealing).map_err(CacheError::Encode)?;
            let commit = Commit { key: redis_key.clone(), seen, put: Some((bytes, life.kept())) };
            if self.commit_announced(commit, turn).await? {
                inner.forget_key(&memory_key);
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn add_here(&self, redis_key: &[u8], ticket: MemoryTicket, value: V) -> Result<bool, CacheError> {
        let inner = &self.cache.inner;
        let life = self.lifetime(&value, self.policy, &Said::default());
        let tags = self.tags(&[], &Said::default());
        let id = Id::random();
        let sealing = Sealing { id, clock: 0, life, cost: Duration::ZERO, tags: tags.clone() };
        let bytes = self.seal(&value, sealing).map_err(CacheError::Encode)?.len();
        let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
        let start = Start { claim: Claim::Plain(id), clock: 0, epoch, generation, changes: 0 };
        let entry = self.entry(Arc::new(value), bytes, life, tags, &start);
        Ok(self.commit(redis_key, ticket, &entry, 0) == larder_engine::Commit::Stored)
    }

    /// A compare-and-set that every node is told of.
    async fn commit_announced(&self, commit: Commit, turn: Turn) -> Result<bool, CacheError> {
        let inner = &self.cache.inner;
        let Some(shared) = &inner.shared else { return Err(CacheError::NoRedis) };
        let _not_paid_meanwhile = inner.paying.read().await;
        let key = commit.key.clone();
        let announcement = announce::keys(&inner.names.channel, inner.origin, [&key[..]]);
        let guards = inner.guard_fills([&key[..]].into_iter()).await;
        let accepted = shared.ask(shared.tier.commit(&[commit], Some(&announcement))).await;
        drop(guards);
        inner.settle_keys([&key[..]].into_iter(), turn, accepted.is_ok());
        Ok(accepted?.first() == Some(&true))
    }

    async fn take(self: Arc<Self>, key: &KeyBuf) -> Result<Option<Fetched<V>>, CacheError> {
        let inner = &self.cache.inner;
        let (memory_key, redis_key) = self.both_keys(key);
        let found = match self.look(key) {
            Looked::Hit(fetched) => Some(fetched),
            Looked::Lead { .. } | Looked::Follow(_) => None,
        };
        let held = inner.memory.remove(&memory_key);
        if inner.shared.is_none() {
            // Of two that take at the same time, one removed it.
            return Ok(found.filter(|_| held.is_some()));
        }
        inner.awake().await;
        let era = inner.journal.era();
        if inner.journal.blocks(&redis_key) {
            return Err(CacheError::Resting);
        }
        let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
        let clock = inner.ledger.clock();
        let members = members_of([]);
        if !inner.trust.is_alone() {
            inner.learn_stamps(&members).await?;
        }
        let changed = inner.change(vec![Change::Take(redis_key.clone())]).await?;
        let Some(Changed::Taken(Some(bytes))) = changed.into_iter().next() else { return Ok(None) };
        if inner.journal.era() != era {
            return Err(CacheError::Resting);
        }
        if !is_value(&bytes) {
            return Ok(None);
        }
        let start = Start { claim: Claim::None, clock, epoch, generation, changes: 0 };
        Ok(match self.open(&redis_key, &bytes, None, &start).await {
            Opened::Fresh(entry) => self.fetched(entry, Source::Redis, false),
            Opened::Stale(_) | Opened::Dead => None,
        })
    }

    async fn expire(self: Arc<Self>, key: &KeyBuf) -> Result<bool, CacheError> {
        let inner = &self.cache.inner;
        let (memory_key, redis_key) = self.both_keys(key);
        if inner.shared.is_none() {
            return Ok(self.expire_here(&memory_key));
        }
        inner.awake().await;
        for _ in 0..TRIES {
            let turn = inner.journal.turn();
            let (mut seen, _) = inner.see(std::slice::from_ref(&redis_key), false).await?;
            let (commit, there) = match seen.pop() {
                Some(Seen::Bytes { bytes, left }) => (soft(&redis_key, bytes, left), true),
                Some(Seen::Theirs(id)) => {
                    let Claim::Swap { seen, .. } = Claim::mine(id) else { return Ok(false) };
                    (Commit { key: redis_key.clone(), seen, put: None }, false)
                }
                _ => {
                    inner.forget_key(&memory_key);
                    return Ok(false);
                }
            };
            inner.forget_key(&memory_key);
            let accepted = self.commit_announced(commit, turn).await;
            inner.forget_key(&memory_key);
            if accepted? {
                return Ok(there);
            }
        }
        // Somebody changes it all the time, and what is there is newer than the wish.
        Ok(true)
    }

    fn expire_here(&self, memory_key: &crate::key::MemoryKey) -> bool {
        let inner = &self.cache.inner;
        let now = inner.memory.clock().now();
        let has_grace = inner.memory.peek_with(memory_key, |entry| {
            let facts = entry.value().facts();
            let fresh = facts.fresh_until_nanos();
            facts.stale_from(now);
            fresh != u64::MAX
        });
        // Voids the loads that are under way, which may bring what is being expired.
        match has_grace {
            Some(true) => {
                if let Some(entry) = inner.memory.remove(memory_key) {
                    let left = entry.facts().keep_until.saturating_sub(now).max(Duration::from_millis(1));
                    inner.memory.insert_with_ttl(memory_key.clone(), entry, larder_engine::Ttl::After(left));
                }
                true
            }
            Some(false) => inner.memory.remove(memory_key).is_some(),
            None => {
                inner.memory.remove(memory_key);
                false
            }
        }
    }
}

/// The change that leaves a value to its grace, under another id, so that nothing loaded before is stored over it.
fn soft(redis_key: &[u8], mut bytes: Vec<u8>, left: Option<Duration>) -> Commit {
    let Claim::Swap { seen, id } = Claim::replacing(&bytes) else { unreachable!("to replace is to swap") };
    let grace = crate::envelope::parse(&bytes).map_or(Duration::ZERO, |(meta, _)| meta.grace);
    let grace = left.map_or(grace, |left| left.min(grace));
    let put = (!grace.is_zero()).then(|| {
        bytes[..crate::tier::HEAD_BYTES].copy_from_slice(&crate::envelope::Head::Value(id).to_bytes());
        (bytes, grace)
    });
    Commit { key: redis_key.to_vec(), seen, put }
}
