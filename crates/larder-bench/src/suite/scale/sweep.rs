//! A sweep: nodes are added to some servers, and each number of nodes is measured.

use super::Size;
use super::fit::Line;
use super::nodes::{Node, grow};
use super::servers::{Servers, Used};
use crate::measure::clock::thread_cpu;
use crate::measure::rounds::Value;
use anyhow::Result;
use futures_util::future::try_join_all;
use std::time::{Duration, Instant};

/// The calls that are under way together in a burst, and the keys of a call with many.
pub(super) const MANY: usize = 100;
/// The deletions in a second while the share of a core is measured.
pub(super) const PACE: u32 = 100;
/// The time in which the nodes hear what was announced last.
const HEARD_WITHIN: Duration = Duration::from_millis(20);
/// The fewest calls of a measurement, and the most announcements that all nodes hear in one.
const LEAST_CALLS: usize = 100;
const MOST_HEARD: usize = 40_000;

/// A value, with its workload and its subject.
pub(super) type Found = (String, String, Value);

/// The ways in which keys are deleted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// One call after the other.
    Alone,
    /// [`MANY`] calls at once.
    Bursts,
    /// Calls with [`MANY`] keys.
    ManyKeys,
}

impl Manner {
    const ALL: [Manner; 3] = [Manner::Alone, Manner::Bursts, Manner::ManyKeys];

    fn workload(self) -> &'static str {
        match self {
            Manner::Alone => "delete alone",
            Manner::Bursts => "delete in bursts",
            Manner::ManyKeys => "delete of 100 keys",
        }
    }

    async fn delete(self, node: &Node, calls: usize) -> Result<()> {
        let keys: Vec<u64> = (1_000..).take(MANY).collect();
        match self {
            Manner::Alone => {
                for call in 0..calls {
                    node.delete(keys[call % MANY]).await?;
                }
            }
            Manner::Bursts => {
                for _ in 0..calls / MANY {
                    try_join_all(keys.iter().map(|key| node.delete(*key))).await?;
                }
            }
            Manner::ManyKeys => {
                for _ in 0..calls {
                    node.delete_many(&keys).await?;
                }
            }
        }
        Ok(())
    }
}

/// What the servers and this process use in a time.
struct Spent {
    servers: Used,
    client: Duration,
    wall: Duration,
}

impl Spent {
    async fn of(servers: &Servers, work: impl Future<Output = Result<()>>) -> Result<Spent> {
        let (before, cpu, start) = (servers.used()?, thread_cpu(), Instant::now());
        work.await?;
        let (wall, client) = (start.elapsed(), thread_cpu() - cpu);
        Ok(Spent { servers: servers.used()? - before, client, wall })
    }

    fn per_second(&self, amount: f64) -> f64 {
        amount / self.wall.as_secs_f64()
    }
}

/// What is measured with some nodes.
#[derive(Clone, Copy)]
enum Amount {
    Server,
    Client,
    Sentinels,
    Sent,
}

impl Spent {
    fn amount(&self, amount: Amount) -> f64 {
        let micros = |time: Duration| time.as_secs_f64() * 1e6;
        match amount {
            Amount::Server => micros(self.servers.primaries),
            Amount::Client => micros(self.client),
            Amount::Sentinels => micros(self.servers.sentinels),
            Amount::Sent => self.servers.sent as f64,
        }
    }

    /// Without what is used all the time, for each of so many calls.
    fn each(&self, amount: Amount, idle: &Spent, calls: usize) -> f64 {
        let all_the_time = idle.per_second(idle.amount(amount)) * self.wall.as_secs_f64();
        (self.amount(amount) - all_the_time) / calls as f64
    }
}

/// Nodes without deletions.
async fn idle(servers: &Servers, size: &Size) -> Result<Spent> {
    let sleep = async {
        tokio::time::sleep(size.idle).await;
        Ok(())
    };
    Spent::of(servers, sleep).await
}

