//! cachet, from Microsoft's oxidizer. It has no Redis tier, but an interface for one: this is a minimal implementation.

use super::redis_rs::Remote;
use super::{CAPACITY, FetchThrough, Gate, InMemory, LoadFailed, OverRedis, TTL};
use cachet::{Cache, CacheEntry, CacheTier, Error, InsertOutcome};
use std::future::Future;
use std::sync::Arc;
use tick::Clock;

#[derive(Clone)]
pub(crate) struct Cachet(Arc<Cache<u64, u64>>);

impl FetchThrough for Cachet {
    const NAME: &'static str = "cachet";

    #[inline]
    async fn fetch<L, F>(&self, key: u64, load: L) -> Result<u64, LoadFailed>
    where
        L: FnOnce() -> F + Send + 'static,
        F: Future<Output = Result<u64, LoadFailed>> + Send + 'static,
    {
        match self.0.try_get_or_insert(&key, load).await {
            Ok(entry) => Ok(*entry.value()),
            Err(_) => Err(LoadFailed),
        }
    }

    /// While a tier does not answer, a caller would load the value.
    async fn read(&self, key: u64) -> Option<u64> {
        self.0.get(&key).await.ok().flatten().map(|entry| *entry.value())
    }

    async fn write(&self, key: u64, value: u64) {
        self.0.insert(key, value).await.expect("every tier accepts the operation");
    }

    async fn try_invalidate(&self, key: u64) -> bool {
        self.0.invalidate(&key).await.is_ok()
    }
}

impl InMemory for Cachet {
    fn in_memory() -> Self {
        let memory = Cache::builder(Clock::new_tokio()).memory_with(|memory| memory.max_capacity(CAPACITY));
        Cachet(Arc::new(memory.ttl(TTL).stampede_protection().build()))
    }
}

impl OverRedis for Cachet {
    fn node(url: &str, gate: &Gate) -> Self {
        over(RedisTier { redis: Remote::server(url), gate: gate.clone() })
    }
}

fn over(tier: RedisTier) -> Cachet {
    let clock = Clock::new_tokio();
    let second = Cache::builder(clock.clone()).storage(tier);
    let memory = Cache::builder(clock).memory_with(|memory| memory.max_capacity(CAPACITY)).ttl(TTL);
    Cachet(Arc::new(memory.fallback(second).stampede_protection().build()))
}

struct RedisTier {
    redis: Remote,
    gate: Gate,
}

impl RedisTier {
    async fn send<T: redis::FromRedisValue>(&self, command: &mut redis::Cmd) -> Result<T, Error> {
        self.redis.send(command).await.map_err(Error::from_source)
    }
}

fn redis_key(key: &u64) -> String {
    format!("cachet:{key}")
}

impl CacheTier<u64, u64> for RedisTier {
    async fn get(&self, key: &u64) -> Result<Option<CacheEntry<u64>>, Error> {
        let found: Option<u64> = self.send(redis::cmd("GET").arg(redis_key(key))).await?;
        if found.is_some() {
            self.gate.pass().await;
        }
        Ok(found.map(CacheEntry::new))
    }

    async fn insert(&self, key: u64, entry: CacheEntry<u64>) -> Result<InsertOutcome, Error> {
        let mut set = redis::cmd("SET");
        set.arg(redis_key(&key)).arg(*entry.value()).arg("PX").arg(TTL.as_millis() as u64);
        self.send::<()>(&mut set).await.map(|()| InsertOutcome::Accepted)
    }

    async fn invalidate(&self, key: &u64) -> Result<(), Error> {
        self.send(redis::cmd("DEL").arg(redis_key(key))).await
    }

    async fn clear(&self) -> Result<(), Error> {
        self.send(&mut redis::cmd("FLUSHDB")).await
    }
}
