//! Loads: leaders that commit, fail or are dropped, followers that wait or are dropped, and keys that change meanwhile.

use crate::{Cache, CommitOutcome, FollowOutcome, Follower, Leader, Load, Op, Scenario, Ticket};
use shuttle::future::{block_on, spawn, yield_now};
use shuttle::sync::Arc;
use shuttle::sync::atomic::{AtomicU32, Ordering};
use shuttle::thread;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

pub(crate) const SCENARIOS: &[Scenario] = &[
    ("loads::followers_get_the_committed_value", followers_get_the_committed_value),
    ("loads::leader_dropped_promotes_a_follower", leader_dropped_promotes_a_follower),
    ("loads::follower_dropped_does_not_lose_a_wakeup", follower_dropped_does_not_lose_a_wakeup),
    ("loads::all_callers_dropped_leaves_a_loadable_key", all_callers_dropped_leaves_a_loadable_key),
    ("loads::follower_moved_to_another_task_is_woken_there", follower_moved_to_another_task_is_woken_there),
    ("loads::failure_reaches_all_followers", failure_reaches_all_followers),
    ("loads::key_removed_during_load_stays_removed", key_removed_during_load_stays_removed),
    (
        "loads::key_inserted_during_load_keeps_the_inserted_value",
        key_inserted_during_load_keeps_the_inserted_value,
    ),
    (
        "loads::key_computed_during_load_keeps_the_computed_value",
        key_computed_during_load_keeps_the_computed_value,
    ),
    ("loads::key_cleared_during_load_stays_cleared", key_cleared_during_load_stays_cleared),
    ("loads::key_purged_during_load_stays_purged", key_purged_during_load_stays_purged),
    ("loads::load_after_invalidation_is_a_new_one", load_after_invalidation_is_a_new_one),
    ("loads::sync_caller_beside_a_task_ends_the_load_once", sync_caller_beside_a_task_ends_the_load_once),
    ("loads::sync_callers_load_once", sync_callers_load_once),
    ("loads::sync_callers_survive_a_dropped_leader", sync_callers_survive_a_dropped_leader),
    (
        "loads::sync_caller_does_not_wait_for_the_next_async_leader",
        sync_caller_does_not_wait_for_the_next_async_leader,
    ),
    ("loads::loaders_that_load_each_other_do_not_deadlock", loaders_that_load_each_other_do_not_deadlock),
    ("loads::leader_that_gives_way_holds_nobody_up", leader_that_gives_way_holds_nobody_up),
    ("loads::later_of_two_loads_is_what_stays", later_of_two_loads_is_what_stays),
];

fn cache() -> Cache<u32, u32> {
    Cache::builder().entries(100).shards(1).build().expect("valid options")
}

fn lead(cache: &Cache<u32, u32>) -> Ticket<u32, u32> {
    match cache.load(&1) {
        Load::Lead(ticket) => ticket,
        other => panic!("expected to lead: {other:?}"),
    }
}

fn follow(cache: &Cache<u32, u32>) -> Follower<u32, u32> {
    match cache.load(&1) {
        Load::Follow(follower) => follower,
        other => panic!("expected to follow: {other:?}"),
    }
}

/// Looks up key 1 as an async caller does, and loads `value` if it leads.
async fn fetch(cache: &Cache<u32, u32>, value: u32) -> u32 {
    match cache.load(&1) {
        Load::Hit(found) => found,
        Load::Lead(ticket) => fill(ticket, value).await,
        Load::Follow(follower) => match follower.await {
            FollowOutcome::Value(found) => found,
            FollowOutcome::Lead(ticket) => fill(ticket, value).await,
            FollowOutcome::Failed(why) => panic!("nobody fails: {why:?}"),
        },
    }
}

async fn fill(ticket: Ticket<u32, u32>, value: u32) -> u32 {
    yield_now().await;
    ticket.commit(value);
    value
}

/// Waits and is dropped after one poll, as when a caller is cancelled.
async fn glance(cache: &Cache<u32, u32>) {
    if let Load::Follow(follower) = cache.load(&1) {
        drop(Once(Some(follower)).await);
    }
}

/// Polls a follower once and returns it.
struct Once(Option<Follower<u32, u32>>);

