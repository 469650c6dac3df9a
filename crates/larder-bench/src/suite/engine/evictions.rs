//! Full caches, in which an insertion evicts. Two sizes: the data of the small caches nearly fit into the caches of the
//! processor, so that instructions decide, and those of the large ones do not, so that accesses to memory do.

use super::{Case, Findings, Plan, ROUNDS, Scale, run_all, throughput};
use crate::subject::{LarderFifo, Writable, each_cache};
use crate::workload::{Population, unused_key};
use anyhow::Result;
use indicatif::ProgressBar;
use std::sync::Arc;

/// The keys that are requested, for each entry that a cache has room for.
const KEYS_PER_ENTRY: usize = 10;

/// The workloads of the caches of one size.
struct Size {
    entries: usize,
    operations: usize,
    insertions: &'static str,
    requests: &'static str,
}

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let size =
        |entries, insertions, requests| Size { entries, operations: scale.operations, insertions, requests };
    for size in [
        size(scale.few_numbers, "insert-evict-100k", "get-insert-zipf-100k"),
        size(scale.numbers, "insert-evict", "get-insert-zipf"),
    ] {
        bar.set_message("filling the caches");
        let Size { entries, operations, insertions: workload, .. } = size;
        let mut cases: Vec<Case> = each_cache!(insertions(workload, entries, operations));
        cases.push(insertions::<LarderFifo<_, _>>(workload, entries, operations));
        run_all(cases, bar, findings)?;
        bar.set_message("filling the caches");
        let mut population = Population::new(KEYS_PER_ENTRY * size.entries, plan.seed);
        // One more, which does not count.
        let rounds: Arc<[Vec<u64>]> = (0..=ROUNDS).map(|_| population.zipf(size.operations)).collect();
        run_all(each_cache!(requests(&size, &rounds)), bar, findings)?;
    }
    Ok(())
}

/// A cache that has evicted as many entries as it has, and the number of the next unused key.
fn full<S: Writable<u64, u64>>(entries: usize) -> (S, u64) {
    let (subject, inserted) = (S::new(entries), 2 * entries as u64);
    (0..inserted).for_each(|n| subject.insert(unused_key(n), 1));
    subject.complete_deferred_work();
    (subject, inserted)
}

/// Insertions of new keys into a full cache.
pub(super) fn insertions<S: Writable<u64, u64>>(
    workload: &'static str,
    entries: usize,
    operations: usize,
) -> Case {
    let (subject, mut next) = full::<S>(entries);
    Case::new(workload, S::NAME, move || {
        let first = next;
        next += operations as u64;
        throughput::inserts(&subject, (0..operations).map(|n| unused_key(first + n as u64)), 1)
    })
}

/// Gets, each followed by an insertion if it misses. Each round has its own list.
fn requests<S: Writable<u64, u64>>(size: &Size, rounds: &Arc<[Vec<u64>]>) -> Case {
    let (subject, _) = full::<S>(size.entries);
    let (rounds, mut round) = (rounds.clone(), 0);
    Case::new(size.requests, S::NAME, move || {
        round += 1;
        throughput::gets_and_inserts(&subject, &rounds[round - 1])
    })
}
