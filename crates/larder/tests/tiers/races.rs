//! Races that were found on paper, in a model or in a run, each named after what would have gone wrong.

use crate::mutation::Mutation;
use crate::{cached, fetched, gated, in_memory, node_with, over, pair};
use larder::{Invalidation, Policy, Source, View};
use larder_testkit::{Gate, RedisServer, eventually};
use std::time::Duration;

/// A caller who comes after the invalidation of a tag must not get a value that was loaded before it, although the tag was
/// unknown when the load started.
#[tokio::test]
async fn fetch_after_tag_invalidation_does_not_join_earlier_load() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        let gate = Gate::closed();
        let start = |value| {
            let (view, gate) = (view.clone(), gate.clone());
            tokio::spawn(async move {
                let loader = move |cx: larder::LoadCx<u32>| async move {
                    gate.pass().await;
                    cx.tag("t");
                    Ok(value)
                };
                *view.fetch("k").load(loader).await.expect("loads")
            })
        };
        let early = start(1);
        gate.arrival().await;
        cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        let before = cache.stats().memory.misses;
        let late = start(2);
        eventually("the late one waits", async || cache.stats().memory.misses > before).await;
        gate.open(1);
        assert_eq!(early.await.expect("no panic"), 1);
        gate.open(1);
        assert_eq!(late.await.expect("no panic"), 2);
        assert_eq!(cached(&view, "k").await, 2);
    }
}

/// The replay of a failed write must not delete a later value.
#[tokio::test]
async fn replayed_invalidation_keeps_newer_value() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    for round in 0..20 {
        server.set_full(true);
        view.write("k", round).await.queued();
        server.set_full(false);
        view.write("k", round + 100).await.everywhere();
        eventually("no invalidation is pending", async || cache.coherence().pending_invalidations == 0).await;
        let other: View<str, u32> = over(server.url()).view("n");
        assert_eq!(other.read("k").await.as_deref(), Some(&(round + 100)), "round {round}");
    }
}

/// The replay of a failed clear, or of a failed tag invalidation, must not remove a later value.
#[tokio::test]
async fn replayed_clear_keeps_newer_value() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n").with_tag("t");
    view.write("k", 0).await.everywhere();
    for round in 1..20 {
        server.command("CONFIG SET min-replicas-to-write 1");
        if round % 2 == 0 {
            cache.clear().await.queued();
        } else {
            cache.invalidate_tags(["t"], Invalidation::Hard).await.queued();
        }
        server.command("CONFIG SET min-replicas-to-write 0");
        view.write("k", round).await.everywhere();
        eventually("no invalidation is pending", async || cache.coherence().pending_invalidations == 0).await;
        assert_eq!(view.read("k").await.as_deref(), Some(&round), "round {round}, here");
        let other: View<str, u32> = over(server.url()).view("n");
        assert_eq!(other.read("k").await.as_deref(), Some(&round), "round {round}, elsewhere");
    }
}

/// Of two writers of one node, too.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_local_writes_end_with_one_value() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    for round in 0..300 {
        let writing = [0, 1].map(|n| {
            let view = view.clone();
            tokio::spawn(async move { view.write("k", round * 2 + n).await })
        });
        for written in writing {
            written.await.expect("no panic").everywhere();
        }
        let here = cached(&view, "k").await;
        let other: View<str, u32> = over(server.url()).view("n");
        assert_eq!(other.read("k").await.as_deref(), Some(&here), "round {round}");
    }
}

/// What is added where Redis has nothing replaces what memory has.
#[tokio::test]
async fn add_replaces_memory_entry_that_redis_lost() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, _) = pair(&server);
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    assert_eq!(cached(&view, "k").await, 1);
    server.command("DEL test:n:k");
    assert_eq!(view.add("k", 2).await.ok(), Some(true));
    assert_eq!(view.read("k").await.as_deref(), Some(&2));
}

/// Of two writers the later one in Redis must be the one that both have in memory in the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_remote_writes_end_with_one_value() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let views: [View<str, u32>; 2] = [one.view("n"), other.view("n")];
    for round in 0..50 {
        let writing = [0, 1].map(|n| {
            let view = views[n].clone();
            tokio::spawn(async move { view.write("k", round * 2 + n as u32).await })
        });
        for written in writing {
            written.await.expect("no panic").everywhere();
        }
        let third: View<str, u32> = over(server.url()).view("n");
        let truth = third.read("k").await.map(|found| *found).expect("written");
        for view in &views {
            eventually("both agree with redis", async || cached(view, "k").await == truth).await;
        }
    }
}

/// What was read from Redis before a delete must not be put into memory after it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn read_during_delete_is_not_promoted() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    for round in 0..100 {
        b.write("k", round).await.everywhere();
        eventually("the write is announced", async || a.read("k").await.as_deref() == Some(&round)).await;
        // What memory has goes, so that the read has to ask Redis.
        one.clear().await.everywhere();
        b.write("k", round + 1_000).await.everywhere();
        let reading = {
            let a = a.clone();
            tokio::spawn(async move { a.read("k").await.map(|found| *found) })
        };
        a.delete("k").await.everywhere();
        reading.await.expect("no panic");
        assert!(a.read("k").await.is_none(), "round {round}");
    }
}

