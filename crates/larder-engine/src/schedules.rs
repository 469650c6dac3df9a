//! The engine under a schedule explorer: a second crate root for the same files, compiled with primitives at each of
//! which the explorer may switch threads. It runs scenarios under thousands of interleavings.
//!
//! A scenario that fails prints its schedule, which `shuttle::replay` runs again. The explorer is sequentially consistent:
//! it does not find errors that depend on weak memory ordering.
//!
//! `cargo test -p larder-engine --test schedules [PART_OF_A_NAME]`. A new scenario goes into the list of its file.
#![allow(dead_code, unused_imports, unreachable_pub, missing_docs, reason = "the library, without its users")]

mod cache;
mod entry;
mod fork;
mod layout;
mod load;
mod lock;
mod mutex;
mod policy;
mod raw;
mod shard;
mod stats;
/// Replaces `sync.rs`.
#[path = "schedules/sync.rs"]
mod sync;
mod time;

#[path = "../tests/promises/history.rs"]
mod history;
mod schedules {
    //! The scenarios.
    pub(crate) mod histories;
    pub(crate) mod loads;
    pub(crate) mod room;
}

/// The name that the shared test files use for the crate.
extern crate self as larder_engine;

pub use cache::Cache;
pub use cache::builder::{BuildError, Builder};
pub use cache::iter::Iter;
pub use entry::{Cause, Computed, EntryRef, Inserted, Op, Refusal, Ttl};
pub use hashbrown::Equivalent;
pub use load::{CommitOutcome, Failure, FollowOutcome, Follower, Leader, Load, Ticket};
pub use policy::Policy;
pub use stats::Stats;
pub use time::clock::{Clock, ManualClock};

pub const MAX_TTL: std::time::Duration = std::time::Duration::from_millis((1 << 48) - 2);

use schedules::{histories, loads, room};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

type Scenario = (&'static str, fn());

/// The number of interleavings of each scenario under each of the two schedulers.
const SCHEDULES: usize = 2_000;

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let scenarios = [loads::SCENARIOS, room::SCENARIOS, histories::SCENARIOS].concat();
    let chosen: Vec<&Scenario> = scenarios.iter().filter(|(name, _)| name.contains(&wanted)).collect();
    println!("\nrunning {} tests", chosen.len());
    for (name, scenario) in &chosen {
        print!("test {name} ... ");
        explore(*scenario);
        println!("ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed", chosen.len());
}

/// Runs a scenario under random interleavings and, in parallel, under interleavings with few but well placed switches
/// (Burckhardt et al., "A Randomized Scheduler with Probabilistic Guarantees of Finding Bugs", ASPLOS 2010).
fn explore(scenario: fn()) {
    let mut config = shuttle::Config::new();
    config.silence_warnings = true;
    let mut runner = shuttle::PortfolioRunner::new(true, config);
    runner.add(RandomScheduler::new(SCHEDULES));
    runner.add(PctScheduler::new(3, SCHEDULES));
    runner.run(scenario);
}
