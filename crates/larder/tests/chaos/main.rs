//! The chaos test: the promise on a real server in real time, redis-server or `larder server`. Several nodes, clients that
//! use the whole API, a server that is killed, stopped, filled and restored from a snapshot, connections that break; and
//! a check of each read.
//!
//! ```text
//! clients ─► node 0: cache ────────────────┐
//! clients ─► node 1: cache ─► flaky proxy ─┼─► redis-server ◄── fault.rs
//! clients ─► node 2: cache ─► flaky proxy ─┘
//!    └────► ../promise: the book records what was invalidated when, and checks what every read returns
//! ```
//!
//! It takes six seconds, and as long as `LARDER_SOAK=SECONDS` says; `cargo xtask test --soak` sets minutes. A seed cannot
//! repeat threads, sockets and processes: a failure prints the last operations on its key, and the next run differs.
//! `../checker` searches what can be repeated.

mod fault;
#[path = "../promise/mod.rs"]
mod promise;
mod run;

use crate::fault::Fault;
use crate::run::{Run, Tally};
use larder_testkit::RedisServer;
use std::time::{Duration, Instant};

/// A usual run.
const USUAL: Duration = Duration::from_secs(6);
/// A soak starts new nodes and a new book after this time.
const RUN: Duration = Duration::from_secs(30);
/// Fewer reads a second than this prove little. A usual run has many times as many.
const READS_A_SECOND: f64 = 20.0;
/// A soak of this length has injected every fault.
const ALL_FAULTS: Duration = Duration::from_secs(60);

fn soak_time() -> Option<Duration> {
    let text = std::env::var("LARDER_SOAK").ok()?;
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Some(seconds.unwrap_or_else(|| panic!("LARDER_SOAK is {text:?}; it must be a number of seconds")))
}

#[test]
fn invalidated_value_is_never_served() {
    let soak = soak_time();
    let (time, start) = (soak.unwrap_or(USUAL), Instant::now());
    let mut tally = Tally::default();
    let (mut runs, mut possible) = (0, Vec::new());
    while start.elapsed() < time {
        let Some(server) = RedisServer::start() else { return };
        possible = Fault::ALL.into_iter().filter(|fault| fault.is_possible(&server)).collect();
        // In every other run nodes may serve for a while after they lose Redis.
        let disconnected = Duration::from_secs(runs % 2);
        let length = RUN.min(time.saturating_sub(start.elapsed()));
        Run::start(server, disconnected, soak.is_some()).execute(length, &mut tally);
        runs += 1;
    }
    println!("{runs} runs in {:.0} s: {tally}; 0 violations", start.elapsed().as_secs_f64());
    assert!(tally.reads as f64 >= READS_A_SECOND * time.as_secs_f64(), "too few to prove anything: {tally}");
    assert!(tally.faults() > 0, "no fault: {tally}");
    if time >= ALL_FAULTS {
        let missing: Vec<_> = possible.into_iter().filter(|fault| tally.count(*fault) == 0).collect();
        assert_eq!(missing, [], "faults that were never injected");
    }
}
