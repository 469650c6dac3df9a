//! The suite `engine`: our engine beside other in-process caches and beside plain maps.
//!
//! | workload | meaning |
//! |---|---|
//! | `get-uniform`, `get-zipf` | hits among a million pairs of numbers, one thread |
//! | `get-many` | as `get-uniform`, 32 keys in each call, beside one call for each |
//! | `get-zipf-2t`, `same-key-2t` | two threads at once; in the second, all requests are for one key |
//! | `same-key-64t` | 64 threads at once, all requests for one key: waits, and how often the system switched threads |
//! | `mixed`, `mixed-2t` | one overwrite after every three gets |
//! | `latency-get`, `latency-insert` | single operations; the subject `nothing` is the overhead of the clock |
//! | `insert-evict`, `insert-evict-100k` | new keys into a full cache, of a million entries and of 100,000 |
//! | `get-insert-zipf`, `get-insert-zipf-100k` | a get, and an insertion if it misses, of ten times as many keys as the cache has room for |
//! | `get-string` | keys of 16 characters |
//! | `mixed-0b` … `mixed-1024b` | values of 0, 128 and 1024 bytes, allocated for each overwrite |
//! | `memory`, `memory-ttl` | bytes per entry in addition to key and value: filled, and after every entry was replaced |
//! | `pairs` | slugs and addresses as a URL shortener stores them: inserts, and total bytes |
//! | `churn` | reads and writes with a TTL while a cache grows: the longest single operation |
//! | `weights-0.6` … `weights-1.2` | the share of requests, and of their bytes, that hit in 64 MiB, where most entries have a kilobyte and a few have megabytes |

mod churn;
mod contention;
mod evictions;
mod latency;
mod memory;
mod numbers;
mod objects;
mod pairs;
pub(super) mod quick;
pub(super) mod throughput;
mod weights;

use super::{Findings, Plan, Suite, Target};
use crate::measure::rounds::{self, Runner};
use crate::result::Figure;
use anyhow::Result;
use indicatif::ProgressBar;
use std::time::Duration;

/// The number of rounds of each workload.
const ROUNDS: usize = 7;

/// The factor by which the capacity exceeds the population in workloads of hits: shards fill unevenly.
const HEADROOM: f64 = 1.1;

/// The crates that are measured, and those that affect the times.
#[cfg(not(feature = "bench-peers"))]
pub(super) const CRATES: &[&str] =
    &["larder-engine", "quick_cache", "moka", "hashbrown", "rapidhash", "mimalloc"];
#[cfg(feature = "bench-peers")]
pub(super) const CRATES: &[&str] = &[
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

pub(crate) struct Engine;

impl Suite for Engine {
    fn name(&self) -> &'static str {
        "engine"
    }

    fn description(&self) -> &'static str {
        "in-process caches: speed, latency and memory, compared with quick_cache, moka and plain maps"
    }

    fn crates(&self) -> &'static [&'static str] {
        CRATES
    }

    fn targets(&self) -> Vec<Target> {
        vec![
            Target::ratio("get-uniform", "time", "quick_cache", 0.70),
            Target::ratio("get-uniform", "time", "moka", 0.08),
            Target::ratio("get-uniform", "time", "bare-map", 2.5),
            Target::ratio("get-zipf", "time", "quick_cache", 0.70),
            Target::ratio("get-zipf", "time", "moka", 0.08),
            Target::ratio("get-zipf", "time", "bare-map", 2.5),
            Target::ratio("get-zipf-2t", "throughput", "quick_cache", 1.2),
            Target::ratio("insert-evict", "time", "quick_cache", 0.95),
            Target::ratio("insert-evict-100k", "time", "quick_cache", 1.5),
            Target::ratio("get-insert-zipf", "time", "quick_cache", 1.05),
            Target::ratio("get-insert-zipf-100k", "time", "quick_cache", 1.05),
            Target::ratio("insert-evict", "time", "moka", 0.1),
            Target::value("memory", "filled", 24.0),
            Target::value("memory-ttl", "filled", 32.0),
            Target::always("churn", "longest", 1.0),
            Target::value("pairs", "throughput", 3.0),
            Target::value("pairs", "memory", 130.0),
        ]
    }

    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        measure(plan, &Scale::of(plan), bar)
    }
}

