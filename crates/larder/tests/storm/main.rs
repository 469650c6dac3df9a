//! The proof of the promise on a real Redis in real time: several nodes, clients that do everything, a server that is
//! killed, stopped, filled up and taken back to what it was, connections that break; and each read checked.
//!
//! ```text
//! clients ─► node 0: cache ─────────────────────┐
//! clients ─► node 1: cache ─► line that breaks ─┼─► redis-server ◄── trouble.rs
//! clients ─► node 2: cache ─► line that breaks ─┘
//!    └────► ../promise: the book knows what was invalidated when, and checks what every read returns
//! ```
//!
//! Takes six seconds; `LARDER_SOAK=SECONDS` makes it as long as wanted, `cargo xtask test --soak` minutes. Threads,
//! sockets and processes are not repeated by a seed: a failure prints the last operations of its key, and the next run is
//! another one. What can be repeated is searched by `../checker`.

#[path = "../promise/mod.rs"]
mod promise;
mod storm;
mod trouble;

use crate::storm::{Storm, Tally};
use crate::trouble::Trouble;
use larder_testkit::RedisServer;
use std::time::{Duration, Instant};

/// A usual run.
const USUAL: Duration = Duration::from_secs(6);
/// Nodes and book begin anew so often in a soak.
const STORM: Duration = Duration::from_secs(30);
/// Fewer reads a second than this prove little. Usual are many times as many.
const READS_A_SECOND: f64 = 20.0;
/// In a soak of this length everything has happened.
const EVERYTHING: Duration = Duration::from_secs(60);

fn wanted() -> Option<Duration> {
    let text = std::env::var("LARDER_SOAK").ok()?;
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    Some(seconds.unwrap_or_else(|| panic!("LARDER_SOAK is {text:?}; it must be a number of seconds")))
}

#[test]
fn nothing_that_was_invalidated_is_served() {
    let soak = wanted();
    let (time, began) = (soak.unwrap_or(USUAL), Instant::now());
    let mut tally = Tally::default();
    let mut storms = 0;
    while began.elapsed() < time {
        let Some(server) = RedisServer::start() else { return };
        // Every other time nodes that have lost Redis may go on for a while.
        let disconnected = Duration::from_secs(storms % 2);
        let length = STORM.min(time.saturating_sub(began.elapsed()));
        Storm::begin(server, disconnected, soak.is_some()).run(length, &mut tally);
        storms += 1;
    }
    println!("{storms} storms in {:.0} s: {tally}; 0 violations", began.elapsed().as_secs_f64());
    assert!(tally.reads as f64 >= READS_A_SECOND * time.as_secs_f64(), "too few to prove anything: {tally}");
    assert!(tally.troubles() > 0, "no trouble: {tally}");
    if time >= EVERYTHING {
        let missing: Vec<_> = Trouble::ALL.into_iter().filter(|trouble| tally.count(*trouble) == 0).collect();
        assert_eq!(missing, [], "what never happened");
    }
}
