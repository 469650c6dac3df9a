//! Making room: shards that evict from each other, and a capacity that changes meanwhile.

use crate::policy::Evictable;
use crate::{Cache, Clock, CommitOutcome, Load, Scenario, raw};
use shuttle::thread;
use std::hash::Hash;

pub(crate) const SCENARIOS: &[Scenario] = &[
    (
        "room::inserts_that_need_each_others_room_do_not_deadlock",
        inserts_that_need_each_others_room_do_not_deadlock,
    ),
    (
        "room::computes_that_need_each_others_room_are_all_stored",
        computes_that_need_each_others_room_are_all_stored,
    ),
    (
        "room::commits_that_need_each_others_room_are_all_stored",
        commits_that_need_each_others_room_are_all_stored,
    ),
    (
        "room::updates_that_need_each_others_room_are_all_stored",
        updates_that_need_each_others_room_are_all_stored,
    ),
    (
        "room::edits_that_need_each_others_room_are_never_refused",
        edits_that_need_each_others_room_are_never_refused,
    ),
    (
        "room::insert_that_needs_room_beside_several_locks_is_stored",
        insert_that_needs_room_beside_several_locks_is_stored,
    ),
    ("room::insert_that_waits_for_room_is_one_step", insert_that_waits_for_room_is_one_step),
    ("room::weight_observed_never_exceeds_capacity", weight_observed_never_exceeds_capacity),
    ("room::set_capacity_lower_holds_when_it_returns", set_capacity_lower_holds_when_it_returns),
    ("room::capacity_set_concurrently_is_one_of_them", capacity_set_concurrently_is_one_of_them),
    ("room::insert_beside_a_change_of_choice_keeps_a_value", insert_beside_a_change_of_choice_keeps_a_value),
    ("room::entry_that_may_be_evicted_is_found_by_others", entry_that_may_be_evicted_is_found_by_others),
    ("room::key_inserted_twice_is_one_entry", key_inserted_twice_is_one_entry),
    ("room::compute_concurrent_loses_no_update", compute_concurrent_loses_no_update),
];

fn weighed(capacity: u64, shards: usize) -> Cache<u32, u64> {
    Cache::builder().weight(capacity, |_, value| *value).shards(shards).build().expect("valid options")
}

/// Each entry fills the whole cache, so each insertion evicts from the other shard, which may be locked by an insertion
/// that wants to evict from ours.
fn inserts_that_need_each_others_room_do_not_deadlock() {
    let cache = weighed(10, 2);
    let writers = [0, 1].map(|shard| {
        let cache = cache.clone();
        thread::spawn(move || {
            let keys = (0..).filter(|key| cache.locate(key).shard == shard).take(2);
            keys.filter(|key| !cache.insert(*key, 10).is_refused()).count()
        })
    });
    let stored: usize = writers.into_iter().map(|writer| writer.join().expect("no panic")).sum();
    assert_eq!(stored, 4, "there is room for each, once the other is done");
    assert_eq!((cache.len(), cache.weight()), (1, 10));
    cache.validate();
}

/// Stores entries of which each fills the cache, from three threads, each in its own shard; all must be stored. `store` gets
/// a key.
fn all_are_stored<K: Hash + Eq + Send + 'static, V: Send + 'static>(
    cache: &Cache<K, V>,
    key: impl Fn(u32) -> K + Send + Copy + 'static,
    store: impl Fn(&Cache<K, V>, K) -> bool + Send + Copy + 'static,
) {
    let writers = [0, 1, 2].map(|shard| {
        let cache = cache.clone();
        thread::spawn(move || {
            let keys = (0..).map(key).filter(|key| cache.locate(key).shard == shard).take(2);
            assert!(
                keys.into_iter().all(|key| store(&cache, key)),
                "there is room, once the others are done"
            );
        })
    });
    writers.into_iter().for_each(|writer| writer.join().expect("no panic"));
    assert_eq!((cache.len(), cache.weight()), (1, 10));
    cache.validate();
}

fn computes_that_need_each_others_room_are_all_stored() {
    all_are_stored(
        &weighed(10, 4),
        |n| n,
        |cache, key| cache.compute(key, |_| (crate::Op::Put(10, crate::Ttl::Default), ())).refused.is_none(),
    );
}

fn commits_that_need_each_others_room_are_all_stored() {
    all_are_stored(
        &weighed(10, 4),
        |n| n,
        |cache, key| match cache.load(&key) {
            Load::Lead(ticket) => ticket.commit(10) == CommitOutcome::Stored,
            Load::Hit(_) | Load::Follow(_) => panic!("nobody else loads this key"),
        },
    );
}

