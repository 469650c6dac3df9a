//! The result and the effect of each operation.

use crate::mutex::Mutex;
use crate::{Cache, Cause, Clock, Inserted, Op, Policy, Ttl};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

fn cache(entries: u64) -> Cache<String, u32> {
    Cache::builder().entries(entries).build().expect("valid options")
}

#[test]
fn insert_get_replace_remove_round_trip() {
    let cache = cache(10);
    assert_eq!(cache.insert("a".into(), 1), Inserted::New);
    assert_eq!(cache.get("a"), Some(1));
    assert_eq!(cache.insert("a".into(), 2), Inserted::Replaced(1));
    assert_eq!(cache.get_with("a", |value| value + 1), Some(3));
    assert_eq!(cache.remove("a"), Some(2));
    assert_eq!(cache.remove("a"), None);
    assert_eq!(cache.get("a"), None);
    cache.validate();
}

/// Batches of sixteen: numbers of keys below, at and above one and two batches.
#[test]
fn get_many_equals_single_reads_in_order() {
    let cache = cache(1000);
    (0..100).step_by(2).for_each(|n| _ = cache.insert(n.to_string(), n));
    cache.insert_with_ttl("2".into(), 2, Ttl::At(0));
    for count in [0, 1, 2, 15, 16, 17, 32, 33, 100] {
        let keys: Vec<String> = (0..count).map(|n| n.to_string()).collect();
        let before = cache.stats();
        let single: Vec<Option<u32>> = keys.iter().map(|key| cache.get(key)).collect();
        let between = cache.stats();
        assert_eq!(cache.get_many(&keys), single, "{count} keys");
        let after = cache.stats();
        let counted = |from: crate::Stats, to: crate::Stats| (to.hits - from.hits, to.misses - from.misses);
        assert_eq!(counted(before, between), counted(between, after), "{count} keys");
        let mut seen = Vec::new();
        cache.get_many_with(&keys, |key, value| seen.push((key.clone(), value.copied())));
        assert_eq!(seen, keys.into_iter().zip(single).collect::<Vec<_>>());
    }
    cache.validate();
}

#[test]
fn remove_if_removes_what_the_closure_accepts() {
    let cache = cache(10);
    cache.insert("a".into(), 1);
    assert_eq!(cache.remove_if("a", |entry| *entry.value() == 2), None);
    assert_eq!(cache.get("a"), Some(1));
    assert_eq!(cache.remove_if("a", |entry| *entry.value() == 1), Some(1));
    assert_eq!(cache.remove_if("a", |_| panic!("there is no entry")), None);
    assert_eq!((cache.len(), cache.weight(), cache.stats().invalidated), (0, 0, 1));
    // A load has no value to judge: it is voided, unless an entry was judged and stays.
    let load = |cache: &Cache<String, u32>| match cache.reload_with("a", crate::Leader::Async, str::to_owned)
    {
        crate::Load::Lead(ticket) => ticket,
        other => panic!("expected to lead: {other:?}"),
    };
    let ticket = load(&cache);
    cache.remove_if("a", |_| false);
    assert!(!ticket.is_valid());
    cache.insert("a".into(), 1);
    let ticket = load(&cache);
    cache.remove_if("a", |_| false);
    assert!(ticket.is_valid());
    cache.validate();
}

#[test]
fn peek_has_no_effect_on_policy_or_stats() {
    let cache = cache(2);
    cache.insert("a".into(), 1);
    cache.insert("b".into(), 2);
    assert_eq!(cache.peek("a"), Some(1));
    assert!(cache.contains("a"));
    assert_eq!((cache.stats().hits, cache.stats().misses), (0, 0));
    cache.insert("c".into(), 3);
    assert!(!cache.contains("a"), "a peek does not make an entry recently used");
}

#[test]
fn compute_applies_the_returned_op() {
    let cache = cache(10);
    let add = |n: u32| {
        cache.compute("n".to_owned(), |entry| {
            let sum = entry.map_or(0, |entry| *entry.value()) + n;
            (Op::Put(sum, Ttl::Keep), sum)
        })
    };
    assert_eq!(add(2).result, 2);
    assert_eq!(add(3).result, 5);
    let seen = cache.compute("n".to_owned(), |entry| (Op::Remove, entry.map(|entry| *entry.value())));
    assert_eq!(seen.result, Some(5));
    assert!(!cache.contains("n"));
    cache.compute("n".to_owned(), |entry| (Op::Remove, assert!(entry.is_none())));
    cache.compute("n".to_owned(), |_| (Op::Keep, ()));
    assert!(cache.is_empty());
}

