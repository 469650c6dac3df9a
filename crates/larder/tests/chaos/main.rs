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
//! A second test has a primary with a replica instead, and sentinels that promote the replica: because they are told to,
//! because the primary was killed, or because it was stopped and then goes on.
//!
//! A third and a fourth have a cluster of three primaries with a replica each, of Redis and of Valkey: primaries are killed and
//! stopped, and replicas take their places, while a thread of `moves.rs` moves slots: in a soak without a pause,
//! in the usual run not during a failover.
//!
//! A soak also has a cluster whose network is divided: `partition.rs`. Another test has nodes in several languages: `languages`.
//!
//! Each takes a few seconds, and as long as `LARDER_SOAK=SECONDS` says; `cargo xtask test --soak` sets minutes. A seed cannot
//! repeat threads, sockets and processes: a failure prints the last operations on its key, and the next run differs.
//! `../checker` searches what can be repeated.

#[path = "../children/mod.rs"]
mod children;
mod fault;
mod ground;
mod languages;
mod moves;
mod partition;
mod place;
#[path = "../promise/mod.rs"]
mod promise;
mod run;

use crate::fault::Fault;
use crate::ground::Ground;
use crate::partition::Divided;
use crate::place::{NODES, Team};
use crate::run::{LEDGER, Run, Tally};
use larder_testkit::{Cluster, Network, RedisServer, Sentinels};
use std::time::{Duration, Instant};

/// A usual run.
const USUAL: Duration = Duration::from_secs(6);
/// A usual run behind sentinels, which need some seconds for a failover.
const USUAL_BEHIND_SENTINELS: Duration = Duration::from_secs(20);
/// A usual run on a cluster, which needs two seconds for another primary.
const USUAL_ON_A_CLUSTER: Duration = Duration::from_secs(20);
/// A soak on a cluster lasts until each of its main faults has happened so often.
const OFTEN: u64 = 20;
/// A soak behind sentinels lasts until there were so many failovers.
const FAILOVERS: u64 = 10;
/// A soak starts new nodes and a new book after this time.
const RUN: Duration = Duration::from_secs(30);
/// The same on a cluster, where nodes announce all on each primary for their first minute.
const RUN_ON_A_CLUSTER: Duration = Duration::from_secs(150);
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
    judge(USUAL, |_| true, || Some(Ground::of(RedisServer::start()?, NODES, 1)));
}

#[test]
fn invalidated_value_is_never_served_behind_sentinels() {
    let has_failed_over = |tally: &Tally| {
        let failovers = Fault::ALL.into_iter().filter(|fault| fault.is_failover());
        failovers.map(|fault| tally.count(fault)).sum::<u64>() >= FAILOVERS
    };
    judge(USUAL_BEHIND_SENTINELS, has_failed_over, || Some(Ground::Sentinels(Sentinels::start()?)));
}

#[test]
fn invalidated_value_is_never_served_on_a_cluster() {
    judge(USUAL_ON_A_CLUSTER, is_often_harmed, || Some(Ground::Cluster(Cluster::start()?)));
}

#[test]
fn invalidated_value_is_never_served_on_a_cluster_of_valkey() {
    judge(USUAL_ON_A_CLUSTER, is_often_harmed, || Some(Ground::Cluster(Cluster::start_valkey()?)));
}

/// Whether every main fault of a cluster has happened often enough: a failover of each kind, and all connections cut.
fn is_often_harmed(tally: &Tally) -> bool {
    let faults = Fault::ALL.into_iter().filter(|fault| fault.is_failover() || *fault == Fault::Disconnected);
    faults.map(|fault| tally.count(fault)).min() >= Some(OFTEN)
}

#[test]
fn invalidated_value_is_never_served_by_a_node_that_is_cut_off_with_a_primary() {
    judge_partitions(Cluster::start_in);
}

#[test]
fn invalidated_value_is_never_served_by_a_node_that_is_cut_off_with_a_primary_of_valkey() {
    judge_partitions(Cluster::start_valkey_in);
}

/// A partition takes too long for a usual run.
fn judge_partitions(start: fn(&Network) -> Option<Cluster>) {
    if Cluster::may_start().is_none() {
        return;
    }
    if soak_time().is_none() {
        return println!("only with LARDER_SOAK");
    }
    let mut is_ledger_far = false;
    let is_often_cut = |tally: &Tally| tally.count(Fault::Partitioned) >= OFTEN;
    judge(Duration::ZERO, is_often_cut, || {
        is_ledger_far = !is_ledger_far;
        Some(Ground::Divided(Divided::start(start, LEDGER, is_ledger_far)?))
    });
}

/// Runs for the usual time. A soak takes as long as it should, and until it has `seen_enough`.
fn judge(
    usual: Duration,
    seen_enough: impl Fn(&Tally) -> bool,
    mut start_ground: impl FnMut() -> Option<Ground>,
) {
    judge_team(usual, seen_enough, || start_ground().map(|ground| (Team::of_rust(&ground), ground)));
}

/// The same with other nodes than three in Rust.
fn judge_team(
    usual: Duration,
    seen_enough: impl Fn(&Tally) -> bool,
    mut start_ground: impl FnMut() -> Option<(Team, Ground)>,
) {
    let soak = soak_time();
    let (time, start) = (soak.unwrap_or(usual), Instant::now());
    let mut tally = Tally::default();
    let (mut runs, mut possible) = (0, Vec::new());
    while start.elapsed() < time || (soak.is_some() && !seen_enough(&tally)) {
        let Some((team, ground)) = start_ground() else { return };
        // In every other run nodes may serve for a while after they lose Redis; not if the question is when they stop.
        let disconnected = match ground {
            Ground::Divided(_) => Duration::ZERO,
            _ => Duration::from_secs(runs % 2),
        };
        let left = time.saturating_sub(start.elapsed());
        let longest = if ground.is_cluster() { RUN_ON_A_CLUSTER } else { RUN };
        let length = if left.is_zero() { longest } else { longest.min(left) };
        let run = Run::start(ground, team, disconnected, soak.is_some());
        possible = Fault::ALL.into_iter().filter(|fault| run.can_have(*fault)).collect();
        run.execute(length, &mut tally);
        runs += 1;
    }
    println!("{runs} runs in {:.0} s: {tally}; 0 violations", start.elapsed().as_secs_f64());
    let seconds = start.elapsed().as_secs_f64();
    assert!(tally.reads as f64 >= READS_A_SECOND * seconds, "too few to prove anything: {tally}");
    assert!(tally.faults() > 0, "no fault: {tally}");
    if time >= ALL_FAULTS {
        let missing: Vec<_> = possible.into_iter().filter(|fault| tally.count(*fault) == 0).collect();
        assert_eq!(missing, [], "faults that were never injected");
    }
}
