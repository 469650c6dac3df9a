//! The behaviours in other languages, over memory, Redis, and both, and those that a child cannot have.
//!
//! Time passes in Redis only: no clock of a child can be moved. Where memory answers, behaviours that let time pass are left out.

mod remote;

use crate::children::{Kind, kinds};
use larder_testkit::Gate;
use larder_testkit::conformance::{Failure, How, Loaded, Loading, Subject, never};
use remote::{Remote, Tiers};
use std::time::Duration;

// What these promise all callers, `timeouts_are_those_of_callers_that_wait` shows of those that wait: the caller that loads runs
// the loader itself, waits for it, and gets its value.
larder_testkit::left_out! { ($) in_every_child;
    grace: soft_timeout_serves_stale, hard_timeout_is_an_error, hard_timeout_serves_stale;
}

// These let more time pass than a test may take.
larder_testkit::left_out! { ($) where_memory_answers also in_every_child;
    counters: increment_keeps_ttl;
    grace: cleared_value_is_not_served_stale, deleted_value_is_not_served_stale, expired_value_is_served_stale_or_loaded_again,
        failed_load_pauses_loads, failed_load_serves_stale, failed_load_without_grace_is_an_error, grace_period_ends,
        loads_resume_after_pause, not_modified_restarts_ttl, read_ignores_stale_value, successful_load_replaces_stale_value;
    times: absence_expires, fetch_sets_ttl, ttl_of_call_overrides_cache, ttl_of_loader_overrides_call, value_lives_for_its_ttl,
        very_long_ttl_is_allowed, write_restarts_ttl;
}

/// A timeout that two callers can reach one after the other, and times of a value.
const SOON: Duration = Duration::from_millis(300);
const TTL: Duration = Duration::from_secs(10);
const GRACE: Duration = Duration::from_secs(100);

/// The kinds of children. Only who asks for these tests runs them.
fn all() -> Vec<Kind> {
    let kinds = kinds();
    assert!(
        !kinds.is_empty(),
        "LARDER_CHILDREN names no programs: `cargo xtask test --stage languages` sets it"
    );
    kinds
}

async fn memory(kind: &Kind) -> Option<Remote> {
    Remote::open(kind, Tiers::Memory).await
}

async fn redis(kind: &Kind) -> Option<Remote> {
    Remote::open(kind, Tiers::Redis).await
}

async fn both(kind: &Kind) -> Option<Remote> {
    Remote::open(kind, Tiers::Both).await
}

#[tokio::test]
#[ignore = "it needs programs in other languages"]
async fn timeouts_are_those_of_callers_that_wait() {
    for kind in all() {
        let _deadline = larder_testkit::Deadline::start();
        let Some(cache) = redis(&kind).await else { return };
        check_timeouts(cache).await;
    }
}

#[tokio::test]
#[ignore = "it needs programs in other languages"]
async fn updates_of_a_child_add_up() {
    const CALLERS: usize = 20;
    for kind in all() {
        let _deadline = larder_testkit::Deadline::start();
        for tiers in [Tiers::Memory, Tiers::Redis, Tiers::Both] {
            let Some(cache) = Remote::open(&kind, tiers).await else { return };
            let counting = (0..CALLERS).map(|_| {
                let cache = cache.clone();
                tokio::spawn(async move { cache.count("k").await })
            });
            let counting: Vec<_> = counting.collect();
            let mut sums = Vec::new();
            for caller in counting {
                let sum = caller.await.expect("a caller").flatten().expect("a sum");
                sums.push(sum.parse::<usize>().expect("a number"));
            }
            sums.sort_unstable();
            assert_eq!(sums, (1..=CALLERS).collect::<Vec<_>>(), "{tiers:?}");
            let sum = Some(Some(CALLERS.to_string()));
            assert_eq!(cache.decide("k", true).await, [sum.clone(), sum.clone()], "it is kept");
            assert_eq!(cache.decide("k", false).await, [sum, None], "it is removed");
            assert_eq!(cache.read("k").await, None);
        }
    }
}

mod in_memory {
    use super::{all, memory};
    larder_testkit::conformance!(memory of all, { #[ignore = "it needs programs in other languages"] }, where_memory_answers);
}

mod in_redis {
    use super::{all, redis};
    larder_testkit::conformance!(redis of all, { #[ignore = "it needs programs in other languages"] }, in_every_child);
}

mod in_both {
    use super::{all, both};
    larder_testkit::conformance!(both of all, { #[ignore = "it needs programs in other languages"] }, where_memory_answers);
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
