//! What other caches were seen to get wrong, against this one, with both tiers.

use crate::mutation::Mutation;
use crate::{begun, cached, fail_together, fetched, gated, leader_and_follower, misses_reach, over};
use larder::{FetchError, View};
use larder_testkit::{Gate, RedisServer, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

#[tokio::test]
async fn delete_during_load_is_not_undone() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    let (gate, loading) = begun(&view, 1).await;
    view.delete("k").await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert!(view.read("k").await.is_none());
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
}

#[tokio::test]
async fn write_during_load_is_not_overwritten() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    let (gate, loading) = begun(&view, 1).await;
    view.write("k", 2).await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(cached(&view, "k").await, 2);
    let other: View<str, u32> = over(server.url()).view("n");
    assert_eq!(cached(&other, "k").await, 2);
}

#[tokio::test]
async fn views_with_other_error_types_share_a_load() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let (one, other): (View<str, u32>, View<str, u32, String>) = (cache.view("n"), cache.view("n"));
    let (gate, loading) = begun(&one, 1).await;
    let follower =
        tokio::spawn(async move { other.fetch("k").load(|_| async { Ok(2) }).await.map(|f| *f).ok() });
    misses_reach(&cache, 2).await;
    gate.open(1);
    assert_eq!((loading.await.expect("no panic"), follower.await.expect("no panic")), (1, Some(1)));
}

#[tokio::test]
async fn fetch_and_fetch_multi_share_a_load_and_refreshes_share_the_next() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    const CALLERS: usize = 50;
    let (loads, started) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let gate = Gate::closed();
    let first = gated(&view, &gate, 1);
    gate.arrival().await;
    let mut callers = Vec::new();
    for n in 0..CALLERS {
        let (view, loads, started) = (view.clone(), loads.clone(), started.clone());
        callers.push(tokio::spawn(async move {
            started.fetch_add(1, Ordering::SeqCst);
            let count = move || loads.fetch_add(1, Ordering::SeqCst);
            match n % 3 {
                0 => view
                    .fetch("k")
                    .load(move |_| async move {
                        count();
                        Ok(2)
                    })
                    .await
                    .map(|f| *f),
                1 => view
                    .fetch("k")
                    .refresh()
                    .load(move |_| async move {
                        count();
                        Ok(2)
                    })
                    .await
                    .map(|f| *f),
                _ => {
                    let loader = move |_: Vec<String>, _| {
                        count();
                        async { Ok(vec![("k".to_owned(), 2)]) }
                    };
                    view.fetch_multi(["k"]).load(loader).await.remove(0).map(|f| *f.expect("loaded"))
                }
            }
        }));
    }
    // On this one thread a caller that has started waits for the load at the end of its first turn.
    eventually("every caller waits", async || started.load(Ordering::SeqCst) == CALLERS).await;
    gate.open(1);
    assert_eq!(first.await.expect("no panic"), 1);
    for (n, caller) in callers.into_iter().enumerate() {
        let expected = if n % 3 == 1 { 2 } else { 1 };
        assert_eq!(caller.await.expect("no panic").ok(), Some(expected), "caller {n}");
    }
    assert_eq!((gate.count(), loads.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn failing_loader_runs_once_for_fifty_callers() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32, &str> = cache.view("n");
    let (callers, loads) = fail_together(&cache, &view, 50).await;
    for caller in callers {
        assert!(matches!(caller.await.expect("no panic"), Err(FetchError::Load(_))));
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
    // The lease was given back: another node need not wait for it.
    let began = Instant::now();
    eventually("nothing is there", async || server.command("EXISTS test:n:k") == ":0\r\n").await;
    assert!(began.elapsed() < Duration::from_secs(10), "it did not expire");
    let other: View<str, u32> = over(server.url()).view("n");
    assert_eq!(fetched(&other, "k", 1).await, 1);
}

#[tokio::test]
async fn no_store_leaves_no_lease() {
    let Some(server) = RedisServer::start() else { return };
    let view: View<str, u32> = over(server.url()).view("n");
    let loader = |cx: larder::LoadCx<u32>| async move {
        cx.no_store();
        Ok(1)
    };
    assert_eq!(view.fetch("k").load(loader).await.as_deref().ok(), Some(&1));
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
    assert_eq!(fetched(&view, "k", 2).await, 2, "nor is it in memory");
}

#[tokio::test]
async fn aborted_leader_does_not_block_followers() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    let (gate, first, second) = leader_and_follower(&cache, &view).await;
    first.abort();
    gate.open(1);
    assert_eq!(second.await.expect("no panic"), 1);
}

#[tokio::test]
async fn promoted_value_keeps_its_age() {
    let Some(server) = RedisServer::start() else { return };
    let writer: View<str, u32> = over(server.url()).view("n");
    writer.write("k", 1).await.everywhere();
    server.pass(Duration::from_secs(40));
    let cache = over(server.url());
    let reader: View<str, u32> = cache.view("n");
    let found = reader.read("k").await.expect("found");
    assert!(found.age() >= Duration::from_secs(39), "{:?}", found.age());
    for _ in 0..20 {
        assert!(reader.read("k").await.is_some());
    }
    assert_eq!(
        cache.stats().redis.expect("a redis tier").hits,
        1,
        "read once, not for each read of an old value"
    );
}
