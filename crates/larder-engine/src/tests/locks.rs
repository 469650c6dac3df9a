//! Re-entry panics with a message, and a panic in a closure affects no other caller.

use crate::{Cache, Op, Ttl};
use std::panic::{AssertUnwindSafe, catch_unwind};

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
