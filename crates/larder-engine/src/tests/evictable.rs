//! Which entries may be evicted: what may not be stays, and writes are refused when nothing else is left.

use crate::raw::{self, Key, UpdateOp};
use crate::{Cache, Cause, Clock, Evictable, Inserted, Op, Policy, Refusal, Ttl};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

const CHOICES: [Evictable; 4] =
    [Evictable::All, Evictable::Timed, Evictable::NearestDeadline, Evictable::Nothing];

fn weighed(capacity: u64, shards: usize, evictable: Evictable) -> Cache<u32, u64> {
    let builder = Cache::builder().weight(capacity, |_, value| *value).shards(shards);
    builder.evictable(evictable).build().expect("valid options")
}

fn secs(secs: u64) -> Ttl {
    Ttl::After(Duration::from_secs(secs))
}

#[test]
fn refused_write_keeps_the_former_value_unless_all_may_be_evicted() {
    for evictable in CHOICES {
        let cache = weighed(100, 4, evictable);
        (0..10).for_each(|key| _ = cache.insert(key, 10));
        let reason = match evictable {
            Evictable::All => Refusal::TooHeavy { weight: 101, limit: 100 },
            _ => Refusal::NoRoom,
        };
        let value = if evictable == Evictable::All { 101 } else { 11 };
        assert_eq!(cache.insert(3, value), Inserted::Refused { value, reason }, "{evictable:?}");
        let computed = cache.compute(4, |_| (Op::Put(value, Ttl::Default), ()));
        assert_eq!(computed.refused, Some(reason), "{evictable:?}");
        let kept = if evictable == Evictable::All { None } else { Some(10) };
        assert_eq!([cache.get(&3), cache.get(&4)], [kept; 2], "{evictable:?}");
        assert_eq!(cache.stats().refused, 2);
        cache.insert(5, 9);
        assert_eq!(cache.get(&5), Some(9), "{evictable:?}: less is not refused");
        cache.validate();
    }
}

/// A value too heavy for the cache is refused under any choice, and then the former one stays.
#[test]
fn value_too_heavy_keeps_the_former_one_unless_all_may_be_evicted() {
    for evictable in CHOICES {
        let cache = weighed(100, 2, evictable);
        cache.insert(1, 10);
        assert!(cache.insert(1, 101).is_refused());
        assert_eq!(cache.contains(&1), evictable != Evictable::All, "{evictable:?}");
    }
}

#[test]
fn expired_entries_make_room_before_a_write_is_refused() {
    for evictable in [Evictable::Nothing, Evictable::Timed, Evictable::NearestDeadline] {
        // In the bucket of the wheel that is due, and before it is.
        for (ttl_ms, later_ms) in [(10, 10), (10, 5_000), (5_000, 5_000), (100_000, 100_000)] {
            let (clock, hand) = Clock::manual();
            let builder = Cache::builder().weight(10, |_, value| *value).shards(4).clock(clock);
            let cache: Cache<u32, u64> = builder.evictable(evictable).build().expect("valid options");
            cache.insert(1, 4);
            cache.insert_with_ttl(2, 6, Ttl::After(Duration::from_millis(ttl_ms)));
            if evictable == Evictable::Nothing {
                assert!(cache.insert(3, 1).is_refused());
            }
            hand.advance(Duration::from_millis(later_ms));
            assert_eq!(cache.insert(3, 6), Inserted::New, "{evictable:?} {ttl_ms} {later_ms}");
            let stats = cache.stats();
            assert_eq!((stats.expired, stats.evicted), (1, 0), "{evictable:?}");
            assert!(cache.insert(4, 1).is_refused());
            assert_eq!([1, 2, 3].map(|key| cache.get(&key)), [Some(4), None, Some(6)]);
        }
    }
}

