//! Content of Redis without an envelope: counters, and the bytes of other programs.

use crate::coherence::Coordinator;
use crate::coherence::leased_lookup::{Purpose, RedisLookup};
use crate::coherence::mutation::spawn_mutation;
use crate::key::{CacheKey, KeyBuf, MemoryKey, MemoryKeyRef};
use crate::node::entry::{EntryState, MemoryCounter, MemoryEntry};
use crate::report::error::CacheError;
use crate::tier::{Expiry, Mutation, Operation, OperationResult};
use larder_engine::{Op, Ttl};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Counters: integers that many nodes add to. Made by [`Cache::counters`](crate::Cache::counters).
///
/// They are stored in Redis only, or in memory if there is no Redis. They have a type of their own, so that a
/// serialized value cannot be incremented.
///
/// In memory a counter is an entry like any other: it ends with its time to live, may be evicted when memory is full, and
/// then starts at 0 again. If counts must not be lost, use a Redis without eviction.
///
/// A view of the same name has the same keys: an increment of a value fails and the value stays. A view does not read a
/// counter, but its writes replace it and its deletions remove it. Give counters a name of their own.
pub struct Counters<K: ?Sized> {
    coordinator: Arc<Coordinator>,
    name: String,
    number: u32,
    ttl: Duration,
    _key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> Counters<K> {
    pub(crate) fn new(coordinator: Arc<Coordinator>, name: String, number: u32) -> Self {
        let node = &coordinator.node;
        let ttl = node.settings.policy.lifetime(false, &node.random).fresh;
        Counters { coordinator, name, number, ttl, _key: PhantomData }
    }

    /// The same counters with another time to live. It starts when a counter is made. Additions do not restart it. A shorter
    /// time than 1 ms counts as 1 ms.
    pub fn with_ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl.max(Duration::from_millis(1));
        self
    }
}

impl<K: CacheKey + ?Sized> Counters<K> {
    /// Adds to a counter, which starts at 0, and returns the sum.
    ///
    /// # Errors
    /// If Redis did not confirm, it may or may not have added. It is also an error if the content is not a number, or if
    /// the sum overflows.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn increment(&self, key: &K, by: i64) -> Result<i64, CacheError> {
        let key = KeyBuf::of(key);
        let (coordinator, ttl) = (self.coordinator.clone(), self.ttl);
        if coordinator.node.redis.is_none() {
            return self.increment_in_memory(&key, by);
        }
        let redis_key = self.redis_key(&key);
        spawn_mutation(&self.coordinator.node, async move {
            coordinator.ensure_connected().await;
            let redis = coordinator.node.redis.as_ref().ok_or(CacheError::NoRedis)?;
            redis.call(redis.tier.increment(&redis_key, by, ttl)).await
        })
        .await
    }

    /// Subtracts from a counter; see [`Counters::increment`].
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
    /// If Redis does not reply, or the content is not a number.
    ///
    /// # Panics
    /// Outside a tokio runtime, if there is Redis.
    pub async fn read(&self, key: &K) -> Result<Option<i64>, CacheError> {
        let key = KeyBuf::of(key);
        let node = &self.coordinator.node;
        node.check_open()?;
        if node.redis.is_none() {
            let Some(entry) = node.memory.get(&self.memory_key(&key)) else { return Ok(None) };
            let counter = entry.value::<MemoryCounter>().ok_or_else(not_an_integer)?;
            return Ok(Some(counter.0.load(Ordering::Acquire)));
        }
        let Some(bytes) = read_raw(&self.coordinator, self.redis_key(&key)).await? else { return Ok(None) };
        let number = std::str::from_utf8(&bytes).ok().and_then(|number| number.parse().ok());
        number.map(Some).ok_or_else(not_an_integer)
    }

    /// Removes a counter. Returns whether there was one.
    ///
    /// # Errors
    /// If Redis did not confirm.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &K) -> Result<bool, CacheError> {
        let key = KeyBuf::of(key);
        let keys = vec![(self.memory_key(&key), self.redis_key(&key))];
        let coordinator = self.coordinator.clone();
        let deletion = async move { Ok(coordinator.delete_keys(keys).await) };
        let (existed, confirmed) = spawn_mutation(&self.coordinator.node, deletion).await?;
        confirmed.map(|()| existed.first() == Some(&true))
    }

    fn increment_in_memory(&self, key: &KeyBuf, by: i64) -> Result<i64, CacheError> {
        self.coordinator.node.check_open()?;
        let memory = &self.coordinator.node.memory;
        let now = memory.clock().now();
        let sum = memory.compute(self.memory_key(key), |entry| {
            let Some(entry) = entry else {
                let state = EntryState::new(now, self.ttl, self.ttl, 1, 1);
                let entry = MemoryEntry::new(Arc::new(MemoryCounter(AtomicI64::new(by))), state);
                return (Op::Put(entry, Ttl::After(self.ttl)), Ok(by));
            };
            // A value of a view of the same name stays, as it does in Redis.
            let Some(counter) = entry.value().value::<MemoryCounter>() else {
                return (Op::Keep, Err(not_an_integer()));
            };
            let added = counter.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, |n| n.checked_add(by));
            let overflows = |_| CacheError::Refused("increment or decrement would overflow".into());
            (Op::Keep, added.map(|before| before + by).map_err(overflows))
        });
        sum.result
    }

    fn memory_key(&self, key: &KeyBuf) -> MemoryKey {
        MemoryKeyRef { view: self.number, bytes: key.as_bytes() }.into_owned()
    }

    fn redis_key(&self, key: &KeyBuf) -> Vec<u8> {
        self.coordinator.node.keyspace.redis_key(&self.name, key)
    }
}

