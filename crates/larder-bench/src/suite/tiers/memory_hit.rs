//! A hit in memory, in a runtime, as a caller has it.

use super::{Findings, ROUNDS, Scale};
use crate::alloc::allocations;
use crate::clock::Took;
use crate::rounds::{self, Entrant, Sample, Value};
use anyhow::Result;
use indicatif::ProgressBar;
use larder::{Cache, View};
use std::convert::Infallible;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Few enough to stay in the processor's cache: it is the path that is measured.
const KEYS: u64 = 1_000;

pub(super) fn measure(scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let hits = scale.hits;
    let mut entrants = vec![larder(hits)?, moka(hits), quick_cache(hits)];
    findings.figures.extend(rounds::run("memory-hit", &mut entrants, ROUNDS, bar)?);
    Ok(())
}

pub(super) fn runtime() -> Result<Arc<Runtime>> {
    Ok(Arc::new(Builder::new_current_thread().enable_all().build()?))
}

fn larder(hits: usize) -> Result<Entrant> {
    let runtime = runtime()?;
    let cache = Cache::builder("bench").ttl(Duration::from_secs(3_600)).build()?;
    let view: View<u64, u64> = cache.view("n");
    let fetch_all = move |view: &View<u64, u64>, fetches: usize| {
        runtime.block_on(async {
            let mut found = 0;
            for n in 0..fetches as u64 {
                let fetched = view.fetch(&(n % KEYS)).load(|_| async { Ok::<_, Infallible>(7) }).await;
                found += u64::from(black_box(fetched).is_ok_and(|value| *value == 7));
            }
            found
        })
    };
    // Filled by the fetches themselves.
    fetch_all(&view, KEYS as usize);
    let round = move || {
        let (found, took) = Took::by(|| fetch_all(&view, hits));
        let mut sample = Sample::time_per_operation(took, hits, found);
        // The runtime allocates when it is entered, and then no more.
        let entering = allocations(|| fetch_all(&view, 1));
        if let (Some((_, entering)), Some((_, all))) = (entering, allocations(|| fetch_all(&view, 1_001))) {
            sample.values.push(Value::low("allocations", "of 1,000", all.saturating_sub(entering) as f64));
        }
        sample
    };
    Ok(Entrant { subject: "larder", round: Box::new(round) })
}

fn moka(hits: usize) -> Entrant {
    let cache =
        moka::sync::Cache::builder().max_capacity(2 * KEYS).time_to_live(Duration::from_secs(3_600)).build();
    (0..KEYS).for_each(|key| cache.insert(key, Arc::new(7_u64)));
    let round = move || {
        let get = |n: usize| u64::from(black_box(cache.get(&(n as u64 % KEYS))).is_some());
        let (found, took) = Took::by(|| (0..hits).map(get).sum());
        Sample::time_per_operation(took, hits, found)
    };
    Entrant { subject: "moka", round: Box::new(round) }
}

fn quick_cache(hits: usize) -> Entrant {
    let cache = quick_cache::sync::Cache::new(2 * KEYS as usize);
    (0..KEYS).for_each(|key| cache.insert(key, Arc::new(7_u64)));
    let round = move || {
        let get = |n: usize| u64::from(black_box(cache.get(&(n as u64 % KEYS))).is_some());
        let (found, took) = Took::by(|| (0..hits).map(get).sum());
        Sample::time_per_operation(took, hits, found)
    };
    Entrant { subject: "quick_cache", round: Box::new(round) }
}
