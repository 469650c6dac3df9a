//! Loading a value again while it is fresh, so that nobody waits for it later: on one node, and in the background.
//!
//! A node whose value is due looks up Redis first: another node may have loaded the value again, and has not said so, since the
//! old value is as valid as the new one. If Redis has the same value, whoever gets its reload lease loads. The others go on with
//! the value that they have, and look again after a pause.
//!
//! A fetch of many keys does so for all of them that are due, with one call of its loader.

use super::Fetch;
use super::bulk_load::load;
use super::bulk_loader::{BulkLoader, MakeAbsent};
use super::load_batch::{LoadBatch, Reason};
use super::loader::BoxedLoader;
use super::multi_call::MissingKey;
use super::pending_key::PendingKey;
use super::spans::shared_until_end;
use super::view_state::ViewState;
use super::waiting::Call;
use crate::coherence::lease::StoreCondition;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::coherence::reload::Reload;
use crate::key::{CacheKey, KeyBuf};
use crate::node::entry::Validity;
use crate::node::fetched::Fetched;
use crate::node::lookup::Candidate;
use crate::node::sealing::OpenedEntry;
use crate::policy::Policy;
use larder_engine::{Leader, Load};
use std::sync::Arc;
use tracing::Instrument;

impl<V> ViewState<V>
where
    V: Send + Sync + 'static,
{
    /// Whether a fetch loads again the value that it has found. Of concurrent ones one does, where a task can run.
    #[cold]
    pub(super) fn is_due(&self, found: &Fetched<V>, policy: &Policy) -> bool {
        let (node, state) = (self.node(), found.state());
        let (now, pause) = (node.now(), policy.retry_after_or_default());
        node.tasks.runtime_if_any().is_some() && state.begins_ahead(now, pause, || node.chances.fraction())
    }

    /// Leads the load of a value that is due, unless a load of its key runs.
    fn lead_ahead<E>(&self, key: &KeyBuf, due: &Fetched<V>) -> Option<PendingKey<V, E>>
    where
        E: Send + Sync + 'static,
    {
        let memory_key = self.memory_key(key);
        let Load::Lead(ticket) =
            self.node().memory.reload_with(&memory_key, Leader::Async, |key| key.into_owned())
        else {
            return None;
        };
        let candidate = Candidate { entry: due.entry().clone(), needs_revalidation: false };
        let (pending, _) = PendingKey::new(self.redis_key(key), ticket, Some(candidate));
        Some(pending)
    }
}

impl<V, E> Fetch<'_, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Whether this fetch loads again the value that it has found.
    #[cold]
    pub(super) fn is_due(&self, found: &Fetched<V>) -> bool {
        self.view.is_due(found, &self.resolved_policy())
    }
}

impl<V, E> Fetch<'static, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Loads a value again in a task, unless a load of the key runs.
    pub(super) fn load_ahead(self, due: &Fetched<V>, loader: BoxedLoader<V, E>) {
        let view = self.view.clone();
        let Some(pending) = view.lead_ahead(&self.key, due) else { return };
        // A soft timeout is for callers that wait.
        let call = Call::start(self.resolved_policy(), true);
        let (span, shared) = view.load_span(&self.key);
        let loading = self.into_batch(call, Reason::Ahead).lookup_and_load(pending, loader);
        view.node().tasks.spawn_if_possible(shared_until_end(loading, shared).instrument(span));
    }
}

/// A value that a fetch of many keys has found and that is due, with its key, also for the loader.
pub(super) struct DueKey<V, O> {
    pub(super) key: KeyBuf,
    pub(super) owned: O,
    pub(super) found: Fetched<V>,
}

/// Loads values again in one task, without those whose loads run.
pub(super) fn load_many_ahead<K, V, E>(
    batch: LoadBatch<V>,
    due: Vec<DueKey<V, K::Owned>>,
    loader: Arc<BulkLoader<K, V, E>>,
    absent: Option<MakeAbsent<V>>,
) where
    K: CacheKey + ToOwned + ?Sized + 'static,
    K::Owned: Send + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let view = batch.view.clone();
    let led =
        due.into_iter().filter_map(|DueKey { key, owned, found }| -> Option<MissingKey<V, E, K::Owned>> {
            Some((view.lead_ahead(&key, &found)?, (key, owned)))
        });
    let (mut pending, keys): (Vec<_>, Vec<_>) = led.unzip();
    if pending.is_empty() {
        return;
    }
    view.node().tasks.spawn_if_possible(async move {
        batch.lookup(&mut pending).await;
        load(&batch, pending.into_iter().zip(keys).collect(), &loader, absent.as_ref()).await;
    });
}

impl<V> LoadBatch<V>
where
    V: Send + Sync + 'static,
{
    /// Takes from Redis the value of a node that was faster, or leases the load. Gives up where it would have to wait.
    pub(super) async fn lookup_ahead<E: Send + Sync + 'static>(&self, pending: &mut PendingKey<V, E>) {
        if self.leases_ahead(pending).await.is_none() {
            // Without its ticket, the next fetch that misses the key loads it.
            _ = pending.end();
        }
    }

    /// `None` if there is nothing to load, or no way to load it alone.
    async fn leases_ahead<E: Send + Sync + 'static>(&self, pending: &mut PendingKey<V, E>) -> Option<()> {
        let (node, coordinator) = (self.view.node(), &self.view.coordinator);
        if coordinator.replay_log.blocks(&pending.redis_key) {
            return None;
        }
        let key = std::slice::from_ref(&pending.redis_key);
        let looked_up = coordinator.lookup_redis(key, Purpose::Load).await;
        let (mut lookups, clock) = looked_up.map_err(|error| node.observers.report(&error)).ok()?;
        pending.start.clock = clock;
        let bytes = match lookups.pop()? {
            RedisLookup::Bytes(bytes) => bytes,
            RedisLookup::LeaseGranted(id) => {
                pending.condition = StoreCondition::lease(id);
                return Some(());
            }
            RedisLookup::LeaseHeldByOther(_) | RedisLookup::Absent => return None,
        };
        let opened = node.open(&self.view.config, &pending.redis_key, &bytes, &pending.start).await;
        let OpenedEntry { entry, validity, .. } = opened?;
        let (known, found) = (pending.candidate.as_ref()?.entry.state().id, entry.state().id);
        if validity == Validity::Valid && found != known {
            let (ticket, _) = pending.end()?;
            node.commit(&pending.redis_key, ticket, &entry, pending.start.tracked_writes);
            return Some(());
        }
        let (reload, condition) = coordinator.lease_reloads(&[found?]).await.pop()?;
        if matches!(reload, Reload::Elsewhere(_)) {
            return None;
        }
        (pending.reload, pending.condition, pending.stale) = (reload, condition, Some(entry));
        Some(())
    }
}