#[test]
fn compute_under_contention_loses_no_update() {
    let cache = cache(10);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..1_000 {
                    cache.compute("n".to_owned(), |entry| {
                        (Op::Put(entry.map_or(1, |entry| entry.value() + 1), Ttl::Default), ())
                    });
                }
            });
        }
    });
    assert_eq!(cache.get("n"), Some(4_000));
}

#[test]
fn listener_is_called_once_per_removal_with_its_cause() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let (clock, hand) = crate::Clock::manual();
    let cache: Cache<u32, &str> = Cache::builder()
        .entries(2)
        .policy(Policy::Lru)
        .clock(clock)
        .listener(move |key, value, cause| log.lock().push((*key, *value, cause)))
        .build()
        .expect("valid options");
    cache.insert(1, "one");
    cache.insert(1, "uno");
    cache.insert(2, "two");
    cache.insert(3, "three");
    cache.remove(&3);
    cache.insert_with_ttl(4, "four", Ttl::After(Duration::from_millis(5)));
    hand.advance(Duration::from_millis(300));
    cache.run_due(10);
    cache.clear();
    let expected = [
        (1, "one", Cause::Replaced),
        (1, "uno", Cause::Evicted),
        (3, "three", Cause::Invalidated),
        (4, "four", Cause::Expired),
        (2, "two", Cause::Purged),
    ];
    assert_eq!(*heard.lock(), expected);
    let stats = cache.stats();
    assert_eq!(
        (stats.replaced, stats.evicted, stats.invalidated, stats.expired, stats.purged),
        (1, 1, 1, 1, 1)
    );
}

#[test]
fn loss_listener_hears_of_expiry_and_eviction_only() {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let log = heard.clone();
    let (clock, hand) = crate::Clock::manual();
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(2)
        .policy(Policy::Lru)
        .clock(clock)
        .loss_listener(move |key, cause| log.lock().push((*key, cause)))
        .build()
        .expect("valid options");
    cache.insert(1, 1);
    cache.insert(1, 2);
    cache.insert(2, 1);
    cache.insert(3, 1);
    cache.remove(&3);
    cache.insert_with_ttl(4, 1, Ttl::After(Duration::from_millis(5)));
    hand.advance(Duration::from_millis(300));
    cache.insert(4, 2);
    cache.clear();
    assert_eq!(*heard.lock(), [(1, Cause::Evicted), (4, Cause::Expired)]);
}

#[test]
fn listener_may_call_the_cache() {
    let slot: Arc<Mutex<Option<Cache<u32, u32>>>> = Arc::default();
    let inside = slot.clone();
    let cache: Cache<u32, u32> = Cache::builder()
        .entries(1)
        .listener(move |key, _, cause| {
            if let (Some(cache), Cause::Invalidated) = (inside.lock().clone(), cause) {
                cache.insert(*key + 1, 0);
            }
        })
        .build()
        .expect("valid options");
    *slot.lock() = Some(cache.clone());
    cache.insert(1, 1);
    cache.remove(&1);
    assert!(cache.contains(&2));
    slot.lock().take();
}

#[test]
fn iter_and_scan_return_each_entry_once() {
    let cache: Cache<u32, u32> = Cache::builder().entries(100_000).shards(4).build().expect("valid options");
    for n in 0..5_000 {
        cache.insert(n, n);
    }
    let mut keys: Vec<u32> = cache.iter().map(|(key, _)| key).collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..5_000));

    let (mut cursor, mut seen, mut round) = (0, Vec::new(), 5_000);
    loop {
        cursor = cache.scan(cursor, 10, |entry| seen.push(*entry.key()));
        // Growth and removals between the steps neither repeat nor lose what stays.
        for n in round..round + 20 {
            cache.insert(n, n);
        }
        cache.remove(&(round - 1));
        round += 20;
        if cursor == 0 {
            break;
        }
    }
    seen.retain(|key| *key < 4_999);
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..4_999));
}

