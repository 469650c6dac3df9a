//! Reading without loading.

use super::{Followed, Kept, MemoryLookup, Opened, Shared, View};
use crate::coherence::lease::{Claim, Purpose, Seen};
use crate::coherence::ledger::Judgement;
use crate::coherence::trust::nanos;
use crate::envelope::Head;
use crate::fetch::{Fetched, Source};
use crate::key::{CacheKey, KeyBuf};
use crate::load::Start;
use crate::tier::memory::MemoryTicket;
use crate::tier::{CasAction, CompareAndSet};
use larder_engine::{Op, Ttl};

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
    /// The value in memory or in Redis, if either has a fresh one. Does not wait for loads that are under way.
    ///
    /// Cancel safe. Cost: a shard lock; on a miss in memory one round trip to Redis, if there is one.
    pub async fn read(&self, key: &K) -> Option<Fetched<V>> {
        if self.shared.is_off() {
            return None;
        }
        let key = KeyBuf::of(key);
        let found = match self.shared.look(&key) {
            MemoryLookup::Hit(fetched) => Some(fetched),
            missed => self.shared.read_slowly(vec![(key.clone(), missed)]).await.pop().flatten(),
        };
        self.shared.touch(&key, found.as_ref());
        found
    }

    /// The values of many keys, in their order, with one round trip to Redis for all that memory does not have, and
    /// another if they have tags that this node does not know.
    ///
    /// Cancel safe.
    pub async fn read_multi<'k>(&self, keys: impl IntoIterator<Item = &'k K>) -> Vec<Option<Fetched<V>>>
    where
        K: 'k,
    {
        let keys = keys.into_iter().map(KeyBuf::of);
        if self.shared.is_off() {
            return keys.map(|_| None).collect();
        }
        let (mut answers, mut asked, mut places) = (Vec::new(), Vec::new(), Vec::new());
        for key in keys {
            let found = match self.shared.look(&key) {
                MemoryLookup::Hit(fetched) => {
                    self.shared.touch(&key, Some(&fetched));
                    Some(fetched)
                }
                missed => {
                    places.push(answers.len());
                    asked.push((key, missed));
                    None
                }
            };
            answers.push(found);
        }
        if !asked.is_empty() {
            let found = self.shared.read_slowly(asked).await;
            for (place, found) in places.into_iter().zip(found) {
                answers[place] = found;
            }
        }
        answers
    }

    /// Whether memory or Redis has a fresh value. Cost: as [`View::read`].
    pub async fn exist(&self, key: &K) -> bool {
        self.read(key).await.is_some()
    }
}

