//! The suite `stale`: which caches serve a value after its invalidation. Each cache runs the experiments that its API can
//! express; an experiment reports whether the old value is served afterwards.
//!
//! Those over Redis start their own redis-server, if it is installed.

mod cluster;
mod experiments;
mod processes;

use super::subject::{FetchThrough, InMemory, Larder, Moka, OverCluster, OverRedis, QuickCache, RedisRs};
use crate::measure::rounds::{self, Runner, Sample, Value, record};
use crate::result::{Figure, OCCURRED};
use crate::suite::{Findings, Plan, Suite, Target};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use larder_process::{RedisServer, find_program};
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const WORKLOAD: &str = "stale";
const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 2;
/// Of the experiments over a cluster, of which one takes some twenty seconds and has many keys.
const CLUSTER_ROUNDS: usize = 3;
/// Longer than any round without a hanging cache.
const TIMEOUT: Duration = Duration::from_secs(180);

pub(crate) struct Stale;

impl Suite for Stale {
    fn name(&self) -> &'static str {
        "stale"
    }

    fn description(&self) -> &'static str {
        "who serves what was invalidated: during loads, by other nodes, while slots move, by a failover, by other processes"
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
        ]
    }

    fn targets(&self) -> Vec<Target> {
        let in_processes = processes::EXPERIMENTS.map(|experiment| (processes::WORKLOAD, experiment.name));
        let experiments = experiments().map(|experiment| (WORKLOAD, experiment)).chain(in_processes);
        experiments.map(|(workload, experiment)| Target::always(workload, experiment, 0.0)).collect()
    }

    /// # Errors
    /// If our cache served an invalidated value, which is a bug and not a figure.
    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let bench = Bench::start()?;
        let mut findings = Findings { figures: over_one_server(&bench, plan, bar)?, ..Findings::default() };
        if let Some((program, _)) = &bench.redis {
            let rounds = if plan.quick { 1 } else { CLUSTER_ROUNDS };
            over_cluster::<Larder>(&bench, program, rounds, bar, &mut findings)?;
            over_cluster::<RedisRs>(&bench, program, rounds, bar, &mut findings)?;
            processes::measure(program, plan, bar, &mut findings)?;
        }
        for figure in findings.figures.iter().filter(|figure| figure.subject == Larder::NAME) {
            ensure!(
                figure.rounds.iter().all(|stale| *stale == 0.0),
                "larder served an invalidated value: {}",
                figure.measure
            );
        }
        if bench.redis.is_none() {
            findings
                .notes
                .push("redis-server is not installed: the experiments over Redis were skipped.".to_owned());
        }
        Ok(findings)
    }
}

/// The experiments in memory and over one server.
fn over_one_server(bench: &Bench, plan: &Plan, bar: &ProgressBar) -> Result<Vec<Figure>> {
    let mut runners = vec![
        runner::<Larder>(vec![in_memory::<Larder>(bench), over_redis::<Larder>(bench)]),
        runner::<Moka>(vec![in_memory::<Moka>(bench)]),
        runner::<QuickCache>(vec![in_memory::<QuickCache>(bench)]),
    ];
    #[cfg(feature = "bench-peers")]
    {
        use super::subject::{Cachet, Foyer, Hitbox, InMoka, InMokaAndRedis};
        runners.push(runner::<Foyer>(vec![in_memory::<Foyer>(bench)]));
        runners.push(runner::<Cachet>(vec![in_memory::<Cachet>(bench), over_redis::<Cachet>(bench)]));
        runners.push(runner::<Hitbox<InMoka>>(vec![
            in_memory::<Hitbox<InMoka>>(bench),
            over_redis::<Hitbox<InMokaAndRedis>>(bench),
        ]));
    }
    rounds::run(WORKLOAD, &mut runners, if plan.quick { QUICK_ROUNDS } else { ROUNDS }, bar)
}

