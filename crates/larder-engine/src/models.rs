//! The lock and the loads of the engine under an explorer of memory orderings: a third crate root for the same files,
//! compiled with primitives that record which writes a read may see. Unlike the explorer of `src/schedules.rs` it covers
//! weak orderings, and every execution of a scenario with a bounded number of preemptions; so its scenarios are small.
//!
//! `cargo test -p larder-engine --test models [PART_OF_A_NAME]`. A new scenario goes into the list of its file.
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
#[path = "models/sync.rs"]
mod sync;
mod time;

mod models {
    //! The scenarios.
    pub(crate) mod loads;
    pub(crate) mod locks;
}

pub use cache::Cache;
pub use cache::builder::{BuildError, Builder};
pub use cache::iter::Iter;
pub use entry::{Cause, Computed, EntryRef, Inserted, Op, Refusal, Ttl};
pub use hashbrown::Equivalent;
pub use load::{CommitOutcome, Failure, FollowOutcome, Follower, Load, Ticket};
pub use policy::Policy;
pub use stats::Stats;
pub use time::clock::{Clock, ManualClock};

pub const MAX_TTL: std::time::Duration = std::time::Duration::from_millis((1 << 48) - 2);

use models::{loads, locks};

/// A name, a scenario, and how often the explorer may preempt a thread in one execution.
type Scenario = (&'static str, fn(), usize);

fn main() {
    let wanted = std::env::args().skip(1).find(|word| !word.starts_with('-')).unwrap_or_default();
    let scenarios = [locks::SCENARIOS, loads::SCENARIOS].concat();
    let chosen: Vec<&Scenario> = scenarios.iter().filter(|(name, ..)| name.contains(&wanted)).collect();
    println!("\nrunning {} tests", chosen.len());
    for (name, scenario, preemptions) in &chosen {
        print!("test {name} ... ");
        let mut explorer = loom::model::Builder::new();
        explorer.preemption_bound = Some(*preemptions);
        explorer.check(*scenario);
        println!("ok");
    }
    println!("\ntest result: ok. {} passed; 0 failed", chosen.len());
}