/// A write after another node's clear stays, even if the writer has not got the announcement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn write_after_remote_clear_stays() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    for round in 0..300 {
        one.clear().await.everywhere();
        b.write("k", round).await.everywhere();
        assert_eq!(a.read("k").await.as_deref(), Some(&round));
    }
}

/// A refresh that started before a delete must not restore the value.
#[tokio::test]
async fn refresh_before_delete_does_not_restore_value() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    let gate = Gate::closed();
    let refreshing = {
        let (a, gate) = (a.clone(), gate.clone());
        tokio::spawn(async move {
            let loader = move |_| async move {
                gate.pass().await;
                Ok(2)
            };
            a.fetch("k").refresh().load(loader).await.map(|fetched| *fetched).ok()
        })
    };
    gate.arrival().await;
    assert_eq!(cached(&a, "k").await, 1, "the old value is read meanwhile");
    b.delete("k").await.everywhere();
    gate.open(1);
    assert_eq!(refreshing.await.expect("no panic"), Some(2));
    eventually("it stays deleted", async || a.read("k").await.is_none()).await;
    assert!(b.read("k").await.is_none());
}

/// A lease that expired during a load must not be taken for the one that replaced it.
#[tokio::test]
async fn evicted_lease_does_not_match_its_successor() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.delete("k").await.everywhere();
    let (early, late) = (Gate::closed(), Gate::closed());
    let first = gated(&a, &early, 1);
    early.arrival().await;
    server.command("DEL test:n:k");
    let second = gated(&b, &late, 2);
    late.arrival().await;
    early.open(1);
    assert_eq!(first.await.expect("no panic"), 1);
    late.open(1);
    assert_eq!(second.await.expect("no panic"), 2);
    assert_eq!(cached(&a, "k").await, 2);
}

/// A node must ask Redis about a tag that it does not know yet.
#[tokio::test]
async fn new_node_honours_earlier_tag_invalidation() {
    let Some(server) = RedisServer::start() else { return };
    let old = over(server.url());
    let view: View<str, u32> = old.view("n");
    let tagged = view.fetch("k").tag("t").load(|_| async { Ok(1) });
    assert_eq!(*tagged.await.expect("loads"), 1);
    old.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    let new: View<str, u32> = over(server.url()).view("n");
    assert_eq!(fetched(&new, "k", 2).await, 2);
}

/// A node that was stopped must not serve, when it runs again, a value that was deleted meanwhile.
#[tokio::test]
async fn clock_jump_requires_new_proof() {
    let Some(server) = RedisServer::start() else { return };
    let (clock, hand) = larder_engine::Clock::manual();
    let sleeper = node_with(server.url(), |options| options.ttl(Duration::from_secs(3_600)).clock(clock));
    let view: View<str, u32> = sleeper.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    assert_eq!(view.read("k").await.map(|found| found.source()), Some(Source::Memory));
    // As if by another program, without an announcement: only revalidation can notice it.
    server.command("DEL test:n:k");
    assert_eq!(cached(&view, "k").await, 1, "not covered without tracking");
    hand.advance(Duration::from_secs(10));
    assert!(view.read("k").await.is_none());
}

/// A fetch that waits behind a read holds a stale value. If the value is deleted before the fetch continues, it must not be
/// served when the load fails.
#[tokio::test]
async fn value_deleted_while_fetch_waits_is_not_served_stale() {
    let Some(server) = RedisServer::start() else { return };
    let view: View<str, u32, &str> = over(server.url()).view("n");
    let view = view.with_policy(Policy::new().ttl(Duration::from_millis(20)).grace(Duration::from_secs(60)));
    view.write("k", 1).await.everywhere();
    eventually("it is stale", async || view.read("k").await.is_none()).await;
    let (reads, fetches, deletes, gate) = (view.clone(), view.clone(), view.clone(), Gate::closed());
    let passes = gate.clone();
    server.pause();
    // Each begins at its first turn, on this one thread.
    let reading = tokio::spawn(async move { reads.read("k").await.is_some() });
    tokio::task::yield_now().await;
    let fetching = tokio::spawn(async move {
        let loader = move |_| async move {
            passes.pass().await;
            Err("down")
        };
        fetches.fetch("k").load(loader).await.map(|fetched| *fetched)
    });
    tokio::task::yield_now().await;
    let deleting = tokio::spawn(async move { deletes.delete("k").await });
    tokio::task::yield_now().await;
    server.resume();
    deleting.await.expect("no panic").everywhere();
    gate.arrival().await;
    gate.open(1);
    fetching.await.expect("no panic").ok();
    reading.await.expect("no panic");
    assert_eq!(view.fetch("k").load(|_| async { Ok(2) }).await.as_deref().ok(), Some(&2));
}
