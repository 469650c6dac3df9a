//! A load from its tickets to its loader: what the tiers can answer is not loaded. One task for one key or for many.

use super::BulkOutcome;
use super::pending_key::PendingKey;
use super::view_state::ViewState;
use super::waiting::Call;
use crate::coherence::lease::StoreCondition;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::coherence::reload::Reload;
use crate::fetch::loader::{BulkCx, LoadCx, LoadFailure};
use crate::key::KeyBuf;
use crate::node::entry::{MemoryEntry, Validity};
use crate::node::fetched::Source;
use crate::node::lookup::{Candidate, source_in_memory};
use crate::node::sealing::OpenedEntry;
use crate::report::error::FetchError;
use crate::value::envelope::Head;
use crate::value::format::Id;
use futures_util::future::join_all;
use std::sync::Arc;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

/// How many times a key is looked up again because it changed between the lookup and the lease.
const MAX_LOOKUPS: usize = 4;

/// What is left to do for a key after its lookup in Redis.
enum Found {
    /// Nothing: it is answered, has a lease, or cannot have one.
    Settled,
    /// Bytes may not be served, or have changed since. They must be replaced by a lease.
    Dead(Vec<u8>),
    /// The value with this id must be loaded again.
    Replaceable(Id),
    /// The load that has this lease takes too long: a refresh loads beside it.
    Overtaken(Id),
}

/// What the keys of one load share.
pub(crate) struct LoadBatch<V> {
    pub(crate) view: Arc<ViewState<V>>,
    pub(super) call: Call,
    pub(crate) tags: Vec<Box<str>>,
    pub(crate) reason: Reason,
    /// For a caller that loads itself, and that has no answer before its turn: hears that another node loads.
    pub(super) elsewhere: Option<Arc<Notify>>,
}

/// Why keys are loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reason {
    /// No tier has a fresh value.
    Missing,
    /// A caller asks for a value that is newer than all there are.
    Refresh,
    /// The value will not be fresh for long. Nobody waits.
    Ahead,
}

