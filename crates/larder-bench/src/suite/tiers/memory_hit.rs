//! A hit in memory, in a runtime, as a caller has it.

use super::subject::{InMemory, Larder};
use super::{Findings, ROUNDS, Scale};
use crate::alloc::allocations;
use crate::clock::Took;
use crate::rounds::{self, Entrant, Sample, Value};
use anyhow::Result;
use indicatif::ProgressBar;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};

/// Few enough to stay in the processor's cache: it is the path that is measured.
const KEYS: u64 = 1_000;

pub(super) fn measure(scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let hits = scale.hits;
    let mut entrants = vec![fetching::<Larder>(hits)?, moka(hits), quick_cache(hits)];
    #[cfg(feature = "bench-peers")]
    {
        use super::subject::{Cachet, Foyer, Hitbox, InMoka};
        entrants.extend([
            fetching::<Foyer>(hits)?,
            fetching::<Cachet>(hits)?,
            fetching::<Hitbox<InMoka>>(hits)?,
        ]);
    }
    findings.figures.extend(rounds::run("memory-hit", &mut entrants, ROUNDS, bar)?);
    Ok(())
}

pub(super) fn runtime() -> Result<Arc<Runtime>> {
    Ok(Arc::new(Builder::new_current_thread().enable_all().build()?))
}

/// Fetches, each with a loader that is not needed.
fn fetching<C: InMemory>(hits: usize) -> Result<Entrant> {
    let runtime = runtime()?;
    let cache = runtime.block_on(async { C::in_memory() });
    let fetch_all = move |cache: &C, fetches: usize| {
        runtime.block_on(async {
            let mut found = 0;
            for n in 0..fetches as u64 {
                let fetched = cache.fetch(n % KEYS, || async { Ok(7) }).await;
                found += u64::from(black_box(fetched).is_ok_and(|value| value == 7));
            }
            found
        })
    };
    // Filled by the fetches themselves.
    fetch_all(&cache, KEYS as usize);
    let round = move || {
        let (found, took) = Took::by(|| fetch_all(&cache, hits));
        let mut sample = Sample::time_per_operation(took, hits, found);
        // The runtime allocates when it is entered, and then no more.
        let entering = allocations(|| fetch_all(&cache, 1));
        if let (Some((_, entering)), Some((_, all))) = (entering, allocations(|| fetch_all(&cache, 1_001))) {
            sample.values.push(Value::low("allocations", "of 1,000", all.saturating_sub(entering) as f64));
        }
        sample
    };
    Ok(Entrant { subject: C::NAME, round: Box::new(round) })
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
