//! The Redis tier: requests over a few connections. No other module uses the client library.
//!
//! ```text
//! lookup, read_heads, compare_and_set    a few connections, by the hash of the key
//! mutate, advance_ledger, …              one connection: mutations of a key keep their order
//! subscribe                              its own, for pushes
//! ```
//!
//! A connection that the server closes while it is idle is replaced before it is used. Only reads and removals are sent
//! twice, since a command whose connection broke may have been executed. A compare-and-set needs no order, because it
//! compares.

mod address;
mod batches;
mod compare_and_set;
mod connect;
mod credentials;
mod exchange;
mod ledger;
mod lookup;
mod mutate;
mod pulse;
mod requirements;
mod scripts;
mod sentinel;
mod subscribe;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod values;

use crate::tier::{
    Announcement, CompareAndSet, HeadsReply, LedgerAdvance, LedgerAdvanced, LedgerQuery, Lookup, LookupReply,
    Mutation, MutationReply, PushHandler, ServerId, Stamps, SubscribeOptions, Subscription, Tier, TierError,
    TierFuture,
};
use address::Address;
use connect::Connector;
use redis::{Pipeline, Value};
use scripts::Scripts;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use twox_hash::XxHash3_64;

pub(crate) use credentials::CredentialsSource;
pub use credentials::RedisCredentials;
#[cfg(feature = "tls")]
pub use tls::RedisTls;

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(250);
/// Shorter than the idle timeouts of the load balancers and firewalls of the large clouds, 4 to 10 minutes.
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(60);

/// One connection saturates before one core does. More than a few only cost wake-ups.
const CONNECTIONS: usize = 4;

/// How a server is reached and used.
#[derive(Debug)]
pub(crate) struct RedisOptions {
    /// The time limit for each reply.
    pub(crate) timeout: Duration,
    /// The time limit for opening a connection; `timeout` if there is none.
    pub(crate) connect_timeout: Option<Duration>,
    /// How long a connection over TCP is idle before it is probed, and the time between probes.
    pub(crate) keepalive: Duration,
    /// The number of connections for lookups.
    pub(crate) connections: usize,
    pub(crate) credentials: CredentialsSource,
    /// Whether a majority of the sentinels must confirm the primary.
    pub(crate) sentinel_fence: bool,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<RedisTls>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        RedisOptions {
            timeout: DEFAULT_TIMEOUT,
            connect_timeout: None,
            keepalive: DEFAULT_KEEPALIVE,
            connections: CONNECTIONS,
            credentials: CredentialsSource::default(),
            sentinel_fence: true,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

pub(crate) struct RedisTier {
    address: Arc<Address>,
    /// For lookups and compare-and-sets, by the hash of the key.
    readers: Box<[Connector]>,
    /// For mutations.
    writer: Connector,
    scripts: Scripts,
    /// Whether the accepted server has `SET` with `NX` and `GET`, as far as is known.
    leases_by_set: AtomicBool,
}

impl RedisTier {
    pub(crate) fn new(url: &str, options: &RedisOptions) -> Result<Self, String> {
        Ok(RedisTier {
            address: Arc::new(Address::new(url, options)?),
            readers: (0..options.connections).map(|_| Connector::default()).collect(),
            writer: Connector::default(),
            scripts: Scripts::new(),
            leases_by_set: AtomicBool::new(true),
        })
    }

    fn reader(&self, key: &[u8]) -> &Connector {
        &self.readers[XxHash3_64::oneshot(key) as usize % self.readers.len()]
    }

    /// An announced change, which counts once the server is confirmed as the primary: one that sentinels have replaced may
    /// not know it yet.
    async fn confirmed<T>(&self, change: impl Future<Output = Result<T, TierError>>) -> Result<T, TierError> {
        let done = change.await?;
        self.address.confirm_accepted().await?;
        Ok(done)
    }

    /// Sends a pipeline whose first command calls a script by its digest. If the server does not have the script,
    /// sends the pipeline with its text.
    async fn send_script(
        &self,
        connector: &Connector,
        build: impl Fn(bool) -> Pipeline,
    ) -> Result<Vec<Value>, TierError> {
        let answers = connector.send(&self.address, &build(false)).await?;
        match answers.first() {
            Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {
                connector.send(&self.address, &build(true)).await
            }
            _ => Ok(answers),
        }
    }
}

impl Tier for RedisTier {
    fn database_name(&self) -> String {
        self.address.database().to_string()
    }

    fn lookup<'a>(&'a self, lookup: &'a Lookup<'a>) -> TierFuture<'a, LookupReply> {
        Box::pin(self.lookup_in_batches(lookup))
    }

    fn read_heads<'a>(
        &'a self,
        keys: &'a [Vec<u8>],
        ledger: Option<&'a LedgerQuery<'a>>,
    ) -> TierFuture<'a, HeadsReply> {
        Box::pin(self.read_heads_in_batches(keys, ledger))
    }

    fn compare_and_set<'a>(
        &'a self,
        requests: &'a [CompareAndSet],
        announce: Option<&'a Announcement>,
    ) -> TierFuture<'a, Vec<bool>> {
        match announce {
            Some(_) => Box::pin(self.confirmed(self.do_compare_and_set(requests, announce))),
            None => Box::pin(self.compare_and_set_in_batches(requests)),
        }
    }

    fn mutate<'a>(&'a self, mutation: &'a Mutation<'a>) -> TierFuture<'a, MutationReply> {
        match mutation.announce {
            Some(_) => Box::pin(self.confirmed(self.do_mutate(mutation))),
            None => Box::pin(self.do_mutate(mutation)),
        }
    }

    fn time(&self) -> TierFuture<'_, u64> {
        Box::pin(self.server_micros(&self.readers[0]))
    }

    fn read_stamps<'a>(&'a self, query: &'a LedgerQuery<'a>) -> TierFuture<'a, Stamps> {
        Box::pin(self.do_read_stamps(query))
    }

    fn advance_ledger<'a>(&'a self, advance: &'a LedgerAdvance<'a>) -> TierFuture<'a, LedgerAdvanced> {
        Box::pin(self.confirmed(self.do_advance(advance)))
    }

    fn increment<'a>(&'a self, key: &'a [u8], by: i64, ttl: Duration) -> TierFuture<'a, i64> {
        Box::pin(self.do_increment(key, by, ttl))
    }

    fn scan<'a>(&'a self, cursor: u64, glob: &'a [u8]) -> TierFuture<'a, (u64, Vec<Vec<u8>>)> {
        Box::pin(self.do_scan(cursor, glob))
    }

    fn subscribe<'a>(
        &'a self,
        options: &'a SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> TierFuture<'a, Box<dyn Subscription>> {
        Box::pin(self.do_subscribe(options, handler))
    }

    fn accepted(&self) -> Option<ServerId> {
        self.address.accepted()
    }

    fn accept(&self, server: &ServerId) {
        self.address.accept(server);
        // Another server may be of another version.
        self.leases_by_set.store(true, Ordering::Relaxed);
        self.readers.iter().chain([&self.writer]).for_each(|connector| connector.keep_only(server));
    }
}

impl std::fmt::Debug for RedisTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisTier").finish_non_exhaustive()
    }
}
