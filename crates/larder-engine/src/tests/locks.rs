//! Re-entry panics with a message, and a panic in a closure affects no other caller.

use crate::{Cache, CommitOutcome, FollowOutcome, Load, Op, Ticket, Ttl};
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

fn cache() -> Cache<u32, u32> {
    let cache = Cache::builder().entries(4_096).build().expect("valid options");
    for n in 0..100 {
        cache.insert(n, n);
    }
    cache
}

#[test]
fn reentry_under_lock_panics_for_every_shard() {
    let cache = cache();
    for other in 0..100 {
        let reentry = catch_unwind(AssertUnwindSafe(|| cache.get_with(&1, |_| cache.get(&other))));
        let message = *reentry.expect_err("re-entered").downcast::<&str>().expect("a message");
        assert!(message.contains("called the same cache"), "{message}");
    }
    assert_eq!(cache.get(&1), Some(1), "the lock was released");
    cache.validate();
}

#[test]
fn closure_may_call_another_cache() {
    let (outer, inner) = (cache(), cache());
    assert_eq!(outer.get_with(&1, |_| inner.get(&2)), Some(Some(2)));
    assert_eq!(outer.get(&1), Some(1));
}

#[test]
fn compute_panicked_changes_nothing() {
    let cache = cache();
    let panicked = catch_unwind(AssertUnwindSafe(|| cache.compute(1, |_| -> (Op<u32>, ()) { panic!("no") })));
    assert!(panicked.is_err());
    assert_eq!(cache.get(&1), Some(1));
    cache.compute(1, |_| (Op::Put(2, Ttl::Default), ()));
    assert_eq!(cache.get(&1), Some(2));
    cache.validate();
}

fn lead(cache: &Cache<u32, u32>, key: u32) -> Ticket<u32, u32> {
    match cache.load(&key) {
        Load::Lead(ticket) => ticket,
        other => panic!("expected to lead: {other:?}"),
    }
}

/// The panic of the commit dropped the ticket, whose drop panicked too: the process was aborted.
#[test]
fn ticket_settled_under_lock_panics_once_and_abandons_the_load() {
    let settlements: [fn(Ticket<u32, u32>); 3] =
        [|ticket| _ = ticket.commit(7), |ticket| ticket.deliver(7), |ticket| ticket.fail(Arc::new("no"))];
    for settle in settlements {
        let cache = cache();
        let ticket = lead(&cache, 1_000);
        let Load::Follow(mut follower) = cache.load(&1_000) else { panic!("expected to follow") };
        let reentry = catch_unwind(AssertUnwindSafe(|| cache.get_with(&1, |_| settle(ticket))));
        let message = *reentry.expect_err("re-entered").downcast::<&str>().expect("a message");
        assert!(message.contains("called the same cache"), "{message}");
        let outcome = Pin::new(&mut follower).poll(&mut Context::from_waker(Waker::noop()));
        assert!(matches!(outcome, Poll::Ready(FollowOutcome::Lead(_))), "abandoned: {outcome:?}");
        cache.validate();
    }
}

#[test]
fn ticket_dropped_under_lock_abandons_the_load() {
    let cache = cache();
    let ticket = lead(&cache, 1_000);
    assert_eq!(cache.get_with(&1, |_| drop(ticket)), Some(()));
    assert_eq!(lead(&cache, 1_000).commit(7), CommitOutcome::Stored, "the next caller leads");
    assert_eq!(cache.get(&1_000), Some(7));
    assert_eq!(cache.stats().load_failures, 1);
    cache.validate();
}
