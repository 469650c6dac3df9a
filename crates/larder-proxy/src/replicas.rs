//! The replicas of a proxy: they share responses and purges through Redis. Without one the proxy is alone.

use crate::config::{Config, ms};
use crate::error::ProxyError;
use larder::{BuildError, Cache};
use larder_http::{Builder, DiskStats, HttpCache, HttpCacheLayer, SharedHttpCache};
use std::path::PathBuf;
use std::time::Duration;

/// The view that has the responses.
const VIEW: &str = "responses";
/// The time to live of what has none of its own. Every response has one.
const TTL: Duration = Duration::from_secs(60);
/// For values in memory, of which there are none: the responses are in the store of the response cache.
const MEMORY_BYTES: u64 = 1 << 20;
/// What an entry in Redis has in front of its body, at most: its times, its key and its fields.
const HEAD_BYTES: u64 = 4 << 20;

/// The cache of a proxy. Cheap to clone.
#[derive(Clone, Debug)]
pub enum ProxyCache {
    /// Of this proxy alone.
    Alone(HttpCache),
    /// Shared with the other replicas of the proxy.
    Shared {
        /// The responses.
        responses: SharedHttpCache,
        /// What they are shared through.
        redis: Cache,
    },
}

impl ProxyCache {
    /// The cache of a checked configuration, with these options.
    ///
    /// # Errors
    /// An option of Redis is outside its range, or a file cannot be used. Nobody is connected to yet.
    pub(crate) fn new(builder: Builder, config: &Config) -> Result<ProxyCache, ProxyError> {
        let Some(redis) = redis(config)? else { return Ok(ProxyCache::Alone(builder.build()?)) };
        let shared =
            builder.shared(redis.shared(VIEW)).max_shared_body_bytes(config.max_shared_body_bytes as usize);
        Ok(ProxyCache::Shared { responses: shared.build()?, redis })
    }

    pub(crate) fn layer(&self) -> HttpCacheLayer {
        match self {
            ProxyCache::Alone(cache) => cache.layer(),
            ProxyCache::Shared { responses, .. } => responses.layer(),
        }
    }

    /// The disk tier, if it has one.
    pub fn disk(&self) -> Option<DiskStats> {
        match self {
            ProxyCache::Alone(cache) => cache.stats().disk,
            ProxyCache::Shared { responses, .. } => responses.stats().disk,
        }
    }

    /// Begins to connect to Redis, if it has one: the state of the proxy tells from the start whether that can be used.
    pub(crate) fn connect(&self) {
        if let ProxyCache::Shared { redis, .. } = self {
            let redis = redis.clone();
            tokio::spawn(async move { redis.connect().await });
        }
    }

    /// Waits until Redis has the purges of this proxy that are pending, for at most so long.
    pub(crate) async fn flush(&self, at_most: Duration) {
        let ProxyCache::Shared { redis, .. } = self else { return };
        let pending = redis.close(at_most).await;
        if pending > 0 {
            tracing::warn!(
                pending,
                "Redis has not confirmed all purges: other replicas may serve what was purged"
            );
        }
    }
}

/// The cache of the namespace, if a Redis is configured.
fn redis(config: &Config) -> Result<Option<Cache>, ProxyError> {
    let Some(url) = &config.redis else { return Ok(None) };
    let name = |file: &Option<PathBuf>| file.as_ref().map(|file| file.to_string_lossy().into_owned());
    // With the names that the library has.
    let options = [
        ("redis_user", config.redis_user.clone()),
        ("redis_password_file", name(&config.redis_password_file)),
        ("redis_roots", name(&config.redis_roots)),
        ("redis_certificate", name(&config.redis_certificate)),
        ("redis_key", name(&config.redis_key)),
    ];
    let builder = Cache::builder(&config.redis_namespace)
        .memory_bytes(MEMORY_BYTES)
        .ttl(TTL)
        .redis(url)
        .max_lag(ms(config.redis_max_lag_ms))
        .max_value_bytes((config.max_shared_body_bytes + HEAD_BYTES) as usize);
    let mut given = options.into_iter().filter_map(|(option, text)| Some((option, text?)));
    let builder = given.try_fold(builder, |builder, (option, text)| builder.option(option, &text));
    Ok(Some(builder.and_then(larder::Builder::build).map_err(refused)?))
}

fn refused(error: BuildError) -> ProxyError {
    match error {
        BuildError::Option { option, value, expected } => {
            ProxyError::Config { field: option, value, expected }
        }
        error => ProxyError::Redis(error),
    }
}
