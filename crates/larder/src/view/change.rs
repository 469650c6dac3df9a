//! Changes that depend on what is there: adding, taking, expiring.

use super::entry::Sealing;
use super::write::detached;
use super::{MemoryLookup, Opened, Shared, View};
use crate::coherence::lease::{Claim, Purpose, Seen, is_value};
use crate::coherence::ledger::members_of;
use crate::coherence::{announce, journal::Turn};
use crate::envelope::Id;
use crate::error::CacheError;
use crate::fetch::{Fetched, Source};
use crate::key::{CacheKey, KeyBuf};
use crate::load::{Said, Start};
use crate::tier::memory::MemoryTicket;
use crate::tier::{CasAction, CompareAndSet, KeyContent, Operation, OperationResult};
use std::sync::Arc;
use std::time::Duration;

/// How often a change that compares is tried again when somebody else was faster.
const TRIES: usize = 8;

impl<K, V, E> View<K, V, E>
where
    K: CacheKey + ?Sized,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
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

impl<V: Send + Sync + 'static> Shared<V> {
    async fn add(self: Arc<Self>, key: &KeyBuf, value: V) -> Result<bool, CacheError> {
        let inner = &self.cache.inner;
        let (memory_key, redis_key) = self.both_keys(key);
        if inner.shared.is_none() {
            return Ok(match self.look(key) {
                MemoryLookup::Lead { ticket, .. } => self.add_here(&redis_key, ticket, value)?,
                MemoryLookup::Hit(_) | MemoryLookup::Follow(_) => false,
            });
        }
        inner.awake().await;
        inner.pay_members_first().await;
        for _ in 0..TRIES {
            let turn = inner.journal.turn();
            let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
            let changes = inner.changes.count(&redis_key);
            if inner.journal.blocks(&redis_key) {
                return Err(CacheError::Resting);
            }
            let (mut seen, clock) = inner.see(std::slice::from_ref(&redis_key), Purpose::Mutate).await?;
            let start = Start { claim: Claim::None, clock, epoch, generation, changes };
            let there = match seen.pop() {
                Some(Seen::Bytes { bytes, remaining_ttl }) => {
                    if let Opened::Fresh(_) = self.open(&redis_key, &bytes, remaining_ttl, &start).await {
                        return Ok(false);
                    }
                    Claim::replacing(&bytes, inner.random.id())
                }
                // A load that is under way has added nothing yet, and now never will.
                Some(Seen::Theirs(id)) => Claim::mine(id),
                _ => Claim::Swap { expected: Vec::new(), id: inner.random.id() },
            };
            let Claim::Swap { expected, .. } = there else { return Ok(false) };
            let id = inner.random.id();
            let life = self.lifetime(&value, self.policy, &Said::default());
            let tags = self.tags(&[], &Said::default());
            let sealing = Sealing { id, clock, life, cost: Duration::ZERO, tags };
            let bytes = self.seal(&value, sealing).map_err(CacheError::Encode)?;
            let commit = CompareAndSet {
                key: redis_key.clone(),
                expected,
                action: CasAction::Put(bytes, life.kept()),
            };
            // Where the server compares nothing, a load that waits for this must know that it may not store.
            inner.forget_key(&memory_key);
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
        let id = inner.random.id();
        let sealing = Sealing { id, clock: 0, life, cost: Duration::ZERO, tags: tags.clone() };
        let bytes = self.seal(&value, sealing).map_err(CacheError::Encode)?.len();
        let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
        let start = Start { claim: Claim::Plain(id), clock: 0, epoch, generation, changes: 0 };
        let entry = self.entry(Arc::new(value), bytes, life, tags, &start);
        Ok(self.commit(redis_key, ticket, &entry, 0) == larder_engine::CommitOutcome::Stored)
    }

    /// A compare-and-set that every node is told of.
    async fn commit_announced(&self, commit: CompareAndSet, turn: Turn) -> Result<bool, CacheError> {
        let inner = &self.cache.inner;
        let Some(shared) = &inner.shared else { return Err(CacheError::NoRedis) };
        let _not_paid_meanwhile = inner.paying.read().await;
        let key = commit.key.clone();
        let announcement = announce::keys(&inner.names.channel, inner.origin, [&key[..]]);
        let guards = inner.guard_fills([&key[..]].into_iter()).await;
        let accepted = shared.ask(shared.tier.compare_and_set(&[commit], Some(&announcement))).await;
        drop(guards);
        inner.settle_keys([&key[..]].into_iter(), turn, accepted.is_ok());
        Ok(accepted?.first() == Some(&true))
    }

    async fn take(self: Arc<Self>, key: &KeyBuf) -> Result<Option<Fetched<V>>, CacheError> {
        let inner = &self.cache.inner;
        let (memory_key, redis_key) = self.both_keys(key);
        let found = match self.look(key) {
            MemoryLookup::Hit(fetched) => Some(fetched),
            MemoryLookup::Lead { .. } | MemoryLookup::Follow(_) => None,
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
        let changed = inner.change(vec![Operation::Take(redis_key.clone())]).await?;
        let Some(OperationResult::Taken(KeyContent::Bytes { bytes, remaining_ttl })) =
            changed.into_iter().next()
        else {
            return Ok(None);
        };
        if inner.journal.era() != era {
            return Err(CacheError::Resting);
        }
        if !is_value(&bytes) {
            return Ok(None);
        }
        let start = Start { claim: Claim::None, clock, epoch, generation, changes: 0 };
        Ok(match self.open(&redis_key, &bytes, remaining_ttl, &start).await {
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
            let (mut seen, _) = inner.see(std::slice::from_ref(&redis_key), Purpose::Mutate).await?;
            let (commit, there) = match seen.pop() {
                Some(Seen::Bytes { bytes, remaining_ttl }) => {
                    (soft(&redis_key, bytes, remaining_ttl, inner.random.id()), true)
                }
                Some(Seen::Theirs(id)) => {
                    let Claim::Swap { expected, .. } = Claim::mine(id) else { return Ok(false) };
                    (CompareAndSet { key: redis_key.clone(), expected, action: CasAction::Remove }, false)
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
fn soft(redis_key: &[u8], mut bytes: Vec<u8>, left: Option<Duration>, id: Id) -> CompareAndSet {
    let Claim::Swap { expected, id } = Claim::replacing(&bytes, id) else {
        unreachable!("to replace is to swap")
    };
    let grace = crate::envelope::parse(&bytes).map_or(Duration::ZERO, |(meta, _)| meta.grace);
    let grace = left.map_or(grace, |left| left.min(grace));
    let put = (!grace.is_zero()).then(|| {
        bytes[..crate::tier::HEAD_BYTES].copy_from_slice(&crate::envelope::Head::Value(id).to_bytes());
        (bytes, grace)
    });
    CompareAndSet { key: redis_key.to_vec(), expected, action: CasAction::put_or_remove(put) }
}