/// Each entry that gains a deadline may be evicted from then on, and none that loses it.
#[test]
fn entry_moves_when_its_deadline_comes_or_goes() {
    for (policy, evictable) in Policy::ALL
        .into_iter()
        .flat_map(|policy| [(policy, Evictable::Timed), (policy, Evictable::NearestDeadline)])
    {
        let builder = Cache::builder().weight(3, |_, value| *value).shards(2).policy(policy);
        let cache: Cache<u32, u64> = builder.evictable(evictable).build().expect("valid options");
        (0..3).for_each(|key| _ = cache.insert(key, 1));
        assert!(cache.insert(3, 1).is_refused(), "{policy:?}");
        cache.compute(1, |_| (Op::SetTtl(secs(9)), ()));
        cache.validate();
        assert_eq!(cache.insert(3, 1), Inserted::New, "{policy:?}");
        assert!(!cache.contains(&1) && cache.contains(&0) && cache.contains(&2), "{policy:?}");
        // Stored with a deadline, which is lost in three ways.
        for lose in [
            |cache: &Cache<u32, u64>| _ = cache.compute(0, |_| (Op::SetTtl(Ttl::Never), ())),
            |cache: &Cache<u32, u64>| _ = cache.insert(0, 1),
            |cache: &Cache<u32, u64>| _ = cache.compute(0, |_| (Op::Put(1, Ttl::Never), ())),
        ] {
            cache.insert_with_ttl(0, 1, secs(9));
            lose(&cache);
            assert!(cache.insert(4, 1).is_refused(), "{policy:?}");
            cache.validate();
        }
        // Kept, it may be evicted still.
        cache.insert_with_ttl(0, 1, secs(9));
        cache.insert_with_ttl(0, 1, Ttl::Keep);
        assert_eq!(cache.insert(4, 1), Inserted::New, "{policy:?}");
        assert!(!cache.contains(&0), "{policy:?}");
        cache.validate();
    }
}

/// Deadlines on every level of the wheel. One shard, so that the order is that of the wheel.
#[test]
fn nearest_deadline_is_evicted_first() {
    let cache = weighed(40, 1, Evictable::NearestDeadline);
    // 13 and 40 have no common divisor, so this is an order without any.
    let deadline = |key: u32| [1, 20, 1_000, 50_000, 3_000_000][key as usize % 5] * 100 + u64::from(key / 5);
    for key in (0..40).map(|n| n * 13 % 40) {
        cache.insert_with_ttl(key, 1, Ttl::At(deadline(key) * 150 + 1_000_000));
    }
    let mut order: Vec<u32> = (0..40).collect();
    order.sort_by_key(|key| deadline(*key));
    for (n, key) in order.iter().enumerate() {
        assert!(cache.contains(key), "{key} is not among the next");
        cache.insert(100 + n as u32, 1);
        assert!(!cache.contains(key), "{key} has the nearest deadline");
        cache.validate();
    }
    assert!(cache.insert(200, 1).is_refused());
}

/// Weightless entries of a sample hid those that could make room.
#[test]
fn nearest_deadline_ignores_entries_of_zero_weight() {
    let cache = weighed(10, 1, Evictable::NearestDeadline);
    cache.insert_with_ttl(0, 10, secs(100));
    (1..100).for_each(|key| _ = cache.insert_with_ttl(key, 0, secs(100)));
    assert_eq!(cache.insert(200, 10), Inserted::New);
    assert!(!cache.contains(&0) && (1..100).all(|key| cache.contains(&key)));
}

#[test]
fn lower_capacity_evicts_what_may_be_and_refuses_until_there_is_room() {
    let cache = weighed(100, 4, Evictable::Timed);
    (0..6).for_each(|key| _ = cache.insert(key, 10));
    (6..10).for_each(|key| _ = cache.insert_with_ttl(key, 10, secs(9)));
    cache.set_capacity(50);
    assert_eq!((cache.len(), cache.weight(), cache.capacity()), (6, 60, 50));
    assert!(cache.insert(0, 10) == Inserted::Replaced(10), "it needs no more");
    assert!(cache.insert(20, 1).is_refused());
    cache.remove(&0);
    cache.remove(&1);
    assert_eq!(cache.insert(20, 10), Inserted::New);
    assert!(cache.insert(21, 1).is_refused());
    cache.validate();
    cache.set_evictable(Evictable::All);
    assert_eq!(cache.insert(21, 50), Inserted::New);
    assert_eq!((cache.len(), cache.weight()), (1, 50));
}

#[test]
fn evict_excess_ends_after_its_count() {
    let cache = weighed(1_000, 8, Evictable::All);
    (0..1_000).for_each(|key| _ = cache.insert(key, 1));
    cache.resize(500);
    assert_eq!((cache.capacity(), cache.weight()), (500, 1_000));
    assert!(cache.evict_excess(100));
    assert_eq!(cache.len(), 900);
    assert!(!cache.evict_excess(1_000));
    assert_eq!((cache.len(), cache.stats().evicted), (500, 500));
    for evictable in [Evictable::Nothing, Evictable::Timed, Evictable::NearestDeadline] {
        cache.set_evictable(evictable);
        cache.resize(100);
        assert!(!cache.evict_excess(1), "{evictable:?}: nothing may be evicted");
        assert_eq!(cache.len(), 500);
    }
}