/// The listener panics each time that it is told of `cause`. Returns what it was told.
fn told_with_panics(
    builder: crate::Builder<u32, u32>,
    cause: Cause,
    act: impl FnOnce(&Cache<u32, u32>),
) -> Vec<(u32, Cause)> {
    let told = Arc::new(Mutex::new(Vec::new()));
    let listened = told.clone();
    let builder = builder.listener(move |key, _, why| {
        listened.lock().push((*key, why));
        assert_ne!(why, cause, "asked to panic");
    });
    let cache = builder.build().expect("valid options");
    assert!(catch_unwind(AssertUnwindSafe(|| act(&cache))).is_err());
    cache.validate();
    let told = told.lock().clone();
    let purged = told.iter().filter(|(_, why)| *why == Cause::Purged).count();
    assert_eq!(purged as u64, cache.stats().purged);
    told
}

#[test]
fn drain_ended_by_a_panic_tells_of_all_that_it_has_removed() {
    let (clock, hand) = Clock::manual();
    let builder = Cache::builder().entries(1_000).shards(1).clock(clock);
    let told = told_with_panics(builder, Cause::Expired, |cache| {
        (0..50).for_each(|key| _ = cache.insert(key, key));
        cache.insert_with_ttl(50, 50, Ttl::After(Duration::from_millis(1)));
        hand.advance(Duration::from_secs(1));
        cache.drain();
    });
    assert_eq!(told.len(), 51);
}

#[test]
fn replaced_value_is_told_of_if_the_listener_panics_for_an_evicted_one() {
    let builder = || Cache::builder().weight(10, |_, value| u64::from(*value)).shards(1);
    let fill = |cache: &Cache<u32, u32>| (0..10).for_each(|key| _ = cache.insert(key, 1));
    let inserted = told_with_panics(builder(), Cause::Evicted, |cache| {
        fill(cache);
        cache.insert(9, 3);
    });
    let committed = told_with_panics(builder(), Cause::Evicted, |cache| {
        fill(cache);
        let crate::Load::Lead(ticket) = cache.reload_with(&9, crate::Leader::Async, u32::clone) else {
            panic!("nobody else loads")
        };
        ticket.commit(3);
    });
    for told in [inserted, committed] {
        assert!(told.contains(&(9, Cause::Replaced)), "{told:?}");
    }
}

#[test]
fn retain_and_drain_remove_many() {
    let cache: Cache<u32, u32> = Cache::builder().entries(10_000).build().expect("valid options");
    for n in 0..1_000 {
        cache.insert(n, n);
    }
    cache.retain(|key, _| key % 2 == 0);
    assert_eq!((cache.len(), cache.stats().purged), (500, 500));
    cache.validate();
    assert_eq!(cache.drain().len(), 500);
    assert!(cache.is_empty());
    assert_eq!(cache.weight(), 0);
    cache.validate();
}

#[test]
fn cache_dropped_drops_all_values() {
    let value = Arc::new(());
    let cache: Cache<u32, Arc<()>> = Cache::builder().entries(8).build().expect("valid options");
    for n in 0..100 {
        cache.insert(n, value.clone());
    }
    assert_eq!(Arc::strong_count(&value), 9);
    drop(cache);
    assert_eq!(Arc::strong_count(&value), 1);
}

#[test]
fn misses_are_counted_by_cause() {
    let (clock, hand) = crate::Clock::manual();
    let cache = Cache::builder().entries(100_000).ttl(Duration::from_secs(60)).clock(clock).build().unwrap();
    let read_all = || (0..10_000).for_each(|n| _ = cache.get(&n));
    let insert_all = || (0..10_000).for_each(|n| _ = cache.insert(n, n));
    read_all();
    let first = cache.stats().miss_causes.first;
    assert!((8_000..12_000).contains(&first), "an estimate of 10000: {:?}", cache.stats().miss_causes);
    insert_all();
    read_all();
    assert_eq!(cache.stats().misses, 10_000, "hits have no cause");
    // Two keys that share their rank are counted as one.
    let is_about_first = |estimate: u64| estimate.abs_diff(first) <= 16;
    hand.advance(Duration::from_secs(60));
    read_all();
    assert!(is_about_first(cache.stats().miss_causes.expired), "{:?}", cache.stats());
    read_all();
    assert!(cache.stats().miss_causes.not_stored <= 16, "the expired entries are still there");
    insert_all();
    (0..10_000).for_each(|n| _ = cache.remove(&n));
    read_all();
    assert!(is_about_first(cache.stats().miss_causes.invalidated), "{:?}", cache.stats());
    read_all();
    assert!(is_about_first(cache.stats().miss_causes.not_stored), "{:?}", cache.stats());
    insert_all();
    cache.clear();
    read_all();
    assert!(is_about_first(cache.stats().miss_causes.purged), "{:?}", cache.stats());
}

