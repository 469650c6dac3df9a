//! A load from its tickets to its loader: what the tiers can answer is not loaded. One task for one key or for many.

use super::BulkOutcome;
use super::view_state::ViewState;
use super::waiting::Call;
use crate::coherence::lease::StoreCondition;
use crate::coherence::lookup::{Purpose, RedisLookup};
use crate::envelope::Head;
use crate::error::FetchError;
use crate::load::{LoadCx, LoadFailure};
use crate::node::StartState;
use crate::node::entry::{MemoryEntry, MemoryTicket, Validity};
use crate::node::fetched::Source;
use crate::node::lookup::{Candidate, source_in_memory};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout_at;

/// How many times a key is looked up again because it changed between the lookup and the lease.
const MAX_LOOKUPS: usize = 4;

/// A key of a batch.
pub(crate) struct PendingKey<V, E> {
    pub(crate) redis_key: Vec<u8>,
    /// `None` once the load of the key has ended.
    pub(crate) ticket: Option<MemoryTicket>,
    pub(crate) candidate: Option<Candidate>,
    answer: Option<oneshot::Sender<BulkOutcome<V, E>>>,
    pub(super) start: StartState,
    pub(super) condition: StoreCondition,
    /// When the lookup started, on the engine's clock.
    pub(super) started_at: Duration,
    /// The stale value to serve if the load fails.
    pub(super) stale: Option<MemoryEntry>,
}

impl<V, E> PendingKey<V, E> {
    pub(crate) fn new(
        redis_key: Vec<u8>,
        ticket: MemoryTicket,
        candidate: Option<Candidate>,
    ) -> (Self, oneshot::Receiver<BulkOutcome<V, E>>) {
        let (answer, answered) = oneshot::channel();
        let pending = PendingKey {
            redis_key,
            ticket: Some(ticket),
            candidate,
            answer: Some(answer),
            start: StartState::default(),
            condition: StoreCondition::None,
            started_at: Duration::ZERO,
            stale: None,
        };
        (pending, answered)
    }

    /// Whether the key must still be loaded.
    pub(crate) fn is_open(&self) -> bool {
        self.ticket.is_some()
    }

    /// Answers the caller. Returns whether it still waited: the load continues for the tiers if it was dropped.
    pub(super) fn answer(&mut self, outcome: BulkOutcome<V, E>) -> bool {
        self.answer.take().is_some_and(|answer| answer.send(outcome).is_ok())
    }

    /// Whether another node loads the key.
    pub(super) fn is_loaded_elsewhere(&self) -> bool {
        self.is_open() && matches!(self.condition, StoreCondition::ForeignLease(_))
    }

    fn needs_revalidation(&self) -> bool {
        self.candidate.as_ref().is_some_and(|candidate| candidate.needs_revalidation)
    }
}

/// What the keys of one load share.
pub(crate) struct LoadBatch<V> {
    pub(crate) view: Arc<ViewState<V>>,
    pub(super) call: Call,
    pub(crate) tags: Vec<Box<str>>,
    /// Whether valid entries are loaded too.
    pub(crate) refresh: bool,
}

