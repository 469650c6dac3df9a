//! The short measurement of the crate `larder`, in memory alone: hits, misses, writes and fetches, beside quick_cache and moka.

use super::memory_hit::{self, KEYS, runtime};
use super::subject::{FetchThrough, InMemory, Larder};
use crate::measure::clock::Timing;
use crate::measure::rounds::{self, Runner, Sample};
use crate::result::Figure;
use crate::subject::{Expiring, Loading, Moka, QuickCache, Readable};
use crate::suite::Length;
use crate::suite::engine::throughput;
use anyhow::Result;
use indicatif::ProgressBar;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

const HITS: usize = 500_000;
/// Of each other workload. Few enough that no cache becomes full: what an eviction costs is measured of the engine.
const OPERATIONS: usize = 10_000;
/// Longer than any run.
const TTL: Duration = Duration::from_secs(3_600);

/// The workloads beside that of the suite.
#[derive(Clone, Copy)]
enum Workload {
    ReadAbsent,
    Write,
    FetchAbsent,
}

impl Workload {
    const ALL: [Workload; 3] = [Workload::ReadAbsent, Workload::Write, Workload::FetchAbsent];

    fn name(self) -> &'static str {
        match self {
            Workload::ReadAbsent => "read-absent",
            Workload::Write => "write-absent",
            Workload::FetchAbsent => "fetch-absent",
        }
    }

    /// The keys of a round, which no cache has.
    fn keys(self, round: usize, operations: usize) -> impl ExactSizeIterator<Item = u64> {
        let first = match self {
            Workload::ReadAbsent => 1 << 32,
            Workload::Write => (2 << 32) + round * operations,
            Workload::FetchAbsent => (3 << 32) + round * operations,
        };
        (0..operations).map(move |n| (first + n) as u64)
    }
}

pub(in crate::suite) fn measure(length: Length, bar: &ProgressBar) -> Result<Vec<Figure>> {
    let operations = length.of(OPERATIONS);
    let stored = Workload::ALL.len() * (length.rounds + 1) * operations + KEYS as usize;
    let runtime = runtime()?;
    let ours = runtime.block_on(async { Larder::in_memory() });
    let quick_cache: Arc<QuickCache<u64, u64>> = Arc::new(Readable::new(2 * stored));
    let moka: Arc<Moka<u64, u64>> = Arc::new(Expiring::with_ttl(2 * stored, TTL));
    let mut hits = memory_hit::runners(length.of(HITS))?;
    let mut figures = rounds::run("memory-hit", &mut hits, length.rounds, bar)?;
    for workload in Workload::ALL {
        let mut runners = [
            fetch_through(&ours, &runtime, workload, operations),
            plain(&quick_cache, workload, operations),
            plain(&moka, workload, operations),
        ];
        figures.extend(rounds::run(workload.name(), &mut runners, length.rounds, bar)?);
    }
    Ok(figures)
}

/// A cache that is called from a task of a runtime, and loads in tasks.
fn fetch_through<C: FetchThrough>(
    cache: &C,
    runtime: &Arc<Runtime>,
    workload: Workload,
    operations: usize,
) -> Runner {
    let (cache, runtime, mut round) = (cache.clone(), runtime.clone(), 0);
    let round = move || {
        round += 1;
        let work = async {
            let mut succeeded = 0;
            for key in workload.keys(round, operations) {
                succeeded += u64::from(match workload {
                    Workload::ReadAbsent => black_box(cache.read(key).await).is_none(),
                    Workload::Write => {
                        cache.write(key, 1).await;
                        true
                    }
                    Workload::FetchAbsent => black_box(cache.fetch(key, async || Ok(1)).await).is_ok(),
                });
            }
            succeeded
        };
        let (succeeded, timing) = Timing::measure(|| runtime.block_on(work));
        Sample::time_per_operation(timing, operations, succeeded)
    };
    Runner { subject: C::NAME, round: Box::new(round) }
}

/// A cache without tasks.
fn plain<S: Loading<u64, u64>>(cache: &Arc<S>, workload: Workload, operations: usize) -> Runner {
    let (cache, mut round) = (cache.clone(), 0);
    let round = move || {
        round += 1;
        let keys = workload.keys(round, operations);
        match workload {
            Workload::ReadAbsent => throughput::misses(&*cache, keys),
            Workload::Write => throughput::inserts(&*cache, keys, 1),
            Workload::FetchAbsent => throughput::fetches(&*cache, keys, 1),
        }
    };
    Runner { subject: S::NAME, round: Box::new(round) }
}