#[test]
fn misses_of_evicted_keys_are_counted() {
    let cache = Cache::builder().entries(2_000).policy(Policy::Fifo).build().unwrap();
    (0..4_000).for_each(|n| _ = cache.insert(n, n));
    // Of those that were evicted before, many are forgotten.
    (1_500..1_900).for_each(|n| _ = cache.get(&n));
    let stats = cache.stats();
    let evicted = stats.miss_causes.evicted;
    assert!((100..=900).contains(&evicted), "an estimate of {}: {:?}", stats.misses, stats.miss_causes);
}

/// A listener that panics at its first call, and counts all.
fn listener_that_panics_once(told: &Arc<AtomicUsize>) -> impl Fn(&u32, &u32, Cause) + use<> {
    let told = told.clone();
    move |_: &u32, _: &u32, _| assert!(told.fetch_add(1, Ordering::Relaxed) > 0, "the first call fails")
}

#[test]
fn listener_that_panics_is_called_for_the_other_entries() {
    for remove_all in [|cache: &Cache<u32, u32>| cache.clear(), |cache: &Cache<u32, u32>| _ = cache.drain()] {
        let told = Arc::new(AtomicUsize::new(0));
        let builder = Cache::builder().entries(1_000).shards(1).listener(listener_that_panics_once(&told));
        let cache: Cache<u32, u32> = builder.build().expect("valid options");
        (0..100).for_each(|n| _ = cache.insert(n, n));
        assert!(catch_unwind(AssertUnwindSafe(|| remove_all(&cache))).is_err());
        assert_eq!((told.load(Ordering::Relaxed), cache.len(), cache.weight()), (100, 0, 0));
        cache.validate();
    }
}

/// Also if the listener panics too: that must not end the process.
#[test]
fn removals_before_a_panic_are_told() {
    let told = Arc::new(AtomicUsize::new(0));
    let builder = Cache::builder().entries(1_000).shards(1).listener(listener_that_panics_once(&told));
    let cache: Cache<u32, u32> = builder.build().expect("valid options");
    (0..100).for_each(|n| _ = cache.insert(n, n));
    let mut calls = 0;
    let retained = catch_unwind(AssertUnwindSafe(|| {
        cache.retain(|_, _| {
            calls += 1;
            assert!(calls < 50, "keep fails");
            false
        });
    }));
    let panic = retained.expect_err("it panics");
    assert_eq!(panic.downcast_ref(), Some(&"keep fails"));
    assert_eq!((told.load(Ordering::Relaxed), cache.len(), cache.weight()), (49, 51, 51));
    cache.validate();
}

#[test]
fn removals_of_run_due_before_a_panic_are_told_after_the_lock() {
    let told = Arc::new(AtomicUsize::new(0));
    let slot: Arc<Mutex<Option<Cache<u32, u32>>>> = Arc::default();
    let (counted, inside) = (told.clone(), slot.clone());
    let (clock, hand) = Clock::manual();
    let expired = AtomicUsize::new(0);
    let builder = Cache::builder().entries(100).shards(1).clock(clock);
    let builder = builder.loss_listener(move |_, _| {
        assert!(expired.fetch_add(1, Ordering::Relaxed) != 5, "the sixth call fails");
    });
    let builder = builder.listener(move |_, _, _| {
        // It panics under a lock.
        inside.lock().as_ref().expect("the cache is there").contains(&0);
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let cache: Cache<u32, u32> = builder.build().expect("valid options");
    *slot.lock() = Some(cache.clone());
    (0..10).for_each(|n| _ = cache.insert_with_ttl(n, n, Ttl::At(5)));
    hand.advance(Duration::from_secs(1));
    assert!(catch_unwind(AssertUnwindSafe(|| cache.run_due(100))).is_err());
    assert_eq!((told.load(Ordering::Relaxed), cache.len()), (5, 5));
    slot.lock().take();
}