/// The experiments over clusters, each round of which loses another primary. A peer that does not come to their end has no
/// figures there, and a note says so.
///
/// # Errors
/// If our cache does not come to their end.
fn over_cluster<C: OverCluster>(
    bench: &Bench,
    program: &Path,
    rounds: usize,
    bar: &ProgressBar,
    findings: &mut Findings,
) -> Result<()> {
    let mut figures = Vec::new();
    for round in 0..rounds {
        bar.set_message(format!("{} over a cluster, round {} of {rounds}", C::NAME, round + 1));
        let experiments = cluster::over_cluster::<C>(program, round % cluster::PRIMARIES);
        let ended = bench.runtime.block_on(async { tokio::time::timeout(TIMEOUT, experiments).await });
        let Ok(shares) = ended else {
            let note = format!("{} did not end within {} s over a cluster.", C::NAME, TIMEOUT.as_secs());
            ensure!(C::NAME != Larder::NAME, note);
            findings.notes.push(note);
            return Ok(());
        };
        for (experiment, share) in cluster::OVER_CLUSTER.into_iter().zip(shares?) {
            record(&mut figures, WORKLOAD, C::NAME, Value::low(experiment, OCCURRED, share));
        }
    }
    findings.figures.extend(figures);
    Ok(())
}

/// The names of the experiments in results.
fn experiments() -> impl Iterator<Item = &'static str> {
    let over_redis = experiments::OVER_REDIS.into_iter().chain(cluster::OVER_CLUSTER);
    experiments::IN_MEMORY.into_iter().chain(over_redis)
}

/// What the experiments need.
struct Bench {
    runtime: Arc<Runtime>,
    /// The program, and a server; `None` if it is not installed.
    redis: Option<(PathBuf, RedisServer)>,
}

impl Bench {
    fn start() -> Result<Self> {
        let start = |program: PathBuf| Ok::<_, io::Error>((program.clone(), RedisServer::start(program)?));
        let redis = find_program("redis-server").map(start).transpose();
        // Two threads: a task that blocks must not block the others.
        let runtime = Arc::new(Builder::new_multi_thread().worker_threads(2).enable_all().build()?);
        Ok(Bench { runtime, redis: redis.context("cannot start redis-server")? })
    }
}

/// Whether the old value was served in an experiment.
type Outcome = (&'static str, bool);
/// Some experiments of one cache.
type Part = Box<dyn FnMut() -> Vec<Outcome>>;

fn runner<C: FetchThrough>(mut parts: Vec<Part>) -> Runner {
    Runner {
        subject: C::NAME,
        round: Box::new(move || sample(parts.iter_mut().flat_map(|part| part()).collect())),
    }
}

fn in_memory<C: InMemory>(bench: &Bench) -> Part {
    let runtime = bench.runtime.clone();
    Box::new(move || with_timeout::<C, _>(&runtime, experiments::in_memory::<C>()))
}

/// None without a server.
fn over_redis<C: OverRedis>(bench: &Bench) -> Part {
    let (runtime, url) = (bench.runtime.clone(), bench.redis.as_ref().map(|(_, server)| server.url()));
    let run = move |url: &String| with_timeout::<C, _>(&runtime, experiments::over_redis::<C>(url));
    Box::new(move || url.iter().flat_map(&run).collect())
}

fn with_timeout<C: FetchThrough, T>(runtime: &Runtime, experiments: impl Future<Output = T>) -> T {
    let outcomes = runtime.block_on(async { tokio::time::timeout(TIMEOUT, experiments).await });
    outcomes.unwrap_or_else(|_| panic!("{} hangs", C::NAME))
}

fn sample(outcomes: Vec<Outcome>) -> Sample {
    let count = outcomes.len() as u64;
    let value = |(experiment, stale)| Value::low(experiment, OCCURRED, f64::from(u8::from(stale)));
    Sample { values: outcomes.into_iter().map(value).collect(), succeeded: count, expected: count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    /// Those over clusters take a minute: a run of the suite has them.
    #[test]
    fn experiments_find_stale_reads_of_peers_and_none_of_ours() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let bench = Bench::start().unwrap();
        let file = file(over_one_server(&bench, &plan, &ProgressBar::hidden()).unwrap());
        let over_redis = experiments::OVER_REDIS.into_iter().filter(|_| bench.redis.is_some());
        for experiment in experiments::IN_MEMORY.into_iter().chain(over_redis) {
            let target = Target::always(WORKLOAD, experiment, 0.0);
            let verdict = target.judge(&file).expect("ours runs every experiment");
            assert!(verdict.met, "ours serves an invalidated value: {experiment}");
        }
        // The experiments must find a stale read where one is known.
        let moka = file.find(WORKLOAD, "invalidated during a load", "moka").expect("moka runs it");
        assert!(moka.rounds.iter().all(|stale| *stale == 1.0));
        assert!(file.subjects(WORKLOAD).len() >= 3);
    }
}
