//! How a cluster begins, and how another primary joins it.
//!
//! Nothing is negotiated: each server finds in its file what CLUSTER MEET and ADDSLOTS would have told it. But a server that
//! starts as a primary refuses requests for two seconds, because it may have lost its slots while it was down. A replica does
//! not wait. So each primary starts as the replica of a placeholder, an absent server that owns its slots, and takes over from
//! it. Then all forget the placeholders.

use super::file::{Identity, Plan};
use super::{Cluster, Server};
use crate::network::{Network, NetworkPart};
use crate::program::{needs, program};
use crate::redis::has_tls;
use crate::selected::may_form_a_cluster;
use crate::valkey::valkey_server;
use crate::wait::Deadline;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The file of a server with what it knows of the cluster.
const FILE: &str = "nodes.conf";
/// What every server has: it is down after a second, and replicas wait neither for others nor for their disk.
const OPTIONS: &str = "--cluster-node-timeout 1000 --repl-diskless-sync-delay 0 --repl-diskless-load on-empty-db \
                       --enable-debug-command yes";
/// For servers that have no password and are reached by others than their own machine.
const UNPROTECTED: [&str; 2] = ["--protected-mode", "no"];
/// For servers that reach each other over TLS.
const TLS: &str = "--tls-cluster yes --tls-replication yes";
/// How long a server that starts as a replica may take to say that the cluster works. Without that it works later.
const READINESS_LIMIT: Duration = Duration::from_millis(500);

/// How the servers of a cluster are started.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    program: PathBuf,
    /// Further options of each.
    options: Vec<String>,
    /// The option that has the port for clients.
    port_option: &'static str,
    /// The parts of a network for the first server and for all others.
    parts: Option<[Arc<NetworkPart>; 2]>,
}

impl Setup {
    fn new(program: PathBuf) -> Self {
        Setup { program, options: Vec::new(), port_option: "--port", parts: None }
    }
}

