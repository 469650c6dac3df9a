//! What is in Redis without an envelope: counters, and the bytes of other programs.

use crate::cache::Cache;
use crate::coherence::lease::{Purpose, Seen};
use crate::error::CacheError;
use crate::key::{CacheKey, KeyBuf, MemoryKey, MemoryKeyRef};
use crate::tier::memory::{Facts, MemoryEntry};
use crate::tier::{Operation, OperationResult, Transaction};
use crate::view::detached;
use larder_engine::{Op, Ttl};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Counters: whole numbers that many nodes add to. Made by [`Cache::counters`].
///
/// Redis has the only truth, and memory none of it. They have a type of their own, so that a serialized value cannot be
/// incremented.
pub struct Counters<K: ?Sized> {
    cache: Cache,
    name: String,
    number: u32,
    ttl: Duration,
    _key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Counters<K> {
    pub(crate) fn new(cache: Cache, name: String, number: u32) -> Self {
        let ttl = cache.inner.policy.lifetime(false, &cache.inner.random).fresh;
        Counters { cache, name, number, ttl, _key: PhantomData }
    }

    /// The same counters with another time to live, which begins when a counter is made and not anew with each addition.
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }
}

impl<K: CacheKey + ?Sized> Counters<K> {
    /// Adds to a counter, which begins at 0, and returns the sum.
    ///
    /// # Errors
    /// If Redis did not confirm, and it may or may not have added. If what is there is no number, or the sum overflows.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn increment(&self, key: &K, by: i64) -> Result<i64, CacheError> {
        let key = KeyBuf::of(key);
        let (inner, ttl) = (self.cache.inner.clone(), self.ttl);
        let Some(_) = &inner.shared else { return self.increment_here(&key, by) };
        let redis_key = self.redis_key(&key);
        detached(async move {
            let shared = inner.shared.as_ref().ok_or(CacheError::NoRedis)?;
            shared.ask(shared.tier.increment(&redis_key, by, ttl)).await
        })
        .await
    }

    /// Takes from a counter; see [`Counters::increment`].
    ///
    /// # Errors
    /// As [`Counters::increment`].
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn decrement(&self, key: &K, by: i64) -> Result<i64, CacheError> {
        let by = by.checked_neg().ok_or_else(|| CacheError::Refused(format!("{by} cannot be negated")))?;
        self.increment(key, by).await
    }

    /// The value of a counter, if there is one.
    ///
    /// # Errors
    /// If Redis does not answer, or what is there is no number.
    pub async fn read(&self, key: &K) -> Result<Option<i64>, CacheError> {
        let key = KeyBuf::of(key);
        let inner = &self.cache.inner;
        if inner.shared.is_none() {
            let held = inner.memory.get(&self.memory_key(&key));
            return Ok(held.and_then(|held| held.value::<AtomicI64>().map(|n| n.load(Ordering::Acquire))));
        }
        let (mut seen, _) = inner.see(&[self.redis_key(&key)], Purpose::Raw).await?;
        match seen.pop() {
            Some(Seen::Bytes { bytes, .. }) => {
                match std::str::from_utf8(&bytes).ok().and_then(|n| n.parse().ok()) {
                    Some(number) => Ok(Some(number)),
                    None => Err(CacheError::Refused("the value is not an integer".into())),
                }
            }
            _ => Ok(None),
        }
    }

    /// Removes a counter; whether there was one.
    ///
    /// # Errors
    /// If Redis did not confirm.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &K) -> Result<bool, CacheError> {
        let key = KeyBuf::of(key);
        let keys = vec![(self.memory_key(&key), self.redis_key(&key))];
        let inner = self.cache.inner.clone();
        let deleted = detached(async move { inner.delete_keys(keys).await }).await?;
        Ok(deleted.first() == Some(&true))
    }

    fn increment_here(&self, key: &KeyBuf, by: i64) -> Result<i64, CacheError> {
        let memory = &self.cache.inner.memory;
        let now = memory.clock().now();
        let sum = memory.compute(self.memory_key(key), |held| {
            let counter = held.and_then(|held| held.value().value::<AtomicI64>().cloned());
            match counter {
                Some(counter) => {
                    let added =
                        counter.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_add(by));
                    (Op::Keep, added.ok().map(|before| before + by))
                }
                None => {
                    let facts = Facts::new(now, self.ttl, self.ttl, 1, 1);
                    let entry = MemoryEntry::new(Arc::new(AtomicI64::new(by)), facts);
                    (Op::Put(entry, Ttl::After(self.ttl)), Some(by))
                }
            }
        });
        sum.result.ok_or_else(|| CacheError::Refused("increment or decrement would overflow".into()))
    }

    fn memory_key(&self, key: &KeyBuf) -> MemoryKey {
        MemoryKeyRef { view: self.number, bytes: key.as_bytes() }.into_owned()
    }

    fn redis_key(&self, key: &KeyBuf) -> Vec<u8> {
        [self.cache.namespace().as_bytes(), b":", self.name.as_bytes(), b":", key.as_bytes()].concat()
    }
}

/// Bytes as other programs store them. Made by [`Cache::raw`].
pub struct RawView<K: ?Sized> {
    cache: Cache,
    name: String,
    _key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> RawView<K> {
    pub(crate) fn new(cache: Cache, name: String) -> Self {
        RawView { cache, name, _key: PhantomData }
    }
}

impl<K: CacheKey + ?Sized> RawView<K> {
    /// What is stored under a key.
    ///
    /// # Errors
    /// If Redis does not answer, or there is none.
    pub async fn read(&self, key: &K) -> Result<Option<Vec<u8>>, CacheError> {
        if self.cache.inner.shared.is_none() {
            return Err(CacheError::NoRedis);
        }
        let (mut seen, _) = self.cache.inner.see(&[self.redis_key(key)], Purpose::Raw).await?;
        Ok(match seen.pop() {
            Some(Seen::Bytes { bytes, .. }) => Some(bytes),
            _ => None,
        })
    }

    /// Stores bytes as they are.
    ///
    /// # Errors
    /// If Redis did not confirm, or there is none.
    pub async fn write(&self, key: &K, bytes: impl Into<Vec<u8>>, ttl: Duration) -> Result<(), CacheError> {
        self.change(Operation::Put(self.redis_key(key), bytes.into(), ttl)).await.map(drop)
    }

    /// Removes a key; whether it was there.
    ///
    /// # Errors
    /// If Redis did not confirm, or there is none.
    pub async fn delete(&self, key: &K) -> Result<bool, CacheError> {
        let changed = self.change(Operation::Remove(self.redis_key(key))).await?;
        Ok(matches!(changed, Some(OperationResult::Removed(head)) if !head.is_empty()))
    }

    async fn change(&self, change: Operation) -> Result<Option<OperationResult>, CacheError> {
        let shared = self.cache.inner.shared.as_ref().ok_or(CacheError::NoRedis)?;
        let mutation = Transaction { operations: &[change], ledger: None, announce: None };
        Ok(shared.ask(shared.tier.transact(&mutation)).await?.results.pop())
    }

    fn redis_key(&self, key: &K) -> Vec<u8> {
        let key = KeyBuf::of(key);
        [self.cache.namespace().as_bytes(), b":", self.name.as_bytes(), b":", key.as_bytes()].concat()
    }
}

impl<K: ?Sized> std::fmt::Debug for Counters<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Counters").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<K: ?Sized> std::fmt::Debug for RawView<K> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawView").field("name", &self.name).finish_non_exhaustive()
    }
}