/// A step of several changes is not refused halfway, and asks for room before.
#[test]
fn locked_writes_may_exceed_the_capacity_unless_all_may_be_evicted() {
    let name = |n: u32| n.to_le_bytes();
    let record = |n: u32| raw::Record::new(Key { space: 0, name: &name(n) }, &[]);
    for evictable in CHOICES {
        let builder = raw::Cache::builder().weight(10, |_, ()| 5).shards(4);
        let cache: raw::Cache = builder.evictable(evictable).build().expect("valid options");
        let names: Vec<_> = (0..4).map(name).collect();
        let keys = || names.iter().map(|name| Key { space: 0, name });
        let mut locked = cache.lock_all(keys());
        assert!(locked.make_room(10, None) && !locked.make_room(11, None), "{evictable:?}");
        for n in 0..4 {
            assert_eq!(locked.insert(record(n), Ttl::Never), Ok(true), "{evictable:?}");
        }
        let exceeds = evictable != Evictable::All;
        assert_eq!(locked.make_room(1, None), !exceeds, "{evictable:?}");
        drop(locked);
        assert_eq!(cache.weight(), if exceeds { 20 } else { cache.len() as u64 * 5 }, "{evictable:?}");
        if exceeds {
            let key = Key { space: 0, name: &names[0] };
            let put = cache
                .update(Key { space: 0, name: &name(9) }, |_| (UpdateOp::Put(record(9), Ttl::Never), ()));
            assert_eq!(put.map(|_| ()), Err(Refusal::NoRoom));
            assert!(cache.update(key, |_| (UpdateOp::Remove, ())).is_ok());
            assert_eq!(cache.weight(), 15);
        }
        cache.validate();
    }
}

/// It evicted everything before it said so.
#[test]
fn room_that_cannot_be_made_evicts_nothing() {
    let names: Vec<_> = (0..10u32).map(u32::to_le_bytes).collect();
    let builder = raw::Cache::builder().weight(10, |_, ()| 1).shards(4);
    let cache: raw::Cache = builder.build().expect("valid options");
    let keys: Vec<_> = names.iter().map(|name| Key { space: 0, name }).collect();
    keys.iter().for_each(|key| _ = cache.insert_with_ttl(raw::Record::new(*key, &[]), (), Ttl::Never));
    let mut locked = cache.lock_all(keys.iter().copied());
    assert!(!locked.make_room(11, None) && !locked.make_room(u64::MAX, None));
    assert!(!locked.make_room(10, Some(keys[0])), "the kept entry weighs one");
    drop(locked);
    assert_eq!((cache.len(), cache.weight()), (10, 10));
    assert!(cache.lock_all([keys[0]]).make_room(9, Some(keys[0])));
    assert!(cache.len() == 1 && cache.contains(&raw::Record::new(keys[0], &[])));
    cache.validate();
}

/// An entry that outgrew a capacity lowered later was removed by its next edit.
#[test]
fn edited_object_is_not_refused_unless_all_may_be_evicted() {
    let weigh = |record: &raw::Record<u64>, (): &()| record.object().copied().unwrap_or_default();
    for evictable in CHOICES {
        let builder = raw::Cache::<u64>::builder().weight(100, weigh).shards(2);
        let cache: raw::Cache<u64> = builder.evictable(evictable).build().expect("valid options");
        let key = Key { space: 0, name: b"k" };
        cache.insert_with_ttl(raw::Record::with_object(key, Box::new(80)), (), Ttl::Never);
        cache.resize(50);
        let edited = cache.update(key, |entry| {
            if let Some(weight) = entry.and_then(raw::Entry::into_object_mut) {
                *weight -= 10;
            }
            (UpdateOp::Edited(Ttl::Keep), ())
        });
        assert_eq!(edited.is_ok(), evictable != Evictable::All, "{evictable:?}");
        assert_eq!(cache.weight(), if evictable == Evictable::All { 0 } else { 70 });
        cache.validate();
    }
}

