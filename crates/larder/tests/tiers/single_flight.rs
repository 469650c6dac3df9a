//! One key is loaded once, however many callers ask for it, and no caller blocks when another leaves.

use crate::mutation::Mutation;
use crate::{
    begun, cached, fail_together, gated, in_memory, leader_and_follower, misses_reach, node_with, over,
};
use larder::{Cache, FetchError, Policy, Source, View};
use larder_testkit::{Deadline, Gate, RedisServer};
use std::sync::atomic::Ordering;
use std::time::Duration;

#[tokio::test]
async fn ten_thousand_callers_make_one_load() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let gate = Gate::closed();
    let callers: Vec<_> = (0..10_000).map(|n| gated(&view, &gate, n)).collect();
    gate.arrival().await;
    misses_reach(&cache, 10_000).await;
    gate.open(1);
    for caller in callers {
        assert_eq!(caller.await.expect("no panic"), 0);
    }
    assert_eq!((gate.count(), cache.stats().loads, cache.stats().coalesced), (1, 1, 9_999));
}

#[tokio::test]
async fn loader_error_reaches_all_followers() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32, &'static str> = cache.view("n");
    let (callers, loads) = fail_together(&cache, &view, 50).await;
    for caller in callers {
        let Err(FetchError::Load(error)) = caller.await.expect("no panic") else { panic!("an error") };
        assert_eq!(*error, "down");
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}

#[tokio::test]
async fn load_continues_when_first_caller_leaves() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let (gate, first, second) = leader_and_follower(&cache, &view).await;
    first.abort();
    assert!(first.await.expect_err("aborted").is_cancelled());
    gate.open(1);
    assert_eq!(second.await.expect("no panic"), 1);
    assert_eq!(gate.count(), 1);
}

#[tokio::test]
async fn delete_during_load_keeps_value_out_of_memory() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    let gate = Gate::closed();
    let before = gated(&view, &gate, 1);
    gate.arrival().await;
    view.delete("k").await.everywhere();
    let after = gated(&view, &gate, 2);
    gate.arrival().await;
    gate.open(2);
    assert_eq!(before.await.expect("no panic"), 1, "its caller asked before the delete");
    assert_eq!(after.await.expect("no panic"), 2);
    assert_eq!(cached(&view, "k").await, 2);
}

#[tokio::test]
async fn write_during_load_wins() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    let (gate, loading) = begun(&view, 1).await;
    view.write("k", 9).await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(cached(&view, "k").await, 9);
}

#[tokio::test]
async fn many_callers_make_one_redis_lookup() {
    let Some(server) = RedisServer::start() else { return };
    let writer: View<str, u32> = over(server.url()).view("n");
    writer.write("k", 5).await.everywhere();
    let cache = over(server.url());
    let reader: View<str, u32> = cache.view("n");
    let callers: Vec<_> = (0..100)
        .map(|_| {
            let reader = reader.clone();
            tokio::spawn(
                async move { reader.fetch("k").load(|_| async { Ok(0) }).await.expect("found").source() },
            )
        })
        .collect();
    let mut from_redis = 0;
    for caller in callers {
        from_redis += usize::from(caller.await.expect("no panic") == Source::Redis);
    }
    let redis = cache.stats().redis.expect("a redis tier");
    assert_eq!((from_redis, redis.hits, redis.misses), (1, 1, 0));
}

#[tokio::test]
async fn longest_timeouts_and_waits_are_no_limits() {
    let Some(server) = RedisServer::start() else { return };
    let local = Cache::builder("test").ttl(Duration::from_secs(60)).lease_wait(Duration::MAX);
    let local = local.build().expect("valid options");
    for cache in [local, node_with(server.url(), |options| options.lease_wait(Duration::MAX))] {
        let view: View<str, u32> = cache.view("n");
        let view = view.with_policy(Policy::new().hard_timeout(Duration::MAX));
        let (gate, leader, follower) = leader_and_follower(&cache, &view).await;
        gate.open(2);
        assert_eq!((leader.await.expect("no panic"), follower.await.expect("no panic")), (1, 1));
        let refreshed = view.fetch("k").refresh().load(|_| async { Ok(3) }).await.expect("loads");
        assert_eq!(*refreshed, 3);
    }
}
