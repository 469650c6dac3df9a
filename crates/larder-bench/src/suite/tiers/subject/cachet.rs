//! cachet, from Microsoft's oxidizer. It has no Redis tier, but an interface for one: this is a minimal implementation.

use super::{CAPACITY, FetchThrough, Gate, InMemory, LoadFailed, OverRedis, TTL};
use cachet::{Cache, CacheEntry, CacheTier, Error, InsertOutcome};
use redis::aio::MultiplexedConnection;
use std::future::Future;
use std::sync::Arc;
use tick::Clock;
use tokio::sync::OnceCell;

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

    async fn read(&self, key: u64) -> Option<u64> {
        self.0.get(&key).await.expect("every tier answers").map(|entry| *entry.value())
    }

    async fn write(&self, key: u64, value: u64) {
        self.0.insert(key, value).await.expect("every tier accepts the operation");
    }

    async fn invalidate(&self, key: u64) {
        self.0.invalidate(&key).await.expect("every tier accepts the operation");
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
        let clock = Clock::new_tokio();
        let client = redis::Client::open(url).expect("the address is well formed");
        let tier = RedisTier { client, connection: OnceCell::new(), gate: gate.clone() };
        let second = Cache::builder(clock.clone()).storage(tier);
        let memory = Cache::builder(clock).memory_with(|memory| memory.max_capacity(CAPACITY)).ttl(TTL);
        Cachet(Arc::new(memory.fallback(second).stampede_protection().build()))
    }
}

struct RedisTier {
    client: redis::Client,
    connection: OnceCell<MultiplexedConnection>,
    gate: Gate,
}

impl RedisTier {
    async fn send<T: redis::FromRedisValue>(&self, command: &mut redis::Cmd) -> Result<T, Error> {
        let connect = || self.client.get_multiplexed_async_connection();
        let mut connection =
            self.connection.get_or_try_init(connect).await.map_err(Error::from_source)?.clone();
        command.query_async(&mut connection).await.map_err(Error::from_source)
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