/// An edit that grew an object and ended its time to live evicted it for its own room, and left its weight behind.
#[test]
fn edit_that_ends_its_own_time_to_live_leaves_no_weight() {
    let weigh = |record: &raw::Record<u64>, (): &()| record.object().copied().unwrap_or_default();
    for evictable in CHOICES {
        let (clock, hand) = Clock::manual();
        hand.advance(Duration::from_secs(100));
        let builder = raw::Cache::<u64>::builder().weight(100, weigh).shards(1).clock(clock);
        let cache: raw::Cache<u64> = builder.evictable(evictable).build().expect("valid options");
        let (edited, other) = (Key { space: 0, name: b"a" }, Key { space: 0, name: b"b" });
        for key in [edited, other] {
            cache.insert_with_ttl(raw::Record::with_object(key, Box::new(50)), (), Ttl::Never);
        }
        let update = cache.update(edited, |entry| {
            if let Some(weight) = entry.and_then(raw::Entry::into_object_mut) {
                *weight = 80;
            }
            (UpdateOp::Edited(Ttl::At(0)), ())
        });
        assert!(update.is_ok(), "{evictable:?}");
        cache.validate();
        cache.clear();
        assert_eq!(cache.weight(), 0, "{evictable:?}");
    }
}

/// Hits on entries that stay counted as hits on new ones, so that the window grew and a scan drove out the hot keys.
#[test]
fn hits_on_entries_that_stay_cost_the_others_no_hits() {
    let hit_ratio = |hits_on_others: u32| {
        let cache: Cache<u32, ()> = Cache::builder()
            .entries(2_000)
            .evictable(Evictable::Timed)
            .shards(1)
            .build()
            .expect("valid options");
        (0..1_000).for_each(|stays| _ = cache.insert(u32::MAX - stays, ()));
        let mut random = 1u32;
        let mut below = |limit: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            ((u64::from(random) * u64::from(limit)) >> 32) as u32
        };
        let (mut scanned, mut hits, requests) = (10_000, 0, 300_000);
        for request in 0..requests {
            (0..hits_on_others).for_each(|_| _ = cache.get(&(u32::MAX - below(1_000))));
            let is_hot = below(2) == 0;
            scanned += u32::from(!is_hot);
            let key = if is_hot { below(1_500) } else { scanned };
            let hit = cache.get(&key).is_some();
            if !hit {
                cache.insert_with_ttl(key, (), secs(1_000));
            }
            hits += u32::from(hit && request >= requests / 2);
        }
        f64::from(hits) / f64::from(requests / 2)
    };
    let (alone, beside_hits) = (hit_ratio(0), hit_ratio(5));
    assert!(beside_hits > alone - 0.02, "{alone} alone, {beside_hits} beside hits on entries that stay");
}

/// Weights of 2^63 and more counted as negative, so that such an edit made room.
#[test]
fn edited_objects_of_any_weight_leave_no_room() {
    let weigh = |record: &raw::Record<u64>, (): &()| record.object().copied().unwrap_or_default();
    for evictable in [Evictable::Timed, Evictable::NearestDeadline, Evictable::Nothing] {
        let builder = raw::Cache::<u64>::builder().weight(100, weigh).shards(2);
        let cache: raw::Cache<u64> = builder.evictable(evictable).build().expect("valid options");
        let names = [*b"a", *b"b", *b"c", *b"d"];
        let record = |name, weight| raw::Record::with_object(Key { space: 0, name }, Box::new(weight));
        names.iter().for_each(|name| _ = cache.insert_with_ttl(record(name, 1), (), Ttl::Never));
        let edited = |entry: Option<raw::Entry<'_, u64>>| {
            if let Some(weight) = entry.and_then(raw::Entry::into_object_mut) {
                *weight = u64::MAX;
            }
            (UpdateOp::Edited(Ttl::Keep), ())
        };
        for name in &names {
            assert!(cache.update(Key { space: 0, name }, edited).is_ok());
            assert!(cache.weight() > cache.capacity(), "{evictable:?}");
            assert!(cache.insert_with_ttl(record(b"other", 1), (), Ttl::Never).is_refused(), "{evictable:?}");
            cache.validate();
        }
        names.iter().for_each(|name| assert!(cache.remove(&record(name, 1)).is_some()));
        assert_eq!((cache.len(), cache.weight()), (0, 0), "{evictable:?}");
    }
}

