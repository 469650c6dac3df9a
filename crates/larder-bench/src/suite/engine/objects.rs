//! Caches of strings and of larger values, whose times include allocations and memory accesses.

use super::{Case, Findings, Plan, Scale, run_all, throughput, with_headroom};
use crate::subject::{Key, LockedMap, Readable, Value, Writable, each_cache};
use crate::workload::Population;
use anyhow::Result;
use indicatif::ProgressBar;
use std::sync::Arc;

/// The workloads, with the size of their values in bytes.
const VALUES: [(&str, usize); 3] = [("mixed-0b", 0), ("mixed-128b", 128), ("mixed-1024b", 1024)];

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("filling the caches");
    let mut population = Population::new(scale.objects, plan.seed);
    let operations = scale.operations / 2;
    let numbers: Arc<[u64]> = population.zipf(operations).into();

    let text = |key: &u64| format!("{key:016x}");
    let names: Vec<String> = population.keys().iter().map(text).collect();
    let strings: Arc<[String]> = numbers.iter().map(text).collect();
    let mut cases: Vec<Case> = each_cache!(string_case(&names, &strings));
    cases.push(string_case::<LockedMap<_, _>>(&names, &strings));
    run_all(cases, bar, findings)?;

    for (workload, value_bytes) in VALUES {
        let mut cases: Vec<Case> =
            each_cache!(bytes_case(workload, population.keys(), &numbers, value_bytes));
        cases.push(bytes_case::<LockedMap<_, _>>(workload, population.keys(), &numbers, value_bytes));
        run_all(cases, bar, findings)?;
    }
    Ok(())
}

fn string_case<S: Readable<String, u64>>(names: &[String], requests: &Arc<[String]>) -> Case {
    let subject: S = filled(names, || 1);
    let requests = requests.clone();
    Case::new("get-string", S::NAME, move || throughput::gets(&subject, &requests))
}

fn bytes_case<S: Writable<u64, Arc<[u8]>>>(
    workload: &'static str,
    keys: &[u64],
    requests: &Arc<[u64]>,
    value_bytes: usize,
) -> Case {
    let content = vec![b'x'; value_bytes];
    let value = move || Arc::from(&content[..]);
    let subject: S = filled(keys, &value);
    let requests = requests.clone();
    Case::new(workload, S::NAME, move || throughput::mixed(&subject, &requests, &value))
}

fn filled<K: Key, V: Value, S: Readable<K, V>>(keys: &[K], value: impl Fn() -> V) -> S {
    let mut subject = S::new(with_headroom(keys.len()));
    keys.iter().for_each(|key| subject.fill(key.clone(), value()));
    subject.complete_deferred_work();
    subject
}
