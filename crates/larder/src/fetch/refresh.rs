//! Loading again a value that Redis has: by one node at a time, while it has the lease of the value.

use super::load_batch::LoadBatch;
use super::pending_key::PendingKey;
use crate::coherence::lease::StoreCondition;
use crate::coherence::leased_lookup::LeaseWait;
use crate::coherence::reload::{Reload, ReloadProgress};
use crate::value::envelope::Head;
use crate::value::format::Id;

impl<V> LoadBatch<V>
where
    V: Send + Sync + 'static,
{
    /// Leases the reloads of values with these ids, as far as no other node has the leases.
    pub(super) async fn lease_reloads<E: Send + Sync + 'static>(
        &self,
        keys: Vec<(&mut PendingKey<V, E>, Id)>,
    ) {
        if keys.is_empty() {
            return;
        }
        let ids: Vec<Id> = keys.iter().map(|(_, id)| *id).collect();
        let turns = self.view.coordinator.lease_reloads(&ids).await;
        for ((pending, _), (reload, condition)) in keys.into_iter().zip(turns) {
            (pending.reload, pending.condition) = (reload, condition);
        }
    }

    /// Leases the reload of a value that is refreshed. Waits for the reload of another load first, and overtakes it if it takes
    /// too long. Returns false if the key must be looked up again.
    pub(super) async fn lease_refresh<E: Send + Sync + 'static>(
        &self,
        pending: &mut PendingKey<V, E>,
        value: Id,
        wait: &mut LeaseWait<'_>,
    ) -> bool {
        self.lease_reloads(vec![(pending, value)]).await;
        if !matches!(pending.reload, Reload::Elsewhere(_)) {
            return true;
        }
        pending.other_reload.replaces(value);
        loop {
            if self.has_ended(pending, value).await {
                (pending.reload, pending.condition) = (Reload::Unleased, StoreCondition::None);
                return false;
            }
            if !wait.pause().await {
                break;
            }
        }
        let id = self.view.node().random.id();
        (pending.reload, pending.overtakes) = (Reload::Unleased, true);
        pending.condition = StoreCondition::overtaking(Head::Value(value), pending.other_reload.id, id);
        true
    }

    /// Whether the reload of a value by another node has ended. Notes the id of the new value.
    async fn has_ended<E>(&self, pending: &mut PendingKey<V, E>, value: Id) -> bool {
        let values = [(pending.redis_key.clone(), value)];
        let progress = self.view.coordinator.reload_progress(&values).await;
        let progress = progress.and_then(|progress| progress.first().copied());
        // Without a reply the lookup decides.
        let progress = progress.unwrap_or(ReloadProgress::Ended(None));
        let (ReloadProgress::Loading(id) | ReloadProgress::Ended(Some(id))) = progress else { return true };
        pending.other_reload.id = Some(id);
        matches!(progress, ReloadProgress::Ended(_))
    }

    /// Drops the keys whose values other nodes are still loading again.
    pub(super) async fn retain_ended<'p, E>(
        &self,
        keys: Vec<&'p mut PendingKey<V, E>>,
    ) -> Vec<&'p mut PendingKey<V, E>> {
        let value = |pending: &&'p mut PendingKey<V, E>| match pending.reload {
            Reload::Elsewhere(id) => Some((pending.redis_key.clone(), id)),
            Reload::Unleased | Reload::Leased { .. } => None,
        };
        let values: Vec<_> = keys.iter().filter_map(value).collect();
        if values.is_empty() {
            return keys;
        }
        let Some(progress) = self.view.coordinator.reload_progress(&values).await else { return keys };
        let mut progress = progress.into_iter();
        let mut is_loading = |pending: &PendingKey<V, E>| {
            matches!(pending.reload, Reload::Elsewhere(_))
                && matches!(progress.next(), Some(ReloadProgress::Loading(_)))
        };
        keys.into_iter().filter(|pending| !is_loading(pending)).collect()
    }
}