/// Runs one part after the other; each drops its caches before the next starts.
fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar) -> Result<Findings> {
    let mut findings = Findings::default();
    let parts = [
        numbers::measure,
        evictions::measure,
        contention::measure,
        objects::measure,
        pairs::measure,
        memory::measure,
        churn::measure,
        weights::measure,
    ];
    for part in parts {
        part(plan, scale, bar, &mut findings)?;
    }
    Ok(findings)
}

/// The sizes of the workloads.
struct Scale {
    /// Entries of the caches of numbers.
    numbers: usize,
    /// Entries of the smaller caches of numbers.
    few_numbers: usize,
    /// Operations in each round.
    operations: usize,
    /// Entries of the caches of strings and of larger values.
    objects: usize,
    pairs: usize,
    churn: Duration,
    /// The length of a round with many threads.
    contention: Duration,
}

impl Scale {
    fn of(plan: &Plan) -> Self {
        let (numbers, operations, objects, pairs, churn, contention) = if plan.quick {
            (1_000_000, 100_000, 50_000, 100_000, 5, 100)
        } else {
            (1_000_000, 1_000_000, 100_000, 1_000_000, 60, 1_000)
        };
        Scale {
            numbers,
            few_numbers: 100_000,
            operations,
            objects,
            pairs,
            churn: Duration::from_secs(churn),
            contention: Duration::from_millis(contention),
        }
    }
}

fn with_headroom(entries: usize) -> usize {
    (entries as f64 * HEADROOM) as usize
}

/// A runner and its workload.
struct Case {
    workload: &'static str,
    runner: Runner,
}

impl Case {
    fn new(
        workload: &'static str,
        subject: &'static str,
        round: impl FnMut() -> rounds::Sample + 'static,
    ) -> Self {
        Case { workload, runner: Runner { subject, round: Box::new(round) } }
    }
}

/// Runs each workload with all its runners, in the order in which the workloads first occur.
fn run_all(cases: Vec<Case>, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    findings.figures.extend(run_rounds(cases, ROUNDS, bar)?);
    Ok(())
}

/// The same with so many rounds.
fn run_rounds(cases: Vec<Case>, rounds: usize, bar: &ProgressBar) -> Result<Vec<Figure>> {
    let mut workloads: Vec<(&'static str, Vec<Runner>)> = Vec::new();
    for Case { workload, runner } in cases {
        match workloads.iter_mut().find(|(name, _)| *name == workload) {
            Some((_, runners)) => runners.push(runner),
            None => workloads.push((workload, vec![runner])),
        }
    }
    let mut figures = Vec::new();
    for (workload, mut runners) in workloads {
        figures.extend(rounds::run(workload, &mut runners, rounds, bar)?);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    /// Figures that need an allocator that counts, which the test does not have.
    const REQUIRE_COUNTING: [(&str, &str); 3] =
        [("memory", "filled"), ("memory-ttl", "filled"), ("pairs", "memory")];

    /// All workloads, with small sizes.
    #[test]
    fn measure_has_figures_for_every_target() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let time = Duration::from_millis(20);
        let scale = Scale {
            numbers: 50_000,
            few_numbers: 5_000,
            operations: 2000,
            objects: 20_000,
            pairs: 20_000,
            churn: time,
            contention: time,
        };
        let findings = measure(&plan, &scale, &ProgressBar::hidden()).unwrap();
        let file = file(findings.figures);
        for target in Engine.targets() {
            let expected = !REQUIRE_COUNTING.contains(&target.workload_and_measure());
            assert_eq!(target.judge(&file).is_some(), expected, "{target:?}");
        }
        assert!(file.figures.iter().all(|figure| figure.rounds.iter().all(|value| value.is_finite())));
        assert_eq!(file.find("get-zipf", "time", "larder").unwrap().rounds.len(), ROUNDS);
        assert!(file.subjects("get-uniform").len() >= 6 && file.subjects("churn").len() == 2);
        assert!(findings.notes.iter().any(|note| note.contains("allocator does not count")));
    }
}
