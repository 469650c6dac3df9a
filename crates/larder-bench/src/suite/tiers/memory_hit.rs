//! A hit in memory, called from a task of a runtime.

use super::subject::{InMemory, Larder};
use super::{Findings, ROUNDS, Scale};
use crate::measure::alloc::count_allocations;
use crate::measure::clock::Timing;
use crate::measure::rounds::{self, Runner, Sample, Value};
use anyhow::Result;
use indicatif::ProgressBar;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Few enough for the processor's cache, so that the code is measured and not the memory.
pub(super) const KEYS: u64 = 1_000;

pub(super) fn measure(scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let hits = scale.hits;
    let mut runners = runners(hits)?;
    #[cfg(feature = "bench-peers")]
    {
        use super::subject::{Cachet, Foyer, Hitbox, InMoka};
        runners.extend([fetches::<Foyer>(hits)?, fetches::<Cachet>(hits)?, fetches::<Hitbox<InMoka>>(hits)?]);
    }
    findings.figures.extend(rounds::run("memory-hit", &mut runners, ROUNDS, bar)?);
    Ok(())
}

/// Those of this crate and of the peers that are always built.
pub(super) fn runners(hits: usize) -> Result<Vec<Runner>> {
    Ok(vec![fetches::<Larder>(hits)?, moka(hits), quick_cache(hits)])
}

pub(super) fn runtime() -> Result<Arc<Runtime>> {
    Ok(Arc::new(Builder::new_current_thread().enable_all().build()?))
}

/// Fetches with a loader that never runs.
fn fetches<C: InMemory>(hits: usize) -> Result<Runner> {
    let runtime = runtime()?;
    let cache = runtime.block_on(async { C::in_memory() });
    let fetch_all = move |cache: &C, count: usize| {
        runtime.block_on(async {
            let mut found = 0;
            for n in 0..count as u64 {
                let fetched = cache.fetch(n % KEYS, || async { Ok(7) }).await;
                found += u64::from(black_box(fetched).is_ok_and(|value| value == 7));
            }
            found
        })
    };
    // The first fetches fill the cache.
    fetch_all(&cache, KEYS as usize);
    let round = move || {
        let (found, timing) = Timing::measure(|| fetch_all(&cache, hits));
        let mut sample = Sample::time_per_operation(timing, hits, found);
        // Entering the runtime allocates: subtract that.
        let entering = count_allocations(|| fetch_all(&cache, 1));
        if let (Some((_, entering)), Some((_, all))) =
            (entering, count_allocations(|| fetch_all(&cache, 1_001)))
        {
            sample.values.push(Value::low("allocations", "of 1,000", all.saturating_sub(entering) as f64));
        }
        sample
    };
    Ok(Runner { subject: C::NAME, round: Box::new(round) })
}

fn moka(hits: usize) -> Runner {
    let cache =
        moka::sync::Cache::builder().max_capacity(2 * KEYS).time_to_live(Duration::from_secs(3_600)).build();
    (0..KEYS).for_each(|key| cache.insert(key, Arc::new(7_u64)));
    let round = move || {
        let get = |n: usize| u64::from(black_box(cache.get(&(n as u64 % KEYS))).is_some());
        let (found, timing) = Timing::measure(|| (0..hits).map(get).sum());
        Sample::time_per_operation(timing, hits, found)
    };
    Runner { subject: "moka", round: Box::new(round) }
}

fn quick_cache(hits: usize) -> Runner {
    let cache = quick_cache::sync::Cache::new(2 * KEYS as usize);
    (0..KEYS).for_each(|key| cache.insert(key, Arc::new(7_u64)));
    let round = move || {
        let get = |n: usize| u64::from(black_box(cache.get(&(n as u64 % KEYS))).is_some());
        let (found, timing) = Timing::measure(|| (0..hits).map(get).sum());
        Sample::time_per_operation(timing, hits, found)
    };
    Runner { subject: "quick_cache", round: Box::new(round) }
}
