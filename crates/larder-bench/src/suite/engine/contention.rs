//! One hot key and many more threads than processors: what a lock costs when the system preempts its holder.
//!
//! A voluntary switch is a wait: the thread slept for a lock. An involuntary one is the end of its time slice, or, for a
//! thread that spins and yields, its waiting. The numbers are those of `getrusage`, read per thread from `/proc`.

use super::{Case, Findings, Plan, Scale, run_all};
use crate::measure::clock::Timing;
use crate::measure::rounds::{Sample, Value};
use crate::subject::{LockedMap, Readable, each_cache};
use anyhow::Result;
use indicatif::ProgressBar;
use std::hint::black_box;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const THREADS: usize = 64;
const ENTRIES: usize = 1_000;
const HOT_KEY: u64 = 7;
/// The number of gets between two looks at the end of the round.
const BATCH: u64 = 256;

pub(super) fn measure(_: &Plan, scale: &Scale, bar: &ProgressBar, findings: &mut Findings) -> Result<()> {
    let mut cases: Vec<Case> = each_cache!(case(scale.contention));
    cases.push(case::<LockedMap<_, _>>(scale.contention));
    run_all(cases, bar, findings)
}

fn case<S: Readable<u64, u64>>(time: Duration) -> Case {
    // Ten times the room, so that no shard evicts.
    let mut subject = S::new(10 * ENTRIES);
    (0..ENTRIES as u64).for_each(|key| subject.fill(key, key));
    subject.complete_deferred_work();
    Case::new("same-key-64t", S::NAME, move || round(&subject, time))
}

/// What one thread did in a round.
struct Part {
    gets: u64,
    hits: u64,
    timing: Timing,
    switches: Option<Switches>,
}

fn round<S: Readable<u64, u64>>(subject: &S, time: Duration) -> Sample {
    let (start, end) = (Barrier::new(THREADS + 1), AtomicBool::new(false));
    let parts: Vec<Part> = std::thread::scope(|scope| {
        let run = || {
            start.wait();
            get_until(subject, &end)
        };
        let threads: Vec<_> = (0..THREADS).map(|_| scope.spawn(run)).collect();
        start.wait();
        std::thread::sleep(time);
        end.store(true, Ordering::Relaxed);
        threads.into_iter().map(|thread| thread.join().expect("a get does not panic")).collect()
    });
    let timing = Timing::merge(&parts.iter().map(|part| part.timing).collect::<Vec<_>>());
    let gets: u64 = parts.iter().map(|part| part.gets).sum();
    let mut sample = Sample::throughput(timing, gets as usize, parts.iter().map(|part| part.hits).sum());
    let switches: Option<Vec<&Switches>> = parts.iter().map(|part| part.switches.as_ref()).collect();
    if let Some(switches) = switches {
        let rate = |count: fn(&Switches) -> u64| {
            switches.iter().map(|switches| count(switches)).sum::<u64>() as f64 / gets as f64 * 1e6
        };
        sample.values.push(Value::low("voluntary", "switches/M", rate(|switches| switches.voluntary)));
        sample.values.push(Value::low("involuntary", "switches/M", rate(|switches| switches.involuntary)));
    }
    // A thread that starves shows here and not in the sum.
    let least = parts.iter().map(|part| part.gets).min().unwrap_or(0);
    sample.values.push(Value::high(
        "least",
        "% of the mean",
        least as f64 * THREADS as f64 / gets as f64 * 100.0,
    ));
    sample
}

fn get_until<S: Readable<u64, u64>>(subject: &S, end: &AtomicBool) -> Part {
    let before = Switches::of_this_thread();
    let ((gets, hits), timing) = Timing::measure(|| {
        let (mut gets, mut hits) = (0, 0);
        while !end.load(Ordering::Relaxed) {
            hits += (0..BATCH).map(|_| u64::from(black_box(subject.get(&HOT_KEY)).is_some())).sum::<u64>();
            gets += BATCH;
        }
        (gets, hits)
    });
    let after = Switches::of_this_thread();
    let switches = before.zip(after).map(|(before, after)| after.since(&before));
    Part { gets, hits, timing, switches }
}

/// How often the system switched from a thread to another.
struct Switches {
    voluntary: u64,
    involuntary: u64,
}

impl Switches {
    /// `None` where the system does not tell.
    fn of_this_thread() -> Option<Self> {
        let status = std::fs::read_to_string("/proc/thread-self/status").ok()?;
        let count = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)?.trim().parse().ok());
        Some(Switches {
            voluntary: count("voluntary_ctxt_switches:")?,
            involuntary: count("nonvoluntary_ctxt_switches:")?,
        })
    }

    fn since(&self, before: &Self) -> Self {
        Switches {
            voluntary: self.voluntary - before.voluntary,
            involuntary: self.involuntary - before.involuntary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Larder;

    #[test]
    fn round_counts_gets_and_switches_of_all_threads() {
        let mut subject = Larder::<u64, u64>::new(100);
        subject.fill(HOT_KEY, 1);
        let sample = round(&subject, Duration::from_millis(20));
        assert!(sample.expected >= THREADS as u64 * BATCH);
        assert_eq!(sample.succeeded, sample.expected);
        let measured =
            |name: &str| sample.values.iter().any(|value| value.measure == name && value.value.is_finite());
        assert!(measured("throughput") && measured("least"));
        assert_eq!(measured("voluntary"), cfg!(target_os = "linux"));
    }
}