/// Nodes that hear of [`PACE`] deletions in a second.
async fn paced(servers: &Servers, deleter: &Node, size: &Size) -> Result<Spent> {
    let mut moments = tokio::time::interval(Duration::from_secs(1) / PACE);
    let count = (size.idle.as_secs_f64() * f64::from(PACE)) as u64;
    let deletions = async {
        for key in 0..count {
            moments.tick().await;
            deleter.delete(1_000 + key % MANY as u64).await?;
        }
        Ok(())
    };
    Spent::of(servers, deletions).await
}

/// Measures each number of nodes on these servers, beside the node that deletes.
pub(super) async fn sweep(servers: &Servers, deleter: &Node, size: &Size) -> Result<Vec<Found>> {
    let name = servers.name.to_owned();
    let mut found: Vec<Found> = Vec::new();
    let mut beats: Vec<(f64, Spent)> = Vec::new();
    let mut deletions: [Vec<(f64, [f64; 4])>; 3] = Default::default();
    let primaries = servers.primaries().len() as f64;
    let before = servers.memory()?;
    let mut nodes = Vec::new();
    for &count in size.nodes {
        grow(&mut nodes, count, &servers.url).await?;
        let idle = idle(servers, size).await?;
        // All hear what is announced, the node that deletes too.
        let listening = count + 1;
        for (manner, points) in Manner::ALL.into_iter().zip(&mut deletions) {
            let calls = (MOST_HEARD / count).clamp(LEAST_CALLS, size.calls) / MANY * MANY;
            let spent = Spent::of(servers, async {
                manner.delete(deleter, calls).await?;
                tokio::time::sleep(HEARD_WITHIN).await;
                Ok(())
            });
            let spent = spent.await?;
            let each = [Amount::Server, Amount::Client, Amount::Sentinels, Amount::Sent]
                .map(|amount| spent.each(amount, &idle, calls));
            let value = Value::low("server cpu", "µs", each[0]);
            found.push((format!("{}, {name}", manner.workload()), format!("{listening} nodes"), value));
            points.push((listening as f64, each));
        }
        if size.shares.contains(&count) {
            let paced = paced(servers, deleter, size).await?;
            for (measure, spent) in [("0/s", &idle), ("100/s", &paced)] {
                let share = spent.per_second(spent.amount(Amount::Server)) / 1e4 / primaries;
                let value = Value::low(measure, "% of a core", share);
                found.push((format!("share, {name}"), format!("{listening} nodes"), value));
            }
        }
        beats.push((idle.per_second(idle.servers.heartbeats as f64), idle));
    }
    let slope = |amount| {
        let points = beats.iter().map(|(rate, spent)| (*rate, spent.per_second(spent.amount(amount))));
        Line::through(&points.collect::<Vec<_>>()).slope
    };
    let mut add = |workload: &str, measure, unit, value| {
        found.push((workload.to_owned(), name.clone(), Value::low(measure, unit, value)));
    };
    add("heartbeat", "server cpu", "µs", slope(Amount::Server));
    add("heartbeat", "client cpu", "µs", slope(Amount::Client));
    if servers.has_sentinels() {
        add("heartbeat", "cpu of the sentinels", "µs", slope(Amount::Sentinels));
    }
    for (manner, points) in Manner::ALL.into_iter().zip(&deletions) {
        let line = |amount: usize| {
            let points = points.iter().map(|(nodes, each)| (*nodes, each[amount]));
            Line::through(&points.collect::<Vec<_>>())
        };
        let server = line(0);
        add(manner.workload(), "server cpu", "µs", server.at_zero);
        add(manner.workload(), "server cpu for each node", "µs", server.slope);
        add(manner.workload(), "client cpu for each node", "µs", line(1).slope);
        add(manner.workload(), "sent to each node", "B", line(3).slope);
    }
    let (count, after) = (nodes.len() as f64, servers.memory()?);
    let connections = (after.0 - before.0) as f64;
    add("memory", "connections of a node", "", connections / count / primaries);
    add("memory", "for each connection", "KiB", (after.1 as f64 - before.1 as f64) / connections / 1024.0);
    Ok(found)
}
