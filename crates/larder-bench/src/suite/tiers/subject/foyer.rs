//! foyer's memory. Its second tier is a disk.

use super::{CAPACITY, FetchThrough, InMemory, LoadFailed};
use foyer_memory::{Cache, CacheBuilder, CacheProperties};
use std::future::Future;
use std::hash::RandomState;

#[derive(Clone)]
pub(crate) struct Foyer(Cache<u64, u64, RandomState, CacheProperties>);

impl FetchThrough for Foyer {
    const NAME: &'static str = "foyer-memory";

    #[inline]
    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        match self.0.get_or_fetch(&key, load).await {
            Ok(entry) => Ok(*entry.value()),
            Err(_) => Err(LoadFailed),
        }
    }

    async fn read(&self, key: u64) -> Option<u64> {
        self.0.get(&key).map(|entry| *entry.value())
    }

    async fn write(&self, key: u64, value: u64) {
        self.0.insert(key, value);
    }

    async fn invalidate(&self, key: u64) {
        self.0.remove(&key);
    }
}

impl InMemory for Foyer {
    fn in_memory() -> Self {
        Foyer(CacheBuilder::new(CAPACITY as usize).with_hash_builder(RandomState::new()).build())
    }
}
