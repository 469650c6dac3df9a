//! The Redis tier: bytes under keys, over a few multiplexed connections, with a breaker before them.
//!
//! A key always takes the same connection, so the commands of one key keep their order. No command is sent twice: what
//! became of one whose connection broke is not known. The client library appears nowhere else.

use crate::breaker::Breaker;
use crate::error::CacheError;
use larder_engine::stats::{Counter, Histogram};
use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::{Client, FromRedisValue, IntoConnectionInfo, Pipeline, RedisError};
use std::sync::OnceLock;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// One busy connection saturates before one core does; more than a few only cost wake-ups.
const CONNECTIONS: usize = 4;
/// How long Redis is left alone after an error.
const REST: Duration = Duration::from_millis(500);

/// A value found in Redis.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) bytes: Vec<u8>,
    /// How long it still lives there; `None` for ever.
    pub(crate) expires_in: Option<Duration>,
}

pub(crate) struct RedisTier {
    client: Client,
    timeout: Duration,
    /// Connected when first used, for building a cache must not wait for Redis.
    connections: [OnceLock<ConnectionManager>; CONNECTIONS],
    breaker: Breaker,
    pub(crate) counts: RedisCounts,
    pub(crate) latency: Histogram,
}

#[derive(Debug, Default)]
pub(crate) struct RedisCounts {
    pub(crate) hits: Counter,
    pub(crate) misses: Counter,
    pub(crate) errors: Counter,
    pub(crate) skipped: Counter,
    pub(crate) unreadable: Counter,
}

impl RedisTier {
    /// `timeout` bounds the wait for a connection and for each answer.
    pub(crate) fn new(url: &str, timeout: Duration) -> Result<Self, String> {
        let info = url.into_connection_info().map_err(|error| error.to_string())?;
        let tcp = redis::io::tcp::TcpSettings::default().set_nodelay(true);
        let client = Client::open(info.set_tcp_settings(tcp)).map_err(|error| error.to_string())?;
        Ok(RedisTier {
            client,
            timeout,
            connections: [const { OnceLock::new() }; CONNECTIONS],
            breaker: Breaker::new(REST),
            counts: RedisCounts::default(),
            latency: Histogram::new(),
        })
    }

    /// Whether the tier is being left alone after an error.
    pub(crate) fn is_resting(&self) -> bool {
        self.breaker.is_open()
    }

    /// The value of a key. Trouble is counted and looks like a miss.
    pub(crate) async fn get(&self, key: &[u8]) -> Option<Found> {
        let mut pipeline = Pipeline::with_capacity(2);
        pipeline.get(key).pttl(key);
        let (bytes, pttl_ms): (Option<Vec<u8>>, i64) = self.ask(key, &pipeline).await.ok()?;
        self.found(bytes, pttl_ms)
    }

    /// The values of many keys, in one round trip, in their order.
    pub(crate) async fn get_many(&self, keys: &[Vec<u8>]) -> Vec<Option<Found>> {
        let none = || keys.iter().map(|_| None).collect();
        let Some(first) = keys.first() else { return none() };
        let mut pipeline = Pipeline::with_capacity(keys.len() + 1);
        pipeline.mget(keys);
        keys.iter().for_each(|key| _ = pipeline.pttl(key));
        let Ok(answers) = self.ask::<Vec<redis::Value>>(first, &pipeline).await else { return none() };
        let mut answers = answers.into_iter();
        let values = answers.next().and_then(|values| Vec::<Option<Vec<u8>>>::from_redis_value(values).ok());
        let pttls = answers.map(|pttl| i64::from_redis_value(pttl).unwrap_or(-1));
        match values {
            Some(values) => values.into_iter().zip(pttls).map(|(bytes, ms)| self.found(bytes, ms)).collect(),
            None => none(),
        }
    }

    pub(crate) async fn set(&self, key: &[u8], bytes: &[u8], ttl: Duration) -> Result<(), CacheError> {
        let mut pipeline = Pipeline::with_capacity(1);
        let ttl_ms = u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX).max(1);
        pipeline.cmd("SET").arg(key).arg(bytes).arg("PX").arg(ttl_ms).ignore();
        self.ask(key, &pipeline).await
    }

    /// Removes a key; whether it was there.
    pub(crate) async fn delete(&self, key: &[u8]) -> Result<bool, CacheError> {
        let mut pipeline = Pipeline::with_capacity(1);
        pipeline.unlink(key);
        let (removed,): (u64,) = self.ask(key, &pipeline).await?;
        Ok(removed > 0)
    }

    fn found(&self, bytes: Option<Vec<u8>>, pttl_ms: i64) -> Option<Found> {
        let outcome = if bytes.is_some() { &self.counts.hits } else { &self.counts.misses };
        outcome.add(1);
        let expires_in = u64::try_from(pttl_ms).ok().map(Duration::from_millis);
        bytes.map(|bytes| Found { bytes, expires_in })
    }

    /// Sends a pipeline over the connection of `key` and keeps the books: breaker, counters, latency.
    async fn ask<T: FromRedisValue>(&self, key: &[u8], pipeline: &Pipeline) -> Result<T, CacheError> {
        if !self.breaker.allows() {
            self.counts.skipped.add(1);
            return Err(CacheError::Resting);
        }
        let began = Instant::now();
        let answer = match self.connection(key) {
            Ok(mut connection) => pipeline.query_async(&mut connection).await,
            Err(error) => Err(error),
        };
        self.latency.record(began.elapsed());
        answer.inspect(|_| self.breaker.succeeded()).map_err(|error| self.failed(&error))
    }

    fn failed(&self, error: &RedisError) -> CacheError {
        self.counts.errors.add(1);
        // An answer, even an unwelcome one, shows that Redis is there: only silence opens the breaker.
        if error.is_io_error() || error.is_timeout() || error.is_connection_dropped() {
            self.breaker.failed();
        } else {
            self.breaker.succeeded();
        }
        tracing::warn!(%error, "redis tier");
        CacheError::Redis(error.to_string())
    }

    fn connection(&self, key: &[u8]) -> Result<ConnectionManager, RedisError> {
        let slot = &self.connections[xxh3_64(key) as usize % CONNECTIONS];
        if let Some(connection) = slot.get() {
            return Ok(connection.clone());
        }
        let config = ConnectionManagerConfig::new()
            .set_number_of_retries(0)
            .set_connection_timeout(Some(self.timeout))
            .set_response_timeout(Some(self.timeout));
        let connection = ConnectionManager::new_lazy_with_config(self.client.clone(), config)?;
        Ok(slot.get_or_init(|| connection).clone())
    }
}

impl std::fmt::Debug for RedisTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisTier").field("resting", &self.is_resting()).finish_non_exhaustive()
    }
}