impl<V: Send + Sync + 'static> Shared<V> {
    /// Asks Redis about what memory could not answer.
    async fn read_slowly(&self, asked: Vec<(KeyBuf, MemoryLookup<V>)>) -> Vec<Option<Fetched<V>>> {
        let inner = &self.cache.inner;
        let mut answers: Vec<Option<Fetched<V>>> = asked.iter().map(|_| None).collect();
        if inner.shared.is_none() {
            return answers;
        }
        inner.awake().await;
        if let [
            (
                key,
                MemoryLookup::Lead { held: Some(held), .. }
                | MemoryLookup::Follow(Followed { held: Some(held), .. }),
            ),
        ] = &asked[..]
            && held.suspect
            && let Some(fetched) = self.compare(key, held).await
        {
            return vec![Some(fetched)];
        }
        let (epoch, generation) = (inner.ledger.epoch(), inner.trust.generation());
        let (mut redis_keys, mut wanted) = (Vec::new(), Vec::new());
        for (place, (key, looked)) in asked.into_iter().enumerate() {
            let (ticket, held) = match looked {
                MemoryLookup::Lead { ticket, held } => (Some(ticket), held),
                MemoryLookup::Follow(followed) => (None, followed.held),
                MemoryLookup::Hit(_) => continue,
            };
            let redis_key = self.redis_key(&key);
            if inner.journal.blocks(&redis_key) {
                // What this node wrote or loaded since stands, until Redis can be compared.
                answers[place] = held.and_then(|held| self.stand_in(&held));
                continue;
            }
            wanted.push(Wanted { place, ticket, held, changes: inner.changes.count(&redis_key) });
            redis_keys.push(redis_key);
        }
        if redis_keys.is_empty() {
            return answers;
        }
        let (seen, clock) = match inner.see(&redis_keys, Purpose::Read).await {
            Ok(seen) => seen,
            Err(error) => {
                // Redis is lost: memory may stand in for a while.
                inner.report(&error);
                for Wanted { place, held, .. } in wanted {
                    answers[place] = held.and_then(|held| self.stand_in(&held));
                }
                return answers;
            }
        };
        for ((wanted, seen), redis_key) in wanted.into_iter().zip(seen).zip(&redis_keys) {
            let Wanted { place, ticket, held, changes } = wanted;
            let start = Start { claim: Claim::None, clock, epoch, generation, changes };
            let Seen::Bytes { bytes, remaining_ttl } = seen else {
                held.inspect(disprove_if_compared);
                continue;
            };
            if let Opened::Fresh(entry) = self.open(redis_key, &bytes, remaining_ttl, &start).await {
                if let Some(ticket) = ticket {
                    self.commit(redis_key, ticket, &entry, changes);
                }
                answers[place] = self.fetched(entry, Source::Redis, false);
            }
        }
        answers
    }

    /// What memory has, if Redis has it too.
    async fn compare(&self, key: &KeyBuf, held: &Kept) -> Option<Fetched<V>> {
        let inner = &self.cache.inner;
        let redis_key = self.redis_key(key);
        if inner.journal.blocks(&redis_key) {
            return None;
        }
        let facts = held.entry.facts();
        let judgement = inner.revalidate(&redis_key, facts).await?;
        if judgement == Judgement::Dead {
            facts.disprove();
        }
        if judgement != Judgement::Valid {
            return None;
        }
        let is_fresh = nanos(inner.memory.clock().now()) < facts.fresh_until_nanos();
        is_fresh.then(|| self.fetched(held.entry.clone(), Source::Memory, false)).flatten()
    }

    /// What memory has, if Redis is lost and that may stand in for it.
    fn stand_in(&self, held: &Kept) -> Option<Fetched<V>> {
        let inner = &self.cache.inner;
        let facts = held.entry.facts();
        let is_fresh = nanos(inner.memory.clock().now()) < facts.fresh_until_nanos();
        let may_serve = held.suspect && is_fresh && inner.trust.may_serve_alone(facts);
        let is_valid = matches!(inner.ledger.judge(facts), Judgement::Valid | Judgement::Unknown);
        let fits = may_serve && is_valid && !facts.is_disproved();
        fits.then(|| self.fetched(held.entry.clone(), Source::Memory, false)).flatten()
    }

    /// Begins the times to live of a key anew, if the view wants that. Nobody waits for it.
    fn touch(&self, key: &KeyBuf, found: Option<&Fetched<V>>) {
        let Some(found) = found.filter(|_| self.touch_on_read) else { return };
        let (inner, policy) = (self.cache.inner.clone(), self.policy);
        let (memory_key, redis_key) = self.both_keys(key);
        let life = policy.lifetime(self.is_negative(found), &inner.random);
        found.facts().renew(inner.memory.clock().now().saturating_add(life.fresh));
        inner.memory.compute(memory_key, |held| match held {
            Some(_) => (Op::SetTtl(Ttl::After(life.kept())), ()),
            None => (Op::Keep, ()),
        });
        if let (Some(_), Some(id)) = (&inner.shared, found.facts().id) {
            tokio::spawn(async move {
                if let Some(shared) = &inner.shared {
                    // What has come there meanwhile has its own time.
                    let expected = Head::Value(id).to_bytes().to_vec();
                    let touch =
                        CompareAndSet { key: redis_key, expected, action: CasAction::Touch(life.kept()) };
                    // A touch that fails leaves the value to expire: nothing that anybody must be told.
                    _ = shared.ask(shared.tier.compare_and_set(&[touch], None)).await;
                }
            });
        }
    }
}

/// A key that Redis is asked about.
struct Wanted {
    place: usize,
    ticket: Option<MemoryTicket>,
    held: Option<Kept>,
    changes: u64,
}

/// What Redis does not have, memory must not serve.
fn disprove_if_compared(held: &Kept) {
    if held.suspect {
        held.entry.facts().disprove();
    }
}
