//! Loads: a leader that commits or gives up, and a follower that blocks its thread.

use crate::{Cache, CommitOutcome, FollowOutcome, Load, Scenario};
use loom::thread;

pub(crate) const SCENARIOS: &[Scenario] = &[
    (
        "loads::follower_that_blocks_gets_the_committed_value",
        follower_that_blocks_gets_the_committed_value,
        3,
    ),
    (
        "loads::follower_that_blocks_leads_after_a_dropped_ticket",
        follower_that_blocks_leads_after_a_dropped_ticket,
        3,
    ),
    ("loads::key_removed_during_load_stays_removed", key_removed_during_load_stays_removed, 3),
];

fn cache() -> Cache<u32, u32> {
    Cache::builder().entries(8).shards(1).build().expect("valid options")
}

fn follower_that_blocks_gets_the_committed_value() {
    let cache = cache();
    let Load::Lead(ticket) = cache.load(&1) else { panic!("the cache is empty") };
    let follower = {
        let cache = cache.clone();
        thread::spawn(move || match cache.load(&1) {
            Load::Hit(value) => value,
            Load::Follow(follower) => match follower.wait() {
                FollowOutcome::Value(value) => value,
                other => panic!("expected a value: {other:?}"),
            },
            Load::Lead(_) => panic!("a second leader"),
        })
    };
    assert_eq!(ticket.commit(7), CommitOutcome::Stored);
    assert_eq!(follower.join().expect("no panic"), 7);
}

fn follower_that_blocks_leads_after_a_dropped_ticket() {
    let cache = cache();
    let Load::Lead(ticket) = cache.load(&1) else { panic!("the cache is empty") };
    let follower = {
        let cache = cache.clone();
        thread::spawn(move || match cache.load(&1) {
            Load::Lead(ticket) => ticket.commit(8),
            Load::Follow(follower) => match follower.wait() {
                FollowOutcome::Lead(ticket) => ticket.commit(8),
                other => panic!("expected to lead: {other:?}"),
            },
            Load::Hit(value) => panic!("nobody stored {value}"),
        })
    };
    drop(ticket);
    assert_eq!(follower.join().expect("no panic"), CommitOutcome::Stored);
    assert_eq!(cache.get(&1), Some(8));
}

fn key_removed_during_load_stays_removed() {
    let cache = cache();
    let Load::Lead(ticket) = cache.load(&1) else { panic!("the cache is empty") };
    let removal = {
        let cache = cache.clone();
        thread::spawn(move || cache.remove(&1))
    };
    let commit = ticket.commit(7);
    let removed = removal.join().expect("no panic");
    assert_eq!(removed.is_some(), commit == CommitOutcome::Stored);
    assert_eq!(cache.get(&1), None);
}