impl Future for Once {
    type Output = Option<Follower<u32, u32>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if let Some(follower) = &mut self.0 {
            _ = Pin::new(follower).poll(context);
        }
        Poll::Ready(self.0.take())
    }
}

fn followers_get_the_committed_value() {
    let cache = cache();
    let tasks: Vec<_> = (1..=3)
        .map(|n| {
            let cache = cache.clone();
            spawn(async move { fetch(&cache, n).await })
        })
        .collect();
    let found: Vec<u32> = tasks.into_iter().map(|task| block_on(task).expect("no panic")).collect();
    assert!(found.iter().all(|value| *value == found[0]), "{found:?}");
    assert_eq!(cache.get(&1), Some(found[0]));
    assert_eq!(cache.stats().loads, 1);
}

fn leader_dropped_promotes_a_follower() {
    let cache = cache();
    let ticket = lead(&cache);
    let tasks: Vec<_> = (1..=3)
        .map(|n| {
            let cache = cache.clone();
            spawn(async move { fetch(&cache, n).await })
        })
        .collect();
    drop(ticket);
    let found: Vec<u32> = tasks.into_iter().map(|task| block_on(task).expect("no panic")).collect();
    assert!(found.iter().all(|value| *value == found[0]), "one led, the others followed: {found:?}");
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (1, 1));
}

fn follower_dropped_does_not_lose_a_wakeup() {
    let cache = cache();
    let ticket = lead(&cache);
    let leaving = {
        let cache = cache.clone();
        spawn(async move { glance(&cache).await })
    };
    let staying: Vec<_> = (1..=2)
        .map(|n| {
            let cache = cache.clone();
            spawn(async move { fetch(&cache, n).await })
        })
        .collect();
    drop(ticket);
    block_on(leaving).expect("no panic");
    let found: Vec<u32> = staying.into_iter().map(|task| block_on(task).expect("no panic")).collect();
    // The dropped follower may have been promoted by its poll: then there were two loads, one after the other.
    assert_eq!(cache.get(&1), Some(found[0]));
    assert_eq!(found[0], found[1]);
}

fn all_callers_dropped_leaves_a_loadable_key() {
    let cache = cache();
    let tasks: Vec<_> = (0..3)
        .map(|_| {
            let cache = cache.clone();
            spawn(async move {
                match cache.load(&1) {
                    Load::Lead(ticket) => {
                        yield_now().await;
                        drop(ticket);
                    }
                    Load::Follow(follower) => drop(Once(Some(follower)).await),
                    Load::Hit(value) => panic!("nobody stored {value}"),
                }
            })
        })
        .collect();
    tasks.into_iter().for_each(|task| block_on(task).expect("no panic"));
    assert_eq!(lead(&cache).commit(7), CommitOutcome::Stored);
}

/// A future may be polled by one task and then by another: the last task that polled it must be woken.
fn follower_moved_to_another_task_is_woken_there() {
    let cache = cache();
    let ticket = lead(&cache);
    let first = spawn(Once(Some(follow(&cache))));
    let leader = thread::spawn(move || _ = ticket.commit(5));
    let follower = block_on(first).expect("no panic").expect("handed back");
    let second = spawn(follower);
    assert!(matches!(block_on(second).expect("no panic"), FollowOutcome::Value(5)));
    leader.join().expect("no panic");
}

fn failure_reaches_all_followers() {
    let cache = cache();
    let ticket = lead(&cache);
    let followers: Vec<_> = (0..2).map(|_| spawn(follow(&cache))).collect();
    let leader = thread::spawn(move || ticket.fail(std::sync::Arc::new("down")));
    for follower in followers {
        match block_on(follower).expect("no panic") {
            FollowOutcome::Failed(why) => assert_eq!(why.downcast_ref(), Some(&"down")),
            other => panic!("expected the failure: {other:?}"),
        }
    }
    leader.join().expect("no panic");
    assert!(!cache.contains(&1));
}

/// Runs a load of 1 concurrently with a change of the key; returns the outcome of both.
fn beside<R: Send + 'static>(
    cache: &Cache<u32, u32>,
    change: impl FnOnce(&Cache<u32, u32>) -> R + Send + 'static,
) -> (CommitOutcome, R) {
    let ticket = lead(cache);
    let changing = {
        let cache = cache.clone();
        thread::spawn(move || change(&cache))
    };
    let commit = ticket.commit(1);
    (commit, changing.join().expect("no panic"))
}

