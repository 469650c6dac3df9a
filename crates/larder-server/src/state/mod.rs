//! The state that all connections of a server share.

mod copying;

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use larder_resp::Limits;
use parking_lot::RwLock;

use crate::client::{Client, Clients, Inbox, Message, Monitors, Pause};
use crate::config::{Config, Password};
use crate::db::{MemoryPolicy, Store};
#[cfg(feature = "scripts")]
use crate::script::ScriptCache;
use crate::stats::{SlowLog, Stats};
use crate::users::Users;
use crate::values::large::Builds;
use copying::Copying;
pub use copying::{CopySource, CopyState};

/// The time of a script, unless changed: as in Redis, where other clients get errors after it.
const DEFAULT_SCRIPT_LIMIT_MS: u64 = 5_000;

/// The client memory unless configured: half of the capacity, so that one number bounds both together, and at most a
/// quarter of the memory that there is.
fn default_client_memory(max_memory: u64) -> u64 {
    /// Enough for a few connections with large values. A mailbox alone may have 32 MiB.
    const LEAST_BYTES: u64 = 64 << 20;
    (max_memory / 2).min(crate::system::available_bytes() / 4).max(LEAST_BYTES)
}

/// The state of a server, without its sockets and threads.
pub(crate) struct ServerState {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) stats: Arc<Stats>,
    pub(crate) clients: Arc<Clients>,
    /// One for each thread.
    pub(crate) inboxes: Arc<[Inbox<Message>]>,
    pub(crate) unauthenticated_limits: Limits,
    /// A random id of this run of the server: 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// The bound TCP port; 0 without TCP.
    pub(crate) port: u16,
    /// The bound port for TLS; 0 without TLS.
    pub(crate) tls_port: u16,
    /// An address at which others on the network can connect.
    pub(crate) exposed: Option<SocketAddr>,
    /// Set at the start of the shutdown: a connection without pending replies closes.
    pub(crate) draining: AtomicBool,
    /// Whether the time for that is over: scripts that still run are ended.
    pub(crate) drain_is_over: AtomicBool,
    pub(crate) pause: Pause,
    pub(crate) copying: Copying,
    /// Whether the log says that elements which somebody waits for may be evicted.
    has_warned_of_queues: AtomicBool,
    pub(crate) monitors: Arc<Monitors>,
    pub(crate) slow_log: SlowLog,
    pub(crate) users: Users,
    /// The values that commands build.
    pub(crate) building: Builds,
    /// What handshakes on the TLS port need.
    #[cfg(feature = "tls")]
    pub(crate) certificate: Option<larder_tls::Certificate>,
    #[cfg(feature = "scripts")]
    pub(crate) scripts: ScriptCache,
    /// Milliseconds after which a script ends; 0 = never.
    script_limit_ms: AtomicU64,
    max_clients: AtomicUsize,
    max_bulk_bytes: AtomicUsize,
    max_request_bytes: AtomicUsize,
    max_reply_bytes: AtomicU64,
    /// Seconds without a request after which a connection closes; 0 = never.
    idle_timeout_secs: AtomicU64,
    /// The password of the default user as `CONFIG GET requirepass` tells it.
    password: RwLock<Option<Password>>,
}

impl ServerState {
    pub(crate) fn new(config: Config, store: Store, stats: Arc<Stats>) -> Self {
        let inboxes: Arc<[Inbox<Message>]> = stats.threads.iter().map(|_| Inbox::default()).collect();
        let password = config.requirepass.clone().filter(|password| !password.is_empty());
        let users = Users::new(stats.specs, password.as_ref().map(Password::text), config.aclfile.clone());
        let state = ServerState {
            max_clients: AtomicUsize::new(config.maxclients),
            max_bulk_bytes: AtomicUsize::new(Limits::default().max_bulk_bytes),
            max_request_bytes: AtomicUsize::new(0),
            max_reply_bytes: AtomicU64::new(0),
            idle_timeout_secs: AtomicU64::new(0),
            password: RwLock::new(password),
            exposed: config.listen.filter(|address| !address.ip().is_loopback()),
            config,
            store,
            clients: Arc::new(Clients::new(0, Arc::clone(&inboxes))),
            inboxes,
            stats,
            unauthenticated_limits: Limits::unauthenticated(),
            run_id: run_id(),
            port: 0,
            tls_port: 0,
            draining: AtomicBool::new(false),
            drain_is_over: AtomicBool::new(false),
            pause: Pause::new(),
            copying: Copying::default(),
            has_warned_of_queues: AtomicBool::new(false),
            monitors: Arc::default(),
            slow_log: SlowLog::default(),
            users,
            building: Builds::default(),
            #[cfg(feature = "tls")]
            certificate: None,
            #[cfg(feature = "scripts")]
            scripts: ScriptCache::default(),
            script_limit_ms: AtomicU64::new(DEFAULT_SCRIPT_LIMIT_MS),
        };
        state.limit_clients();
        state
    }

    /// Changes the capacity, and with it the memory of clients. Evicts nothing: see [`Store::resize`].
    pub(crate) fn resize(&self, bytes: u64) {
        self.store.resize(bytes);
        self.limit_clients();
    }

