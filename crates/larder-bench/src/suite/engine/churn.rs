//! The longest single operation, in processor time of the thread, so that other processes do not count.
//!
//! Work of the allocator and the kernel for the thread counts: clearing a huge page on its first access can take
//! longer than any cache operation.
//!
//! The cache starts empty and grows to its capacity. Entries expire all the time. Reads and writes alternate.

use super::{Findings, Plan, Scale};
use crate::measure::clock::thread_cpu;
use crate::result::{Better, Figure};
use crate::subject::{Expiring, Larder, Moka};
use anyhow::Result;
use indicatif::ProgressBar;
use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use std::hint::black_box;
use std::time::{Duration, Instant};

const CAPACITY: usize = 3_000_000;
/// Twice the capacity, so that entries are evicted as well as expired.
const KEYS: u64 = 2 * CAPACITY as u64;
/// The number of rounds of equal length; each records its longest operation. The TTL is the length of a round.
const ROUNDS: u32 = 10;

pub(super) fn measure(plan: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    for subject in [churn::<Larder<_, _>>, churn::<Moka<_, _>>] {
        bar.set_message("churn");
        findings.figures.extend(subject(plan.seed, scale.churn));
    }
    Ok(())
}

fn churn<S: Expiring<u64, u64>>(seed: u64, time: Duration) -> Vec<Figure> {
    let subject = S::with_ttl(CAPACITY, time / ROUNDS);
    let mut random = SmallRng::seed_from_u64(seed);
    let (mut longest, mut mean) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        let (slowest, average) = round(&subject, &mut random, time / ROUNDS);
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

/// The longest operation of a round, and the mean of all.
fn round<S: Expiring<u64, u64>>(subject: &S, random: &mut SmallRng, time: Duration) -> (Duration, Duration) {
    /// The number of operations between two reads of the wall clock.
    const BATCH: u32 = 1024;
    let start = Instant::now();
    let first = thread_cpu();
    let (mut slowest, mut operations, mut before) = (Duration::ZERO, 0, first);
    while start.elapsed() < time {
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