/// The bytes that Redis has under a key.
async fn read_raw(coordinator: &Arc<Coordinator>, redis_key: Vec<u8>) -> Result<Option<Vec<u8>>, CacheError> {
    let reading = async {
        coordinator.ensure_connected().await;
        let (mut lookups, _) = coordinator.lookup_redis(&[redis_key], Purpose::Raw).await?;
        Ok(match lookups.pop() {
            Some(RedisLookup::Bytes(bytes)) => Some(bytes),
            _ => None,
        })
    };
    coordinator.node.tasks.within(reading).await
}

/// The content of the key is no counter, but a value of a view or of another program.
fn not_an_integer() -> CacheError {
    CacheError::Refused("the value is not an integer".into())
}

/// Bytes as other programs store them. Made by [`Cache::raw`](crate::Cache::raw).
pub struct RawView<K: ?Sized> {
    coordinator: Arc<Coordinator>,
    name: String,
    _key: PhantomData<fn(&K)>,
}

impl<K: ?Sized> RawView<K> {
    pub(crate) fn new(coordinator: Arc<Coordinator>, name: String) -> Self {
        RawView { coordinator, name, _key: PhantomData }
    }
}

impl<K: CacheKey + ?Sized> RawView<K> {
    /// The bytes of a key.
    ///
    /// # Errors
    /// If Redis does not reply, or the cache has none.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn read(&self, key: &K) -> Result<Option<Vec<u8>>, CacheError> {
        self.coordinator.node.check_open()?;
        if self.coordinator.node.redis.is_none() {
            return Err(CacheError::NoRedis);
        }
        read_raw(&self.coordinator, self.redis_key(key)).await
    }

    /// Stores bytes without an envelope.
    ///
    /// # Errors
    /// If Redis did not confirm, or the cache has none.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn write(&self, key: &K, bytes: impl Into<Vec<u8>>, ttl: Duration) -> Result<(), CacheError> {
        self.mutate(Operation::Put(self.redis_key(key), bytes.into(), Expiry::After(ttl))).await.map(drop)
    }

    /// Removes a key. Returns whether there was one.
    ///
    /// # Errors
    /// If Redis did not confirm, or the cache has none.
    ///
    /// # Panics
    /// Outside a tokio runtime.
    pub async fn delete(&self, key: &K) -> Result<bool, CacheError> {
        let result = self.mutate(Operation::Remove(self.redis_key(key))).await?;
        Ok(matches!(result, Some(OperationResult::Removed(Some(_)))))
    }

    async fn mutate(&self, operation: Operation) -> Result<Option<OperationResult>, CacheError> {
        self.coordinator.node.check_open()?;
        let redis = self.coordinator.node.redis.as_ref().ok_or(CacheError::NoRedis)?;
        let mutating = async {
            self.coordinator.ensure_connected().await;
            let mutation = Mutation { operations: &[operation], ledger: None, announce: None };
            Ok(redis.call(redis.tier.mutate(&mutation)).await?.results.pop())
        };
        self.coordinator.node.tasks.within(mutating).await
    }

    fn redis_key(&self, key: &K) -> Vec<u8> {
        self.coordinator.node.keyspace.redis_key(&self.name, &KeyBuf::of(key))
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
