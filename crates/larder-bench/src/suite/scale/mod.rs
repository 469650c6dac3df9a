//! The suite `scale`: what each node of a namespace costs the servers of Redis, measured with real nodes.
//!
//! | workload | meaning |
//! |---|---|
//! | `heartbeat` | a heartbeat of one node to one primary: processor time of the primary, of a sentinel, and of the node |
//! | `delete alone`, `delete in bursts`, `delete of 100 keys` | a deletion, by the number of nodes that hear of it: what it costs itself, and what each node adds |
//! | `delete alone, one server` and so on | the measured points of these lines |
//! | `memory` | connections of a node, and the memory of the server for each |
//! | `share, one server` and so on | processor time of a primary as a share of a core, without deletions and with 100 in a second |
//!
//! A round is a *sweep*: nodes are added to one server, to a primary behind sentinels and to a cluster, and each number of nodes is
//! measured. The constants of a round are the lines through its points.

mod fit;
mod nodes;
mod servers;
mod sweep;

use super::{Findings, Plan, Suite, Target};
use crate::measure::rounds::record;
use crate::result::Figure;
use crate::tool::version_of;
use anyhow::Result;
use indicatif::ProgressBar;
use larder_process::find_program;
use servers::{NAMES, Servers};
use std::time::Duration;
use sweep::sweep;
use tokio::runtime::Builder;

/// A node announces to all primaries in its first minute: the deletions that are measured come later.
const FIRST_MINUTE: Duration = Duration::from_secs(61);

const YOUNG: &str =
    "The nodes that delete are younger than a minute: in the cluster they announce to all primaries.";
const NOTE: &str = "Nodes are caches of one process on one thread. On the cluster the processor time is that of all primaries together, \
    for a heartbeat that of one. Deletions are of keys that are absent, and without what heartbeats cost meanwhile.";

pub(crate) struct Scale;

/// The size of a sweep.
struct Size {
    sweeps: usize,
    /// The numbers of nodes that are measured.
    nodes: &'static [usize],
    /// The numbers of nodes whose share of a core is measured too.
    shares: &'static [usize],
    /// How long nodes are measured that do nothing.
    idle: Duration,
    /// The most calls of a measurement. Many nodes get fewer.
    calls: usize,
}

impl Size {
    fn of(plan: &Plan) -> Self {
        if plan.quick {
            let idle = Duration::from_millis(500);
            Size { sweeps: 2, nodes: &[1, 10, 40], shares: &[40], idle, calls: 200 }
        } else {
            let idle = Duration::from_millis(1_500);
            Size { sweeps: 5, nodes: &[1, 5, 20, 50, 150], shares: &[20, 50, 150], idle, calls: 1_000 }
        }
    }
}

impl Suite for Scale {
    fn name(&self) -> &'static str {
        "scale"
    }

    fn description(&self) -> &'static str {
        "many nodes on one Redis, behind Sentinel and on a cluster: heartbeats, announcements, connections"
    }

    fn crates(&self) -> &'static [&'static str] {
        &["larder-engine", "redis"]
    }

    fn targets(&self) -> Vec<Target> {
        Vec::new()
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let size = Size::of(plan);
        let mut findings = Findings::default();
        let Some(program) = find_program("redis-server") else {
            findings.notes.push("redis-server is not installed: nothing was measured.".to_owned());
            return Ok(findings);
        };
        let version = version_of("redis-server");
        findings.versions.extend(version.map(|version| ("redis-server".to_owned(), version)));
        let all = [Servers::one(&program)?, Servers::sentinels(&program)?, Servers::cluster(&program)?];
        // One thread: its processor time is that of all nodes.
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            let mut subjects = Vec::new();
            for servers in &all {
                subjects.push((servers, nodes::deleter(&servers.url).await?));
            }
            if plan.quick {
                findings.notes.push(YOUNG.to_owned());
            } else {
                bar.set_message("waits until the nodes that delete are a minute old");
                tokio::time::sleep(FIRST_MINUTE).await;
            }
            for number in 0..size.sweeps {
                for turn in 0..subjects.len() {
                    let (servers, deleter) = &subjects[(turn + number) % subjects.len()];
                    bar.set_message(format!("sweep {} of {}: {}", number + 1, size.sweeps, servers.name));
                    for (workload, subject, value) in sweep(servers, deleter, &size).await? {
                        record(&mut findings.figures, &workload, &subject, value);
                    }
                }
            }
            anyhow::Ok(())
        })?;
        findings.figures.sort_by_key(place);
        findings.notes.push(NOTE.to_owned());
        Ok(findings)
    }
}

/// The place of a figure in the tables: constants first, and the points of a subject together.
fn place(figure: &Figure) -> (usize, usize) {
    let constants = ["heartbeat", "delete alone", "delete in bursts", "delete of 100 keys", "memory"];
    let workload = figure.workload.as_str();
    let subject = |name: &str| NAMES.iter().position(|known| *known == name).unwrap_or(NAMES.len());
    match constants.iter().position(|name| *name == workload) {
        Some(place) => (place, subject(&figure.subject)),
        None => (constants.len(), workload.rsplit_once(", ").map_or(NAMES.len(), |(_, name)| subject(name))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    /// All workloads, with small sizes.
    #[test]
    fn measure_has_the_constants_of_each_kind_of_servers() {
        if larder_testkit::program("redis-server").is_none() {
            return;
        }
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let findings = Scale.measure(&plan, &ProgressBar::hidden()).unwrap();
        let file = file(findings.figures);
        assert_eq!(file.subjects("heartbeat"), NAMES);
        let constant = |workload: &str, measure: &str, subject: &str| {
            let figure = file.find(workload, measure, subject);
            figure.unwrap_or_else(|| panic!("no {workload} {measure} {subject}")).spread().median
        };
        for name in NAMES {
            constant("heartbeat", "server cpu", name);
            constant("delete alone", "client cpu for each node", name);
            // Each node gets the whole announcement, a push with the name of the channel.
            let sent = constant("delete in bursts", "sent to each node", name);
            assert!((50.0..600.0).contains(&sent), "{name}: {sent}");
            // Four for lookups, one for changes, one that listens.
            let connections = constant("memory", "connections of a node", name);
            assert!((5.5..6.5).contains(&connections), "{name}: {connections}");
        }
        let burst = |nodes: &str| constant("delete in bursts, one server", "server cpu", nodes);
        assert!(burst("41 nodes") > burst("2 nodes"));
        constant("heartbeat", "cpu of the sentinels", "Sentinel");
        constant("share, cluster of 3", "100/s", "41 nodes");
    }
}
