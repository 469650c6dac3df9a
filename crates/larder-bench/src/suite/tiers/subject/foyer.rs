//! foyer's memory cache. Its second tier is a disk, which is not measured.

use super::{CAPACITY, FetchThrough, InMemory, LoadFailed};
use crate::subject::{Readable, Writable};
use std::future::Future;
use std::hash::RandomState;

pub(crate) type Foyer = crate::subject::Foyer<u64, u64, RandomState>;

impl FetchThrough for Foyer {
    const NAME: &'static str = <Self as Readable<u64, u64>>::NAME;

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

impl InMemory for Foyer {
    fn in_memory() -> Self {
        Readable::new(CAPACITY as usize)
    }
}
