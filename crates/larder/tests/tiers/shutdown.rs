//! The explicit end of a cache: what is pending is sent, then nothing of it is left, and every call says so.

use crate::mutation::Mutation;
use crate::{begun, in_memory, node_with, over, pair};
use larder::{
    Cache, CacheError, CoherenceMode, Counters, FetchError, Leased, SharedFetch, View, WriteOptions,
};
use larder_testkit::{Deadline, RedisServer, eventually};
use std::time::Duration;

const SOON: Duration = Duration::from_secs(5);

/// Every call says that the cache was shut down, or finds nothing.
async fn refuses_everything(cache: &Cache) {
    let view: View<str, u32> = cache.view("n");
    let load = |_| async { panic!("nothing is loaded") };
    assert!(matches!(view.fetch("k").load(load).await, Err(FetchError::ShutDown)));
    assert!(matches!(view.fetch("k").refresh().load(load).await, Err(FetchError::ShutDown)));
    assert!(matches!(view.fetch("k").lease().await, Err(FetchError::ShutDown)));
    let many = view.fetch_multi(["k", "l"]).load(|_, _| async { Ok(Vec::new()) }).await;
    assert!(many.iter().all(|outcome| matches!(outcome, Err(FetchError::ShutDown))));
    assert!(view.hit("k").is_none() && view.read("k").await.is_none() && !view.exist("k").await);
    assert!(view.read_multi(["k"]).await[0].is_none());
    let is_refused =
        |result: Result<(), CacheError>| assert!(matches!(result, Err(CacheError::ShutDown)), "{result:?}");
    is_refused(view.write("k", 2).await.map(drop));
    is_refused(view.add("k", 2).await.map(drop));
    is_refused(view.delete("k").await.map(drop));
    is_refused(view.take("k").await.map(drop));
    is_refused(view.expire("k").await.map(drop));
    is_refused(view.touch("k", larder::Policy::new()).await.map(drop));
    is_refused(view.update("k", |_| larder::Update::Remove).await.map(drop));
    assert!(view.ttl("k").await.is_none());
    is_refused(cache.invalidate_tags(["t"], larder::Invalidation::Hard).await.map(drop));
    is_refused(cache.clear().await.map(drop));
    is_refused(cache.delete_matched("*").await.map(drop));
    let counters: Counters<str> = cache.counters("c");
    is_refused(counters.increment("k", 1).await.map(drop));
    is_refused(counters.read("k").await.map(drop));
    is_refused(cache.raw::<str>("raw").read("k").await.map(drop));
    let shared = cache.shared("s");
    let SharedFetch::Lease(lease) = shared.fetch(b"k").await else { panic!("there is nothing") };
    lease.commit(b"1".to_vec(), &WriteOptions::new()).await;
    assert!(shared.read(b"k").await.is_none());
    is_refused(shared.spawn_invalidation(["t"], larder::Invalidation::Hard));
    assert_eq!(cache.coherence().mode, CoherenceMode::ShutDown);
    assert!(!cache.coherence().memory_trusted);
    // It cannot be turned on again.
    cache.set_enabled(false);
    cache.set_enabled(true);
    assert!(matches!(view.fetch("k").load(load).await, Err(FetchError::ShutDown)));
    assert_eq!(cache.shutdown(SOON).await, 0);
}

#[tokio::test]
async fn cache_in_memory_refuses_calls_after_its_shutdown() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    assert_eq!(cache.shutdown(SOON).await, 0);
    assert_eq!(cache.stats().memory.entries, Some(0));
    refuses_everything(&cache).await;
}

#[tokio::test]
async fn shutdown_closes_all_connections() {
    let _deadline = Deadline::start();
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    view.read_multi(["a", "b", "c", "d"]).await;
    // The connection that asks is one too.
    let clients = || server.command("CLIENT LIST").matches(" fd=").count() - 1;
    assert!(clients() >= 3);
    let events = cache.events();
    assert_eq!(cache.shutdown(SOON).await, 0);
    eventually("no connection is left", async || clients() == 0).await;
    refuses_everything(&cache).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(clients(), 0, "nothing connects again");
    drop(events);
}

#[tokio::test]
async fn shutdown_sends_pending_invalidations() {
    let _deadline = Deadline::start();
    let Some(server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.redis_timeout(Duration::from_millis(100)));
    let other = over(server.url());
    let (view, elsewhere): (View<str, u32>, View<str, u32>) = (cache.view("n"), other.view("n"));
    elsewhere.write("k", 1).await.everywhere();
    assert_eq!(view.read("k").await.as_deref(), Some(&1));
    server.pause();
    assert_eq!(view.delete("k").await.expect("it is queued").reach, larder::Reach::HereAndQueued);
    let ending = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.shutdown(Duration::from_secs(30)).await })
    };
    eventually("later calls are refused", async || {
        matches!(view.delete("k").await, Err(CacheError::ShutDown))
    })
    .await;
    server.resume();
    assert_eq!(ending.await.expect("no panic"), 0);
    eventually("the other node has heard of it", async || elsewhere.read("k").await.is_none()).await;
}

#[tokio::test]
async fn shutdown_says_what_is_lost() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.redis_timeout(Duration::from_millis(100)));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.pause();
    _ = view.delete("k").await;
    assert_eq!(cache.shutdown(Duration::from_millis(50)).await, 1);
    server.resume();
}

#[tokio::test]
async fn load_that_runs_at_the_end_answers_its_callers() {
    let _deadline = Deadline::start();
    let Some(server) = RedisServer::start() else { return };
    let (cache, other) = pair(&server);
    let view: View<str, u32> = cache.view("n");
    let (gate, loading) = begun(&view, 1).await;
    let Ok(Leased::Lead(lease)) = view.fetch("l").lease().await else { panic!("it leads") };
    cache.shutdown(SOON).await;
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(lease.complete(2).await.as_deref().ok(), Some(&2));
    let view: View<str, u32> = other.view("n");
    assert!(view.read("k").await.is_none() && view.read("l").await.is_none());
}
