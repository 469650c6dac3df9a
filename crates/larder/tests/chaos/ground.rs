//! What the nodes of a run stand on: one server, or a primary with a replica and sentinels.

use crate::fault::Fault;
use larder_testkit::{FlakyProxy, RedisServer, Sentinels};

pub(crate) enum Ground {
    /// One server. All nodes but the first reach it through a proxy.
    Server { server: RedisServer, proxies: Vec<FlakyProxy> },
    /// The servers that three sentinels watch.
    Sentinels(Sentinels),
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
        }
    }

    /// The server that is the primary now.
    pub(crate) fn server(&mut self) -> &mut RedisServer {
        match self {
            Ground::Server { server, .. } => server,
            Ground::Sentinels(sentinels) => sentinels.primary(),
        }
    }

    pub(crate) fn proxies(&self) -> &[FlakyProxy] {
        match self {
            Ground::Server { proxies, .. } => proxies,
            Ground::Sentinels(_) => &[],
        }
    }

    /// The sentinels.
    ///
    /// # Panics
    /// If there are none.
    pub(crate) fn sentinels(&mut self) -> &mut Sentinels {
        match self {
            Ground::Server { .. } => panic!("there are no sentinels"),
            Ground::Sentinels(sentinels) => sentinels,
        }
    }

    /// Whether this fault can happen here: `larder server` has no snapshots.
    pub(crate) fn can_have(&self, fault: Fault) -> bool {
        match self {
            Ground::Server { server, .. } => {
                !fault.is_of_sentinels() && (fault != Fault::Restored || server.is_redis())
            }
            Ground::Sentinels(_) => fault.is_of_sentinels() || fault.is_of_any_server(),
        }
    }
}
