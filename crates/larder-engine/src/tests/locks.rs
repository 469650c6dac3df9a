//! Re-entry is a panic with a message, and a panic in a closure harms nobody else.

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
fn calling_the_cache_from_a_closure_under_its_lock_panics_whatever_the_shard() {
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
fn another_cache_may_be_called() {
    let (outer, inner) = (cache(), cache());
    assert_eq!(outer.get_with(&1, |_| inner.get(&2)), Some(Some(2)));
    assert_eq!(outer.get(&1), Some(1));
}

#[test]
fn a_panic_in_compute_changes_nothing() {
    let cache = cache();
    let panicked = catch_unwind(AssertUnwindSafe(|| cache.compute(1, |_| -> (Op<u32>, ()) { panic!("no") })));
    assert!(panicked.is_err());
    assert_eq!(cache.get(&1), Some(1));
    cache.compute(1, |_| (Op::Put(2, Ttl::Default), ()));
    assert_eq!(cache.get(&1), Some(2));
    cache.validate();
}
