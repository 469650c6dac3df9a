//! A call for many keys: rounds of lookups until each key has an outcome.

use super::BulkOutcome;
use super::bulk_loader::{BulkLoader, LoadedValues, MakeAbsent, with_absent};
use super::load_batch::{LoadBatch, Reason, fetch_error};
use super::loader::BulkCx;
use super::pending_key::PendingKey;
use super::view_state::ViewState;
use super::waiting::{Call, answer_or_stale, follow};
use crate::key::{CacheKey, KeyBuf};
use crate::node::fetched::Fetched;
use crate::node::lookup::{Candidate, MemoryLookup, Waiter};
use crate::report::error::FetchError;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// A fetch of many keys, whoever loads them.
pub(super) struct MultiCall<K: ToOwned + ?Sized, V, E> {
    pub(super) view: Arc<ViewState<V>>,
    pub(super) call: Call,
    tags: Vec<Box<str>>,
    pub(super) absent: Option<MakeAbsent<V>>,
    /// The keys as they were asked for, duplicates included.
    order: Vec<KeyBuf>,
    /// The keys without an outcome. Sorted, so that the loader gets them in the same order in each run.
    open: BTreeMap<KeyBuf, K::Owned>,
    outcomes: HashMap<KeyBuf, BulkOutcome<V, E>>,
}

/// What memory says of the open keys.
pub(super) struct Round<V, E, O> {
    /// This caller loads them, unless another tier has them.
    pub(super) missing: Vec<MissingKey<V, E, O>>,
    /// What these callers get, in the same order.
    pub(super) answers: Vec<AwaitedKey<V, E>>,
    /// Other callers load them.
    pub(super) followed: Followed<O>,
}

/// A key that memory does not have: its load, and the key, also for the loader.
pub(super) type MissingKey<V, E, O> = (PendingKey<V, E>, (KeyBuf, O));

/// A key that this caller loads.
pub(super) struct AwaitedKey<V, E> {
    pub(super) key: KeyBuf,
    candidate: Option<Candidate>,
    pub(super) answer: oneshot::Receiver<BulkOutcome<V, E>>,
}

/// Keys that other callers load, since the begin of the round.
pub(super) struct Followed<O> {
    began: Instant,
    keys: Vec<(KeyBuf, O, Waiter)>,
}

