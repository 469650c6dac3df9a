//! The suite `engine`: our engine beside other in-process caches and beside plain maps.
//!
//! | workload | what |
//! |---|---|
//! | `get-uniform`, `get-zipf` | hits among a million pairs of numbers, one thread |
//! | `get-zipf-2t`, `same-key-2t` | two threads at once; all their requests are for one key |
//! | `mixed`, `mixed-2t` | three gets and an overwrite in turn |
//! | `latency-get`, `latency-insert` | single operations; the subject `nothing` is what the clock itself takes |
//! | `insert-evict` | new keys into a full cache |
//! | `get-string` | keys of 16 characters |
//! | `mixed-0b` … `mixed-1024b` | values of 0, 128 and 1024 bytes, made anew for each overwrite |
//! | `memory`, `memory-ttl` | bytes per entry over key and value: filled, and after every entry was replaced |
//! | `pairs` | slugs and addresses as a URL shortener keeps them: inserts, and bytes in all |
//! | `churn` | reads and writes with times to live while a cache grows: the longest single operation |

mod churn;
mod latency;
mod memory;
mod numbers;
mod objects;
mod pairs;
mod throughput;

use super::{Findings, Plan, Suite, Target};
use crate::rounds::{self, Entrant};
use anyhow::Result;
use indicatif::ProgressBar;

/// How often each subject's turn comes in each workload.
const ROUNDS: usize = 7;

/// How much larger than its population a cache is where every request should hit: shards do not fill evenly.
const HEADROOM: f64 = 1.1;

pub(crate) struct Engine;

impl Suite for Engine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn about(&self) -> &'static str {
        "in-process caches: speed, latency and memory beside quick_cache, moka and plain maps"
    }

    fn crates(&self) -> &'static [&'static str] {
        const ALWAYS: &[&str] =
            &["larder-engine", "quick_cache", "moka", "hashbrown", "rapidhash", "mimalloc"];
        const WITH_PEERS: &[&str] = &[
            "larder-engine",
            "quick_cache",
            "moka",
            "hashbrown",
            "rapidhash",
            "mimalloc",
            "mini-moka",
            "foyer-memory",
            "TinyUFO",
        ];
        if cfg!(feature = "bench-peers") { WITH_PEERS } else { ALWAYS }
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::ratio("get-uniform", "time", "quick_cache", 0.75),
            Target::ratio("get-uniform", "time", "moka", 0.08),
            Target::ratio("get-uniform", "time", "bare-map", 2.5),
            Target::ratio("get-zipf", "time", "quick_cache", 0.75),
            Target::ratio("get-zipf", "time", "moka", 0.08),
            Target::ratio("get-zipf", "time", "bare-map", 2.5),
            Target::ratio("get-zipf-2t", "throughput", "quick_cache", 1.2),
            Target::ratio("insert-evict", "time", "quick_cache", 1.1),
            Target::ratio("insert-evict", "time", "moka", 0.1),
            Target::value("memory", "filled", 24.0),
            Target::value("memory-ttl", "filled", 32.0),
            Target::always("churn", "longest", 1.0),
            Target::value("pairs", "throughput", 3.0),
            Target::value("pairs", "memory", 130.0),
        ]
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let scale = Scale::of(plan);
        let mut findings = Findings::default();
        // One after another: what a part has built is gone before the next begins.
        for part in [numbers::measure, objects::measure, pairs::measure, memory::measure, churn::measure] {
            part(plan, &scale, bar, &mut findings)?;
        }
        Ok(findings)
    }
}

/// How large the workloads are.
struct Scale {
    /// Entries of the caches of numbers.
    numbers: usize,
    /// Operations in each round.
    operations: usize,
    /// Entries of the caches of strings and of larger values.
    objects: usize,
    pairs: usize,
    churn_seconds: u64,
}

impl Scale {
    fn of(plan: &Plan) -> Self {
        let (numbers, operations, objects, pairs, churn_seconds) = if plan.quick {
            (1_000_000, 100_000, 50_000, 100_000, 5)
        } else {
            (1_000_000, 1_000_000, 100_000, 1_000_000, 60)
        };
        Scale { numbers, operations, objects, pairs, churn_seconds }
    }
}

fn with_headroom(entries: usize) -> usize {
    (entries as f64 * HEADROOM) as usize
}

/// An entrant and the workload that it enters.
struct Entry {
    workload: &'static str,
    entrant: Entrant,
}

impl Entry {
    fn new(
        workload: &'static str,
        subject: &'static str,
        round: impl FnMut() -> rounds::Sample + 'static,
    ) -> Self {
        Entry { workload, entrant: Entrant { subject, round: Box::new(round) } }
    }
}

/// Runs each workload with all that entered it, in the order of the first entries.
fn run_all(entries: Vec<Entry>, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let mut workloads: Vec<(&'static str, Vec<Entrant>)> = Vec::new();
    for Entry { workload, entrant } in entries {
        match workloads.iter_mut().find(|(name, _)| *name == workload) {
            Some((_, entrants)) => entrants.push(entrant),
            None => workloads.push((workload, vec![entrant])),
        }
    }
    for (workload, mut entrants) in workloads {
        findings.figures.extend(rounds::run(workload, &mut entrants, ROUNDS, bar)?);
    }
    Ok(())
}
