//! What all connections of a server share.

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Instant;

use larder_resp::Limits;

use crate::clients::Clients;
use crate::config::{Config, Password};
use crate::db::Store;
use crate::gate::Gate;
use crate::stats::Stats;

/// One server's state, apart from its sockets and threads.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) store: Store,
    pub(crate) stats: Arc<Stats>,
    pub(crate) clients: Clients,
    pub(crate) gate: Gate,
    pub(crate) limits: Limits,
    pub(crate) unauthenticated_limits: Limits,
    /// What tells this run of the server from any other, in 40 hexadecimal digits.
    pub(crate) run_id: String,
    /// The port that was bound, 0 without TCP.
    pub(crate) port: u16,
    /// Set once shutdown has begun: a connection that owes no reply ends.
    pub(crate) draining: AtomicBool,
    max_clients: AtomicUsize,
}

impl Shared {
    pub(crate) fn new(config: Config, store: Store, stats: Arc<Stats>, port: u16) -> Self {
        let quarter = || crate::system::available_bytes() / 4;
        let max_client_memory = config.max_client_memory.map_or_else(quarter, |size| size.0);
        Shared {
            max_clients: AtomicUsize::new(config.maxclients),
            config,
            store,
            gate: Gate::new(stats.threads.len()),
            stats,
            clients: Clients::new(max_client_memory),
            limits: Limits::default(),
            unauthenticated_limits: Limits::unauthenticated(),
            run_id: run_id(),
            port,
            draining: AtomicBool::new(false),
        }
    }

    /// The password that clients have to send, if any.
    pub(crate) fn password(&self) -> Option<&Password> {
        self.config.requirepass.as_ref().filter(|password| !password.is_empty())
    }

    pub(crate) fn max_clients(&self) -> usize {
        self.max_clients.load(Ordering::Relaxed)
    }

    pub(crate) fn set_max_clients(&self, n: usize) {
        self.max_clients.store(n, Ordering::Relaxed);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Acquire)
    }
}

fn run_id() -> String {
    // A hasher's keys come from the system's randomness.
    let random = || RandomState::new().hash_one(Instant::now());
    format!("{:016x}{:016x}{:08x}", random(), random(), random() as u32)
}
