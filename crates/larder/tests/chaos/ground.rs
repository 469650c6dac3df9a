//! What the nodes of a run stand on: one server, a primary with a replica and sentinels, or a cluster, whose network may be
//! divided.

use crate::fault::Fault;
use crate::partition::Divided;
use crate::promise::rng::Rng;
use larder_testkit::{Cluster, FlakyProxy, Mover, RedisServer, Sentinels};
use std::thread::sleep;
use std::time::Duration;
use tokio::runtime::Runtime;

pub(crate) enum Ground {
    /// One server. All nodes but the first reach it through a proxy.
    Server { server: RedisServer, proxies: Vec<FlakyProxy> },
    /// The servers that three sentinels watch.
    Sentinels(Sentinels),
    /// Three primaries, each with a replica.
    Cluster(Cluster),
    /// The same in a network that is divided again and again.
    Divided(Divided),
}

impl Ground {
    /// One server, which `nodes` nodes use.
    pub(crate) fn of(server: RedisServer, nodes: usize, seed: u64) -> Self {
        let proxies = (1..nodes as u64).map(|node| FlakyProxy::before(&server, seed.wrapping_add(node)));
        let proxies = proxies.collect();
        Ground::Server { server, proxies }
    }

    /// The address for a node.
    pub(crate) fn url(&self, node: usize) -> String {
        match self {
            Ground::Server { server, proxies } => {
                node.checked_sub(1).map_or_else(|| server.url(), |proxy| proxies[proxy].url())
            }
            Ground::Sentinels(sentinels) => sentinels.url(),
            Ground::Cluster(cluster) | Ground::Divided(Divided { cluster, .. }) => cluster.url(),
        }
    }

    /// Whether it is a cluster.
    pub(crate) fn is_cluster(&self) -> bool {
        matches!(self, Ground::Cluster(_) | Ground::Divided(_))
    }

    /// The one server.
    ///
    /// # Panics
    /// If there are several.
    pub(crate) fn server(&mut self) -> &mut RedisServer {
        match self {
            Ground::Server { server, .. } => server,
            _ => panic!("there are several servers"),
        }
    }

    /// Sends a command to the primary, to each of several, and returns the replies.
    pub(crate) fn commands(&mut self, line: &str) -> Vec<String> {
        match self {
            Ground::Server { server, .. } => vec![server.command(line)],
            Ground::Sentinels(sentinels) => vec![sentinels.primary().command(line)],
            Ground::Cluster(cluster) | Ground::Divided(Divided { cluster, .. }) => {
                let primaries = cluster.servers().filter(|server| cluster.is_primary(*server));
                primaries.map(|server| cluster.command(server, line)).collect()
            }
        }
    }

    /// Makes a replica the primary, and lets the former one go on for a while if it does not know. Returns whether there is
    /// another primary.
    pub(crate) fn fail_over(&mut self, rng: &Rng, lasting: Duration) -> bool {
        match self {
            Ground::Server { .. } | Ground::Divided(_) => panic!("it has another kind of fault"),
            Ground::Sentinels(sentinels) => sentinels.fail_over(lasting),
            Ground::Cluster(cluster) => {
                let primary = any_primary(cluster, rng);
                cluster.fail_over(cluster.replica_of(primary));
                cluster.await_ok();
                true
            }
        }
    }

    /// Kills a primary, and starts it again once a replica has taken its place.
    pub(crate) fn kill_primary(&mut self, rng: &Rng) {
        match self {
            Ground::Server { .. } | Ground::Divided(_) => panic!("it has another kind of fault"),
            Ground::Sentinels(sentinels) => sentinels.kill_primary(),
            Ground::Cluster(cluster) => {
                let primary = any_primary(cluster, rng);
                let slot = cluster.slot_of_range(primary);
                cluster.kill(primary);
                cluster.next_owner(slot, primary);
                cluster.restart(primary);
                cluster.await_ok();
            }
        }
    }

    /// Stops a primary until a replica has taken its place, and lets it go on.
    pub(crate) fn stop_primary(&mut self, rng: &Rng, lasting: Duration) {
        match self {
            Ground::Server { .. } | Ground::Divided(_) => panic!("it has another kind of fault"),
            Ground::Sentinels(sentinels) => sentinels.stop_primary(lasting),
            Ground::Cluster(cluster) => {
                let primary = any_primary(cluster, rng);
                let slot = cluster.slot_of_range(primary);
                cluster.pause(primary);
                cluster.next_owner(slot, primary);
                sleep(lasting);
                cluster.resume(primary);
                cluster.await_ok();
            }
        }
    }

    /// What moves the slots of a cluster; `None` if there are none.
    pub(crate) fn mover(&self) -> Option<Mover> {
        match self {
            Ground::Cluster(cluster) => Some(cluster.mover()),
            Ground::Server { .. } | Ground::Sentinels(_) | Ground::Divided(_) => None,
        }
    }

    /// The runtimes on which nodes run.
    pub(crate) fn runtimes(&self) -> Vec<Runtime> {
        let usual = || tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        match self {
            Ground::Divided(divided) => divided.runtimes(),
            _ => vec![usual().expect("a runtime with two threads")],
        }
    }

    pub(crate) fn proxies(&self) -> &[FlakyProxy] {
        match self {
            Ground::Server { proxies, .. } => proxies,
            Ground::Sentinels(_) | Ground::Cluster(_) | Ground::Divided(_) => &[],
        }
    }

    /// The sentinels.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn sentinels(&mut self) -> &mut Sentinels {
        match self {
            Ground::Sentinels(sentinels) => sentinels,
            _ => panic!("there are no sentinels"),
        }
    }

    /// Whether this fault can happen here.
    pub(crate) fn can_have(&self, fault: Fault) -> bool {
        match self {
            Ground::Server { .. } => !fault.needs_several_servers(),
            Ground::Sentinels(_) => {
                fault.is_failover() || fault == Fault::SentinelsStopped || fault.is_of_any_server()
            }
            Ground::Cluster(_) => fault.is_failover() || fault.is_of_any_server(),
            Ground::Divided(_) => fault == Fault::Partitioned,
        }
    }
}

/// One that a replica can replace.
fn any_primary(cluster: &Cluster, rng: &Rng) -> usize {
    let has_replica =
        |server: &usize| cluster.is_primary(*server) && !cluster.replicas_of(*server).is_empty();
    let primaries: Vec<_> = cluster.servers().filter(has_replica).collect();
    primaries[rng.below(0..primaries.len() as u64) as usize]
}