impl<V> LoadBatch<V>
where
    V: Send + Sync + 'static,
{
    fn is_refresh(&self) -> bool {
        self.reason == Reason::Refresh
    }

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
        if node.supported_redis().is_none() {
            return;
        }
        if self.reason == Reason::Ahead {
            join_all(keys.iter_mut().map(|pending| self.lookup_ahead(pending))).await;
        } else if let [pending] = &mut *keys {
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
        // A refresh has waited for a load of this node already, and its lease may still be there.
        let began = if self.is_refresh() { self.call.started } else { Instant::now() };
        let mut wait = coordinator.lease_wait_since(began).telling(self.elsewhere.as_deref());
        for _ in 0..MAX_LOOKUPS {
            let key = std::slice::from_ref(&pending.redis_key);
            let (lookup, clock) = match coordinator.lookup_or_wait_for_lease(key, &mut wait).await {
                Ok(found) => found,
                Err(error) => {
                    coordinator.node.observers.report(&error);
                    return self.use_candidate_without_redis(pending);
                }
            };
            pending.start.clock = clock;
            match self.apply_lookup(pending, lookup).await {
                Found::Settled => return,
                Found::Dead(dead_bytes) => {
                    // The lease keeps other nodes from loading too.
                    if let Some(condition) = coordinator.lease_over(&pending.redis_key, &dead_bytes).await {
                        pending.condition = condition;
                        return;
                    }
                }
                Found::Overtaken(lease) => {
                    if let Some(condition) = coordinator.lease_behind(&pending.redis_key, lease).await {
                        (pending.condition, pending.overtakes) = (condition, true);
                        return;
                    }
                }
                Found::Replaceable(value) if self.is_refresh() => {
                    if self.lease_refresh(pending, value, &mut wait).await {
                        return;
                    }
                }
                Found::Replaceable(value) => {
                    self.lease_reloads(vec![(pending, value)]).await;
                    return self.await_other_nodes(std::slice::from_mut(pending)).await;
                }
            }
        }
    }

    pub(super) async fn lookup_many<E: Send + Sync + 'static>(&self, keys: Vec<&mut PendingKey<V, E>>) {
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
                let mut replaceable = Vec::new();
                for (pending, lookup) in asked.into_iter().zip(lookups) {
                    pending.start.clock = clock;
                    match self.apply_lookup(pending, lookup).await {
                        Found::Settled => {}
                        Found::Dead(dead_bytes) => {
                            // Only an envelope has an id. Another program may write the same bytes again.
                            pending.condition = match Head::parse(&dead_bytes) {
                                Ok(Head::Value(_)) => coordinator.condition_to_replace(&dead_bytes),
                                _ => {
                                    let leased = coordinator.lease_over(&pending.redis_key, &dead_bytes);
                                    leased.await.unwrap_or(StoreCondition::None)
                                }
                            };
                        }
                        Found::Replaceable(value) => replaceable.push((pending, value)),
                        Found::Overtaken(_) => unreachable!("a refresh has one key"),
                    }
                }
                self.lease_reloads(replaceable).await;
            }
            Err(error) => {
                coordinator.node.observers.report(&error);
                for pending in asked {
                    (pending.condition, pending.reload) = (StoreCondition::None, Reload::Unleased);
                    self.use_candidate_without_redis(pending);
                }
            }
        }
    }

    /// Waits for other nodes that load these keys: until they have stored a value or given up, or `lease_wait` is over.
    /// Then stale values are served. The keys that are open afterwards must be loaded.
    pub(crate) async fn await_other_nodes<E: Send + Sync + 'static>(&self, keys: &mut [PendingKey<V, E>]) {
        let mut wait = self.view.coordinator.lease_wait().telling(self.elsewhere.as_deref());
        loop {
            let waiting: Vec<_> = keys.iter_mut().filter(|pending| pending.is_loaded_elsewhere()).collect();
            if waiting.is_empty() || !wait.pause().await {
                break;
            }
            let ended = self.retain_ended(waiting).await;
            self.lookup_many(ended).await;
            let has_waiting_caller = self.elsewhere.is_none();
            if has_waiting_caller && self.call.soft_end().is_some_and(|end| end <= Instant::now()) {
                self.answer_stale(keys);
            }
        }
        wait.end(keys.iter().filter(|pending| pending.has_foreign_lease()).count());
        for pending in keys.iter_mut().filter(|pending| matches!(pending.reload, Reload::Elsewhere(_))) {
            self.serve_stale(pending);
        }
    }

    /// Takes over what Redis has under a key.
    async fn apply_lookup<E: Send + Sync + 'static>(
        &self,
        pending: &mut PendingKey<V, E>,
        lookup: RedisLookup,
    ) -> Found {
        let coordinator = &self.view.coordinator;
        let node = &coordinator.node;
        let superseded = pending.candidate.clone().filter(|candidate| candidate.needs_revalidation);
        let supersede = || superseded.iter().for_each(|candidate| candidate.entry.state().mark_dead());
        if !matches!(lookup, RedisLookup::Bytes(_)) {
            supersede();
        }
        pending.reload = Reload::Unleased;
        pending.condition = match lookup {
            RedisLookup::LeaseGranted(id) => StoreCondition::lease(id),
            // That load may have begun before the refresh was called, so that its value must be replaced.
            RedisLookup::LeaseHeldByOther(id) if self.is_refresh() => return Found::Overtaken(id),
            RedisLookup::LeaseHeldByOther(id) => StoreCondition::ForeignLease(id),
            RedisLookup::Absent => StoreCondition::None,
            RedisLookup::Bytes(bytes) => {
                let (config, redis_key) = (&self.view.config, &pending.redis_key);
                let opened = node.open(config, redis_key, &bytes, &pending.start).await;
                let Some(OpenedEntry { entry, validity, .. }) = opened else {
                    supersede();
                    return Found::Dead(bytes);
                };
                let id = entry.state().id;
                let now = node.now();
                if let Some(Candidate { entry, .. }) = &superseded
                    && validity == Validity::Stale
                    && entry.state().is_paused(id, now)
                {
                    // Redis has the stale value that memory serves until the next attempt to load.
                    node.confirm(redis_key, entry.state(), &pending.start, now);
                    self.use_candidate(pending, entry.clone(), Validity::Valid);
                    return Found::Settled;
                }
                // The content of Redis is newer.
                supersede();
                if validity == Validity::Valid && (!self.is_refresh() || pending.other_reload.stores(id)) {
                    if let Some((ticket, answer)) = pending.end() {
                        node.commit(&pending.redis_key, ticket, &entry, pending.start.tracked_writes);
                        answer.send(self.outcome(entry, Source::Redis));
                    }
                    return Found::Settled;
                }
                pending.stale = Some(entry);
                match id {
                    Some(id) => return Found::Replaceable(id),
                    None => coordinator.condition_to_replace(&bytes),
                }
            }
        };
        Found::Settled
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
            Validity::Valid if !self.is_refresh() => {
                let node = self.view.node();
                entry.state().mark_delivered(node.now());
                node.observers.counts.served_late.add(1);
                if let Some((ticket, answer)) = pending.end() {
                    ticket.deliver(entry.clone());
                    let source = source_in_memory(&entry);
                    answer.send(self.outcome(entry, source));
                }
            }
            Validity::Valid | Validity::Stale => pending.stale = Some(entry),
            Validity::Dead | Validity::Unknown => {}
        }
    }

    /// What the caller gets.
    pub(super) fn outcome<E>(&self, entry: MemoryEntry, source: Source) -> BulkOutcome<V, E> {
        let fetched = self.view.node().fetched(entry, source, false);
        fetched.map(Some).ok_or(FetchError::Dropped)
    }

    /// The context of the loader of a key.
    pub(crate) fn context<E>(&self, pending: &PendingKey<V, E>) -> LoadCx<V> {
        LoadCx::new(pending.stale.as_ref().and_then(|stale| stale.value::<V>().cloned()))
    }

    /// The same of the loader of many keys, which are pending.
    pub(super) fn bulk_context<'p, K: ?Sized, E: 'p>(
        &self,
        keys: impl Iterator<Item = (KeyBuf, &'p PendingKey<V, E>)>,
    ) -> BulkCx<K, V> {
        BulkCx::new(keys.map(|(key, pending)| (key, self.context(pending))).collect())
    }

    /// Awaits a loader and renews its leases meanwhile.
    pub(crate) async fn await_load<E: Send + Sync + 'static, R>(
        &self,
        keys: &mut [PendingKey<V, E>],
        loading: impl Future<Output = R>,
    ) -> R {
        let renewals = keys.iter().flat_map(PendingKey::renewals).collect();
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
            self.answer_stale(keys);
        }
        loading.await
    }

    /// Answers the callers that still wait with their stale values. The load continues.
    pub(super) fn answer_stale<E>(&self, keys: &mut [PendingKey<V, E>]) {
        for pending in keys.iter_mut().filter(|pending| pending.is_open()) {
            if let Some(stale) = self.servable_stale(pending)
                && pending.answer_early(self.outcome(stale, Source::Stale))
            {
                self.view.node().observers.served_stale(&pending.redis_key);
            }
        }
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
