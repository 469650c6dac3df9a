//! Caches of numbers, whose times are almost only those of the cache itself.

use super::{Case, Findings, Plan, Scale, latency, run_all, throughput, with_headroom};
use crate::subject::{BareMap, Larder, LockedMap, Readable, Writable, each_cache};
use crate::workload::{Population, unused_key};
use anyhow::Result;
use indicatif::ProgressBar;
use std::hint::black_box;
use std::sync::Arc;

/// Threads of the workloads whose names end in `-2t`.
const THREADS: usize = 2;

/// The requests, which are the same for all subjects.
pub(super) struct Requests {
    pub(super) population: Vec<u64>,
    uniform: Arc<[u64]>,
    zipf: Arc<[u64]>,
    /// One list per thread.
    zipf_threads: Arc<[Arc<[u64]>]>,
    same_key_threads: Arc<[Arc<[u64]>]>,
    pub(super) operations: usize,
}

impl Requests {
    pub(super) fn new(plan: &Plan, scale: &Scale) -> Self {
        let mut population = Population::new(scale.numbers, plan.seed);
        let operations = scale.operations;
        let hottest = population.keys()[0];
        Requests {
            uniform: population.uniform(operations).into(),
            zipf: population.zipf(operations).into(),
            zipf_threads: (0..THREADS).map(|_| population.zipf(operations).into()).collect(),
            same_key_threads: (0..THREADS).map(|_| vec![hottest; operations].into()).collect(),
            population: population.keys().to_vec(),
            operations,
        }
    }
}

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("filling the caches");
    let requests = Requests::new(plan, scale);
    let mut cases: Vec<Case> = each_cache!(cache(&requests)).into_iter().flatten().collect();
    let locked = filled::<LockedMap<_, _>>(&requests);
    cases.extend(reads(&locked, &requests));
    cases.extend(overwrites(&locked, &requests));
    cases.extend(reads(&filled::<BareMap<_, _>>(&requests), &requests));
    cases.extend(timing_overhead(&requests));
    cases.extend(gets_together(&requests));
    run_all(reads_first(cases), bar, findings)?;
    if std::thread::available_parallelism().map_or(1, usize::from) < THREADS {
        findings.notes.push(
            "The machine has one processor: the threads of the workloads with two threads took turns."
                .to_owned(),
        );
    }
    Ok(())
}

/// Sorts the workloads so that those that write run last: reads must find the whole population.
fn reads_first(mut cases: Vec<Case>) -> Vec<Case> {
    cases.sort_by_key(|entry| match entry.workload {
        name if name.starts_with("get") => 0,
        name if name.starts_with("same") => 1,
        "latency-get" => 2,
        name if name.starts_with("mixed") => 3,
        _ => 4,
    });
    cases
}

pub(super) fn filled<S: Readable<u64, u64>>(requests: &Requests) -> Arc<S> {
    let mut subject = S::new(with_headroom(requests.population.len()));
    requests.population.iter().for_each(|&key| subject.fill(key, key));
    subject.complete_deferred_work();
    Arc::new(subject)
}

fn cache<S: Writable<u64, u64>>(requests: &Requests) -> Vec<Case> {
    let subject = filled::<S>(requests);
    let mut cases = reads(&subject, requests);
    cases.extend(overwrites(&subject, requests));
    cases.push(insertions(&subject, requests));
    cases
}

pub(super) fn reads<S: Readable<u64, u64>>(subject: &Arc<S>, requests: &Requests) -> Vec<Case> {
    let mut cases = Vec::new();
    for (workload, keys) in [("get-uniform", &requests.uniform), ("get-zipf", &requests.zipf)] {
        let (subject, keys) = (subject.clone(), keys.clone());
        cases.push(Case::new(workload, S::NAME, move || throughput::gets(&*subject, &keys)));
    }
    for (workload, keys) in
        [("get-zipf-2t", &requests.zipf_threads), ("same-key-2t", &requests.same_key_threads)]
    {
        let (subject, keys) = (subject.clone(), keys.clone());
        cases.push(Case::new(workload, S::NAME, move || throughput::gets_in_threads(&*subject, &keys)));
    }
    let (subject, keys) = (subject.clone(), requests.zipf.clone());
    cases.push(Case::new("latency-get", S::NAME, move || {
        latency::time_each(keys.iter(), |key| black_box(subject.get(key)).is_some())
    }));
    cases
}

fn overwrites<S: Writable<u64, u64>>(subject: &Arc<S>, requests: &Requests) -> Vec<Case> {
    let (one, keys) = (subject.clone(), requests.zipf.clone());
    let (two, threads) = (subject.clone(), requests.zipf_threads.clone());
    vec![
        Case::new("mixed", S::NAME, move || throughput::mixed(&*one, &keys, || 1)),
        Case::new("mixed-2t", S::NAME, move || throughput::mixed_in_threads(&*two, &threads, || 1)),
    ]
}

/// Inserts of new keys, each timed. The first round, which does not count, fills the headroom.
fn insertions<S: Writable<u64, u64>>(subject: &Arc<S>, requests: &Requests) -> Case {
    let operations = requests.operations;
    let headroom = with_headroom(requests.population.len()) - requests.population.len();
    let (subject, mut round) = (subject.clone(), 0);
    Case::new("latency-insert", S::NAME, move || {
        if round == 0 {
            (0..2 * headroom as u64).for_each(|n| subject.insert(unused_key((1 << 39) + n), 1));
        }
        round += 1;
        let first = (round * operations) as u64;
        latency::time_each((0..operations).map(|n| unused_key(first + n as u64)), |key| {
            subject.insert(key, 1);
            true
        })
    })
}

/// Keys in each call of the workload `get-many`.
const KEYS_TOGETHER: usize = 32;

/// The same keys one by one and together.
fn gets_together(requests: &Requests) -> Vec<Case> {
    let subject = filled::<Larder<u64, u64>>(requests);
    let (one_by_one, keys) = (subject.clone(), requests.uniform.clone());
    let (together, same_keys) = (subject, requests.uniform.clone());
    vec![
        Case::new("get-many", "larder, one by one", move || throughput::gets(&*one_by_one, &keys)),
        Case::new("get-many", "larder", move || {
            throughput::gets_together(&same_keys, KEYS_TOGETHER, |keys| together.get_many(keys))
        }),
    ]
}

/// The overhead of timing single operations.
fn timing_overhead(requests: &Requests) -> Vec<Case> {
    let keys = requests.zipf.clone();
    vec![Case::new("latency-get", "nothing", move || {
        latency::time_each(keys.iter(), |key| black_box(*key) != 0)
    })]
}
