//! A cluster of redis-server, of primaries alone.

use crate::tool::free_address;
use anyhow::{Context, Result, ensure};
use larder_process::RedisServer;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const SLOTS: usize = 16_384;
/// A new cluster takes two seconds and some until its servers answer.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How often a port that another process has taken meanwhile is replaced.
const ATTEMPTS: usize = 5;

/// Servers on ports of 127.0.0.1. They end with it.
pub(crate) struct Cluster {
    servers: Vec<(RedisServer, u16)>,
}

impl Cluster {
    pub(crate) fn start(program: &Path, primaries: usize) -> Result<Self> {
        let servers = (0..primaries).map(|_| start_on_port(program, &["--cluster-enabled", "yes"]));
        let cluster = Cluster { servers: servers.collect::<Result<_>>()? };
        let bus = |port: u16| port.wrapping_add(10_000);
        for (number, (server, _)) in cluster.servers.iter().enumerate() {
            let first = number * SLOTS / primaries;
            let last = (number + 1) * SLOTS / primaries - 1;
            expect_ok(server, &format!("CLUSTER SET-CONFIG-EPOCH {}", number + 1))?;
            expect_ok(server, &format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
            let (_, port) = cluster.servers[0];
            expect_ok(server, &format!("CLUSTER MEET 127.0.0.1 {port} {}", bus(port)))?;
        }
        cluster.await_ok()?;
        Ok(cluster)
    }

    fn await_ok(&self) -> Result<()> {
        let start = Instant::now();
        for (server, _) in &self.servers {
            loop {
                let info = server.command("CLUSTER INFO")?;
                let knows_all = format!("cluster_known_nodes:{}", self.servers.len());
                if info.contains("cluster_state:ok") && info.contains(&knows_all) {
                    break;
                }
                ensure!(start.elapsed() < READY_WITHIN, "the cluster is not ready: {info}");
                sleep(Duration::from_millis(10));
            }
        }
        Ok(())
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

    /// The number of the server that owns the slot of a key.
    pub(crate) fn owner_of(&self, key: &str) -> Result<usize> {
        let reply = self.servers[0].0.command(&format!("CLUSTER KEYSLOT {key}"))?;
        let slot = reply.trim_start_matches(':').trim_end().parse::<usize>();
        let slot = slot.with_context(|| format!("CLUSTER KEYSLOT was answered by {reply:?}"))?;
        // The last slot of a server is the one before the first of the next.
        Ok(((slot + 1) * self.servers.len() - 1) / SLOTS)
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
