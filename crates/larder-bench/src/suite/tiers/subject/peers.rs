//! The peers that are always built. Both have only a memory tier.

use super::{CAPACITY, FetchThrough, InMemory, LoadFailed, TTL};
use crate::subject::{Expiring, Readable, Writable};
use quick_cache::UnitWeighter;
use std::future::Future;
use std::hash::RandomState;
use std::sync::Arc;
use tokio::runtime::Handle;

pub(crate) type Moka = crate::subject::Moka<u64, u64, RandomState>;

impl FetchThrough for Moka {
    const NAME: &'static str = <Self as Readable<u64, u64>>::NAME;

    /// The synchronous API of moka blocks.
    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        let (cache, runtime) = (self.0.clone(), Handle::current());
        let fetch = move || cache.try_get_with(key, || runtime.block_on(load()));
        let fetched = tokio::task::spawn_blocking(fetch).await.expect("no loader panics");
        fetched.map_err(|failed: Arc<LoadFailed>| *failed)
    }

    async fn read(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    async fn write(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    async fn try_invalidate(&self, key: u64) -> bool {
        self.0.invalidate(&key);
        true
    }
}

impl InMemory for Moka {
    fn in_memory() -> Self {
        Moka::with_ttl(CAPACITY as usize, TTL)
    }
}

pub(crate) type QuickCache = Arc<crate::subject::QuickCache<u64, u64, UnitWeighter, RandomState>>;

impl FetchThrough for QuickCache {
    const NAME: &'static str = <crate::subject::QuickCache<u64, u64> as Readable<u64, u64>>::NAME;

    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        self.0.get_or_insert_async(&key, async { load().await }).await
    }

    async fn read(&self, key: u64) -> Option<u64> {
        self.get(&key)
    }

    async fn write(&self, key: u64, value: u64) {
        self.insert(key, value);
    }

    async fn try_invalidate(&self, key: u64) -> bool {
        self.0.remove(&key);
        true
    }
}

impl InMemory for QuickCache {
    fn in_memory() -> Self {
        Arc::new(Readable::new(CAPACITY as usize))
    }
}
