//! The options of a cache, checked when it is built.

use crate::cache::Cache;
use crate::codec::Format;
use crate::compression::{Compression, Packing};
use crate::tier::memory;
use crate::tier::plain::RedisTier;
use larder_engine::{Clock, MAX_TTL};
use std::time::Duration;

const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
const DEFAULT_REDIS_TIMEOUT: Duration = Duration::from_millis(250);

/// Options of a [`Cache`]. Made by [`Cache::builder`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    namespace: String,
    memory_bytes: u64,
    redis_url: Option<String>,
    redis_timeout: Duration,
    ttl: Option<Duration>,
    clock: Clock,
    format: Format,
    packing: Packing,
}

impl Builder {
    pub(crate) fn new(namespace: &str) -> Self {
        Builder {
            namespace: namespace.to_owned(),
            memory_bytes: DEFAULT_MEMORY_BYTES,
            redis_url: None,
            redis_timeout: DEFAULT_REDIS_TIMEOUT,
            ttl: None,
            clock: Clock::monotonic(),
            format: Format::default(),
            packing: Packing::default(),
        }
    }

    /// The bytes that the memory tier may hold: encoded values, keys and 160 bytes for each entry. 1 KiB to 2^62.
    /// Default: 64 MiB.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.memory_bytes = bytes;
        self
    }

    /// A Redis, Valkey or Larder server behind the memory: `redis://[user:password@]host[:port][/db]` or
    /// `redis+unix:///path`. It is connected to when first needed. Default: none.
    pub fn redis(mut self, url: impl Into<String>) -> Self {
        self.redis_url = Some(url.into());
        self
    }

    /// How long Redis may take to accept a connection, and to answer: 1 ms to 1 min. Default: 250 ms.
    pub fn redis_timeout(mut self, timeout: Duration) -> Self {
        self.redis_timeout = timeout;
        self
    }

    /// How long a value is fresh after it was stored, unless a view, a call or the loader says otherwise: 1 ms to
    /// 8,900 years. Required: no default suits a cache that one has not thought about.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = Some(ttl);
        self
    }

    /// Where the memory tier takes its time from. Default: the machine's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// How values are encoded for Redis, where a view does not say otherwise. Default: postcard.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// How encoded values are made smaller for Redis. Default: not at all.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.packing.compression = compression;
        self
    }

    /// The least encoded length in bytes that is compressed, if that makes it smaller. Default: 1 KiB.
    pub fn compress_from_bytes(mut self, bytes: usize) -> Self {
        self.packing.compress_from_bytes = bytes;
        self
    }

    /// The most bytes that one encoded value may have, before compression: longer ones are not written, and what
    /// claims to be longer is a miss. 1 to 2^32 - 1. Default: 64 MiB.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.packing.max_bytes = bytes;
        self
    }

    /// Builds the cache. Neither waits for Redis nor fails if it is not there.
    ///
    /// # Errors
    /// A [`BuildError`] that names the option, its value and its range.
    pub fn build(self) -> Result<Cache, BuildError> {
        if self.namespace.is_empty() || self.namespace.contains(':') {
            return Err(BuildError::Namespace(self.namespace));
        }
        let ttl = self.ttl.ok_or(BuildError::NoTtl)?;
        check_ttl(ttl)?;
        if !(1 << 10..=1 << 62).contains(&self.memory_bytes) {
            return Err(BuildError::MemoryBytes(self.memory_bytes));
        }
        if !(Duration::from_millis(1)..=Duration::from_secs(60)).contains(&self.redis_timeout) {
            return Err(BuildError::RedisTimeout(self.redis_timeout));
        }
        if !(1..=u32::MAX as usize).contains(&self.packing.max_bytes) {
            return Err(BuildError::MaxValueBytes(self.packing.max_bytes));
        }
        let memory = larder_engine::Cache::builder()
            .weight(self.memory_bytes, memory::weigh)
            .clock(self.clock)
            .build()
            .expect("the capacity was checked");
        let redis = open_redis(self.redis_url, self.redis_timeout)?;
        Ok(Cache::new(self.namespace, memory, ttl, redis, self.format, self.packing))
    }
}

fn open_redis(url: Option<String>, timeout: Duration) -> Result<Option<RedisTier>, BuildError> {
    let open =
        |url: String| RedisTier::new(&url, timeout).map_err(|reason| BuildError::RedisUrl { url, reason });
    url.map(open).transpose()
}

pub(crate) fn check_ttl(ttl: Duration) -> Result<(), BuildError> {
    let valid = (Duration::from_millis(1)..=MAX_TTL).contains(&ttl);
    if valid { Ok(()) } else { Err(BuildError::Ttl(ttl)) }
}

/// Why a cache could not be built.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildError {
    /// The namespace is empty or has a `:` in it.
    #[error("namespace is {0:?}; it must be a name without ':'")]
    Namespace(String),
    /// `ttl` was not called.
    #[error("a cache needs a time to live: call ttl()")]
    NoTtl,
    /// The time to live lies outside its range.
    #[error("ttl is {0:?}; it must be from 1 ms to 8,900 years")]
    Ttl(Duration),
    /// The capacity of the memory tier lies outside its range.
    #[error("memory_bytes is {0}; it must be from 1024 to 2^62")]
    MemoryBytes(u64),
    /// The bound of one value lies outside its range.
    #[error("max_value_bytes is {0}; it must be from 1 to 2^32 - 1")]
    MaxValueBytes(usize),
    /// The timeout lies outside its range.
    #[error("redis_timeout is {0:?}; it must be from 1 ms to 1 min")]
    RedisTimeout(Duration),
    /// The address of Redis cannot be read.
    #[error("redis address {url:?}: {reason}")]
    RedisUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}
