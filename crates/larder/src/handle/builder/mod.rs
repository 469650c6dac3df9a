//! The options of a cache, checked when it is built.

pub(crate) mod options;
mod redis;

use crate::coherence::{CoherenceOptions, Coordinator};
use crate::handle::cache::Cache;
use crate::handle::local::LocalCache;
use crate::node::entry::weigh;
use crate::node::guarded_tier::GuardedTier;
use crate::node::key_counts::{self, KeyCounts};
use crate::node::keyspace::Keyspace;
use crate::node::ledger::Ledger;
use crate::node::listeners::Listeners;
use crate::node::observers::{Observers, OnError};
use crate::node::trust::Trust;
use crate::node::{Node, Settings};
use crate::policy::{Policy, Prefer};
use crate::report::error::{BuildError, CacheError, without_password};
use crate::task::Tasks;
use crate::tier::Tier;
use crate::tier::redis::{RedisOptions, RedisTier};
use crate::value::codec::Format;
use crate::value::compression::{Compression, Packing};
use crate::value::random::Random;
use larder_engine::Clock;
use larder_engine::fork::Process;
use options::{check_number, check_time};
use std::sync::atomic::AtomicU8;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::runtime::Handle;

const DEFAULT_MEMORY_BYTES: u64 = 64 << 20;

const DEFAULT_MAX_LAG: Duration = Duration::from_secs(1);
const DEFAULT_DISCONNECTED: Duration = Duration::from_secs(30);
const DEFAULT_LEASE_WAIT: Duration = Duration::from_secs(2);

/// The bound of the memory tier.
#[derive(Clone, Copy, Debug)]
enum Capacity {
    Bytes(u64),
    Entries(u64),
}

/// Options of a [`Cache`]. Made by [`Cache::builder`].
#[must_use = "a builder does nothing until it is built"]
pub struct Builder {
    namespace: String,
    capacity: Capacity,
    redis_url: Option<String>,
    redis: RedisOptions,
    tier: Option<Arc<dyn Tier>>,
    max_lag: Duration,
    disconnected: Duration,
    prefer: Prefer,
    foreign_writers: bool,
    lease_wait: Duration,
    policy: Policy,
    clock: Clock,
    seed: Option<u64>,
    format: Format,
    packing: Packing,
    allow_uncoordinated: bool,
    enabled: bool,
    on_error: Option<OnError>,
    runtime: Option<Handle>,
}

impl Builder {
    pub(crate) fn new(namespace: &str) -> Self {
        Builder {
            namespace: namespace.to_owned(),
            capacity: Capacity::Bytes(DEFAULT_MEMORY_BYTES),
            redis_url: None,
            redis: RedisOptions::default(),
            tier: None,
            max_lag: DEFAULT_MAX_LAG,
            disconnected: DEFAULT_DISCONNECTED,
            prefer: Prefer::Coherence,
            foreign_writers: false,
            lease_wait: DEFAULT_LEASE_WAIT,
            policy: Policy::new(),
            clock: Clock::monotonic(),
            seed: None,
            format: Format::default(),
            packing: Packing::default(),
            allow_uncoordinated: false,
            enabled: true,
            on_error: None,
            runtime: None,
        }
    }

    /// The capacity of the memory tier in bytes: keys, encoded values or their weights by the weigher of a view, and 240
    /// bytes for each entry. 1 KiB to 2^62. Default: 64 MiB.
    pub fn memory_bytes(mut self, bytes: u64) -> Self {
        self.capacity = Capacity::Bytes(bytes);
        self
    }

    /// The capacity of the memory tier in entries instead of bytes: 1 to 2^62. Values are not weighed.
    pub fn memory_entries(mut self, entries: u64) -> Self {
        self.capacity = Capacity::Entries(entries);
        self
    }

