//! Loading a value again while it is fresh, so that nobody waits for it later: on one node, and in the background.
//!
//! A node whose value is due looks up Redis first: another node may have loaded the value again, and has not said so, since the
//! old value is as valid as the new one. If Redis has the same value, whoever gets its reload lease loads. The others go on with
//! the value that they have, and look again after a pause.

use super::Fetch;
use super::load_batch::{LoadBatch, Reason};
use super::loader::BoxedLoader;
use super::pending_key::PendingKey;
use super::spans::shared_until_end;
use super::waiting::Call;
use crate::coherence::lease::StoreCondition;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::coherence::reload::Reload;
use crate::node::entry::Validity;
use crate::node::fetched::Fetched;
use crate::node::lookup::Candidate;
use crate::node::sealing::OpenedEntry;
use larder_engine::{Leader, Load};
use tracing::Instrument;

impl<V, E> Fetch<'_, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Whether this fetch loads again the value that it has found. Of concurrent ones one does, where a task can run.
    #[cold]
    pub(super) fn is_due(&self, found: &Fetched<V>) -> bool {
        let (node, state) = (self.view.node(), found.state());
        let (now, pause) = (node.now(), self.resolved_policy().retry_after_or_default());
        node.tasks.runtime_if_any().is_some() && state.begins_ahead(now, pause, || node.chances.fraction())
    }
}

impl<V, E> Fetch<'static, V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// Loads a value again in a task, unless a load of the key runs.
    pub(super) fn load_ahead(self, due: &Fetched<V>, loader: BoxedLoader<V, E>) {
        let (view, memory_key) = (self.view.clone(), self.view.memory_key(&self.key));
        let memory = &view.node().memory;
        let Load::Lead(ticket) = memory.reload_with(&memory_key, Leader::Async, |key| key.into_owned())
        else {
            return;
        };
        let candidate = Candidate { entry: due.entry().clone(), needs_revalidation: false };
        let (pending, _) = PendingKey::new(view.redis_key(&self.key), ticket, Some(candidate));
        // A soft timeout is for callers that wait.
        let call = Call::start(self.resolved_policy(), true);
        let (span, shared) = view.load_span(&self.key);
        let loading = self.into_batch(call, Reason::Ahead).lookup_and_load(pending, loader);
        view.node().tasks.spawn_if_possible(shared_until_end(loading, shared).instrument(span));
    }
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