fn updates_that_need_each_others_room_are_all_stored() {
    let cache: raw::Cache =
        raw::Cache::builder().weight(10, |_, ()| 10).shards(4).build().expect("valid options");
    let record = |n: u32| raw::Record::new(raw::Key { space: 0, name: &n.to_le_bytes() }, &[]);
    all_are_stored(&cache, record, |cache, record| {
        let name = record.key().name.to_vec();
        let key = raw::Key { space: 0, name: &name };
        cache.update(key, |_| (raw::UpdateOp::Put(record, crate::Ttl::Never), ())).is_ok()
    });
}

/// The only entry that can make room is in the lower of two shards, which somebody else has locked and who waits for the upper.
fn insert_that_needs_room_beside_several_locks_is_stored() {
    let cache: raw::Cache =
        raw::Cache::builder().weight(10, |_, ()| 10).shards(2).build().expect("valid options");
    let [lower, upper] = [0, 1].map(|shard| {
        let is_there = |name: &[u8; 4]| cache.locate(&raw::Key { space: 0, name }).shard == shard;
        (0u32..).map(u32::to_le_bytes).find(is_there).expect("every shard has keys")
    });
    let insert = |cache: &raw::Cache, name: &[u8]| {
        cache.insert_with_ttl(raw::Record::new(raw::Key { space: 0, name }, &[]), (), crate::Ttl::Never)
    };
    assert!(!insert(&cache, &lower).is_refused());
    let other = {
        let cache = cache.clone();
        thread::spawn(move || {
            drop(cache.lock_all([&lower, &upper].map(|name| raw::Key { space: 0, name })));
        })
    };
    assert!(!insert(&cache, &upper).is_refused());
    other.join().expect("no panic");
    cache.validate();
}

/// Each of two objects grows until only one has room: the other one is evicted, before its edit or after.
fn edits_that_need_each_others_room_are_never_refused() {
    let weigh = |record: &raw::Record<u64>, (): &()| record.object().copied().unwrap_or_default();
    let cache: raw::Cache<u64> =
        raw::Cache::builder().weight(10, weigh).shards(2).build().expect("valid options");
    let name_in = |shard| {
        let names = (0u32..).map(u32::to_le_bytes);
        let is_there = |name: &[u8; 4]| cache.locate(&raw::Key { space: 0, name }).shard == shard;
        names.into_iter().find(is_there).expect("every shard has keys")
    };
    let edits = [0, 1].map(name_in).map(|name| {
        let record = raw::Record::with_object(raw::Key { space: 0, name: &name }, Box::new(4));
        cache.insert_with_ttl(record, (), crate::Ttl::Never);
        let cache = cache.clone();
        thread::spawn(move || {
            let edited = cache.update(raw::Key { space: 0, name: &name }, |entry| {
                match entry.and_then(raw::Entry::into_object_mut) {
                    Some(weight) => {
                        *weight = 10;
                        (raw::UpdateOp::Edited(crate::Ttl::Keep), ())
                    }
                    _ => (raw::UpdateOp::Keep, ()),
                }
            });
            assert!(edited.is_ok(), "{edited:?}");
        })
    });
    edits.into_iter().for_each(|edit| edit.join().expect("no panic"));
    cache.validate();
    assert_eq!((cache.len(), cache.weight()), (1, 10));
}

/// An insert that waited for room gave up its shard meanwhile, with the load of its key voided already: another load could
/// begin and commit, and the insert then replaced a value that came after it.
fn insert_that_waits_for_room_is_one_step() {
    let cache = weighed(10, 2);
    let [ours, theirs] =
        [0, 1].map(|shard| (0..).find(|key| cache.locate(key).shard == shard).expect("every shard has keys"));
    let Load::Lead(early) = cache.load(&ours) else { panic!("the cache is empty") };
    let writers = [ours, theirs].map(|key| {
        let cache = cache.clone();
        thread::spawn(move || cache.insert(key, 10))
    });
    // A caller that leads now does so because the insert voided the early ticket: the insert came before this load.
    let stored = match cache.load(&ours) {
        Load::Lead(late) => late.commit(5) == CommitOutcome::Stored,
        Load::Hit(_) | Load::Follow(_) => false,
    };
    drop(early);
    writers.into_iter().for_each(|writer| _ = writer.join().expect("no panic"));
    assert!(
        !stored || cache.get(&ours) != Some(10),
        "the insert replaced the value of a load that came after it"
    );
    cache.validate();
}

