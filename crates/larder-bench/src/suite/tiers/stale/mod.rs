//! The suite `stale`: which caches serve a value after its invalidation. Each cache runs the experiments that its API can
//! express; an experiment reports whether the old value is served afterwards.
//!
//! Those over Redis start their own redis-server, if it is installed.

mod experiments;

use super::subject::{FetchThrough, InMemory, Larder, Moka, OverRedis, QuickCache};
use crate::measure::rounds::{self, Runner, Sample, Value};
use crate::result::OCCURRED;
use crate::suite::{Findings, Plan, Suite, Target};
use anyhow::{Context, Result, ensure};
use indicatif::ProgressBar;
use larder_process::{RedisServer, find_program};
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

const WORKLOAD: &str = "stale";
const ROUNDS: usize = 7;
const QUICK_ROUNDS: usize = 2;
/// Longer than any round without a hanging cache.
const TIMEOUT: Duration = Duration::from_secs(60);

pub(crate) struct Stale;

impl Suite for Stale {
    fn name(&self) -> &'static str {
        "stale"
    }

    fn description(&self) -> &'static str {
        "who serves what was invalidated: during loads, by other nodes"
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
        experiments(true).map(|experiment| Target::always(WORKLOAD, experiment, 0.0)).collect()
    }

    /// # Errors
    /// If our cache served an invalidated value, which is a bug and not a figure.
    fn measure(&self, plan: &Plan, bar: &ProgressBar) -> Result<Findings> {
        let rounds = if plan.quick { QUICK_ROUNDS } else { ROUNDS };
        let server = find_program("redis-server").map(RedisServer::start);
        let server = server.transpose().context("cannot start redis-server")?;
        // Two threads: a task that blocks must not block the others.
        let runtime = Arc::new(Builder::new_multi_thread().worker_threads(2).enable_all().build()?);
        let url = server.as_ref().map(RedisServer::url);
        let mut runners = vec![
            two_tiers::<Larder, Larder>(&runtime, url.as_deref()),
            one_tier::<Moka>(&runtime),
            one_tier::<QuickCache>(&runtime),
        ];
        #[cfg(feature = "bench-peers")]
        {
            use super::subject::{Cachet, Foyer, Hitbox, InMoka, InMokaAndRedis};
            runners.push(one_tier::<Foyer>(&runtime));
            runners.push(two_tiers::<Cachet, Cachet>(&runtime, url.as_deref()));
            runners.push(two_tiers::<Hitbox<InMoka>, Hitbox<InMokaAndRedis>>(&runtime, url.as_deref()));
        }
        let figures = rounds::run(WORKLOAD, &mut runners, rounds, bar)?;
        for figure in figures.iter().filter(|figure| figure.subject == Larder::NAME) {
            ensure!(
                figure.rounds.iter().all(|stale| *stale == 0.0),
                "larder served an invalidated value: {}",
                figure.measure
            );
        }
        let mut findings = Findings { figures, ..Findings::default() };
        if server.is_none() {
            findings
                .notes
                .push("redis-server is not installed: the experiments over Redis were skipped.".to_owned());
        }
        Ok(findings)
    }
}

/// The names of the experiments in results; some need Redis.
fn experiments(with_redis: bool) -> impl Iterator<Item = &'static str> {
    let over_redis = experiments::OVER_REDIS.into_iter().filter(move |_| with_redis);
    experiments::IN_MEMORY.into_iter().chain(over_redis)
}

fn one_tier<C: InMemory>(runtime: &Arc<Runtime>) -> Runner {
    let runtime = runtime.clone();
    let round = move || sample(with_timeout::<C>(&runtime, experiments::in_memory::<C>()));
    Runner { subject: C::NAME, round: Box::new(round) }
}

/// Without a `url`, only the experiments without Redis.
fn two_tiers<C: InMemory, T: OverRedis>(runtime: &Arc<Runtime>, url: Option<&str>) -> Runner {
    let (runtime, url) = (runtime.clone(), url.map(str::to_owned));
    let round = move || {
        let mut outcomes = with_timeout::<C>(&runtime, experiments::in_memory::<C>());
        if let Some(url) = &url {
            outcomes.extend(with_timeout::<T>(&runtime, experiments::over_redis::<T>(url)));
        }
        sample(outcomes)
    };
    Runner { subject: C::NAME, round: Box::new(round) }
}

fn with_timeout<C: FetchThrough>(
    runtime: &Runtime,
    experiments: impl Future<Output = Vec<(&'static str, bool)>>,
) -> Vec<(&'static str, bool)> {
    let outcomes = runtime.block_on(async { tokio::time::timeout(TIMEOUT, experiments).await });
    outcomes.unwrap_or_else(|_| panic!("{} hangs", C::NAME))
}

fn sample(outcomes: Vec<(&'static str, bool)>) -> Sample {
    let count = outcomes.len() as u64;
    let value = |(experiment, stale)| Value::low(experiment, OCCURRED, f64::from(u8::from(stale)));
    Sample { values: outcomes.into_iter().map(value).collect(), succeeded: count, expected: count }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::result::tests::file;

    #[test]
    fn measure_finds_stale_reads_of_peers_and_none_of_ours() {
        let plan = Plan { quick: true, seed: 1, pairs: None, traces: None };
        let findings = Stale.measure(&plan, &ProgressBar::hidden()).unwrap();
        let file = file(findings.figures);
        for experiment in experiments(find_program("redis-server").is_some()) {
            let target = Target::always(WORKLOAD, experiment, 0.0);
            let verdict = target.judge(&file).expect("ours runs every experiment");
            assert!(verdict.met, "ours serves an invalidated value: {experiment}");
        }
        // The experiments must find a stale read where one is known.
        let moka = file.find(WORKLOAD, "invalidated during a load", "moka").unwrap();
        assert!(moka.rounds.iter().all(|stale| *stale == 1.0));
        assert!(file.subjects(WORKLOAD).len() >= 3);
    }
}
