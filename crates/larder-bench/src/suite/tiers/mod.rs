//! The suite `tiers`: the two-tier cache, compared with single-tier caches, a Redis client and plain serializers.
//!
//! | workload | meaning |
//! |---|---|
//! | `memory-hit` | a fetch that is a hit in memory: its time, and its allocations |
//! | `read-multi` | 26 values of 1 KiB from Redis, compared with a bare MGET of the client library |
//! | `fetch-multi`, `delete`, `delete-multi-500` | what a fetch of 26 values in Redis, a deletion and one of 500 keys cost, on both sides |
//! | `cluster-fetch`, `cluster-fetch-multi` | a fetch of one value in a cluster of three primaries, beside one server, and of 26, beside pipelines of GET |
//! | `cold-key` | 10,000 callers fetch one key that no tier has: loads, reads of Redis, and the latency |
//! | `map-26`, `json-600k` | codecs and compressions on two documents: time each way, and size |
//!
//! The suite `stale`, in a folder of its own here, asks the same caches what they serve after an invalidation.
//!
//! The workloads with Redis start their own redis-server on a Unix socket, if it is installed.

mod cluster_cost;
mod cold_key;
mod memory_hit;
pub(super) mod quick;
mod read_multi;
mod remote;
mod serializers;
mod server_cost;
mod stale;
mod subject;

pub(super) use stale::Stale;

use super::{Findings, Plan, Suite, Target};
use anyhow::{Context, Result};
use indicatif::ProgressBar;
use larder_process::{RedisServer, find_program};

/// The number of rounds of each workload.
const ROUNDS: usize = 7;

pub(crate) struct Tiers;

impl Suite for Tiers {
    fn name(&self) -> &'static str {
        "tiers"
    }

    fn description(&self) -> &'static str {
        "memory and Redis: hits, many keys at once, cold keys and serializers"
    }

    fn crates(&self) -> &'static [&'static str] {
        &[
            "larder-engine",
            "quick_cache",
            "moka",
            #[cfg(feature = "bench-peers")]
            "foyer-memory",
            #[cfg(feature = "bench-peers")]
            "cachet",
            #[cfg(feature = "bench-peers")]
            "hitbox",
            "redis",
            "postcard",
            "serde_json",
            "rmp-serde",
            "lz4_flex",
            "zstd",
        ]
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::ratio("memory-hit", "time", "moka", 0.85),
            Target::always("memory-hit", "allocations", 0.0),
            Target::ratio("read-multi", "time", "redis-rs", 1.2),
            Target::ratio("cluster-fetch", "cpu", "one server", 1.1),
            Target::ratio("cluster-fetch-multi", "cpu", "redis-rs", 2.0),
            Target::always("cold-key", "loads", 1.0),
            Target::always("cold-key", "redis reads", 1.0),
            Target::value("cold-key", "p99 after the load", 20.0),
        ]
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let scale = Scale::of(plan);
        let mut findings = Findings::default();
        memory_hit::measure(&scale, bar, &mut findings)?;
        let program = find_program("redis-server");
        if let Some(program) = &program {
            cluster_cost::measure(&scale, program, bar, &mut findings)?;
        }
        let server = program.map(RedisServer::start).transpose().context("cannot start redis-server")?;
        match &server {
            Some(server) => {
                read_multi::measure(&scale, server, bar, &mut findings)?;
                server_cost::measure(&scale, server, bar, &mut findings)?;
                cold_key::measure(&scale, server, bar, &mut findings)?;
            }
            None => findings
                .notes
                .push("redis-server is not installed: the workloads with Redis were skipped.".to_owned()),
        }
        serializers::measure(&scale, bar, &mut findings)?;
        Ok(findings)
    }
}

/// The size of a round of each workload.
struct Scale {
    hits: usize,
    reads: usize,
    callers: usize,
    documents: usize,
}

impl Scale {
    fn of(plan: &Plan) -> Self {
        let divisor = if plan.quick { 10 } else { 1 };
        Scale {
            hits: 1_000_000 / divisor,
            reads: 5_000 / divisor,
            callers: 10_000,
            documents: 20 / divisor.min(4),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    /// All workloads, with small sizes.
    #[test]
    fn measure_has_figures_for_every_workload() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let findings = Tiers.measure(&plan, &ProgressBar::hidden()).unwrap();
        let file = file(findings.figures);
        let verdict = |workload: &str, measure: &str| {
            let target = Tiers
                .targets()
                .into_iter()
                .find(|target| target.workload_and_measure() == (workload, measure));
            target.unwrap().judge(&file)
        };
        assert!(verdict("memory-hit", "time").is_some());
        assert!(file.subjects("map-26").len() >= 9);
    }
}
