//! Caches of numbers: where the cache is nearly all that there is to measure.

use super::{Entry, Findings, Plan, Scale, latency, run_all, throughput, with_headroom};
use crate::subject::{BareMap, LockedMap, Readable, Writable, each_cache};
use crate::workload::{Population, fresh_key};
use anyhow::Result;
use indicatif::ProgressBar;
use std::hint::black_box;
use std::sync::Arc;

/// Threads of the workloads whose names end in `-2t`.
const THREADS: usize = 2;

/// The same requests for all subjects.
struct Requests {
    population: Vec<u64>,
    uniform: Arc<[u64]>,
    zipf: Arc<[u64]>,
    /// By thread.
    zipf_threads: Arc<[Arc<[u64]>]>,
    same_key_threads: Arc<[Arc<[u64]>]>,
    operations: usize,
}

impl Requests {
    fn new(plan: &Plan, scale: &Scale) -> Self {
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
    let mut entries: Vec<Entry> = each_cache!(cache(&requests)).into_iter().flatten().collect();
    let locked = filled::<LockedMap<_, _>>(&requests);
    entries.extend(reads(&locked, &requests));
    entries.extend(overwrites(&locked, &requests));
    entries.extend(reads(&filled::<BareMap<_, _>>(&requests), &requests));
    entries.extend(nothing(&requests));
    run_all(in_order(entries), bar, findings)?;
    if std::thread::available_parallelism().map_or(1, usize::from) < THREADS {
        findings
            .notes
            .push("The machine runs one thread at a time: workloads of two threads took turns.".to_owned());
    }
    Ok(())
}

/// Writes come last: reads should find the population as it was filled in.
fn in_order(mut entries: Vec<Entry>) -> Vec<Entry> {
    entries.sort_by_key(|entry| match entry.workload {
        name if name.starts_with("get") => 0,
        name if name.starts_with("same") => 1,
        "latency-get" => 2,
        name if name.starts_with("mixed") => 3,
        _ => 4,
    });
    entries
}

fn filled<S: Readable<u64, u64>>(requests: &Requests) -> Arc<S> {
    let mut subject = S::new(with_headroom(requests.population.len()));
    requests.population.iter().for_each(|&key| subject.fill(key, key));
    subject.settle();
    Arc::new(subject)
}

fn cache<S: Writable<u64, u64>>(requests: &Requests) -> Vec<Entry> {
    let subject = filled::<S>(requests);
    let mut entries = reads(&subject, requests);
    entries.extend(overwrites(&subject, requests));
    entries.extend(evictions(&subject, requests));
    entries
}

fn reads<S: Readable<u64, u64>>(subject: &Arc<S>, requests: &Requests) -> Vec<Entry> {
    let mut entries = Vec::new();
    for (workload, keys) in [("get-uniform", &requests.uniform), ("get-zipf", &requests.zipf)] {
        let (subject, keys) = (subject.clone(), keys.clone());
        entries.push(Entry::new(workload, S::NAME, move || throughput::gets(&*subject, &keys)));
    }
    for (workload, keys) in
        [("get-zipf-2t", &requests.zipf_threads), ("same-key-2t", &requests.same_key_threads)]
    {
        let (subject, keys) = (subject.clone(), keys.clone());
        entries.push(Entry::new(workload, S::NAME, move || throughput::gets_in_threads(&*subject, &keys)));
    }
    let (subject, keys) = (subject.clone(), requests.zipf.clone());
    entries.push(Entry::new("latency-get", S::NAME, move || {
        latency::each(keys.iter(), |key| black_box(subject.get(key)).is_some())
    }));
    entries
}

fn overwrites<S: Writable<u64, u64>>(subject: &Arc<S>, requests: &Requests) -> Vec<Entry> {
    let (one, keys) = (subject.clone(), requests.zipf.clone());
    let (two, threads) = (subject.clone(), requests.zipf_threads.clone());
    vec![
        Entry::new("mixed", S::NAME, move || throughput::mixed(&*one, &keys, || 1)),
        Entry::new("mixed-2t", S::NAME, move || throughput::mixed_in_threads(&*two, &threads, || 1)),
    ]
}

/// The cache is full from the first round on, which does not count: it inserts more than the headroom.
fn evictions<S: Writable<u64, u64>>(subject: &Arc<S>, requests: &Requests) -> Vec<Entry> {
    let operations = requests.operations;
    let headroom = with_headroom(requests.population.len()) - requests.population.len();
    let fresh = move |round: usize, rounds_before: usize| {
        let first = ((rounds_before + round) * operations) as u64;
        (0..operations).map(move |n| fresh_key(first + n as u64))
    };
    let (bulk, single) = (subject.clone(), subject.clone());
    let (mut bulk_round, mut single_round) = (0, 0);
    vec![
        Entry::new("insert-evict", S::NAME, move || {
            if bulk_round == 0 {
                (0..2 * headroom as u64).for_each(|n| bulk.insert(fresh_key((1 << 39) + n), 1));
            }
            bulk_round += 1;
            throughput::inserts(&*bulk, fresh(bulk_round, 0), 1)
        }),
        Entry::new("latency-insert", S::NAME, move || {
            single_round += 1;
            latency::each(fresh(single_round, 1000), |key| {
                single.insert(key, 1);
                true
            })
        }),
    ]
}

/// What the measuring of single operations takes itself.
fn nothing(requests: &Requests) -> Vec<Entry> {
    let keys = requests.zipf.clone();
    vec![Entry::new("latency-get", "nothing", move || latency::each(keys.iter(), |key| black_box(*key) != 0))]
}
