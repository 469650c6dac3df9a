//! Keys that a caller loads outside of the cache: their leases are renewed until it ends the load, or its hard timeout does.

use super::load_batch::LoadBatch;
use super::pending_key::PendingKey;
use crate::coherence::Coordinator;
use crate::report::error::FetchError;
use crate::tier::CompareAndSet;
use parking_lot::Mutex;
use std::sync::Arc;
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};

/// The load of one key or of many by a caller. Whoever takes the keys ends it: the caller, its hard timeout, or the drop of
/// this, which gives the load up. Then the next caller of each key loads, on any node.
pub(super) struct HeldLoad<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    open: Arc<Mutex<Option<OpenLoad<V, E>>>>,
    /// Renews the leases and waits for the hard timeout, if there is either.
    keeper: Option<JoinHandle<()>>,
    batch: Arc<LoadBatch<V>>,
}

/// The keys of a load that nobody has ended.
type OpenLoad<V, E> = Vec<PendingKey<V, E>>;

impl<V, E> HeldLoad<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    /// From now on the leases are renewed.
    pub(super) fn new(batch: LoadBatch<V>, keys: Vec<PendingKey<V, E>>) -> Self {
        let renewals: Vec<_> = keys.iter().flat_map(PendingKey::renewals).collect();
        let (batch, open) = (Arc::new(batch), Arc::new(Mutex::new(Some(keys))));
        let hard_end = batch.call.policy.hard_timeout.and_then(|limit| Instant::now().checked_add(limit));
        let keeper = (hard_end.is_some() || !renewals.is_empty()).then(|| {
            let keeping = keep(batch.clone(), open.clone(), renewals, hard_end);
            batch.view.node().tasks.spawn(keeping)
        });
        HeldLoad { open, keeper, batch }
    }

    /// What the keys of the load share.
    pub(super) fn batch(&self) -> &Arc<LoadBatch<V>> {
        &self.batch
    }

    /// Whether this process inherited the load through a fork: it is the parent's.
    pub(super) fn is_inherited(&self) -> bool {
        self.batch.view.node().process.has_forked()
    }

    /// Ends the load. `None` if its hard timeout was over.
    pub(super) fn end(&mut self) -> Option<OpenLoad<V, E>> {
        let keys = self.open.lock().take()?;
        if let Some(keeper) = self.keeper.take() {
            keeper.abort();
        }
        Some(keys)
    }

    /// Runs the end of a load to its end, also if the caller leaves. Where memory is the only tier, nothing is awaited.
    pub(super) async fn finish(&self, ending: impl Future<Output = ()> + Send + 'static) {
        let node = self.batch.view.node();
        if node.redis.is_none() {
            return ending.await;
        }
        // If the runtime shuts down, the answers are missing.
        _ = node.tasks.run(ending).await;
    }
}

/// Renews the leases of a load until it is ended. After the hard timeout its followers go on.
async fn keep<V, E>(
    batch: Arc<LoadBatch<V>>,
    open: Arc<Mutex<Option<OpenLoad<V, E>>>>,
    renewals: Vec<CompareAndSet>,
    hard_end: Option<Instant>,
) where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let renewing = batch.view.coordinator.renew_leases(renewals);
    match hard_end {
        None => match renewing.await {},
        Some(end) => {
            _ = timeout_at(end, renewing).await;
            let keys = open.lock().take();
            if let Some(keys) = keys {
                batch.fail(keys, FetchError::Timeout).await;
            }
        }
    }
}

impl<V, E> Drop for HeldLoad<V, E>
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    fn drop(&mut self) {
        if self.is_inherited() {
            // Task, tickets and leases are the parent's.
            std::mem::forget((self.keeper.take(), self.open.clone()));
            return;
        }
        if let Some(keys) = self.end() {
            give_up(&self.batch.view.coordinator, keys);
        }
    }
}

/// Gives up the load of these keys: the next caller of each loads, on any node.
pub(super) fn give_up<V, E>(coordinator: &Arc<Coordinator>, keys: Vec<PendingKey<V, E>>)
where
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let releases: Vec<_> = keys.iter().filter(|key| key.is_open()).flat_map(PendingKey::releases).collect();
    if releases.is_empty() {
        return;
    }
    let releasing = coordinator.clone();
    // First the leases, so that the next caller here finds none. Without a runtime they expire.
    coordinator.node.tasks.spawn_if_possible(async move {
        releasing.release(&releases).await;
        drop(keys);
    });
}
