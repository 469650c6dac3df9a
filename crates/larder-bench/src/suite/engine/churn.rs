//! The longest single operation, by the clock of the thread's own work: what the machine does meanwhile is not counted.
//!
//! What the allocator and the kernel do on behalf of the thread is counted: a huge page that is cleared when it is first
//! touched can take longer than any cache operation.
//!
//! The cache begins empty and grows to its capacity, entries expire all along, and reads and writes alternate.

use super::{Findings, Plan, Scale};
use crate::clock::thread_cpu;
use crate::result::{Better, Figure};
use crate::subject::{Expiring, Larder, Moka};
use anyhow::Result;
use indicatif::ProgressBar;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::time::{Duration, Instant};

const CAPACITY: usize = 3_000_000;
/// Twice the capacity: entries are evicted as well as expired.
const KEYS: u64 = 2 * CAPACITY as u64;
/// The time is cut into so many rounds, each with its longest operation. An entry lives as long as a round.
const SLICES: u32 = 10;

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    for subject in [churn::<Larder<_, _>>, churn::<Moka<_, _>>] {
        bar.set_message("churn");
        findings.figures.extend(subject(plan.seed, scale.churn));
    }
    Ok(())
}

fn churn<S: Expiring<u64, u64>>(seed: u64, time: Duration) -> Vec<Figure> {
    let subject = S::expiring(CAPACITY, time / SLICES);
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut longest, mut mean) = (Vec::new(), Vec::new());
    for _ in 0..SLICES {
        let (slowest, average) = slice(&subject, &mut random, time / SLICES);
        longest.push(slowest.as_secs_f64() * 1e3);
        mean.push(average.as_secs_f64() * 1e9);
    }
    let figure = |measure: &str, unit: &str, rounds| Figure {
        workload: "churn".to_owned(),
        subject: S::NAME.to_owned(),
        measure: measure.to_owned(),
        unit: unit.to_owned(),
        better: Better::Lower,
        rounds,
    };
    vec![figure("longest", "ms", longest), figure("cpu", "ns with the clock's own", mean)]
}

/// The longest operation and the mean of all.
fn slice<S: Expiring<u64, u64>>(subject: &S, random: &mut SmallRng, time: Duration) -> (Duration, Duration) {
    /// The time on the wall is looked at now and then only.
    const BATCH: u32 = 1024;
    let began = Instant::now();
    let first = thread_cpu();
    let (mut slowest, mut operations, mut before) = (Duration::ZERO, 0, first);
    while began.elapsed() < time {
        for n in 0..BATCH {
            let key = random.random_range(0..KEYS);
            if n % 2 == 0 {
                subject.insert(key, key);
            } else {
                black_box(subject.get(&key));
            }
            let now = thread_cpu();
            slowest = slowest.max(now - before);
            before = now;
        }
        operations += BATCH;
    }
    (slowest, (before - first) / operations.max(1))
}
