//! The proof of the promise: random histories of two nodes over a simulated server, in virtual time, with everything
//! going wrong that can, and each read checked.
//!
//! ```text
//! clients ─► node 0: the real cache ─► network.rs ─┐
//!                                                  ├─► server.rs      the book knows what was invalidated when,
//! clients ─► node 1: the real cache ─► network.rs ─┘                  and checks what every read returns
//! ```
//!
//! Clients, nodes and book are in `../promise`; `../storm` has the same ones over a real server.
//!
//! A failure names its seed: `LARDER_CHECKER_SEED=… cargo test -p larder --test checker` runs that history alone, and
//! prints it. `LARDER_CHECKER_HISTORIES` says how many are run: 5,000, or a million in a soak.

mod history;
mod lie;
mod network;
#[path = "../promise/mod.rs"]
mod promise;
mod server;

use crate::history::run;
use crate::lie::Lie;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

const HISTORIES: u64 = 5_000;
/// With `LARDER_SOAK`, which `cargo xtask test --soak` sets.
const HISTORIES_OF_A_SOAK: u64 = 1_000_000;
/// A soak says how far it is.
const PROGRESS: u64 = 100_000;
/// A lie has to be found within so many.
const HISTORIES_OF_LIES: u64 = 20_000;
/// How often a history is run again to be told.
const RETELLINGS: usize = 300;
/// The first seed of each run; the others follow.
const SEED: u64 = 0x1a4d_e400_0000_0000;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

/// Runs histories on every core until one breaks the promise. Returns how many were run, and the reads in them, or the
/// seed.
fn search(histories: u64, lie: Lie) -> Result<(u64, u64), u64> {
    let (next, reads, broken) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(u64::MAX));
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let at = next.fetch_add(1, Ordering::SeqCst);
                    if at >= histories || broken.load(Ordering::SeqCst) != u64::MAX {
                        return;
                    }
                    if at > 0 && at.is_multiple_of(PROGRESS) {
                        println!("{at} histories");
                    }
                    let outcome = run(SEED + at, lie, false);
                    reads.fetch_add(outcome.reads, Ordering::SeqCst);
                    if outcome.violation.is_some() {
                        broken.fetch_min(at, Ordering::SeqCst);
                    }
                }
            });
        }
    });
    match broken.into_inner() {
        u64::MAX => Ok((histories, reads.into_inner())),
        at => Err(SEED + at),
    }
}

/// Runs the history of a seed again, and tells it. The order within a map or a select is drawn anew each time, so it may
/// take a few times until it ends the same way.
fn tell(seed: u64, lie: Lie) -> String {
    for _ in 0..RETELLINGS {
        let outcome = run(seed, lie, true);
        if let Some(violation) = outcome.violation {
            let trace = outcome.trace.about(violation.key, usize::MAX);
            return format!("seed {seed}\n{trace}\n{}", violation.words);
        }
    }
    format!("seed {seed}, and never again in {RETELLINGS} runs")
}

#[test]
fn nothing_that_was_invalidated_is_served() {
    if let Some(seed) = number("LARDER_CHECKER_SEED") {
        println!("{}", tell(seed, Lie::None));
        assert_eq!(run(seed, Lie::None, false).violation, None);
        return;
    }
    let began = Instant::now();
    let usual = if std::env::var_os("LARDER_SOAK").is_some() { HISTORIES_OF_A_SOAK } else { HISTORIES };
    let histories = number("LARDER_CHECKER_HISTORIES").unwrap_or(usual);
    match search(histories, Lie::None) {
        Ok((histories, reads)) => {
            println!("{histories} histories, {reads} reads, {:.1} s", began.elapsed().as_secs_f64());
            assert!(reads >= 10 * histories, "histories in which nothing is read prove nothing");
        }
        Err(seed) => panic!("the promise is broken: {}", tell(seed, Lie::None)),
    }
}

#[test]
fn every_broken_point_of_the_protocol_is_found() {
    for lie in Lie::ALL {
        match search(HISTORIES_OF_LIES, lie) {
            Ok(_) => panic!("{lie:?} was not found in {HISTORIES_OF_LIES} histories"),
            Err(seed) => println!("{lie:?}: found in {} histories", seed - SEED + 1),
        }
    }
}
