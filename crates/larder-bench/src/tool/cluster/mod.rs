//! A cluster of redis-server: how it starts. `slots` has how a slot moves, `failover` how a replica takes over.

mod failover;
mod slots;

use crate::tool::free_address;
use anyhow::{Context, Result, ensure};
use larder_process::RedisServer;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// A new cluster takes two seconds and some until its servers answer.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How often a port that another process has taken meanwhile is replaced.
const ATTEMPTS: usize = 5;

/// Servers on ports of 127.0.0.1. They end with it.
pub(crate) struct Cluster {
    /// First the primaries, whose slots are equal parts in this order, then the replica of each, if they have any.
    servers: Vec<(RedisServer, u16)>,
    primaries: usize,
}

impl Cluster {
    /// Primaries without replicas.
    pub(crate) fn start(program: &Path, primaries: usize) -> Result<Self> {
        let cluster = Self::start_servers(program, primaries, primaries, &[])?;
        cluster.await_ok()?;
        Ok(cluster)
    }

    /// So many servers that know each other or will soon, of which so many are primaries with slots.
    fn start_servers(program: &Path, servers: usize, primaries: usize, options: &[&str]) -> Result<Self> {
        let options = [&["--cluster-enabled", "yes"], options].concat();
        let servers = (0..servers).map(|_| start_on_port(program, &options));
        let cluster = Cluster { servers: servers.collect::<Result<_>>()?, primaries };
        let bus = |port: u16| port.wrapping_add(10_000);
        for (number, (server, _)) in cluster.servers.iter().enumerate() {
            expect_ok(server, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1))?;
            if number < primaries {
                let (first, last) = cluster.slots_of(number);
                expect_ok(server, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
            }
            let (_, port) = cluster.servers[0];
            expect_ok(server, &format!("CLUSTER MEET 127.0.0.1 {port} {}", bus(port)))?;
        }
        Ok(cluster)
    }

    /// Waits until each server knows all others and says that the cluster works.
    fn await_ok(&self) -> Result<()> {
        let knows_all = format!("cluster_known_nodes:{}", self.servers.len());
        self.servers().try_for_each(|server| {
            until("the cluster is ready", || {
                let info = server.command("CLUSTER INFO")?;
                Ok(info.contains("cluster_state:ok") && info.contains(&knows_all))
            })
        })
    }

    /// The address for caches.
    pub(crate) fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|(_, port)| format!("127.0.0.1:{port}")).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// The address of each server.
    pub(crate) fn urls(&self) -> impl Iterator<Item = String> {
        self.servers.iter().map(|(_, port)| url_of(*port))
    }

    pub(crate) fn servers(&self) -> impl Iterator<Item = &RedisServer> {
        self.servers.iter().map(|(server, _)| server)
    }
}

/// Starts a server on a free port of 127.0.0.1.
pub(crate) fn start_on_port(program: &Path, options: &[&str]) -> Result<(RedisServer, u16)> {
    let mut failed = None;
    for _ in 0..ATTEMPTS {
        let port = free_address()?.port();
        let number = port.to_string();
        let all = [&["--port", &number, "--bind", "127.0.0.1"], options].concat();
        match RedisServer::start_with(program.to_owned(), &all) {
            Ok(server) => return Ok((server, port)),
            Err(error) => failed = Some(error),
        }
    }
    Err(failed.context("no attempt")?).context("cannot start redis-server on a port")
}

pub(crate) fn url_of(port: u16) -> String {
    format!("redis://127.0.0.1:{port}")
}

fn expect_ok(server: &RedisServer, line: &str) -> Result<()> {
    let reply = server.command(line)?;
    ensure!(reply == "+OK\r\n", "{line} was answered by {reply:?}");
    Ok(())
}

/// The id of a server in its cluster.
fn id_of(server: &RedisServer) -> Result<String> {
    let reply = server.command("CLUSTER MYID")?;
    reply.lines().nth(1).map(str::to_owned).with_context(|| format!("CLUSTER MYID was answered by {reply:?}"))
}

/// Waits for a condition.
fn until(what: &str, condition: impl Fn() -> Result<bool>) -> Result<()> {
    let start = Instant::now();
    while !condition()? {
        ensure!(start.elapsed() < READY_WITHIN, "not within {READY_WITHIN:?}: {what}");
        sleep(Duration::from_millis(10));
    }
    Ok(())
}