    /// The time for which a stored value is fresh, unless a view, call or loader sets another one: 1 ms to 8,900 years.
    /// Required, since no default suits every cache.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.policy.ttl = Some(ttl);
        self
    }

    /// The times and timeouts of all views that set no others. It may contain the required [`Builder::ttl`].
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy.or(self.policy);
        self
    }

    /// The longest time after which an invalidation by another node takes effect on this one: 10 ms to 1 min. This
    /// node sends a heartbeat four times in that time, at least every 250 ms. Default: 1 s.
    pub fn max_lag(mut self, max_lag: Duration) -> Self {
        self.max_lag = max_lag;
        self
    }

    /// The time for which memory is served without Redis after the last liveness proof; zero for not at all. Default: 30 s.
    /// See also [`Builder::prefer`].
    pub fn disconnected(mut self, at_most: Duration) -> Self {
        self.disconnected = at_most;
        self
    }

    /// The priority while Redis is lost for longer than [`Builder::disconnected`]. Default: coherence.
    pub fn prefer(mut self, prefer: Prefer) -> Self {
        self.prefer = prefer;
        self
    }

    /// Whether other programs write to the keys of this namespace. This node then receives all writes, by
    /// `CLIENT TRACKING` with the namespace as prefix, and compares each entry that was written, also by itself, with
    /// Redis once. Default: no.
    pub fn foreign_writers(mut self, enabled: bool) -> Self {
        self.foreign_writers = enabled;
        self
    }

    /// The maximum time for which a fetch waits for another node that loads the same key. Then it serves its stale value,
    /// or loads too if it has none. Default: 2 s.
    pub fn lease_wait(mut self, at_most: Duration) -> Self {
        self.lease_wait = at_most;
        self
    }

    /// Whether memory answers over a server that is not supported, as
    /// [`CoherenceMode::Unsupported`](crate::CoherenceMode::Unsupported) describes. Then each node has its own values for
    /// their time to live, whatever other nodes do. Mutations are errors all the same. Default: no, each fetch loads.
    pub fn allow_uncoordinated(mut self, allowed: bool) -> Self {
        self.allow_uncoordinated = allowed;
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

    /// Called with the errors that no caller sees, because the cache answers without Redis: errors of lookups, of storing
    /// loaded values, and of queued invalidations. Errors of work that is repeated anyway, such as the renewal of a lease,
    /// are only counted and logged. It must not block; its panics are caught.
    pub fn on_error(mut self, on_error: impl Fn(&CacheError) + Send + Sync + 'static) -> Self {
        self.on_error = Some(Box::new(on_error));
        self
    }

    /// The runtime on which the cache runs what is its own: connections, heartbeats, loads and mutations. Then its calls may be
    /// awaited anywhere, also outside of a tokio runtime, and end with this runtime alone. It needs timers and sockets
    /// ([`enable_all`](tokio::runtime::Builder::enable_all)), and must outlive the use of the cache. Default: the runtime of
    /// the call that needs one, so the calls of a cache without it panic outside of a runtime, as they document.
    ///
    /// # Examples
    /// ```
    /// use larder::{Cache, View};
    /// use std::time::Duration;
    ///
    /// let runtime = tokio::runtime::Runtime::new()?;
    /// let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).runtime(runtime.handle().clone()).build()?;
    /// let stock: View<str, u32> = cache.view("stock");
    ///
    /// // An executor that has neither timers nor sockets.
    /// let other = tokio::runtime::Builder::new_current_thread().build()?;
    /// let apples = other.block_on(async {
    ///     stock.fetch("apple").load(|_| async { Ok::<_, std::convert::Infallible>(3) }).await
    /// })?;
    /// assert_eq!(*apples, 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn runtime(mut self, runtime: Handle) -> Self {
        self.runtime = Some(runtime);
        self
    }

    /// The clock of the memory tier. Default: the machine's monotonic clock.
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

    /// The encoding of values for Redis in views without a codec of their own. Default: postcard.
    pub fn format(mut self, format: Format) -> Self {
        self.format = format;
        self
    }

    /// The compression of encoded values for Redis. Default: none.
    pub fn compression(mut self, compression: Compression) -> Self {
        self.packing.compression = compression;
        self
    }

    /// The shortest encoded length in bytes that is compressed, if that makes it smaller. Default: 1 KiB.
    pub fn compress_from_bytes(mut self, bytes: usize) -> Self {
        self.packing.compress_from_bytes = bytes;
        self
    }

    /// The longest encoded value in bytes, before compression: a longer value is not stored, and longer bytes in Redis
    /// are a miss. 1 to 2^32 - 1. Default: 64 MiB.
    pub fn max_value_bytes(mut self, bytes: usize) -> Self {
        self.packing.max_bytes = bytes;
        self
    }

    /// Builds a cache in memory only, whose values need no serde; see [`LocalCache`].
    ///
    /// # Errors
    /// As [`Builder::build`], and if [`Builder::redis`] was called.
    pub fn build_local(self) -> Result<LocalCache, BuildError> {
        if self.redis_url.is_some() || self.tier.is_some() {
            return Err(BuildError::LocalWithRedis);
        }
        self.build().map(LocalCache::new)
    }

    /// Builds the cache. Does not wait for Redis, and does not fail without it.
    ///
    /// # Errors
    /// A [`BuildError`] that names the option, its value and its range.
    pub fn build(self) -> Result<Cache, BuildError> {
        if self.namespace.is_empty() || self.namespace.contains(':') {
            return Err(BuildError::Namespace(self.namespace));
        }
        check_time("ttl", self.policy.ttl.ok_or(BuildError::NoTtl)?)?;
        match self.capacity {
            Capacity::Bytes(bytes) => check_number("memory_bytes", bytes)?,
            Capacity::Entries(entries) => check_number("memory_entries", entries)?,
        }
        redis::check(&self.redis)?;
        check_time("max_lag", self.max_lag)?;
        check_number("max_value_bytes", self.packing.max_bytes as u64)?;
        let memory = larder_engine::Cache::builder();
        let memory = match self.capacity {
            Capacity::Bytes(bytes) => memory.weight(bytes, weigh),
            Capacity::Entries(entries) => memory.entries(entries),
        };
        let memory = memory.clock(self.clock.clone()).build().expect("the capacity was checked");
        let tier = match (self.tier, self.redis_url) {
            (Some(tier), _) => Some(tier),
            (None, Some(url)) => match RedisTier::new(&url, &self.redis) {
                Ok(tier) => Some(Arc::new(tier) as Arc<dyn Tier>),
                Err(reason) => return Err(BuildError::RedisUrl { url: without_password(&url), reason }),
            },
            (None, None) => None,
        };
        let database = tier.as_ref().map(|tier| tier.database_name()).unwrap_or_default();
        let node = Node {
            keyspace: Keyspace::new(&self.namespace, &database),
            server_clock: Default::default(),
            trust: Trust::new(self.clock.clone(), tier.is_some(), self.max_lag, self.disconnected),
            ledger: Ledger::new(tier.is_some(), self.clock),
            memory,
            redis: tier.map(GuardedTier::new),
            tracked_writes: KeyCounts::new(key_counts::FEW),
            key_invalidations: OnceLock::new(),
            listeners: Listeners::default(),
            settings: Settings {
                policy: self.policy,
                prefer: self.prefer,
                format: self.format,
                packing: self.packing,
                weighs_bytes: matches!(self.capacity, Capacity::Bytes(_)),
                allow_uncoordinated: self.allow_uncoordinated,
            },
            observers: Observers::new(self.on_error),
            random: Random::new(self.seed),
            chances: Random::cheap(self.seed),
            load_spans: Default::default(),
            off: AtomicU8::new(0),
            process: Process::current(),
            tasks: Tasks(self.runtime),
        };
        node.set_enabled(self.enabled);
        let options = CoherenceOptions { foreign_writers: self.foreign_writers, lease_wait: self.lease_wait };
        Ok(Cache::new(Coordinator::new(node, options)))
    }
}

impl Cache {
    /// Starts the options of a cache. The namespace separates it from others in the same Redis: a name without `:`.
    pub fn builder(namespace: &str) -> Builder {
        Builder::new(namespace)
    }

    /// A cache that stores no values: every fetch loads, every read misses, [`View::add`](crate::View::add) returns false.
    /// Counters count, in memory.
    pub fn null() -> Cache {
        Builder::new("null").ttl(Duration::from_secs(1)).enabled(false).build().expect("valid options")
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}
