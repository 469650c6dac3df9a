//! Room: shards that take it from each other, and a capacity that changes meanwhile.

use crate::{Cache, CommitOutcome, Load, Scenario};
use shuttle::thread;

pub(crate) const SCENARIOS: &[Scenario] = &[
    (
        "room::shards_that_need_each_others_room_do_not_wait_for_each_other",
        shards_that_need_each_others_room_do_not_wait_for_each_other,
    ),
    ("room::an_insert_voids_no_load_before_it_stores", an_insert_voids_no_load_before_it_stores),
    ("room::nobody_sees_more_than_the_capacity", nobody_sees_more_than_the_capacity),
    ("room::a_lower_capacity_holds_once_it_is_set", a_lower_capacity_holds_once_it_is_set),
    ("room::one_key_inserted_twice_is_one_entry", one_key_inserted_twice_is_one_entry),
    ("room::counting_loses_nothing", counting_loses_nothing),
];

fn weighed(capacity: u64, shards: usize) -> Cache<u32, u64> {
    Cache::builder().weight(capacity, |_, value| *value).shards(shards).build().expect("valid options")
}

/// Each entry fills the whole cache, so each insertion evicts what the other shard may hold, which may be locked by one
/// who wants ours.
fn shards_that_need_each_others_room_do_not_wait_for_each_other() {
    let cache = weighed(10, 2);
    let writers = [0, 1].map(|shard| {
        let cache = cache.clone();
        thread::spawn(move || {
            let keys = (0..).filter(|key| cache.place(key).shard == shard).take(2);
            keys.filter(|key| !cache.insert(*key, 10).is_refused()).count()
        })
    });
    let stored: usize = writers.into_iter().map(|writer| writer.join().expect("no panic")).sum();
    assert_eq!(stored, 4, "there is room for each, once the other is done");
    assert_eq!((cache.len(), cache.weight()), (1, 10));
    cache.validate();
}

/// An insert that finds no room yields its shard and tries again. A load that begins meanwhile must not find the ticket
/// before it voided already: its own value would then be overwritten by an insert that seemed to come first.
fn an_insert_voids_no_load_before_it_stores() {
    let cache = weighed(10, 2);
    let [ours, theirs] =
        [0, 1].map(|shard| (0..).find(|key| cache.place(key).shard == shard).expect("every shard has keys"));
    let Load::Lead(early) = cache.load(&ours) else { panic!("the cache is empty") };
    let writers = [ours, theirs].map(|key| {
        let cache = cache.clone();
        thread::spawn(move || cache.insert(key, 10))
    });
    // Whoever leads now does so because the insert has voided the early ticket: it came before this load.
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

/// One shard, so that what is held is summed up at one moment.
fn nobody_sees_more_than_the_capacity() {
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

fn a_lower_capacity_holds_once_it_is_set() {
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

fn one_key_inserted_twice_is_one_entry() {
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

fn counting_loses_nothing() {
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