    /// Sets the limits of what clients may buffer. A request or a reply that exceeds what all clients have together is
    /// refused before memory is allocated for it.
    fn limit_clients(&self) {
        let default = || default_client_memory(self.store.max_memory());
        let bytes = self.config.max_client_memory.map_or_else(default, |size| size.0);
        self.clients.set_max_buffered_bytes(bytes);
        let request = Limits::default().max_request_bytes;
        let request = usize::try_from(bytes).map_or(request, |bytes| bytes.min(request));
        self.max_request_bytes.store(request, Ordering::Relaxed);
        self.max_reply_bytes.store(self.config.max_reply_bytes.0.min(bytes), Ordering::Relaxed);
    }

    /// Sets the size of a connection's buffers. Closes the connection with the largest buffers if all together exceed the
    /// limit.
    pub(crate) fn set_buffered_bytes(&self, client: &Client, bytes: u64) {
        self.clients.set_buffered_bytes(client, bytes);
    }

    /// Whether others on the network can connect: the default user must need a password then.
    pub(crate) fn is_exposed(&self) -> bool {
        self.exposed.is_some()
    }

    /// The password that clients must send; empty if there is none.
    pub(crate) fn password_text(&self) -> String {
        self.password.read().as_ref().map_or_else(String::new, |password| password.text().to_owned())
    }

    /// Sets the password of the default user; an empty one removes it. Connections that are authenticated stay so.
    pub(crate) fn set_password(&self, password: Password) {
        let password = Some(password).filter(|password| !password.is_empty());
        self.users.set_default_password(password.as_ref().map(Password::text));
        *self.password.write() = password;
    }

    /// Bytes of one argument, and of a string.
    pub(crate) fn max_bulk_bytes(&self) -> usize {
        self.max_bulk_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_bulk_bytes(&self, bytes: usize) {
        self.max_bulk_bytes.store(bytes, Ordering::Relaxed);
    }

    /// Bytes of one request.
    pub(crate) fn max_request_bytes(&self) -> usize {
        self.max_request_bytes.load(Ordering::Relaxed)
    }

    /// Bytes of unread replies of one connection.
    pub(crate) fn max_reply_bytes(&self) -> u64 {
        self.max_reply_bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_clients(&self, n: usize) {
        self.max_clients.store(n, Ordering::Relaxed);
    }

    /// Time without a request or a reply after which a connection closes, unless it is a subscriber.
    pub(crate) fn idle_timeout(&self) -> Option<Duration> {
        Some(Duration::from_secs(self.idle_timeout_secs.load(Ordering::Relaxed)))
            .filter(|time| !time.is_zero())
    }

    /// Sets the seconds without a request after which a connection closes; 0 = never.
    pub(crate) fn set_idle_timeout(&self, secs: u64) {
        self.idle_timeout_secs.store(secs, Ordering::Relaxed);
        // The threads set their timers.
        self.inboxes.iter().for_each(|inbox| inbox.send(Message::Resume));
    }

    /// Sets from how many microseconds on a command is logged as slow; a negative number logs nothing. Commands that may
    /// take that long are all measured from now on.
    pub(crate) fn set_slow_log_threshold(&self, micros: i64) {
        self.slow_log.set_threshold_micros(micros);
        self.stats.measure_always(|spec| self.slow_log.may_log(spec));
    }

    /// Warns, once, if a client waits for elements that may be evicted before it takes them.
    pub(crate) fn warn_of_evicted_queues(&self) {
        let policy = self.store.policy();
        if policy != MemoryPolicy::Noeviction && !self.has_warned_of_queues.swap(true, Ordering::Relaxed) {
            tracing::warn!(
                %policy,
                "a client waits for elements of a key, as a worker does for jobs: this policy may evict jobs that nobody has \
                 taken yet; set maxmemory-policy to noeviction"
            );
        }
    }

    /// The number of scripts that are kept, and their bytes.
    pub(crate) fn script_counts(&self) -> (usize, usize) {
        #[cfg(feature = "scripts")]
        let counts = self.scripts.counts();
        #[cfg(not(feature = "scripts"))]
        let counts = (0, 0);
        counts
    }

    /// Milliseconds after which a script ends; 0 = never.
    pub(crate) fn script_limit_ms(&self) -> u64 {
        self.script_limit_ms.load(Ordering::Relaxed)
    }

    pub(crate) fn set_script_limit_ms(&self, ms: u64) {
        self.script_limit_ms.store(ms, Ordering::Relaxed);
    }

    /// Ends the pause of commands.
    pub(crate) fn end_pause(&self) {
        self.pause.end();
        self.inboxes.iter().for_each(|inbox| inbox.send(Message::Resume));
    }

    /// The Redis that is being copied.
    pub(crate) fn copied_source(&self) -> Option<&CopySource> {
        self.copying.source().filter(|_| self.store.is_copying())
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

fn run_id() -> String {
    // The keys of the hasher come from the random source of the system.
    let random = || RandomState::new().hash_one(Instant::now());
    format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32)
}
