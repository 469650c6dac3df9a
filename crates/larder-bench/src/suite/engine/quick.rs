//! The short measurement of the engine: hits, misses, insertions and fetches of numbers, beside quick_cache and moka.

use super::{Case, Plan, Scale, evictions, numbers, run_rounds, throughput};
use crate::result::Figure;
use crate::subject::{Larder, Loading, Moka, QuickCache};
use crate::suite::Length;
use crate::workload::unused_key;
use anyhow::Result;
use indicatif::ProgressBar;
use numbers::Requests;
use std::time::Duration;

/// As in the whole suite: fewer would fit into the caches of the processor.
const ENTRIES: usize = 1_000_000;
const OPERATIONS: usize = 100_000;
/// The seed of the requests.
const SEED: u64 = 42;
/// Where the keys begin that no cache has, and those that are fetched: far from those of insertions.
const FIRST_ABSENT: u64 = 1 << 38;
const FIRST_FETCHED: u64 = 1 << 37;

/// Reads run first, since they must find the whole population.
pub(in crate::suite) fn measure(length: Length, bar: &ProgressBar) -> Result<Vec<Figure>> {
    bar.set_message("filling the caches");
    let plan = Plan { quick: true, seed: SEED, pairs: None, traces: None };
    let scale = Scale {
        numbers: length.of(ENTRIES),
        few_numbers: 0,
        operations: length.of(OPERATIONS),
        objects: 0,
        pairs: 0,
        churn: Duration::ZERO,
        contention: Duration::ZERO,
    };
    let requests = Requests::new(&plan, &scale);
    let subjects = [cases::<Larder<_, _>>, cases::<QuickCache<_, _>>, cases::<Moka<_, _>>];
    let cases = subjects.into_iter().flat_map(|cases| cases(&requests)).collect();
    run_rounds(cases, length.rounds, bar)
}

/// Two workloads of the suite, and two that it has not.
fn cases<S: Loading<u64, u64>>(requests: &Requests) -> Vec<Case> {
    let subject = numbers::filled::<S>(requests);
    let operations = requests.operations as u64;
    let keys = move |first: u64, round: u64| {
        (0..operations as usize).map(move |n| unused_key(first + round * operations + n as u64))
    };
    let (read, fetched, mut round) = (subject.clone(), subject.clone(), 0);
    let is_hit = |case: &Case| case.workload == "get-zipf";
    let mut cases: Vec<Case> = numbers::reads(&subject, requests).into_iter().filter(is_hit).collect();
    cases.push(Case::new("get-absent", S::NAME, move || throughput::misses(&*read, keys(FIRST_ABSENT, 0))));
    let entries = requests.population.len();
    cases.push(evictions::insertions::<S>("insert-evict", entries, requests.operations));
    cases.push(Case::new("fetch-absent", S::NAME, move || {
        round += 1;
        throughput::fetches(&*fetched, keys(FIRST_FETCHED, round), 1)
    }));
    cases
}