impl Cluster {
    /// Starts three primaries of redis-server, each with a replica that is in sync. `None` and a note if it is not installed,
    /// or another server is selected.
    ///
    /// # Panics
    /// If they do not start, or do not form a cluster.
    pub fn start() -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&Setup::new(program("redis-server")?), 3, 3))
    }

    /// `None` and a note if another server than redis-server is selected for this test.
    ///
    /// # Panics
    /// If the test is not listed as one that stays on redis-server.
    pub fn may_start() -> Option<()> {
        may_form_a_cluster()
    }

    /// As [`Cluster::start`], in a network: the first server, which is a primary, is in its far part, and all others are in the near one.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_in(network: &Network) -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&Self::setup_in(program("redis-server")?, network), 3, 3))
    }

    /// As [`Cluster::start_in`], of the valkey-server that `cargo xtask install` brings.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_valkey_in(network: &Network) -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&Self::setup_in(valkey_server()?, network), 3, 3))
    }

    fn setup_in(program: PathBuf, network: &Network) -> Setup {
        let parts = [network.far(), network.near()].map(Arc::clone);
        Setup { parts: Some(parts), options: UNPROTECTED.map(str::to_owned).into(), ..Setup::new(program) }
    }

    /// The same with so many primaries and no replicas.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_primaries(count: usize) -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&Setup::new(program("redis-server")?), count, 0))
    }

    /// The same with so many primaries and no replicas, which clients and the others reach over TLS only. The options have
    /// their certificates.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_primaries_with_tls(count: usize, options: &[&str]) -> Option<Self> {
        may_form_a_cluster()?;
        let program = program("redis-server")?;
        needs("a redis-server with TLS", has_tls(&program))?;
        let options = TLS.split_whitespace().chain(options.iter().copied()).map(str::to_owned).collect();
        Some(Self::start_on(&Setup { options, port_option: "--tls-port", ..Setup::new(program) }, count, 0))
    }

    /// As [`Cluster::start`], of the valkey-server that `cargo xtask install` brings.
    ///
    /// # Panics
    /// As there.
    pub fn start_valkey() -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&Setup::new(valkey_server()?), 3, 3))
    }

    /// As [`Cluster::start_primaries`], of the same valkey-server.
    ///
    /// # Panics
    /// As there.
    pub fn start_valkey_primaries(count: usize) -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&Setup::new(valkey_server()?), count, 0))
    }

    fn start_on(setup: &Setup, primaries: usize, replicas: usize) -> Self {
        // Another process may take a port before its server does.
        let mut attempts = (0..10).map(|_| Self::attempt(setup, primaries, replicas));
        let cluster = attempts.find_map(Result::ok).expect("the servers start on free ports");
        cluster.await_ok();
        cluster
    }

    fn attempt(setup: &Setup, primaries: usize, replicas: usize) -> io::Result<Self> {
        let mut plan = Plan::new(primaries, replicas, has_shards(&setup.program));
        if let Some([first, others]) = &setup.parts {
            let hosts = std::iter::once(first.host()).chain(std::iter::repeat(others.host()));
            let servers = plan.primaries.iter_mut().chain(&mut plan.replicas);
            servers.zip(hosts).for_each(|(server, host)| server.host = host);
        }
        let files: Vec<_> = (0..primaries).map(|own| plan.of_primary(own)).collect();
        let files_of_replicas: Vec<_> = (0..replicas).map(|own| plan.of_replica(own)).collect();
        let (setup, deadline) = (setup.clone(), Deadline::start());
        let mut cluster = Cluster { setup, servers: Vec::new(), _deadline: deadline };
        for (identity, file) in plan.primaries.into_iter().zip(files) {
            let server = cluster.run(identity, &file)?;
            cluster.take_over(server);
        }
        cluster.forget(&plan.placeholders);
        // Only now: replicas would add the placeholders that they hear of.
        for (identity, file) in plan.replicas.into_iter().zip(files_of_replicas) {
            cluster.run(identity, &file)?;
        }
        Ok(cluster)
    }

    /// Adds a primary without slots, and returns its number.
    ///
    /// # Panics
    /// If it does not start, or does not join.
    pub fn add_primary(&mut self) -> usize {
        let known = self.answering().next().expect("a server answers");
        let mut attempts = (0..10).map(|_| {
            let mut plan = Plan::new(1, 0, has_shards(&self.setup.program));
            self.execute(known, "CLUSTER SAVECONFIG");
            let file = self.servers[known].process.folder().join(FILE);
            let file = plan.of_joining(&std::fs::read_to_string(file)?);
            Ok::<_, io::Error>((self.run(plan.primaries.remove(0), &file)?, plan.placeholders))
        });
        let (added, placeholders) = attempts.find_map(Result::ok).expect("the server starts on a free port");
        self.take_over(added);
        let Identity { host, port, bus_port, .. } = self.servers[added].identity;
        self.execute(known, &format!("CLUSTER MEET {host} {port} {bus_port}"));
        self.execute(added, &format!("CLUSTER FORGET {}", placeholders[0].id));
        self.await_ok();
        added
    }

    /// Starts a server with this content of its file, and returns its number.
    fn run(&mut self, identity: Identity, file: &str) -> io::Result<usize> {
        let Setup { program, options, port_option, parts } = &self.setup;
        let [port, bus_port] = [identity.port, identity.bus_port].map(|port| port.to_string());
        let own = [file, port_option, &port, "--cluster-port", &bus_port, "--bind", identity.host];
        let options: Vec<_> = own.into_iter().chain(options.iter().map(String::as_str)).collect();
        let part = parts.as_ref().map(|parts| parts[usize::from(!self.servers.is_empty())].clone());
        let start = || larder_process::RedisServer::start_by(command, program.clone(), &options);
        let process = in_part(part.as_deref(), start)?;
        self.servers.push(Server { identity, process, part, is_paused: false });
        Ok(self.servers.len() - 1)
    }

    /// Makes the replica of a placeholder a primary.
    fn take_over(&self, server: usize) {
        let start = Instant::now();
        while !self.is_ok(server) && start.elapsed() < READINESS_LIMIT {
            sleep(Duration::from_millis(2));
        }
        self.execute(server, "CLUSTER FAILOVER TAKEOVER");
    }

    /// Waits until all know who took over from the placeholders, and makes them forget these.
    fn forget(&self, placeholders: &[Identity]) {
        let is_placeholder = |id: &str| placeholders.iter().any(|placeholder| placeholder.id == id);
        crate::until("all know the primaries", || {
            let is_free = |server| {
                let view = self.view(server);
                view.iter().all(|line| !is_placeholder(&line.id) || line.slots.is_empty())
            };
            self.servers().all(is_free).then_some(())
        });
        for server in self.servers() {
            for placeholder in placeholders {
                self.execute(server, &format!("CLUSTER FORGET {}", placeholder.id));
            }
        }
    }
}

/// Starts a server in this part of a network, or where the test is.
pub(super) fn in_part<T: Send>(part: Option<&NetworkPart>, start: impl FnOnce() -> T + Send) -> T {
    match part {
        Some(part) => part.run(start),
        None => start(),
    }
}

/// Whether the file of a server has the ids of shards, which Redis has since 7.2. Servers to which the file gives none choose
/// several for the same shard, and some are then in none.
fn has_shards(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output().expect("the program runs");
    !String::from_utf8_lossy(&output.stdout).contains(" v=7.0.")
}

/// The command that starts a server, whose options are the content of its file and what it has of its own.
fn command(program: &Path, folder: &Path, options: &[String]) -> Command {
    let [known, own @ ..] = options else { panic!("the file and options, got {options:?}") };
    let file: PathBuf = folder.join(FILE);
    // The server writes to it, and finds its changes there after a restart.
    if !file.exists() {
        std::fs::write(&file, known).expect("the folder is writable");
    }
    let mut command = larder_process::redis_command(program, folder, &[]);
    command.args(["--cluster-enabled", "yes", "--cluster-config-file", FILE]).args(own);
    command.args(OPTIONS.split_whitespace());
    command
}
