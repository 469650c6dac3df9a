//! Bytes per entry in addition to key and value.

use super::{Findings, Plan, Scale};
use crate::measure::alloc;
use crate::result::{Better, Figure};
use crate::subject::{Expiring, Larder, Moka, Writable, each_cache};
use crate::workload::{Population, unused_key};
use anyhow::Result;
use indicatif::ProgressBar;
use std::time::Duration;

/// Longer than any run.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// The size of key and value.
const PAIR_BYTES: f64 = 16.0;

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("memory");
    let population = Population::new(scale.numbers, plan.seed);
    let mut figures: Vec<Vec<Figure>> = each_cache!(without_ttl(population.keys()));
    figures.push(with_ttl::<Larder<_, _>>(population.keys()));
    figures.push(with_ttl::<Moka<_, _>>(population.keys()));
    findings.figures.extend(figures.into_iter().flatten());
    findings.notes.push(if findings.figures.iter().any(|figure| figure.workload == "memory") {
        "Memory is the number of requested bytes; the allocator may round each request up.".to_owned()
    } else {
        "Memory was not measured: this program's allocator does not count.".to_owned()
    });
    Ok(())
}

fn without_ttl<S: Writable<u64, u64>>(keys: &[u64]) -> Vec<Figure> {
    bytes_per_entry("memory", keys, S::new)
}

fn with_ttl<S: Expiring<u64, u64>>(keys: &[u64]) -> Vec<Figure> {
    bytes_per_entry("memory-ttl", keys, |capacity| S::with_ttl(capacity, TTL))
}

/// Measures twice: after all keys were inserted, and after as many others replaced them, which includes the memory for
/// ghosts.
fn bytes_per_entry<S: Writable<u64, u64>>(
    workload: &str,
    keys: &[u64],
    new: impl FnOnce(usize) -> S,
) -> Vec<Figure> {
    let unused: Vec<u64> = (0..keys.len() as u64).map(unused_key).collect();
    let fill = |subject: &S, keys: &[u64]| {
        keys.iter().for_each(|&key| subject.insert(key, key));
        subject.complete_deferred_work();
    };
    let filled = alloc::measure_growth(|| {
        let subject = new(keys.len());
        fill(&subject, keys);
        subject
    });
    let Some((subject, filled_bytes)) = filled else { return Vec::new() };
    let filled_entries = count(&subject, keys);
    let Some(((), growth)) = alloc::measure_growth(|| fill(&subject, &unused)) else { return Vec::new() };
    let churned_entries = count(&subject, keys) + count(&subject, &unused);

    let figure = |measure: &str, bytes: i64, entries: usize| Figure {
        workload: workload.to_owned(),
        subject: S::NAME.to_owned(),
        measure: measure.to_owned(),
        unit: "B/entry".to_owned(),
        better: Better::Lower,
        rounds: vec![bytes as f64 / entries as f64 - PAIR_BYTES],
    };
    vec![
        figure("filled", filled_bytes, filled_entries),
        figure("replaced", filled_bytes + growth, churned_entries),
    ]
}

fn count<S: Writable<u64, u64>>(subject: &S, keys: &[u64]) -> usize {
    keys.iter().filter(|key| subject.get(key).is_some()).count()
}
