//! The same over a cluster: the real Redis tier, with its router, its map and its heartbeats, over simulated connections to
//! simulated servers, which move slots and replace each other.
//!
//! ```text
//! clients ─► node 0: the real cache and tier ─► wire.rs ─┐  each connection: bytes that take time, break or stall
//!                                                        ├─► machine.rs   a server: refuses, redirects or executes
//! clients ─► node 1: the real cache and tier ─► wire.rs ─┘     store.rs, script.rs   its data
//!                                                              view.rs               who owns what, as it knows
//!                                                           topology.rs   slots move, replicas take over
//! ```

mod history;
mod machine;
mod script;
mod store;
mod topology;
mod view;
mod wire;
mod world;

use crate::forgery::Forgery;
use crate::play::Histories;
use crate::{SEED, find, is_soak, number, skipped};
use history::run;
use std::time::Instant;

const HISTORIES: u64 = 500;
/// With `LARDER_SOAK`.
const SOAK_HISTORIES: u64 = 100_000;
const PROGRESS: u64 = 10_000;
/// How many histories run twice.
const REPEATS: u64 = 50;
/// A forgery must be found within so many histories.
const FORGERY_HISTORIES: u64 = 60_000;

const OVER_A_CLUSTER: Histories =
    Histories { run, progress: PROGRESS, seed_variable: "LARDER_CHECKER_CLUSTER_SEED" };

#[test]
fn invalidated_value_is_never_served_over_a_cluster() {
    if let Some(seed) = number("LARDER_CHECKER_CLUSTER_SEED") {
        println!("{}", OVER_A_CLUSTER.describe(seed, Forgery::None));
        assert_eq!(run(seed, Forgery::None, false).violation, None);
        return;
    }
    let start = Instant::now();
    let usual = if is_soak() { SOAK_HISTORIES } else { HISTORIES };
    let histories = number("LARDER_CHECKER_CLUSTER_HISTORIES").unwrap_or(usual);
    match OVER_A_CLUSTER.search(SEED + skipped(), histories, Forgery::None) {
        Ok((reads, _)) => {
            println!("{histories} histories, {reads} reads, {:.1} s", start.elapsed().as_secs_f64());
            assert!(reads >= 10 * histories, "{reads} reads in {histories} histories prove nothing");
        }
        Err(seed) => panic!("the promise is broken: {}", OVER_A_CLUSTER.describe(seed, Forgery::None)),
    }
}

/// The rare forgeries in a soak only: each takes a minute or more.
#[test]
fn forged_cluster_is_found() {
    let rare: &[Forgery] = if is_soak() { &Forgery::RARE_OF_CLUSTERS } else { &[] };
    let forgeries = Forgery::OF_CLUSTERS.iter().chain(rare).copied();
    OVER_A_CLUSTER.find_forged(forgeries, FORGERY_HISTORIES);
}

/// The real router runs with its connections, its tasks and its timers: the two traces must be equal all the same.
#[test]
fn same_seed_repeats_its_trace_over_a_cluster() {
    let differs = find(REPEATS, |index| {
        let [first, second] = [(); 2].map(|()| run(SEED + index, Forgery::None, true).trace.text());
        assert!(first.len() > 1_000, "a trace of {} bytes proves nothing", first.len());
        first != second
    });
    assert_eq!(differs, None, "two runs of this history differ");
}
