//! Caches of strings and of larger values: where memory and its allocation count too.

use super::{Entry, Findings, Plan, Scale, run_all, throughput, with_headroom};
use crate::subject::{Key, LockedMap, Readable, Value, Writable, each_cache};
use crate::workload::Population;
use anyhow::Result;
use indicatif::ProgressBar;
use std::sync::Arc;

/// Bytes of a value, with the name of its workload.
const VALUES: [(&str, usize); 3] = [("mixed-0b", 0), ("mixed-128b", 128), ("mixed-1024b", 1024)];

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("filling the caches");
    let mut population = Population::new(scale.objects, plan.seed);
    let operations = scale.operations / 2;
    let numbers: Arc<[u64]> = population.zipf(operations).into();

    let text = |key: &u64| format!("{key:016x}");
    let names: Vec<String> = population.keys().iter().map(text).collect();
    let strings: Arc<[String]> = numbers.iter().map(text).collect();
    let mut entries: Vec<Entry> = each_cache!(of_strings(&names, &strings));
    entries.push(of_strings::<LockedMap<_, _>>(&names, &strings));
    run_all(entries, bar, findings)?;

    for (workload, value_bytes) in VALUES {
        let mut entries: Vec<Entry> =
            each_cache!(of_bytes(workload, population.keys(), &numbers, value_bytes));
        entries.push(of_bytes::<LockedMap<_, _>>(workload, population.keys(), &numbers, value_bytes));
        run_all(entries, bar, findings)?;
    }
    Ok(())
}

fn of_strings<S: Readable<String, u64>>(names: &[String], requests: &Arc<[String]>) -> Entry {
    let subject: S = filled(names, || 1);
    let requests = requests.clone();
    Entry::new("get-string", S::NAME, move || throughput::gets(&subject, &requests))
}

fn of_bytes<S: Writable<u64, Arc<[u8]>>>(
    workload: &'static str,
    keys: &[u64],
    requests: &Arc<[u64]>,
    value_bytes: usize,
) -> Entry {
    let content = vec![b'x'; value_bytes];
    let value = move || Arc::from(&content[..]);
    let subject: S = filled(keys, &value);
    let requests = requests.clone();
    Entry::new(workload, S::NAME, move || throughput::mixed(&subject, &requests, &value))
}

fn filled<K: Key, V: Value, S: Readable<K, V>>(keys: &[K], value: impl Fn() -> V) -> S {
    let mut subject = S::new(with_headroom(keys.len()));
    keys.iter().for_each(|key| subject.fill(key.clone(), value()));
    subject.settle();
    subject
}
