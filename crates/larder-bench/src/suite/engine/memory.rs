//! Bytes per entry over key and value.

use super::{Findings, Plan, Scale};
use crate::alloc;
use crate::result::{Better, Figure};
use crate::subject::{Expiring, Larder, Moka, Writable, each_cache};
use crate::workload::{Population, fresh_key};
use anyhow::Result;
use indicatif::ProgressBar;
use std::time::Duration;

/// Longer than any run.
const TTL: Duration = Duration::from_secs(24 * 3600);

/// What key and value take themselves.
const PAIR_BYTES: f64 = 16.0;

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    bar.set_message("memory");
    let population = Population::new(scale.numbers, plan.seed);
    let mut figures: Vec<Vec<Figure>> = each_cache!(plain(population.keys()));
    figures.push(timed::<Larder<_, _>>(population.keys()));
    figures.push(timed::<Moka<_, _>>(population.keys()));
    findings.figures.extend(figures.into_iter().flatten());
    findings.notes.push(if findings.figures.iter().any(|figure| figure.workload == "memory") {
        "Memory is counted as it was asked for; what the allocator rounds up comes on top.".to_owned()
    } else {
        "Memory was not measured: this program's allocator does not count.".to_owned()
    });
    Ok(())
}

fn plain<S: Writable<u64, u64>>(keys: &[u64]) -> Vec<Figure> {
    bytes_per_entry("memory", keys, S::new)
}

fn timed<S: Expiring<u64, u64>>(keys: &[u64]) -> Vec<Figure> {
    bytes_per_entry("memory-ttl", keys, |capacity| S::expiring(capacity, TTL))
}

/// Twice: once every key was inserted, and once as many others were, which shows what a cache remembers of the gone.
fn bytes_per_entry<S: Writable<u64, u64>>(
    workload: &str,
    keys: &[u64],
    new: impl FnOnce(usize) -> S,
) -> Vec<Figure> {
    let fresh: Vec<u64> = (0..keys.len() as u64).map(fresh_key).collect();
    let fill = |subject: &S, keys: &[u64]| {
        keys.iter().for_each(|&key| subject.insert(key, key));
        subject.settle();
    };
    let filled = alloc::growth(|| {
        let subject = new(keys.len());
        fill(&subject, keys);
        subject
    });
    let Some((subject, filled_bytes)) = filled else { return Vec::new() };
    let filled_entries = count(&subject, keys);
    let Some(((), more)) = alloc::growth(|| fill(&subject, &fresh)) else { return Vec::new() };
    let churned_entries = count(&subject, keys) + count(&subject, &fresh);

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
        figure("replaced", filled_bytes + more, churned_entries),
    ]
}

fn count<S: Writable<u64, u64>>(subject: &S, keys: &[u64]) -> usize {
    keys.iter().filter(|key| subject.get(key).is_some()).count()
}