fn key_removed_during_load_stays_removed() {
    let cache = cache();
    let (commit, removed) = beside(&cache, |cache| cache.remove(&1));
    match commit {
        CommitOutcome::Stored => {
            assert_eq!(removed, Some(1), "the removal came after the commit, and found its value")
        }
        CommitOutcome::Voided => assert_eq!(removed, None),
        CommitOutcome::Refused(refusal) => panic!("{refusal}"),
    }
    assert_eq!(cache.get(&1), None);
}

fn key_inserted_during_load_keeps_the_inserted_value() {
    let cache = cache();
    let (commit, replaced) = beside(&cache, |cache| cache.insert(1, 2).replaced());
    assert_eq!(replaced.is_some(), commit == CommitOutcome::Stored);
    assert_eq!(cache.get(&1), Some(2), "the load began before the insertion");
}

fn key_computed_during_load_keeps_the_computed_value() {
    let cache = cache();
    let add = |cache: &Cache<u32, u32>| {
        cache.compute(1, |entry| {
            let sum = entry.map_or(0, |entry| *entry.value()) + 10;
            (Op::Put(sum, crate::Ttl::Default), sum)
        })
    };
    let (commit, computed) = beside(&cache, move |cache| add(cache).result);
    assert_eq!(computed, if commit == CommitOutcome::Stored { 11 } else { 10 });
    assert_eq!(cache.get(&1), Some(computed));
}

fn key_cleared_during_load_stays_cleared() {
    let cache = cache();
    beside(&cache, |cache| cache.clear());
    assert_eq!(cache.get(&1), None, "stored before it was cleared, or not at all");
    cache.validate();
}

fn key_purged_during_load_stays_purged() {
    let cache = cache();
    beside(&cache, |cache| cache.retain(|_, value| *value != 1));
    assert_eq!(cache.get(&1), None, "stored before it was purged, or not at all");
    cache.validate();
}

fn load_after_invalidation_is_a_new_one() {
    let cache = cache();
    let old = lead(&cache);
    let fetching = {
        let cache = cache.clone();
        thread::spawn(move || {
            cache.remove(&1);
            block_on(fetch(&cache, 2))
        })
    };
    old.commit(1);
    assert_eq!(
        fetching.join().expect("no panic"),
        2,
        "what was loaded before the removal is not served after it"
    );
    assert_eq!(cache.get(&1), Some(2));
}

fn sync_caller_beside_a_task_ends_the_load_once() {
    let cache = cache();
    let ticket = lead(&cache);
    let waiting = spawn(follow(&cache));
    let beside = {
        let cache = cache.clone();
        thread::spawn(move || cache.get_or_load(&1, || Ok::<_, ()>(2)).expect("the loader answers"))
    };
    let commit = ticket.commit(1);
    let winner = if commit == CommitOutcome::Stored { 1 } else { 2 };
    let beside = beside.join().expect("no panic");
    assert!(beside == 2 || beside == winner);
    assert_eq!(cache.get(&1), Some(winner), "the first valid commit wins");
    assert!(matches!(block_on(waiting).expect("no panic"), FollowOutcome::Value(value) if value == winner));
}

fn sync_callers_load_once() {
    let cache = cache();
    let loads = Arc::new(AtomicU32::new(0));
    let callers: Vec<_> = (0..3)
        .map(|_| {
            let (cache, loads) = (cache.clone(), loads.clone());
            thread::spawn(move || cache.get_or_load(&1, || Ok::<_, ()>(loads.fetch_add(1, Ordering::SeqCst))))
        })
        .collect();
    assert!(callers.into_iter().all(|caller| caller.join().expect("no panic") == Ok(0)));
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

/// A synchronous load whose loader unwinds.
fn vanish(cache: &Cache<u32, u32>) {
    let loader = || -> Result<u32, ()> { std::panic::resume_unwind(Box::new(())) };
    // If another caller has loaded the value, this loader does not run.
    _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| cache.get_or_load(&1, loader)));
}

