//! The experiments with two processes. Only the lag that a cache may have depends on time.

use super::{Node, Program};
use crate::suite::tiers::stale::experiments::LAG;
use anyhow::{Context, Result, ensure};
use larder_process::RedisServer;
use std::collections::HashSet;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// The values before and after a change.
const OLD: &str = "t1";
const NEW: &str = "t2";
const POLL: Duration = Duration::from_millis(5);
/// How many keys are overwritten while they are read, one after the other.
const KEYS: usize = 3_000;
const QUICK_KEYS: usize = 300;
/// When those are judged.
const LATER: Duration = Duration::from_secs(2);
/// How many keys are overwritten while the reader has no connection, and when they are judged.
const LOST_KEYS: usize = 20;
const MUCH_LATER: Duration = Duration::from_secs(3);

/// One experiment: the share of the keys whose old value was served.
#[derive(Clone, Copy)]
pub(in crate::suite::tiers::stale) struct Experiment {
    pub(in crate::suite::tiers::stale) name: &'static str,
    /// Whether only a cache that calls a loader can have it.
    pub(super) needs_loader: bool,
    pub(super) run: fn(&mut Pair) -> Result<f64>,
}

pub(in crate::suite::tiers::stale) const EXPERIMENTS: [Experiment; 5] = [
    Experiment { name: "the other deletes during a load", needs_loader: true, run: deleted_during_a_load },
    Experiment { name: "the other deleted 1 s ago", needs_loader: false, run: deleted },
    Experiment { name: "the other overwrote 1 s ago", needs_loader: false, run: overwritten },
    Experiment {
        name: "the other overwrote 2 s ago, during a read",
        needs_loader: false,
        run: overwritten_during_a_read,
    },
    Experiment {
        name: "the other overwrote 3 s ago, when the connection was lost",
        needs_loader: false,
        run: overwritten_without_connection,
    },
];

/// Two processes over one server.
pub(super) struct Pair {
    /// The one that is judged.
    node: Node,
    /// The one that changes values.
    other: Node,
    server: RedisServer,
    /// The connections of the other one, by the numbers that the server gives them.
    others: HashSet<u64>,
    keys: usize,
    next: usize,
}

impl Pair {
    pub(super) fn start(server: RedisServer, port: u16, programs: [Program; 2], quick: bool) -> Result<Self> {
        let url = crate::tool::url_of(port);
        let mut node = Node::start(programs[0], &url)?;
        node.call("read", &["first"])?;
        let before = connections(&server)?;
        let mut other = Node::start(programs[1], &url)?;
        other.call("read", &["first"])?;
        let others = connections(&server)?.difference(&before).copied().collect();
        Ok(Pair { node, other, server, others, keys: if quick { QUICK_KEYS } else { KEYS }, next: 0 })
    }

    /// A key that no other experiment uses.
    fn key(&mut self) -> String {
        self.next += 1;
        format!("k{}", self.next)
    }

    fn serves_old(&mut self, key: &str) -> Result<bool> {
        Ok(self.node.call("read", &[key])? == [OLD])
    }

    /// Whether a read that starts after [`LAG`] serves the old value. Returns early once a read does not.
    fn serves_old_after_lag(&mut self, key: &str) -> Result<bool> {
        let changed = Instant::now();
        while self.serves_old(key)? {
            if changed.elapsed() > LAG {
                return Ok(true);
            }
            sleep(POLL);
        }
        Ok(false)
    }

    /// A key whose old value the node has in memory.
    fn key_in_memory(&mut self) -> Result<String> {
        let key = self.key();
        self.other.call("write", &[&key, OLD])?;
        // The second one is of memory.
        for _ in 0..2 {
            ensure!(self.serves_old(&key)?, "a value is lost");
        }
        Ok(key)
    }

    /// The share of keys whose old value is served still.
    fn share_of_old(&mut self, keys: &[String]) -> Result<f64> {
        let mut old = 0;
        for key in keys {
            old += usize::from(self.serves_old(key)?);
        }
        Ok(old as f64 / keys.len() as f64)
    }
}

fn deleted_during_a_load(pair: &mut Pair) -> Result<f64> {
    let key = pair.key();
    let fetch = pair.node.begin("fetch", &[&key])?;
    pair.node.await_loader(&fetch)?;
    pair.other.call("delete", &[&key])?;
    pair.node.loaded(&fetch, OLD)?;
    // The fetch began before, so it may return the old value; only later reads count.
    pair.node.end(fetch)?;
    Ok(f64::from(pair.serves_old_after_lag(&key)?))
}

fn deleted(pair: &mut Pair) -> Result<f64> {
    let key = pair.key_in_memory()?;
    pair.other.call("delete", &[&key])?;
    Ok(f64::from(pair.serves_old_after_lag(&key)?))
}

fn overwritten(pair: &mut Pair) -> Result<f64> {
    let key = pair.key_in_memory()?;
    pair.other.call("write", &[&key, NEW])?;
    Ok(f64::from(pair.serves_old_after_lag(&key)?))
}

/// The first read of a value by the node, and a write of the other one, at the same time.
fn overwritten_during_a_read(pair: &mut Pair) -> Result<f64> {
    let keys: Vec<String> = (0..pair.keys).map(|_| pair.key()).collect();
    for key in &keys {
        pair.other.call("write", &[key, OLD])?;
        let read = pair.node.begin("read", &[key])?;
        pair.other.call("write", &[key, NEW])?;
        pair.node.end(read)?;
    }
    sleep(LATER);
    pair.share_of_old(&keys)
}

fn overwritten_without_connection(pair: &mut Pair) -> Result<f64> {
    let keys = (0..LOST_KEYS).map(|_| pair.key_in_memory()).collect::<Result<Vec<_>>>()?;
    for connection in connections(&pair.server)?.difference(&pair.others) {
        pair.server.command(&format!("CLIENT KILL ID {connection}"))?;
    }
    for key in &keys {
        pair.other.call("write", &[key, NEW])?;
    }
    sleep(MUCH_LATER);
    pair.share_of_old(&keys)
}

/// The connections of a server, but the one that asks.
fn connections(server: &RedisServer) -> Result<HashSet<u64>> {
    let listed = server.command("CLIENT LIST")?;
    let clients = listed.lines().filter(|line| line.starts_with("id=") && !line.contains("cmd=client|list"));
    let number = |line: &str| line.strip_prefix("id=")?.split(' ').next()?.parse().ok();
    clients.map(|line| number(line).with_context(|| format!("no client: {line:?}"))).collect()
}
