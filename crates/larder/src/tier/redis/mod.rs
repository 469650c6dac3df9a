//! The Redis tier: requests over a few connections. No other module uses the client library.
//!
//! ```text
//! lookup, read_heads, compare_and_set    a few connections, by the hash of the key
//! mutate, advance_ledger, …              one connection: mutations of a key keep their order
//! subscribe                              its own, for pushes
//! ```
//! Behind them is one server, or a [`cluster`], of which each server has these connections: [`servers`] sends a request
//! to the one or the other.
//!
//! A connection that the server closes while it is idle is replaced before it is used. Only reads and removals are sent
//! twice, since a command whose connection broke may have been executed. A compare-and-set needs no order, because it
//! compares.

mod address;
mod batches;
mod cluster;
mod compare_and_set;
mod confirmer;
mod connect;
mod credentials;
mod exchange;
mod identity;
mod ledger;
mod lookup;
mod mutate;
pub(crate) mod network;
mod pulse;
mod replicas;
mod requirements;
mod scan;
mod scripts;
mod sentinel;
mod server;
mod servers;
mod subscribe;
#[cfg(feature = "tls")]
mod tls;
mod url;
mod values;

use crate::tier::{
    Announcement, BATCH, CompareAndSet, HeadsReply, LedgerAdvance, LedgerAdvanced, LedgerQuery, Lookup,
    LookupReply, Mutation, MutationReply, Primary, PushHandler, Scan, ServerId, ServerTime, Stamps,
    SubscribeOptions, Subscription, Tier, TierFuture,
};
use address::{Address, Mode, with_certificates};
use cluster::Cluster;
use network::Network;
use scan::ServerScan;
use scripts::Scripts;
use sentinel::Sentinels;
use server::Server;
use servers::Servers;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use url::Target;

pub use credentials::RedisCredentials;
pub(crate) use credentials::{CredentialsSource, Password};
#[cfg(feature = "tls")]
pub use tls::RedisTls;

const DEFAULT_TIMEOUT: Duration = Duration::from_millis(250);
/// Shorter than the idle timeouts of the load balancers and firewalls of the large clouds, 4 to 10 minutes.
const DEFAULT_KEEPALIVE: Duration = Duration::from_secs(60);

/// One connection saturates before one core does. More than a few only cost wake-ups.
const CONNECTIONS: usize = 4;

/// How a server is reached and used.
#[derive(Clone, Debug)]
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
    /// How many replicas must acknowledge heartbeats and mutations.
    pub(crate) replica_fence: u32,
    /// In place of that of the machine.
    pub(crate) network: Option<Arc<dyn Network>>,
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
            replica_fence: 0,
            network: None,
            #[cfg(feature = "tls")]
            tls: None,
        }
    }
}

pub(crate) struct RedisTier {
    servers: Servers,
    database: i64,
    scripts: Scripts,
    /// Whether the accepted servers have `SET` with `NX` and `GET`, as far as is known.
    leases_by_set: AtomicBool,
}

impl RedisTier {
    pub(crate) fn new(url: &str, options: &RedisOptions) -> Result<Self, String> {
        let one = |info, sentinels| {
            let address = Address::new(info, sentinels, Mode::Single, options)?;
            Ok::<_, String>(Servers::One(Server::new(address, options)))
        };
        let target = url::parse(url)?;
        let database = target.database();
        let servers = match target {
            Target::Server(info) => one(info, None)?,
            Target::Sentinels { name, each, server } => {
                let each = each.into_iter().map(|info| with_certificates(info, options));
                let each = each.collect::<Result<_, _>>()?;
                one(server, Some(Sentinels::new(name, each, options.timeout, options.sentinel_fence)))?
            }
            Target::Cluster(seeds) => Servers::Cluster(Cluster::new(seeds, options)?),
        };
        Ok(RedisTier { servers, database, scripts: Scripts::new(), leases_by_set: AtomicBool::new(true) })
    }

    /// The most keys of one call of a script: those of a cluster have different servers.
    fn keys_at_once(&self) -> usize {
        match self.servers {
            Servers::One(_) => BATCH,
            Servers::Cluster(_) => 1,
        }
    }
}

impl Tier for RedisTier {
    fn database_name(&self) -> String {
        self.database.to_string()
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
            Some(_) => Box::pin(self.do_compare_and_set(requests, announce)),
            None => Box::pin(self.compare_and_set_in_batches(requests)),
        }
    }

    fn mutate<'a>(&'a self, mutation: &'a Mutation<'a>) -> TierFuture<'a, MutationReply> {
        Box::pin(self.do_mutate(mutation))
    }

    fn time(&self) -> TierFuture<'_, ServerTime> {
        Box::pin(self.servers.time())
    }

    fn read_stamps<'a>(&'a self, query: &'a LedgerQuery<'a>) -> TierFuture<'a, Stamps> {
        Box::pin(self.do_read_stamps(query))
    }

    fn advance_ledger<'a>(&'a self, advance: &'a LedgerAdvance<'a>) -> TierFuture<'a, LedgerAdvanced> {
        Box::pin(self.do_advance(advance))
    }

    fn increment<'a>(&'a self, key: &'a [u8], by: i64, ttl: Duration) -> TierFuture<'a, i64> {
        Box::pin(self.do_increment(key, by, ttl))
    }

    fn scan<'a>(&'a self, glob: &'a [u8]) -> Box<dyn Scan + 'a> {
        match &self.servers {
            Servers::One(server) => Box::new(ServerScan::new(server, glob)),
            Servers::Cluster(cluster) => cluster.scan(glob),
        }
    }

    fn subscribe<'a>(
        &'a self,
        options: &'a SubscribeOptions,
        handler: Arc<dyn PushHandler>,
    ) -> TierFuture<'a, Box<dyn Subscription>> {
        Box::pin(self.servers.subscribe(options, handler))
    }

    fn accepted(&self) -> Option<ServerId> {
        self.servers.accepted()
    }

    fn primaries(&self) -> Vec<Primary> {
        match &self.servers {
            Servers::One(_) => Vec::new(),
            Servers::Cluster(cluster) => cluster.primaries(),
        }
    }

    fn close(&self) {
        self.servers.reject_all();
    }

    fn accept(&self, server: &ServerId) {
        self.servers.accept(server);
        // Another server may be of another version.
        self.leases_by_set.store(true, Ordering::Relaxed);
    }
}

impl std::fmt::Debug for RedisTier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisTier").finish_non_exhaustive()
    }
}
