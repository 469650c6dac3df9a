//! The options of a cache, checked when it is built.

use crate::cache::{Cache, Inner, Names, OnError};
use crate::codec::Format;
use crate::coherence::Changes;
use crate::coherence::announce;
use crate::coherence::journal::Journal;
use crate::coherence::lease::FILL_STRIPES;
use crate::coherence::ledger::Ledger;
use crate::coherence::trust::Trust;
use crate::compression::{Compression, Packing};
use crate::error::CacheError;
use crate::events::Events;
use crate::fetch::Policy;
use crate::random::Random;
use crate::stats::Counts;
use crate::tier::guard::Guarded;
use crate::tier::redis::{Probe, RedisTier};
use crate::tier::{Tier, memory};
use larder_engine::{Clock, MAX_TTL};
use parking_lot::{Mutex, RwLock};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::sync::Semaphore;

const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;
const DEFAULT_REDIS_TIMEOUT: Duration = Duration::from_millis(250);

const DEFAULT_MAX_LAG: Duration = Duration::from_secs(1);
const DEFAULT_DISCONNECTED: Duration = Duration::from_secs(30);
const DEFAULT_LEASE_WAIT: Duration = Duration::from_secs(2);

/// Options of a [`Cache`]. Made by [`Cache::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    namespace: String,
    memory_bytes: u64,
    redis_url: Option<String>,
    redis_timeout: Duration,
    redis_scripts: bool,
    tier: Option<Arc<dyn Tier>>,
    max_lag: Duration,
    disconnected: Duration,
    foreign_writers: bool,
    lease_wait: Duration,
    policy: Policy,
    clock: Clock,
    seed: Option<u64>,
    format: Format,
    packing: Packing,
    enabled: bool,
    on_error: Option<OnError>,
}

impl Builder {
    pub(crate) fn new(namespace: &str) -> Self {
        Builder {
            namespace: namespace.to_owned(),
            memory_bytes: DEFAULT_MEMORY_BYTES,
            redis_url: None,
            redis_timeout: DEFAULT_REDIS_TIMEOUT,
            redis_scripts: true,
            tier: None,
            max_lag: DEFAULT_MAX_LAG,
            disconnected: DEFAULT_DISCONNECTED,
            foreign_writers: false,
            lease_wait: DEFAULT_LEASE_WAIT,
            policy: Policy::new(),
            clock: Clock::monotonic(),
            seed: None,
            format: Format::default(),
            packing: Packing::default(),
            enabled: true,
            on_error: None,
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
        self.policy.ttl = Some(ttl);
        self
    }

    /// Times and timeouts for all views, where they do not say otherwise; with [`Builder::ttl`] in it or besides.
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy.or(self.policy);
        self
    }

    /// How much later than on the node that did it an invalidation may take effect on this one: 10 ms to 1 min. This
    /// node asks Redis for a sign of life four times as often, at least every 250 ms. Default: 1 s.
    pub fn max_lag(mut self, max_lag: Duration) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// How long memory goes on answering when Redis is lost; zero for not at all. Default: 30 s.
    pub fn disconnected(mut self, at_most: Duration) -> Self {
        self.disconnected = at_most;
        self
    }

    /// Whether other programs write to the keys of this namespace, and this node is to hear of it, by `CLIENT TRACKING`
    /// with the namespace as its prefix. Each entry that changes, also by this node, is then compared with Redis once.
    /// Default: no.
    pub fn foreign_writers(mut self, there_are: bool) -> Self {
        self.foreign_writers = there_are;
        self
    }

    /// How long a fetch waits for another node that loads the same key, before it loads too. Default: 2 s.
    pub fn lease_wait(mut self, at_most: Duration) -> Self {
        self.lease_wait = at_most;
        self
    }

    /// Whether scripts may be used where Redis has them. Without, a store costs two round trips. Default: yes.
    pub fn redis_scripts(mut self, allowed: bool) -> Self {
        self.redis_scripts = allowed;
        self
    }

    /// Another tier than Redis behind the memory.
    #[doc(hidden)]
    pub fn tier(mut self, tier: Arc<dyn Tier>) -> Self {
        self.tier = Some(tier);
        self
    }