impl<V> LoadBatch<V>
where
    V: Send + Sync + 'static,
{
    /// Answers the keys that the tiers can answer. The keys that are open afterwards must be loaded. Waits for another
    /// node if it loads the only key; see also [`LoadBatch::await_other_nodes`].
    pub(crate) async fn lookup<E: Send + Sync + 'static>(&self, keys: &mut [PendingKey<V, E>]) {
        let node = self.view.node();
        if node.redis.is_some() {
            self.view.coordinator.ensure_connected().await;
        }
        for pending in &mut *keys {
            pending.started_at = node.now();
            pending.start = node.start_state(&pending.redis_key);
            if let Some(candidate) =
                pending.candidate.as_ref().filter(|candidate| !candidate.needs_revalidation)
            {
                pending.stale = Some(candidate.entry.clone());
            }
        }
        if node.redis.is_none() {
            return;
        }
        if let [pending] = &mut *keys {
            self.lookup_one(pending).await;
        } else {
            self.lookup_many(keys.iter_mut().collect()).await;
        }
    }

    async fn lookup_one<E: Send + Sync + 'static>(&self, pending: &mut PendingKey<V, E>) {
        let coordinator = &self.view.coordinator;
        if coordinator.replay_log.blocks(&pending.redis_key) {
            return self.use_candidate_without_redis(pending);
        }
        if pending.needs_revalidation() && !self.revalidate_candidate(pending).await {
            return;
        }
        for _ in 0..MAX_LOOKUPS {
            match coordinator.lookup_or_wait_for_lease(std::slice::from_ref(&pending.redis_key)).await {
                Ok((lookup, clock)) => {
                    pending.start.clock = clock;
                    let Some(dead_bytes) = self.apply_lookup(pending, lookup).await else { return };
                    // The lease keeps other nodes from loading too.
                    if let Some(condition) = coordinator.lease_over(&pending.redis_key, &dead_bytes).await {
                        pending.condition = condition;
                        return;
                    }
                }
                Err(error) => {
                    coordinator.node.observers.report(&error);
                    return self.use_candidate_without_redis(pending);
                }
            }
        }
    }

    async fn lookup_many<E: Send + Sync + 'static>(&self, keys: Vec<&mut PendingKey<V, E>>) {
        let coordinator = &self.view.coordinator;
        let (mut asked, mut redis_keys) = (Vec::new(), Vec::new());
        for pending in keys {
            if coordinator.replay_log.blocks(&pending.redis_key) {
                self.use_candidate_without_redis(pending);
            } else {
                redis_keys.push(pending.redis_key.clone());
                asked.push(pending);
            }
        }
        if asked.is_empty() {
            return;
        }
        match coordinator.lookup_redis(&redis_keys, Purpose::Load).await {
            Ok((lookups, clock)) => {
                for (pending, lookup) in asked.into_iter().zip(lookups) {
                    pending.start.clock = clock;
                    if let Some(dead_bytes) = self.apply_lookup(pending, lookup).await {
                        // Only an envelope has an id. Another program may write the same bytes again.
                        pending.condition = match Head::parse(&dead_bytes) {
                            Ok(Head::Value(_)) => coordinator.condition_to_replace(&dead_bytes),
                            _ => {
                                let leased = coordinator.lease_over(&pending.redis_key, &dead_bytes).await;
                                leased.unwrap_or(StoreCondition::None)
                            }
                        };
                    }
                }
            }
            Err(error) => {
                coordinator.node.observers.report(&error);
                for pending in asked {
                    pending.condition = StoreCondition::None;
                    self.use_candidate_without_redis(pending);
                }
            }
        }
    }

    /// Waits for other nodes that load these keys: until they have stored a value or given up, or `lease_wait` is over.
    /// The keys that are open afterwards must be loaded.
    pub(crate) async fn await_other_nodes<E: Send + Sync + 'static>(&self, keys: &mut [PendingKey<V, E>]) {
        let mut wait = self.view.coordinator.lease_wait();
        loop {
            let waiting: Vec<_> = keys.iter_mut().filter(|pending| pending.is_loaded_elsewhere()).collect();
            if waiting.is_empty() || !wait.pause().await {
                break;
            }
            self.lookup_many(waiting).await;
        }
        wait.end(keys.iter().filter(|pending| pending.is_loaded_elsewhere()).count());
    }

    /// Takes over what Redis has under a key. Returns bytes that may not be served, or that have changed since.
    async fn apply_lookup<E: Send + Sync + 'static>(
        &self,
        pending: &mut PendingKey<V, E>,
        lookup: RedisLookup,
    ) -> Option<Vec<u8>> {
        let coordinator = &self.view.coordinator;
        let node = &coordinator.node;
        if let Some(candidate) = pending.candidate.as_ref().filter(|candidate| candidate.needs_revalidation) {
            // The content of Redis is newer.
            candidate.entry.state().mark_dead();
        }
        pending.condition = match lookup {
            RedisLookup::LeaseGranted(id) => StoreCondition::lease(id),
            // That load may have begun before the refresh was called: its store must be refused.
            RedisLookup::LeaseHeldByOther(id) if self.refresh => {
                return Some(Head::Lease(id).to_bytes().to_vec());
            }
            RedisLookup::LeaseHeldByOther(id) => StoreCondition::ForeignLease(id),
            RedisLookup::Absent if node.trust.is_standalone() => coordinator.condition_to_replace(&[]),
            RedisLookup::Absent => StoreCondition::None,
            RedisLookup::Bytes(bytes) => {
                let (config, redis_key) = (&self.view.config, &pending.redis_key);
                let opened = node.open(config, redis_key, &bytes, &pending.start).await;
                let Some(opened) = opened else { return Some(bytes) };
                if opened.validity == Validity::Valid && !self.refresh {
                    if let Some(ticket) = pending.ticket.take() {
                        node.commit(redis_key, ticket, &opened.entry, pending.start.tracked_writes);
                    }
                    self.answer(pending, opened.entry, Source::Redis);
                    return None;
                }
                let condition = match self.refresh && !node.trust.is_standalone() {
                    // Another node may be loading the value again, since before the refresh was called.
                    true => coordinator.renew_id(redis_key, &bytes, opened.deadline_ms).await,
                    false => Some(coordinator.condition_to_replace(&bytes)),
                };
                let Some(condition) = condition else { return Some(bytes) };
                pending.stale = Some(opened.entry);
                condition
            }
        };
        None
    }

    /// Compares the candidate with Redis. False if the lookup has ended: the key is answered, or Redis does not reply.
    async fn revalidate_candidate<E: Send + Sync + 'static>(&self, pending: &mut PendingKey<V, E>) -> bool {
        let Some(candidate) = pending.candidate.clone() else { return true };
        let validity = self.view.coordinator.revalidate(&pending.redis_key, candidate.entry.state()).await;
        match validity {
            Some(Validity::Unknown) => true,
            Some(validity) => {
                pending.candidate = None;
                self.use_candidate(pending, candidate.entry, validity);
                pending.is_open()
            }
            None => {
                self.use_candidate_without_redis(pending);
                false
            }
        }
    }

    /// Uses the candidate while Redis does not reply.
    fn use_candidate_without_redis<E: Send + Sync + 'static>(&self, pending: &mut PendingKey<V, E>) {
        if let Some(candidate) = pending.candidate.clone().filter(|candidate| candidate.needs_revalidation) {
            let validity = self.view.node().judge_without_redis(candidate.entry.state());
            self.use_candidate(pending, candidate.entry, validity);
        }
    }

    /// Answers with a valid entry. A stale one is served if the load fails or is slow.
    fn use_candidate<E: Send + Sync + 'static>(
        &self,
        pending: &mut PendingKey<V, E>,
        entry: MemoryEntry,
        validity: Validity,
    ) {
        match validity {
            Validity::Valid if !self.refresh => {
                entry.state().mark_delivered(self.view.node().now());
                if let Some(ticket) = pending.ticket.take() {
                    ticket.deliver(entry.clone());
                }
                let source = source_in_memory(&entry);
                self.answer(pending, entry, source);
            }
            Validity::Valid | Validity::Stale => pending.stale = Some(entry),
            Validity::Dead | Validity::Unknown => {}
        }
    }

    /// Answers the caller with an entry. Returns whether it still waited.
    pub(super) fn answer<E>(
        &self,
        pending: &mut PendingKey<V, E>,
        entry: MemoryEntry,
        source: Source,
    ) -> bool {
        let fetched = self.view.node().fetched(entry, source, false);
        pending.answer(fetched.map(Some).ok_or(FetchError::Dropped))
    }

    /// The context of the loader of a key.
    pub(crate) fn context<E>(&self, pending: &PendingKey<V, E>) -> LoadCx<V> {
        LoadCx::new(pending.stale.as_ref().and_then(|stale| stale.value::<V>().cloned()))
    }

    /// Awaits a loader and renews its leases meanwhile.
    pub(crate) async fn await_load<E: Send + Sync + 'static, R>(
        &self,
        keys: &mut [PendingKey<V, E>],
        loading: impl Future<Output = R>,
    ) -> R {
        let renewals =
            keys.iter().filter_map(|pending| pending.condition.renewal(&pending.redis_key)).collect();
        tokio::select! {
            biased;
            loaded = self.await_with_soft_timeout(keys, loading) => loaded,
            never = self.view.coordinator.renew_leases(renewals) => match never {},
        }
    }

    /// After the soft timeout, callers with a stale value get it.
    async fn await_with_soft_timeout<E: Send + Sync + 'static, R>(
        &self,
        keys: &mut [PendingKey<V, E>],
        loading: impl Future<Output = R>,
    ) -> R {
        let mut loading = std::pin::pin!(loading);
        let has_stale = keys.iter().any(|pending| pending.stale.is_some());
        if let Some(soft_end) = self.call.soft_end().filter(|_| has_stale) {
            if let Ok(loaded) = timeout_at(soft_end, &mut loading).await {
                return loaded;
            }
            for pending in keys.iter_mut().filter(|pending| pending.is_open()) {
                if let Some(stale) = self.servable_stale(pending)
                    && self.answer(pending, stale, Source::Stale)
                {
                    self.view.node().observers.served_stale(&pending.redis_key);
                }
            }
        }
        loading.await
    }

    /// The stale value of a key, if it is still within its grace period.
    pub(super) fn servable_stale<E>(&self, pending: &PendingKey<V, E>) -> Option<MemoryEntry> {
        let now = self.view.node().now();
        pending.stale.clone().filter(|stale| stale.state().is_kept(now))
    }
}

/// The error that callers get.
pub(crate) fn fetch_error<E>(failure: LoadFailure<E>) -> FetchError<E> {
    match failure {
        LoadFailure::Failed(error) => FetchError::Load(Arc::new(error)),
        LoadFailure::Panicked => FetchError::LoaderPanicked,
        LoadFailure::TimedOut => FetchError::Timeout,
    }
}
