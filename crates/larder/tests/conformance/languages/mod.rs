//! The behaviours in other languages, over memory, Redis, and both, and those that a child cannot have.
//!
//! Time passes in Redis only: no clock of a child can be moved. Where memory answers, behaviours that let time pass are left out.

mod remote;

use crate::children::kinds;
use larder_testkit::Gate;
use larder_testkit::conformance::{Failure, How, Loaded, Loading, Subject, never};
use remote::{Remote, Tiers};
use std::time::Duration;

/// Behaviours that no child has, each with the reason.
const IMPOSSIBLE: [(&str, &str); 3] = [
    ("grace::soft_timeout_serves_stale", LOADS_ITSELF),
    ("grace::hard_timeout_is_an_error", LOADS_ITSELF),
    ("grace::hard_timeout_serves_stale", LOADS_ITSELF),
];
/// What they promise all callers, `timeouts_are_those_of_callers_that_wait` shows of the others.
const LOADS_ITSELF: &str =
    "the caller that loads runs the loader itself: it waits for that, and gets its value";

/// Behaviours that let more time pass than a test may take.
const TIME_PASSES: [&str; 19] = [
    "counters::increment_keeps_ttl",
    "grace::cleared_value_is_not_served_stale",
    "grace::deleted_value_is_not_served_stale",
    "grace::expired_value_is_served_stale_or_loaded_again",
    "grace::failed_load_pauses_loads",
    "grace::failed_load_serves_stale",
    "grace::failed_load_without_grace_is_an_error",
    "grace::grace_period_ends",
    "grace::loads_resume_after_pause",
    "grace::not_modified_restarts_ttl",
    "grace::read_ignores_stale_value",
    "grace::successful_load_replaces_stale_value",
    "times::absence_expires",
    "times::fetch_sets_ttl",
    "times::ttl_of_call_overrides_cache",
    "times::ttl_of_loader_overrides_call",
    "times::value_lives_for_its_ttl",
    "times::very_long_ttl_is_allowed",
    "times::write_restarts_ttl",
];

/// A timeout that two callers can reach one after the other, and times of a value.
const SOON: Duration = Duration::from_millis(300);
const TTL: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(100);

/// The name of the behaviour that runs on this thread, with its group.
fn behaviour() -> String {
    let thread = std::thread::current();
    let mut parts = thread.name().unwrap_or_default().rsplitn(3, "::");
    let (Some(name), Some(group)) = (parts.next(), parts.next()) else {
        panic!("with one thread it has not the name of its test: --test-threads=4")
    };
    format!("{group}::{name}")
}

/// A child of this kind with a new cache. `None` if it cannot have the behaviour.
async fn start(kind: &str, tiers: Tiers) -> Option<Remote> {
    // Only who asks for these tests runs them.
    let Some(kind) = kinds().into_iter().find(|one| one.name == kind) else {
        panic!("LARDER_CHILDREN names no program {kind}: `cargo xtask test --stage languages` sets it")
    };
    let behaviour = behaviour();
    if let Some((_, reason)) = IMPOSSIBLE.iter().find(|(name, _)| *name == behaviour) {
        println!("not in a child: {reason}");
        return None;
    }
    if tiers != Tiers::Redis && TIME_PASSES.contains(&&behaviour[..]) {
        println!("only over Redis: no clock of a child can be moved");
        return None;
    }
    Remote::open(&kind, tiers).await
}

/// The lists above are those of behaviours that exist.
#[test]
fn behaviours_that_are_left_out_exist() {
    let suite = include_str!("../../../../larder-testkit/src/conformance/mod.rs");
    let impossible = IMPOSSIBLE.iter().map(|(name, _)| *name);
    for (group, name) in impossible.chain(TIME_PASSES).map(|name| name.split_once("::").expect("a group")) {
        let group = suite.rsplit(&format!("{group}: ")).next().and_then(|rest| rest.split(';').next());
        let mut names = group.unwrap_or_default().split(',').map(str::trim);
        assert!(names.any(|other| other == name), "{name}");
    }
}

/// Of two callers the first one loads, for as long as it likes; the timeouts of the other one hold.
async fn check_timeouts(cache: Remote) {
    let gate = Gate::closed();
    let load = |how: How| {
        let (cache, gate) = (cache.clone(), gate.clone());
        let loading: Loading = Box::pin(async move {
            gate.pass().await;
            Ok(Loaded { value: Some("late".to_owned()), ..Loaded::default() })
        });
        tokio::spawn(async move { cache.fetch("k", how, loading).await })
    };
    let hard = How { hard_timeout: Some(SOON), ..How::default() };
    let loads = || load(hard.clone());
    let waits = |how: &How| cache.fetch("k", how.clone(), never());
    let stale = Ok(Some("old".to_owned()));

    // Without a stale value.
    let first = loads();
    gate.arrival().await;
    assert_eq!(waits(&hard).await, Err(Failure::Timeout));
    gate.open(1);
    assert_eq!(first.await.expect("a caller"), Ok(Some("late".to_owned())));
    assert_eq!(cache.read("k").await, None, "what is late is stored nowhere");

    // With one.
    cache
        .write("k", Some("old".to_owned()), How { ttl: Some(TTL), grace: Some(GRACE), ..How::default() })
        .await;
    cache.pass(2 * TTL).await;
    let first = loads();
    gate.arrival().await;
    let soft = How { soft_timeout: Some(Duration::from_millis(1)), ..How::default() };
    assert_eq!(waits(&soft).await, stale);
    assert_eq!(waits(&hard).await, stale);
    gate.open(1);
    assert_eq!(first.await.expect("a caller"), Ok(Some("late".to_owned())));
}

/// The suite for children of a kind, with each composition of tiers.
macro_rules! language {
    ($language:ident, $kind:literal) => {
        mod $language {
            use super::{Remote, Tiers, start};

            async fn memory() -> Option<Remote> {
                start($kind, Tiers::Memory).await
            }

            async fn redis() -> Option<Remote> {
                start($kind, Tiers::Redis).await
            }

            async fn both() -> Option<Remote> {
                start($kind, Tiers::Both).await
            }

            #[tokio::test]
            #[ignore = "it needs a program in another language"]
            async fn timeouts_are_those_of_callers_that_wait() {
                let _deadline = larder_testkit::Deadline::start();
                let Some(cache) = redis().await else { return };
                super::check_timeouts(cache).await;
            }

            mod in_memory {
                use super::memory;
                larder_testkit::conformance!(memory, { #[ignore = "it needs a program in another language"] });
            }

            mod in_redis {
                use super::redis;
                larder_testkit::conformance!(redis, { #[ignore = "it needs a program in another language"] });
            }

            mod in_both {
                use super::both;
                larder_testkit::conformance!(both, { #[ignore = "it needs a program in another language"] });
            }
        }
    };
}

language!(python_sync, "python-sync");
language!(python_asyncio, "python-asyncio");
language!(node_main, "node-main");
language!(node_worker, "node-worker");
