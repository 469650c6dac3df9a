//! How a cluster begins, and how another primary joins it.
//!
//! Nothing is negotiated: each server finds in its file what CLUSTER MEET and ADDSLOTS would have told it. But a server that
//! starts as a primary refuses requests for two seconds, because it may have lost its slots while it was down. A replica does
//! not wait. So each primary starts as the replica of a placeholder, an absent server that owns its slots, and takes over from
//! it. Then all forget the placeholders.

use super::file::{Identity, Plan};
use super::{Cluster, Server};
use crate::program::program;
use crate::selected::may_form_a_cluster;
use crate::valkey::valkey_server;
use crate::wait::Deadline;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The file of a server with what it knows of the cluster.
const FILE: &str = "nodes.conf";
/// What every server has: it is down after a second, and replicas wait neither for others nor for their disk.
const OPTIONS: &str = "--cluster-node-timeout 1000 --repl-diskless-sync-delay 0 --repl-diskless-load on-empty-db \
                       --enable-debug-command yes";
/// How long a server that starts as a replica may take to say that the cluster works. Without that it works later.
const READINESS_LIMIT: Duration = Duration::from_millis(500);

impl Cluster {
    /// Starts three primaries of redis-server, each with a replica that is in sync. `None` and a note if it is not installed,
    /// or another server is selected.
    ///
    /// # Panics
    /// If they do not start, or do not form a cluster.
    pub fn start() -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&program("redis-server")?, 3, 3))
    }

    /// The same with so many primaries and no replicas.
    ///
    /// # Panics
    /// As [`Cluster::start`].
    pub fn start_primaries(count: usize) -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&program("redis-server")?, count, 0))
    }

    /// As [`Cluster::start`], of the valkey-server that `cargo xtask install` brings.
    ///
    /// # Panics
    /// As there.
    pub fn start_valkey() -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&valkey_server()?, 3, 3))
    }

    /// As [`Cluster::start_primaries`], of the same valkey-server.
    ///
    /// # Panics
    /// As there.
    pub fn start_valkey_primaries(count: usize) -> Option<Self> {
        may_form_a_cluster()?;
        Some(Self::start_on(&valkey_server()?, count, 0))
    }

    fn start_on(program: &Path, primaries: usize, replicas: usize) -> Self {
        // Another process may take a port before its server does.
        let mut attempts = (0..10).map(|_| Self::attempt(program, primaries, replicas));
        let cluster = attempts.find_map(Result::ok).expect("the servers start on free ports");
        cluster.await_ok();
        cluster
    }

    fn attempt(program: &Path, primaries: usize, replicas: usize) -> io::Result<Self> {
        let plan = Plan::new(primaries, replicas, has_shards(program));
        let files: Vec<_> = (0..primaries).map(|own| plan.of_primary(own)).collect();
        let files_of_replicas: Vec<_> = (0..replicas).map(|own| plan.of_replica(own)).collect();
        let (program, deadline) = (program.to_owned(), Deadline::start());
        let mut cluster = Cluster { program, servers: Vec::new(), _deadline: deadline };
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
            let mut plan = Plan::new(1, 0, has_shards(&self.program));
            self.execute(known, "CLUSTER SAVECONFIG");
            let file = self.servers[known].process.folder().join(FILE);
            let file = plan.of_joining(&std::fs::read_to_string(file)?);
            Ok::<_, io::Error>((self.run(plan.primaries.remove(0), &file)?, plan.placeholders))
        });
        let (added, placeholders) = attempts.find_map(Result::ok).expect("the server starts on a free port");
        self.take_over(added);
        let Identity { port, bus_port, .. } = self.servers[added].identity;
        self.execute(known, &format!("CLUSTER MEET 127.0.0.1 {port} {bus_port}"));
        self.execute(added, &format!("CLUSTER FORGET {}", placeholders[0].id));
        self.await_ok();
        added
    }

    /// Starts a server with this content of its file, and returns its number.
    fn run(&mut self, identity: Identity, file: &str) -> io::Result<usize> {
        let [port, bus_port] = [identity.port, identity.bus_port].map(|port| port.to_string());
        let options = [file, &port, &bus_port];
        let process = larder_process::RedisServer::start_by(command, self.program.clone(), &options)?;
        self.servers.push(Server { identity, process, is_paused: false });
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

/// Whether the file of a server has the ids of shards, which Redis has since 7.2. Servers to which the file gives none choose
/// several for the same shard, and some are then in none.
fn has_shards(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output().expect("the program runs");
    !String::from_utf8_lossy(&output.stdout).contains(" v=7.0.")
}

/// The command that starts a server, whose options are the content of its file and its ports.
fn command(program: &Path, folder: &Path, options: &[String]) -> Command {
    let [known, port, bus_port] = options else { panic!("three options, got {options:?}") };
    let file: PathBuf = folder.join(FILE);
    // The server writes to it, and finds its changes there after a restart.
    if !file.exists() {
        std::fs::write(&file, known).expect("the folder is writable");
    }
    let mut command = larder_process::redis_command(program, folder, &[]);
    command.args(["--port", port, "--bind", "127.0.0.1", "--cluster-enabled", "yes"]);
    command.args(["--cluster-config-file", FILE, "--cluster-port", bus_port]);
    command.args(OPTIONS.split_whitespace());
    command
}
