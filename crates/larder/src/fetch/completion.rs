//! The end of a load: seal, store and answer, or serve stale.

use super::bulk_loader::LoadedValues;
use super::load_batch::{LoadBatch, Reason};
use super::pending_key::PendingKey;
use super::waiting::LeftOut;
use crate::coherence::lease::{StoreCondition, StoreOutcome, StoreRequest};
use crate::fetch::loader::{BulkCx, LoadOptions, Loaded};
use crate::key::KeyBuf;
use crate::node::entry::MemoryEntry;
use crate::node::fetched::Source;
use crate::node::sealing::{NewEntry, Sealing};
use crate::node::validity::Proof;
use crate::report::error::{CacheError, FetchError};
use crate::report::events::{Event, EventKey};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// A loaded value before it is stored.
struct SealedLoad<V, E> {
    pending: PendingKey<V, E>,
    entry: MemoryEntry,
    /// Whether memory may store the value.
    may_store: bool,
    condition: StoreCondition,
    /// The envelope and its lifetime; `None` if Redis may not store it.
    put: Option<(Vec<u8>, Duration)>,
}

impl<V> LoadBatch<V>
where
    V: Send + Sync + 'static,
{
    /// Stores loaded values and answers their callers.
    pub(crate) async fn complete<E: Send + Sync + 'static>(
        &self,
        loads: Vec<(PendingKey<V, E>, Loaded<V>, LoadOptions)>,
        started: Instant,
    ) {
        let cost = started.elapsed();
        let mut sealed = Vec::with_capacity(loads.len());
        for (mut pending, loaded, options) in loads {
            let stale = pending.stale.take();
            let (value, stale_tags) = match loaded {
                Loaded::New(value) => (Arc::new(value), Vec::new()),
                Loaded::NotModified => {
                    match stale.and_then(|stale| Some((stale.value::<V>()?.clone(), stale))) {
                        Some((value, stale)) => (value, stale.state().tags.to_vec()),
                        None => {
                            self.fail(vec![pending], FetchError::NoStaleValue).await;
                            continue;
                        }
                    }
                }
            };
            sealed.push(self.seal(pending, value, &stale_tags, &options, cost));
        }
        if sealed.is_empty() {
            return;
        }
        self.view.node().observers.counts.load_latency.record(cost);
        let puts: Vec<_> = sealed.iter_mut().map(|load| load.put.take()).collect();
        let stores = sealed.iter().zip(puts).map(|(load, put)| StoreRequest {
            key: &load.pending.redis_key,
            condition: load.condition.clone(),
            put,
        });
        let outcomes = self.view.coordinator.store(stores.collect()).await;
        // A load that stores nothing leaves no lease, which other nodes would wait for. Its own one is released by now.
        let leases = sealed.iter().filter(|load| !load.may_store && !load.condition.is_lease());
        let releases: Vec<_> = leases.flat_map(|load| load.pending.releases()).collect();
        self.view.coordinator.release(&releases).await;
        for (load, outcome) in sealed.into_iter().zip(outcomes) {
            self.commit(load, outcome);
        }
    }

    /// The same for keys, as far as there are values. The others have none.
    pub(super) async fn complete_many<K: ?Sized, E: Send + Sync + 'static>(
        &self,
        keys: impl Iterator<Item = (PendingKey<V, E>, KeyBuf)>,
        mut values: LoadedValues<V>,
        cx: &BulkCx<K, V>,
        started: Instant,
    ) {
        let (mut loads, mut left_out) = (Vec::new(), Vec::new());
        for (pending, key) in keys {
            match values.remove(&key) {
                Some(value) => loads.push((pending, Loaded::New(value), cx.options(&key))),
                None => left_out.push(pending),
            }
        }
        self.complete(loads, started).await;
        self.mark_absent(left_out).await;
    }

    fn seal<E>(
        &self,
        pending: PendingKey<V, E>,
        value: Arc<V>,
        stale_tags: &[Box<str>],
        options: &LoadOptions,
        cost: Duration,
    ) -> SealedLoad<V, E> {
        let node = self.view.node();
        let config = &self.view.config;
        let lifetime = self.view.lifetime(&value, options.policy_or(self.call.policy));
        let tags = config.tags(self.tags.iter().chain(stale_tags).chain(&options.tags));
        let id = pending.condition.id();
        let sealing = Sealing {
            id: id.unwrap_or_else(|| node.random.id()),
            clock: pending.start.clock,
            lifetime,
            cost,
            tags: tags.clone(),
        };
        let sealed_value = node.seal(config, &value, sealing).map_err(|error| {
            tracing::warn!(%error, "value cannot be encoded");
            node.observers.emit(|| Event::EncodeFailed { key: EventKey::new(&pending.redis_key) });
            node.observers.report(&CacheError::Encode(error));
        });
        let may_store = sealed_value.is_ok() && !options.no_store;
        let (envelope, encoded_bytes) =
            sealed_value.map_or((None, 0), |sealed| (sealed.envelope, sealed.encoded_bytes));
        let put = envelope.filter(|_| may_store).map(|bytes| (bytes, lifetime.kept_for()));
        // A value that may not be stored releases its lease. It does not replace an older value.
        let condition = match &pending.condition {
            condition if may_store || condition.is_lease() => condition.clone(),
            _ => StoreCondition::None,
        };
        let refresh_ahead = self.call.policy.refresh_ahead;
        let new = NewEntry { encoded_bytes, lifetime, tags, id, cost, refresh_ahead };
        let entry = node.new_entry(config, value, new, &pending.start);
        SealedLoad { pending, entry, may_store, condition, put }
    }

    /// Commits a loaded value to memory, or delivers it to followers only, and answers the caller.
    fn commit<E: Send + Sync + 'static>(&self, load: SealedLoad<V, E>, outcome: StoreOutcome) {
        let SealedLoad { mut pending, entry, may_store, .. } = load;
        let node = self.view.node();
        node.observers.emit(|| Event::Loaded { key: EventKey::new(&pending.redis_key), ok: true });
        if outcome != StoreOutcome::Stored {
            // The key may have been invalidated since the load started. Followers that joined within `max_lag` of the
            // start need not know of that.
            entry.state().set_validated_at(pending.started_at.saturating_add(node.trust.max_lag()));
        }
        let Some((ticket, answer)) = pending.end() else { return };
        match (may_store, outcome) {
            (true, StoreOutcome::Stored) => {
                node.commit(&pending.redis_key, ticket, &entry, pending.start.tracked_writes);
            }
            (true, StoreOutcome::Unknown) => {
                if !matches!(pending.condition, StoreCondition::None) {
                    entry.state().mark_suspect();
                }
                node.commit(&pending.redis_key, ticket, &entry, pending.start.tracked_writes);
            }
            (true, StoreOutcome::Refused) => {
                node.observers.counts.refused.add(1);
                node.observers.emit(|| Event::Refused { key: EventKey::new(&pending.redis_key) });
                ticket.deliver(entry.clone());
            }
            (false, _) => ticket.deliver(entry.clone()),
        }
        answer.send(self.outcome(entry, Source::Loader));
    }

    /// Ends keys whose load failed: serves stale within the grace period, and releases leases.
    pub(crate) async fn fail<E: Send + Sync + 'static>(
        &self,
        keys: Vec<PendingKey<V, E>>,
        error: FetchError<E>,
    ) {
        let node = self.view.node();
        node.observers.counts.load_failures.add(1);
        let mut releases = Vec::new();
        for mut pending in keys {
            node.observers.emit(|| Event::Loaded { key: EventKey::new(&pending.redis_key), ok: false });
            if !pending.is_open() {
                continue;
            }
            if !self.serve_stale(&mut pending)
                && let Some((ticket, answer)) = pending.end()
            {
                ticket.fail(Arc::new(error.clone()));
                answer.send(Err(error.clone()));
            }
            releases.extend(pending.releases());
        }
        self.view.coordinator.release(&releases).await;
    }

    /// Ends keys that the bulk loader returned no value for. Bulk callers that follow get none either; others load the keys
    /// with loaders of their own.
    async fn mark_absent<E>(&self, keys: Vec<PendingKey<V, E>>) {
        let mut releases = Vec::new();
        for mut pending in keys {
            if let Some((ticket, answer)) = pending.end() {
                ticket.fail(Arc::new(LeftOut));
                answer.send(Ok(None));
            }
            releases.extend(pending.releases());
        }
        self.view.coordinator.release(&releases).await;
    }

    /// Ends a key with its stale value, if that is within its grace period. It is served until the next attempt to load,
    /// unless a load that was overtaken may bring a newer one.
    /// A refresh and a load ahead leave a value in the tiers that is still fresh, and serve it only if it has a grace period.
    pub(super) fn serve_stale<E>(&self, pending: &mut PendingKey<V, E>) -> bool {
        let Some(stale) = self.servable_stale(pending) else { return false };
        let is_fresh = self.reason != Reason::Missing && self.is_fresh(&stale);
        if is_fresh && !stale.state().has_grace() {
            return false;
        }
        let Some((ticket, answer)) = pending.end() else { return false };
        let node = self.view.node();
        let retry = self.retry_entry(&stale);
        // What an overtaken load stores is newer, whether it has ended or not.
        if is_fresh || pending.overtakes {
            ticket.deliver(retry.clone());
        } else {
            node.commit(&pending.redis_key, ticket, &retry, pending.start.tracked_writes);
        }
        // After the soft timeout the caller has the stale value already, and it was counted.
        if answer.send(self.outcome(retry, Source::Stale)) {
            node.observers.served_stale(&pending.redis_key);
        }
        true
    }

    /// Whether an entry that was valid when its load began still is.
    fn is_fresh(&self, entry: &MemoryEntry) -> bool {
        let (node, state) = (self.view.node(), entry.state());
        let validity = match node.redis_is_lost() {
            true => node.judge_without_redis(state),
            false => node.judge(state, Proof::Redis, node.ledger.epoch(), node.now()),
        };
        state.is_fresh_if(validity)
    }

    /// A stale value that is served until the next attempt to load.
    fn retry_entry(&self, stale: &MemoryEntry) -> MemoryEntry {
        let retry_after = self.call.policy.retry_after_or_default();
        let state = stale.state().for_retry(self.view.node().now(), retry_after);
        let value = stale.value::<V>().expect("the entry was made for this view").clone();
        MemoryEntry::new(value, state)
    }
}