/// A write that only evicted entries of other threads can make room for must find them, and none may be refused as long as
/// there are any.
#[test]
fn concurrent_writes_find_every_entry_that_may_be_evicted() {
    for evictable in [Evictable::Timed, Evictable::NearestDeadline] {
        let cache = weighed(400, 8, evictable);
        (0..200).for_each(|key| _ = cache.insert(key, 1));
        std::thread::scope(|scope| {
            for thread in 1..=4u32 {
                let cache = &cache;
                scope.spawn(move || {
                    for n in 0..5_000 {
                        // Up to 50 keys of each thread: there is always one to evict that no other thread replaces.
                        let key = thread * 1_000 + n % 50;
                        assert!(!cache.insert_with_ttl(key, 2, secs(60)).is_refused(), "{evictable:?}");
                    }
                });
            }
        });
        assert!((0..200).all(|key| cache.contains(&key)), "{evictable:?}");
        assert!(cache.weight() <= 400 && cache.len() > 200);
        cache.validate();
    }
}

/// Writes of three threads to odd keys, which have deadlines, and to even ones, which have none, while `change` runs.
fn write_while(cache: &Cache<u32, u64>, change: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for thread in 1..=3u64 {
            let done = &done;
            scope.spawn(move || {
                let mut state = thread;
                while !done.load(Ordering::Relaxed) {
                    state =
                        state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    let (key, weight) = ((state >> 33) as u32 % 400, state >> 60);
                    let ttl = if key % 2 == 0 { Ttl::Never } else { secs(60) };
                    match state >> 20 & 7 {
                        0 => drop(cache.remove(&key)),
                        1 | 2 => drop(cache.get(&key)),
                        _ => drop(cache.insert_with_ttl(key, weight, ttl)),
                    }
                }
            });
        }
        change();
        done.store(true, Ordering::Relaxed);
    });
    cache.validate();
}

#[test]
fn choice_changed_under_load_evicts_nothing_that_no_choice_allows() {
    let [timed, untimed] = [0, 1].map(|_| Arc::new(AtomicUsize::new(0)));
    let counts = [timed.clone(), untimed.clone()];
    let builder = Cache::builder().weight(500, |_, value| *value).shards(4).evictable(Evictable::Nothing);
    let listener = move |key: &u32, _: &u64, cause| {
        if cause == Cause::Evicted {
            counts[usize::from(key.is_multiple_of(2))].fetch_add(1, Ordering::Relaxed);
        }
    };
    let cache: Cache<u32, u64> = builder.listener(listener).build().expect("valid options");
    write_while(&cache, || {
        for n in 0.. {
            cache.set_evictable(CHOICES[1 + n % 3]);
            cache.set_capacity(if n % 2 == 0 { 200 } else { 500 });
            if n > 200 && timed.load(Ordering::Relaxed) > 1_000 {
                break;
            }
            std::thread::yield_now();
        }
    });
    assert_eq!(untimed.load(Ordering::Relaxed), 0, "{} with a deadline", timed.load(Ordering::Relaxed));
}

#[test]
fn choice_changed_from_and_to_all_under_load_leaves_a_valid_structure() {
    let cache = weighed(500, 4, Evictable::Nothing);
    write_while(&cache, || {
        for n in 0..400 {
            cache.set_evictable(CHOICES[n % 4]);
            cache.set_capacity(if n % 3 == 0 { 200 } else { 500 });
            std::thread::yield_now();
        }
    });
    cache.set_evictable(Evictable::All);
    cache.set_capacity(100);
    assert!(cache.weight() <= 100);
    cache.validate();
}