impl<K, V, E> MultiCall<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    pub(super) fn new(
        view: Arc<ViewState<V>>,
        keys: Vec<(KeyBuf, K::Owned)>,
        call: Call,
        tags: Vec<Box<str>>,
        absent: Option<MakeAbsent<V>>,
    ) -> Self {
        let order: Vec<KeyBuf> = keys.iter().map(|(key, _)| key.clone()).collect();
        let mut open = BTreeMap::new();
        for (key, owned) in keys {
            open.entry(key).or_insert(owned);
        }
        let outcomes = HashMap::with_capacity(open.len());
        MultiCall { view, call, tags, absent, order, open, outcomes }
    }

    pub(super) fn has_open_keys(&self) -> bool {
        !self.open.is_empty()
    }

    /// What the loads of this call share.
    pub(super) fn batch(&self) -> LoadBatch<V> {
        let (view, tags) = (self.view.clone(), self.tags.clone());
        LoadBatch { view, call: self.call, tags, reason: Reason::Missing, elsewhere: None }
    }

    /// The same for what it loads again of what memory has. A soft timeout is for callers that wait.
    pub(super) fn batch_ahead(&self) -> LoadBatch<V> {
        LoadBatch { call: Call::start(self.call.policy, true), reason: Reason::Ahead, ..self.batch() }
    }

    /// Looks up the open keys in memory. Each is then found, missing or followed. `found` is called with those that are found.
    pub(super) fn look_up_memory(
        &mut self,
        mut found: impl FnMut(&KeyBuf, K::Owned, &Fetched<V>),
    ) -> Round<V, E, K::Owned> {
        let followed = Followed { began: Instant::now(), keys: Vec::new() };
        let mut round = Round { missing: Vec::new(), answers: Vec::new(), followed };
        for (key, owned) in std::mem::take(&mut self.open) {
            match self.view.node().lookup(&self.view.config, &key) {
                MemoryLookup::Hit(fetched) => {
                    found(&key, owned, &fetched);
                    self.outcomes.insert(key, Ok(Some(fetched)));
                }
                MemoryLookup::Follow(waiter) => round.followed.keys.push((key, owned, waiter)),
                MemoryLookup::Lead { ticket, candidate, .. } => {
                    let redis_key = self.view.redis_key(&key);
                    let (pending, answer) = PendingKey::new(redis_key, ticket, candidate.clone());
                    round.missing.push((pending, (key.clone(), owned)));
                    round.answers.push(AwaitedKey { key, candidate, answer });
                }
            }
        }
        round
    }

    /// Waits for the loads that this call leads.
    pub(super) async fn await_answers(&mut self, answers: Vec<AwaitedKey<V, E>>) {
        for AwaitedKey { key, candidate, answer } in answers {
            let answered = answer_or_stale(&self.view, &self.call, &key, candidate, answer).await;
            self.set_outcome(key, answered);
        }
    }

    /// Waits for the loads of other callers. The keys that they did not load are open again.
    pub(super) async fn follow(&mut self, followed: Followed<K::Owned>) {
        for (key, owned, waiter) in followed.keys {
            match follow(&self.view, &self.call, &key, waiter, followed.began).await {
                Ok(outcome) => self.set_outcome(key, outcome),
                // Without a ticket: the next round looks the key up again.
                Err(_) => self.reopen(key, owned),
            }
        }
    }

    pub(super) fn set_outcome(&mut self, key: KeyBuf, outcome: BulkOutcome<V, E>) {
        self.outcomes.insert(key, outcome);
    }

    /// The key has no outcome yet.
    pub(super) fn reopen(&mut self, key: KeyBuf, owned: K::Owned) {
        self.open.insert(key, owned);
    }

    /// The outcome of all keys that have none.
    pub(super) fn fail_rest(&mut self, error: &FetchError<E>) {
        for key in &self.order {
            self.outcomes.entry(key.clone()).or_insert_with(|| Err(error.clone()));
        }
    }

    /// One outcome for each key, in their order.
    pub(super) fn into_outcomes(self) -> Vec<BulkOutcome<V, E>> {
        let of = |key: &KeyBuf| match &self.outcomes[key] {
            Ok(fetched) => {
                fetched.iter().for_each(Fetched::note_freshness);
                Ok(fetched.clone())
            }
            Err(error) => Err(error.clone()),
        };
        self.order.iter().map(of).collect()
    }

    /// Takes the open keys.
    pub(super) fn take_open(&mut self) -> Vec<(KeyBuf, K::Owned)> {
        std::mem::take(&mut self.open).into_iter().collect()
    }

    /// Loads while no tier answers: nothing is stored.
    pub(super) async fn uncached(mut self, loader: BulkLoader<K, V, E>) -> Vec<BulkOutcome<V, E>>
    where
        K: 'static,
    {
        let (keys, missing): (Vec<_>, Vec<_>) = self.take_open().into_iter().unzip();
        let cx = BulkCx::new(HashMap::new());
        match loader.run(missing, cx, self.call.policy.hard_timeout).await {
            Ok(values) => self.set_unstored(keys, values),
            Err(failure) => self.fail_rest(&fetch_error(failure)),
        }
        self.into_outcomes()
    }

    /// The outcomes of keys whose values are stored nowhere.
    pub(super) fn set_unstored(&mut self, keys: Vec<KeyBuf>, values: LoadedValues<V>) {
        let mut values = with_absent(values, keys.iter().cloned(), self.absent.as_ref());
        for key in keys {
            let value = values.remove(&key);
            let fetched = value.map(|value| self.view.node().unstored(value));
            self.set_outcome(key, Ok(fetched));
        }
    }
}
