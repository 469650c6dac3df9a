//! The load of many keys by one call of their loader.

use super::bulk_loader::{BulkLoader, MakeAbsent, with_absent};
use super::load_batch::{LoadBatch, fetch_error};
use super::multi_call::MissingKey;
use crate::key::CacheKey;
use tokio::time::Instant;

/// Loads the keys that are still open.
pub(super) async fn load<K, V, E>(
    batch: &LoadBatch<V>,
    keys: Vec<MissingKey<V, E, K::Owned>>,
    loader: &BulkLoader<K, V, E>,
    absent: Option<&MakeAbsent<V>>,
) where
    K: CacheKey + ToOwned + ?Sized + 'static,
    V: Send + Sync + 'static,
    E: Send + Sync + 'static,
{
    let missing = keys.into_iter().filter(|(pending, _)| pending.is_open());
    let (mut open, mut keys, mut owned_keys) = (Vec::new(), Vec::new(), Vec::new());
    for (pending, (key, owned)) in missing {
        open.push(pending);
        keys.push(key);
        owned_keys.push(owned);
    }
    if open.is_empty() {
        return;
    }
    let cx = batch.bulk_context(keys.iter().cloned().zip(&open));
    let started = Instant::now();
    let loading = loader.run(owned_keys, cx.clone(), batch.call.policy.hard_timeout);
    let values = match batch.await_load(&mut open, loading).await {
        Ok(values) => values,
        Err(failure) => return batch.fail(open, fetch_error(failure)).await,
    };
    let values = with_absent(values, keys.iter().cloned(), absent);
    batch.complete_many(open.into_iter().zip(keys), values, &cx, started).await;
}