    /// Whether anything is cached at all; see [`Cache::set_enabled`]. Default: yes.
    pub fn enabled(mut self, enabled: bool) -> Self {
        self.enabled = enabled;
        self
    }

    /// Called with each error that no caller gets to see, because the cache answers without Redis. It must be short.
    pub fn on_error(mut self, on_error: impl Fn(&CacheError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(on_error));
        self
    }

    /// Where the memory tier takes its time from. Default: the machine's monotonic clock.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Draws ids and jitter from a seed, so that a test repeats them. Two nodes must not have the same seed.
    #[doc(hidden)]
    pub fn random_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
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
        check_ttl(self.policy.ttl.ok_or(BuildError::NoTtl)?)?;
        if !(1 << 10..=1 << 62).contains(&self.memory_bytes) {
            return Err(BuildError::MemoryBytes(self.memory_bytes));
        }
        let minute = Duration::from_secs(60);
        if !(Duration::from_millis(1)..=minute).contains(&self.redis_timeout) {
            return Err(BuildError::RedisTimeout(self.redis_timeout));
        }
        if !(Duration::from_millis(10)..=minute).contains(&self.max_lag) {
            return Err(BuildError::MaxLag(self.max_lag));
        }
        if !(1..=u32::MAX as usize).contains(&self.packing.max_bytes) {
            return Err(BuildError::MaxValueBytes(self.packing.max_bytes));
        }
        let memory = larder_engine::Cache::builder()
            .weight(self.memory_bytes, memory::weigh)
            .clock(self.clock.clone())
            .build()
            .expect("the capacity was checked");
        let tier = match (self.tier, self.redis_url) {
            (Some(tier), _) => Some(tier),
            (None, Some(url)) => {
                let probe = Names::new(&self.namespace, "");
                let probe = Probe {
                    announcement: announce::keys(&probe.channel, Default::default(), []),
                    ledger: probe.ledger,
                };
                Some(open_redis(url, self.redis_timeout, self.redis_scripts, probe)?)
            }
            (None, None) => None,
        };
        let random = Random::new(self.seed);
        let scope = tier.as_ref().map(|tier| tier.scope()).unwrap_or_default();
        let inner = Inner {
            names: Names::new(&self.namespace, &scope),
            trust: Trust::new(self.clock.clone(), tier.is_some(), self.max_lag, self.disconnected),
            ledger: Ledger::new(tier.is_some()),
            journal: Journal::new(self.clock),
            namespace: self.namespace,
            memory,
            shared: tier.map(Guarded::new),
            changes: Changes::new(),
            events: Events::new(),
            on_error: self.on_error,
            origin: random.bytes(),
            random,
            foreign_writers: self.foreign_writers,
            lease_wait: self.lease_wait,
            server: Mutex::new(None),
            caretaker: Mutex::new(None),
            tried: Semaphore::new(0),
            paying: tokio::sync::RwLock::new(()),
            fills: (0..FILL_STRIPES).map(|_| tokio::sync::Mutex::new(())).collect(),
            policy: self.policy,
            format: self.format,
            packing: self.packing,
            counts: Counts::default(),
            views: RwLock::default(),
            off: AtomicBool::new(!self.enabled),
        };
        Ok(Cache { inner: Arc::new(inner), space: None })
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

fn open_redis(
    url: String,
    timeout: Duration,
    scripts: bool,
    probe: Probe,
) -> Result<Arc<dyn Tier>, BuildError> {
    match RedisTier::new(&url, timeout, scripts, probe) {
        Ok(tier) => Ok(Arc::new(tier)),
        Err(reason) => Err(BuildError::RedisUrl { url, reason }),
    }
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
    /// The bound of the lag lies outside its range.
    #[error("max_lag is {0:?}; it must be from 10 ms to 1 min")]
    MaxLag(Duration),
    /// The address of Redis cannot be read.
    #[error("redis address {url:?}: {reason}")]
    RedisUrl {
        /// What was given.
        url: String,
        /// What is wrong with it.
        reason: String,
    },
}
