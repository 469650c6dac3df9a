//! A Redis that is not there, refuses, hangs or restarts degrades the cache and never breaks a fetch.

use crate::mutation::Mutation;
use crate::{cached, node_with};
use larder::{Cache, View};
use larder_testkit::{Deadline, RedisServer, eventually, until};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

fn over(url: &str) -> Cache {
    Cache::builder("test")
        .ttl(Duration::from_secs(60))
        .redis(url)
        .redis_timeout(Duration::from_millis(200))
        .build()
        .expect("a redis that is down does not keep a cache from being built")
}

#[tokio::test]
async fn absent_redis_degrades_to_memory() {
    let _deadline = Deadline::start();
    let folder = std::env::temp_dir().join("larder-no-redis-here.sock");
    let cache = over(&format!("redis+unix://{}", folder.display()));
    let view: View<str, u32> = cache.view("n");
    assert!(view.read("a").await.is_none());
    assert_eq!(*view.fetch("a").load(|_| async { Ok(1) }).await.expect("loads"), 1);
    assert_eq!(cached(&view, "a").await, 1);
    assert!(view.read_multi(["x", "y"]).await.iter().all(Option::is_none));

    view.write("a", 2).await.queued();
    assert_eq!(cached(&view, "a").await, 2, "the write holds in this process");
    view.delete("a").await.queued();
    assert!(view.read("a").await.is_none(), "and so does the delete");
    let redis = cache.stats().redis.expect("a redis tier");
    assert!(redis.errors >= 1 && redis.skipped >= 1, "{redis:?}");
}

#[tokio::test]
async fn hanging_redis_delays_one_caller_by_timeout() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(&server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("a", 1).await.everywhere();
    server.pause();
    let began = Instant::now();
    for key in ["b", "c", "d", "e", "f"] {
        assert_eq!(*view.fetch(key).load(|_| async { Ok(2) }).await.expect("loads"), 2);
    }
    assert_eq!(cached(&view, "a").await, 1);
    server.resume();
    // Generous: without the breaker five lookups would wait, without the timeout the first would never end.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
    assert!(cache.stats().redis.expect("a redis tier").skipped >= 1);
}

#[tokio::test]
async fn returning_redis_is_used_again() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = over(&server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("a", 1).await.everywhere();
    server.kill();
    view.write("a", 2).await.queued();
    assert_eq!(cached(&view, "a").await, 2);
    server.restart();
    eventually("redis is used again", async || view.write("a", 3).await.is_everywhere()).await;
    let other: View<str, u32> = over(&server.url()).view("n");
    assert_eq!(other.read("a").await.as_deref(), Some(&3));
}

#[tokio::test]
async fn full_redis_fails_writes_only() {
    let Some(server) = RedisServer::start() else { return };
    server.set_full(true);
    let (reports, reasons) = std::sync::mpsc::channel();
    let cache =
        node_with(server.url(), |options| options.on_error(move |error| _ = reports.send(error.to_string())));
    let view: View<str, u32> = cache.view("n");
    view.write("a", 1).await.queued();
    let reason = reasons.try_recv().expect("no caller gets the error");
    assert!(reason.contains("maxmemory"), "{reason}");
    assert_eq!(*view.fetch("b").load(|_| async { Ok(2) }).await.expect("loads"), 2);
    assert_eq!(cache.stats().redis.expect("a redis tier").skipped, 0, "an answer does not open the breaker");
}

/// The task that connects runs on the runtime of the first caller. Whoever waits for it on another one does not wait for
/// ever when that is gone.
#[test]
fn ended_runtime_releases_waiting_callers() {
    let Some(server) = RedisServer::start() else { return };
    server.pause();
    let cache = node_with(server.url(), |options| options.redis_timeout(Duration::from_secs(60)));
    let view: View<str, u32> = cache.view("n");
    let first = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    let (started, waits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let (has_started, parked) = (started.clone(), waits.clone());
    let second = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .on_thread_park(move || parked.store(has_started.load(Ordering::SeqCst), Ordering::SeqCst))
        .build()
        .expect("a runtime");
    let asks = view.clone();
    first
        .block_on(async { tokio::time::timeout(Duration::from_millis(20), asks.read("k")).await })
        .expect_err("redis hangs");
    let waiting = second.spawn(async move {
        started.store(true, Ordering::SeqCst);
        view.read("k").await.map(|found| *found)
    });
    until("the second runtime has nothing to do but wait", || waits.load(Ordering::SeqCst).then_some(()));
    drop(first);
    server.resume();
    let waited = second.block_on(async { tokio::time::timeout(Duration::from_secs(10), waiting).await });
    assert_eq!(waited.expect("it does not hang").expect("no panic"), None);
}

#[tokio::test]
async fn entry_that_an_outage_makes_unservable_counts_as_a_miss() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.disconnected(Duration::from_millis(300)));
    let view: View<str, u32> = cache.view("n");
    view.write("a", 1).await.everywhere();
    assert_eq!(cached(&view, "a").await, 1);
    server.kill();
    eventually("memory is not trusted any more", async || view.read("a").await.is_none()).await;
    let before = cache.stats();
    assert_eq!(*view.fetch("a").load(|_| async { Ok(2) }).await.expect("loads"), 2);
    let after = cache.stats();
    assert_eq!(after.loads, before.loads + 1);
    assert_eq!(after.memory.hits, before.memory.hits);
    assert_eq!(after.memory.misses, before.memory.misses + 1);
    assert_eq!(after.memory.unservable, before.memory.unservable + 1);
}
