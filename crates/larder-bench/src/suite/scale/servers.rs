//! What nodes connect to: one server, a primary behind sentinels, a cluster. And what the servers have used.

use crate::tool::{Cluster, Sentinels, Usage, start_on_port, url_of};
use anyhow::{Context, Result};
use larder_process::RedisServer;
use std::path::Path;
use std::time::Duration;

const PRIMARIES: usize = 3;
/// The names of the subjects.
pub(super) const NAMES: [&str; 3] = ["one server", "Sentinel", "cluster of 3"];

pub(super) struct Servers {
    /// The name of the subject.
    pub(super) name: &'static str,
    pub(super) url: String,
    kind: Kind,
}

enum Kind {
    One(RedisServer),
    Sentinels(Sentinels),
    Cluster(Cluster),
}

impl Servers {
    pub(super) fn one(program: &Path) -> Result<Self> {
        let (server, port) = start_on_port(program, &[])?;
        Ok(Servers { name: NAMES[0], url: url_of(port), kind: Kind::One(server) })
    }

    pub(super) fn sentinels(program: &Path) -> Result<Self> {
        let sentinels = Sentinels::start(program)?;
        Ok(Servers { name: NAMES[1], url: sentinels.url(), kind: Kind::Sentinels(sentinels) })
    }

    pub(super) fn cluster(program: &Path) -> Result<Self> {
        let cluster = Cluster::start(program, PRIMARIES)?;
        Ok(Servers { name: NAMES[2], url: cluster.url(), kind: Kind::Cluster(cluster) })
    }

    /// The servers that nodes send their requests to.
    pub(super) fn primaries(&self) -> Vec<&RedisServer> {
        match &self.kind {
            Kind::One(server) => vec![server],
            Kind::Sentinels(sentinels) => vec![sentinels.primary()],
            Kind::Cluster(cluster) => cluster.servers().collect(),
        }
    }

    fn sentinel_processes(&self) -> Vec<&RedisServer> {
        match &self.kind {
            Kind::Sentinels(sentinels) => sentinels.sentinels().collect(),
            Kind::One(_) | Kind::Cluster(_) => Vec::new(),
        }
    }

    pub(super) fn has_sentinels(&self) -> bool {
        matches!(self.kind, Kind::Sentinels(_))
    }

    /// What all of them have used since they started.
    pub(super) fn used(&self) -> Result<Used> {
        let mut used = Used {
            primaries: processor_time(&self.primaries())?,
            sentinels: processor_time(&self.sentinel_processes())?,
            ..Used::default()
        };
        for server in self.primaries() {
            // Each heartbeat asks for the time, and nothing else does.
            let times = number(&server.command("INFO commandstats")?, "cmdstat_time:calls=").unwrap_or(0);
            used.heartbeats += times;
            used.sent += information(server, "stats", "total_net_output_bytes:")?;
        }
        Ok(used)
    }

    /// The connections of clients, and the bytes that the servers have allocated, in sum.
    pub(super) fn memory(&self) -> Result<(u64, u64)> {
        let (mut connections, mut bytes) = (0, 0);
        for server in self.primaries() {
            connections += information(server, "clients", "connected_clients:")?;
            bytes += information(server, "memory", "used_memory:")?;
        }
        Ok((connections, bytes))
    }
}

/// The use of the servers: since they started, or in a time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Used {
    /// The processor time of the primaries together.
    pub(super) primaries: Duration,
    pub(super) sentinels: Duration,
    /// The heartbeats that the primaries have answered.
    pub(super) heartbeats: u64,
    /// The bytes that the primaries have sent to clients.
    pub(super) sent: u64,
}

impl std::ops::Sub for Used {
    type Output = Used;

    fn sub(self, earlier: Used) -> Used {
        Used {
            primaries: self.primaries.saturating_sub(earlier.primaries),
            sentinels: self.sentinels.saturating_sub(earlier.sentinels),
            heartbeats: self.heartbeats - earlier.heartbeats,
            sent: self.sent - earlier.sent,
        }
    }
}

fn processor_time(servers: &[&RedisServer]) -> Result<Duration> {
    let time = |server: &&RedisServer| {
        let process = server.process().context("a server has ended")?;
        Ok(Usage::of(process.id()).cpu)
    };
    servers.iter().map(time).sum()
}

fn information(server: &RedisServer, section: &str, field: &str) -> Result<u64> {
    let text = server.command(&format!("INFO {section}"))?;
    number(&text, field).with_context(|| format!("INFO {section} has no {field}"))
}

/// The number behind a name.
fn number(text: &str, name: &str) -> Option<u64> {
    let rest = text.lines().find_map(|line| line.strip_prefix(name))?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest[..end].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn number_is_that_behind_the_whole_name() {
        let text = "used_memory_rss:9\r\nused_memory:1048576\r\ncmdstat_time:calls=40,usec=12\r\n";
        assert_eq!(number(text, "used_memory:"), Some(1_048_576));
        assert_eq!(number(text, "cmdstat_time:calls="), Some(40));
        assert_eq!(number(text, "maxmemory:"), None);
    }
}