fn sync_callers_survive_a_dropped_leader() {
    let cache = cache();
    let loads = Arc::new(AtomicU32::new(0));
    let vanishes = {
        let cache = cache.clone();
        thread::spawn(move || vanish(&cache))
    };
    let callers: Vec<_> = (0..2)
        .map(|_| {
            let (cache, loads) = (cache.clone(), loads.clone());
            thread::spawn(move || {
                let load = || Ok::<_, ()>(loads.fetch_add(1, Ordering::SeqCst) + 10);
                cache.get_or_load(&1, load).expect("the loader answers")
            })
        })
        .collect();
    vanishes.join().expect("no panic");
    let found: Vec<u32> = callers.into_iter().map(|caller| caller.join().expect("no panic")).collect();
    assert_eq!(found, [10, 10]);
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

/// The task continues only after the caller has its value, as when both need the same thread.
fn sync_caller_does_not_wait_for_the_next_async_leader() {
    let cache = cache();
    let vanishes = {
        let cache = cache.clone();
        thread::spawn(move || vanish(&cache))
    };
    let caller = {
        let cache = cache.clone();
        thread::spawn(move || cache.get_or_load(&1, || Ok::<_, ()>(2)).expect("the loader answers"))
    };
    let task = cache.load(&1);
    assert_eq!(caller.join().expect("no panic"), 2);
    drop(task);
    vanishes.join().expect("no panic");
}

fn loaders_that_load_each_other_do_not_deadlock() {
    let cache = cache();
    let load = |cache: Cache<u32, u32>, own: u32, other: u32| {
        thread::spawn(move || {
            cache.get_or_load(&own, || {
                let needed = cache.get_or_load(&other, || Ok::<_, ()>(1))?;
                Ok::<_, ()>(needed + 1)
            })
        })
    };
    let one = load(cache.clone(), 1, 2);
    let two = load(cache.clone(), 2, 1);
    assert!(one.join().expect("no panic").is_ok());
    assert!(two.join().expect("no panic").is_ok());
}

/// Two readers whose futures are not polled to their end, and loads that need the key.
fn leader_that_gives_way_holds_nobody_up() {
    let cache = cache();
    let read = |cache: &Cache<u32, u32>| cache.load_at(&1, cache.clock().now(), Leader::GivesWay, u32::clone);
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let cache = cache.clone();
            thread::spawn(move || read(&cache))
        })
        .collect();
    let loads: Vec<_> = (1..=2)
        .map(|n| {
            let cache = cache.clone();
            spawn(async move { fetch(&cache, n).await })
        })
        .collect();
    let found: Vec<u32> = loads.into_iter().map(|task| block_on(task).expect("no panic")).collect();
    assert_eq!(found[0], found[1], "one of them led");
    for reader in readers {
        match reader.join().expect("no panic") {
            Load::Lead(ticket) => assert_eq!(ticket.commit(9), CommitOutcome::Voided, "it was asked before"),
            Load::Follow(follower) => assert!(matches!(block_on(follower), FollowOutcome::Value(_))),
            Load::Hit(value) => assert_eq!(value, found[0]),
        }
    }
    assert_eq!(cache.get(&1), Some(found[0]));
}

/// A load, one that overtakes it and may fail, and one more that overtakes both: whatever the order of their ends, what stays is
/// of the latest one that did not fail, and every follower gets an end.
fn later_of_two_loads_is_what_stays() {
    let cache = cache();
    let mut tickets = vec![lead(&cache)];
    for _ in 0..2 {
        match follow(&cache).overtake(Leader::Async) {
            Load::Lead(ticket) => tickets.push(ticket),
            other => panic!("expected to lead: {other:?}"),
        }
    }
    let follower = follow(&cache);
    let loads = tickets.into_iter().zip(1..).map(|(ticket, value)| {
        spawn(async move {
            yield_now().await;
            match value {
                3 => ticket.fail(std::sync::Arc::new("down")),
                _ => _ = ticket.commit(value),
            }
        })
    });
    let loads: Vec<_> = loads.collect();
    let waiting = spawn(async move { _ = follower.await });
    block_on(async {
        for load in loads {
            load.await.expect("no panic");
        }
        waiting.await.expect("no panic");
    });
    assert_eq!(cache.get(&1), Some(2));
}