/// One shard, so that the sum is taken at one moment.
fn weight_observed_never_exceeds_capacity() {
    let cache = weighed(10, 1);
    let writer = {
        let cache = cache.clone();
        thread::spawn(move || {
            for (key, weight) in [(1, 6), (2, 6), (1, 9)] {
                cache.insert(key, weight);
            }
        })
    };
    for _ in 0..3 {
        let held: u64 = cache.iter().map(|(_, weight)| weight).sum();
        assert!(held <= 10, "{held} is held");
        assert!(cache.weight() <= 10);
    }
    writer.join().expect("no panic");
    cache.validate();
}

fn set_capacity_lower_holds_when_it_returns() {
    let cache = weighed(20, 2);
    cache.insert(1, 9);
    let writer = {
        let cache = cache.clone();
        thread::spawn(move || [(2, 9), (3, 4), (1, 5)].map(|(key, weight)| cache.insert(key, weight)))
    };
    cache.set_capacity(9);
    assert!(cache.weight() <= 9 && cache.capacity() == 9);
    writer.join().expect("no panic");
    assert!(cache.weight() <= 9);
    cache.validate();
}

fn capacity_set_concurrently_is_one_of_them() {
    let cache = weighed(20, 2);
    (0..5).for_each(|key| _ = cache.insert(key, 4));
    let callers = [5, 15].map(|capacity| {
        let cache = cache.clone();
        thread::spawn(move || cache.set_capacity(capacity))
    });
    // As heavy as the lower capacity or more, so that it may come too late.
    _ = cache.insert(9, 8);
    callers.into_iter().for_each(|caller| caller.join().expect("no panic"));
    assert!([5, 15].contains(&cache.capacity()), "{}", cache.capacity());
    cache.validate();
}

/// A write that waited for room under `All` must neither wait for ever nor lose the value under `Nothing`.
fn insert_beside_a_change_of_choice_keeps_a_value() {
    let cache = weighed(10, 2);
    let keys =
        [0, 1].map(|shard| (0..).find(|key| cache.locate(key).shard == shard).expect("every shard has keys"));
    _ = cache.insert(keys[0], 6);
    let writers = keys.map(|key| {
        let cache = cache.clone();
        thread::spawn(move || cache.insert(key, 10).is_refused())
    });
    cache.set_evictable(Evictable::Nothing);
    writers.into_iter().for_each(|writer| _ = writer.join().expect("no panic"));
    cache.validate();
    assert!(!cache.is_empty(), "the first key had a value, and nobody has removed it");
}

/// An entry gets a deadline in one shard while a write in another one looks for room: either it is evicted, or the write
/// was first and is refused; the next one finds it, though the clock has not advanced.
fn entry_that_may_be_evicted_is_found_by_others() {
    let cache: Cache<u32, u64> = Cache::builder()
        .weight(10, |_, value| *value)
        .shards(2)
        .evictable(Evictable::Timed)
        .clock(Clock::manual().0)
        .build()
        .expect("valid options");
    let [ours, theirs] =
        [0, 1].map(|shard| (0..).find(|key| cache.locate(key).shard == shard).expect("every shard has keys"));
    _ = cache.insert(theirs, 10);
    let writer = {
        let cache = cache.clone();
        thread::spawn(move || cache.insert(ours, 5).is_refused())
    };
    cache.compute(theirs, |_| (crate::Op::SetTtl(crate::Ttl::At(1_000)), ()));
    let refused = writer.join().expect("no panic");
    cache.validate();
    assert_eq!(cache.contains(&theirs), refused);
    assert_eq!(cache.contains(&ours), !refused);
    assert!(!cache.insert(ours, 10).is_refused(), "at the same time");
}

fn key_inserted_twice_is_one_entry() {
    let cache = weighed(100, 2);
    let writers: Vec<_> = (1..=2)
        .map(|weight| {
            let cache = cache.clone();
            thread::spawn(move || cache.insert(1, weight).replaced())
        })
        .collect();
    let replaced: Vec<_> = writers.into_iter().map(|writer| writer.join().expect("no panic")).collect();
    assert_eq!(replaced.iter().flatten().count(), 1, "{replaced:?}");
    assert_eq!(cache.len(), 1);
    assert_eq!(cache.get(&1), Some(cache.weight()));
}

fn compute_concurrent_loses_no_update() {
    let cache = weighed(100, 2);
    let counters: Vec<_> = (0..3)
        .map(|_| {
            let cache = cache.clone();
            thread::spawn(move || {
                cache.compute(1, |entry| {
                    let sum = entry.map_or(0, |entry| *entry.value()) + 1;
                    (crate::Op::Put(sum, crate::Ttl::Default), ())
                });
            })
        })
        .collect();
    counters.into_iter().for_each(|counter| counter.join().expect("no panic"));
    assert_eq!(cache.get(&1), Some(3));
}