#[derive(Clone, Debug)]
enum Step {
    Insert(u32, u64, Option<u16>),
    SetTtl(u32, Option<u16>),
    Get(u32),
    Remove(u32),
    Advance(u16),
    SetCapacity(u64),
    SetEvictable(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let ttl = || proptest::option::of(1u16..2_000);
    prop_oneof![
        8 => (0u32..40, 0u64..8, ttl()).prop_map(|(key, weight, ttl)| Step::Insert(key, weight, ttl)),
        2 => (0u32..40, ttl()).prop_map(|(key, ttl)| Step::SetTtl(key, ttl)),
        2 => (0u32..40).prop_map(Step::Get),
        1 => (0u32..40).prop_map(Step::Remove),
        1 => (1u16..400).prop_map(Step::Advance),
        1 => (10u64..80).prop_map(Step::SetCapacity),
        1 => (0usize..4).prop_map(Step::SetEvictable),
    ]
}

/// What a cache holds: weights and deadlines.
type Held = HashMap<u32, (u64, Option<u64>)>;

fn held(cache: &Cache<u32, u64>) -> Held {
    let mut held = Held::new();
    cache.scan(0, usize::MAX, |entry| _ = held.insert(*entry.key(), (entry.weight(), entry.deadline_ms())));
    held
}

/// After each step: what is gone was allowed to go, a refusal had a reason, and the numbers agree.
fn run(policy: Policy, shards: usize, first: usize, steps: Vec<Step>) {
    let (clock, hand) = Clock::manual();
    let mut evictable = CHOICES[first];
    let builder = Cache::builder().weight(40, |_, value| *value).shards(shards).policy(policy).clock(clock);
    let cache: Cache<u32, u64> = builder.evictable(evictable).build().expect("valid options");
    for step in steps {
        let (before, stats) = (held(&cache), cache.stats());
        let ttl_of =
            |ms: Option<u16>| ms.map_or(Ttl::Never, |ms| Ttl::After(Duration::from_millis(ms.into())));
        let mut changed = None;
        match step {
            Step::Insert(key, weight, ttl) => {
                let former = before.get(&key).map_or(0, |(weight, _)| *weight);
                let inserted = cache.insert_with_ttl(key, weight, ttl_of(ttl));
                if inserted.is_refused() {
                    assert_ne!(evictable, Evictable::All, "{weight} fits into {}", cache.capacity());
                    let left = held(&cache);
                    assert_eq!(left.get(&key), before.get(&key), "the former value stays");
                    let others = left.iter().filter(|(other, _)| **other != key);
                    let timed =
                        others.filter(|(_, (weight, deadline))| *weight > 0 && deadline.is_some()).count();
                    assert!(evictable == Evictable::Nothing || timed == 0, "{timed} may be evicted");
                    assert!(cache.weight() - former + weight > cache.capacity(), "it fits");
                    let expired = cache.len() - left.len();
                    assert_eq!(expired, 0, "{expired} have expired and are there");
                } else {
                    changed = Some(key);
                    assert_eq!(cache.peek(&key), Some(weight));
                }
            }
            Step::SetTtl(key, ttl) => {
                cache.compute(key, |_| (Op::SetTtl(ttl_of(ttl)), ()));
                changed = Some(key);
            }
            Step::Get(key) => drop(cache.get(&key)),
            Step::Remove(key) => {
                cache.remove(&key);
                changed = Some(key);
            }
            Step::Advance(ms) => hand.advance(Duration::from_millis(ms.into())),
            Step::SetCapacity(capacity) => cache.set_capacity(capacity),
            Step::SetEvictable(choice) => {
                evictable = CHOICES[choice];
                cache.set_evictable(evictable);
                while cache.evict_excess(3) {}
            }
        }
        cache.validate();
        let (after, now) = (held(&cache), cache.now_ms());
        let gone = before.iter().filter(|(key, _)| !after.contains_key(key) && Some(**key) != changed);
        let evicted = gone.filter(|(_, (_, deadline))| deadline.is_none_or(|at| at > now));
        let evicted: Vec<_> = evicted.map(|(_, (weight, deadline))| (*weight, *deadline)).collect();
        assert!(evicted.iter().all(|(weight, _)| *weight > 0), "{step:?} evicted {evicted:?}");
        match evictable {
            Evictable::All => {}
            Evictable::Timed | Evictable::NearestDeadline => {
                assert!(
                    evicted.iter().all(|(_, deadline)| deadline.is_some()),
                    "{step:?} evicted {evicted:?}"
                );
            }
            Evictable::Nothing => assert_eq!(evicted, [], "{step:?}"),
        }
        assert_eq!(cache.stats().evicted - stats.evicted, evicted.len() as u64, "{step:?}");
        if evictable == Evictable::All {
            assert!(cache.weight() <= cache.capacity());
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn only_what_may_be_evicted_is_and_refusals_have_a_reason(
        steps in proptest::collection::vec(step(), 1..150),
        shards in 1usize..5,
        first in 0usize..4,
        policy in proptest::sample::select(Policy::ALL.to_vec()),
    ) {
        run(policy, shards, first, steps);
    }
}
