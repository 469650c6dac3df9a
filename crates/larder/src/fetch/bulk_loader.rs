//! A bulk loader without its type: what loads many keys is compiled once for their types, and not for each loader.

use super::loader::{self, BulkCx, LoadFailure};
use crate::key::{CacheKey, KeyBuf};
use std::borrow::Borrow;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

/// Makes the value of a key that the loader leaves out.
pub(super) type MakeAbsent<V> = Arc<dyn Fn() -> V + Send + Sync>;

/// Loaded values by their keys.
pub(super) type LoadedValues<V> = HashMap<KeyBuf, V>;

type Loading<V, E> = Pin<Box<dyn Future<Output = Result<LoadedValues<V>, E>> + Send>>;
type StartLoad<K, V, E> = dyn Fn(Vec<<K as ToOwned>::Owned>, BulkCx<K, V>) -> Loading<V, E> + Send + Sync;

/// A bulk loader, and what it loads of the keys that it leaves out.
pub(super) struct BulkLoader<K: ToOwned + ?Sized, V, E> {
    start: Box<StartLoad<K, V, E>>,
}

impl<K, V, E> BulkLoader<K, V, E>
where
    K: CacheKey + ToOwned + ?Sized + 'static,
    V: 'static,
{
    pub(super) fn new<L, F, I>(loader: L) -> Self
    where
        L: Fn(Vec<K::Owned>, BulkCx<K, V>) -> F + Send + Sync + 'static,
        F: Future<Output = Result<I, E>> + Send + 'static,
        I: IntoIterator<Item = (K::Owned, V)> + Send + 'static,
    {
        let start = move |keys, cx| {
            let loading = loader(keys, cx);
            let by_key = async move { loading.await.map(by_key::<K, V>) };
            Box::pin(by_key) as Loading<V, E>
        };
        BulkLoader { start: Box::new(start) }
    }

    /// Runs it. The iterator over its values is part of it, and may panic too.
    pub(super) async fn run(
        &self,
        keys: Vec<K::Owned>,
        cx: BulkCx<K, V>,
        timeout: Option<Duration>,
    ) -> Result<LoadedValues<V>, LoadFailure<E>> {
        loader::run(|| (self.start)(keys, cx), timeout).await
    }
}

/// Values by their keys.
pub(super) fn by_key<K, V>(values: impl IntoIterator<Item = (K::Owned, V)>) -> LoadedValues<V>
where
    K: CacheKey + ToOwned + ?Sized,
{
    values.into_iter().map(|(key, value)| (KeyBuf::of(Borrow::<K>::borrow(&key)), value)).collect()
}

/// Adds the values of the keys that the loader has left out, if the call says what they are.
pub(super) fn with_absent<V>(
    mut values: LoadedValues<V>,
    keys: impl Iterator<Item = KeyBuf>,
    absent: Option<&MakeAbsent<V>>,
) -> LoadedValues<V> {
    if let Some(make) = absent {
        keys.for_each(|key| _ = values.entry(key).or_insert_with(|| make()));
    }
    values
}
