//! The promise itself, on two nodes over one real Redis.

use crate::mutation::Mutation;
use crate::{begun, cached, fetched, gated, node_with, over, pair};
use larder::{CacheError, CoherenceMode, Event, Invalidation, Source, Update, View};
use larder_testkit::{Gate, RedisServer, ScriptedProxy, eventually};
use std::time::Duration;

#[tokio::test]
async fn delete_reaches_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    assert_eq!(fetched(&a, "k", 1).await, 1);
    assert_eq!(cached(&b, "k").await, 1);
    assert_eq!(b.read("k").await.map(|found| found.source()), Some(Source::Memory));
    assert!(a.delete("k").await.everywhere());
    assert!(a.read("k").await.is_none(), "on this node at once");
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
}

#[tokio::test]
async fn write_replaces_value_of_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    a.write("k", 2).await.everywhere();
    assert_eq!(cached(&a, "k").await, 2, "on this node at once");
    eventually("the other node sees it", async || cached(&b, "k").await == 2).await;
}

/// A clock that is near the highest stamp, or above it, would leave no room for the next ledger: a node that adopted it would be lost
/// until it is started again.
#[tokio::test]
async fn announced_clock_that_no_ledger_has_is_not_adopted() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    let origin = r"\x07".repeat(16);
    for clock in ["9007199254740991", "100000000000000000"] {
        let message = format!(r"\x01\x02{origin}\x02\x00\x00\x00!x\xff\xff\xff\xff{clock}");
        assert_eq!(
            server.command(&format!("PUBLISH test::news:0 \"{message}\"")),
            ":2\r\n",
            "both nodes hear it"
        );
    }
    one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    a.write("k", 2).await.everywhere();
    eventually("the other node sees it", async || cached(&b, "k").await == 2).await;
    assert_eq!([&one, &other].map(|cache| cache.coherence().mode), [CoherenceMode::Full; 2]);
}

#[tokio::test]
async fn load_before_remote_delete_is_not_stored() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.delete("k").await.everywhere();
    let (gate, loading) = begun(&a, 1).await;
    b.delete("k").await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1, "its caller asked before");
    assert_eq!(one.stats().refused, 1);
    assert!(b.read("k").await.is_none(), "not in redis");
    assert!(a.read("k").await.is_none(), "not in memory");
    assert_eq!(fetched(&a, "k", 2).await, 2);
    assert_eq!(cached(&b, "k").await, 2);
}

#[tokio::test]
async fn load_before_remote_write_does_not_replace_it() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.delete("k").await.everywhere();
    let (gate, loading) = begun(&a, 1).await;
    b.write("k", 2).await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(cached(&a, "k").await, 2);
    assert_eq!(cached(&b, "k").await, 2);
}

#[tokio::test]
async fn second_node_waits_for_load_of_first() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.delete("k").await.everywhere();
    let (gate, loading) = begun(&a, 1).await;
    let waiting = {
        let b = b.clone();
        tokio::spawn(async move { cached(&b, "k").await })
    };
    let looks = || other.stats().redis.expect("a redis tier").latency.count();
    eventually("the other node sees the lease", async || looks() > 0).await;
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(waiting.await.expect("no panic"), 1);
    assert_eq!(gate.count(), 1);
}

#[tokio::test]
async fn slow_load_does_not_block_other_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let slow: View<str, u32> = over(server.url()).view("n");
    let patient = node_with(server.url(), |options| options.lease_wait(Duration::from_millis(20)));
    let other: View<str, u32> = patient.view("n");
    let (gate, loading) = begun(&slow, 1).await;
    assert_eq!(fetched(&other, "k", 2).await, 2, "loaded without redis");
    assert_eq!(cached(&other, "k").await, 2, "in memory: the lease that it saw is still there");
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    slow.delete("k").await.everywhere();
    eventually("what was loaded beside goes too", async || other.read("k").await.is_none()).await;
}

#[tokio::test]
async fn load_beside_foreign_lease_is_dropped_with_that_lease() {
    let Some(server) = RedisServer::start() else { return };
    let slow: View<str, u32> = over(server.url()).view("n");
    let patient = node_with(server.url(), |options| options.lease_wait(Duration::ZERO));
    let (gate, beside) = (Gate::closed(), Gate::closed());
    let first = gated(&slow, &gate, 1);
    gate.arrival().await;
    let second = gated(&patient.view("n"), &beside, 2);
    beside.arrival().await;
    slow.delete("k").await.everywhere();
    beside.open(1);
    assert_eq!(second.await.expect("no panic"), 2);
    assert!(patient.view::<str, u32, ()>("n").read("k").await.is_none());
    gate.open(1);
    assert_eq!(first.await.expect("no panic"), 1);
}

#[tokio::test]
async fn tracking_sees_foreign_writes() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let tracking = node_with(proxy.url(), |options| options.foreign_writers(true));
    let view: View<str, u32> = tracking.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    let in_memory = async || view.read("k").await.is_some_and(|found| found.source() == Source::Memory);
    eventually("its own writes do no more than make it look once", in_memory).await;
    server.command("DEL test:n:k");
    eventually("the deletion is seen", async || view.read("k").await.is_none()).await;
    let pushes = proxy.hold(|frame| frame.is_push("test:n:k"));
    assert_eq!(fetched(&view, "k", 2).await, 2);
    pushes.arrival().await;
    proxy.forward_before(pushes, "HELLO").await;
    eventually("the push about its own store makes it look once", in_memory).await;
    server.command("FLUSHALL");
    eventually("the flush is seen", async || view.read("k").await.is_none()).await;
    assert!(tracking.coherence().foreign_writers);
}

#[tokio::test]
async fn coherence_reports_active_mode() {
    let Some(server) = RedisServer::start() else { return };
    assert_eq!(crate::in_memory().coherence().mode, CoherenceMode::Memory);
    let (cache, _) = pair(&server);
    assert_eq!(cache.coherence().mode, CoherenceMode::Unknown);
    let mut events = cache.events();
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    let coherence = cache.coherence();
    assert_eq!((coherence.mode, coherence.pending_invalidations), (CoherenceMode::Full, 0));
    eventually("a heartbeat proves the subscription", async || {
        cache.coherence().proof_age < Duration::from_secs(1)
    })
    .await;
    assert!(cache.coherence().memory_trusted);
    assert_eq!(events.recv().await, Ok(Event::Connected));
}

#[tokio::test]
async fn server_that_may_evict_the_ledger_is_reported() {
    let Some(server) = RedisServer::start() else { return };
    let is_reported = async |limit: &str, policy: &str| {
        server.command(&format!("CONFIG SET maxmemory {limit}"));
        server.command(&format!("CONFIG SET maxmemory-policy {policy}"));
        let cache = over(server.url());
        let mut events = cache.events();
        let view: View<str, u32> = cache.view("n");
        view.write("k", 1).await.everywhere();
        assert_eq!(events.recv().await, Ok(Event::Connected));
        // The write came after both.
        std::iter::from_fn(|| events.try_recv().ok()).any(|event| event == Event::LedgerEvictable)
    };
    assert!(is_reported("100mb", "allkeys-lru").await);
    assert!(!is_reported("100mb", "volatile-lru").await, "the ledger has no time to live");
    assert!(!is_reported("0", "allkeys-lru").await, "without a limit nothing is evicted");
}

#[tokio::test]
async fn coherence_reports_lost_redis() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.max_lag(Duration::from_millis(100)));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    eventually("it is coherent", async || cache.coherence().mode == CoherenceMode::Full).await;
    server.kill();
    eventually("it is lost", async || cache.coherence().mode == CoherenceMode::Lost).await;
    assert!(cache.coherence().proof_age > Duration::from_millis(100));
    server.restart();
    eventually("it is coherent again", async || cache.coherence().mode == CoherenceMode::Full).await;
}

#[tokio::test]
async fn node_without_subscription_asks_redis_first() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let cache = node_with(proxy.url(), |options| options.max_lag(Duration::from_millis(10)));
    let (view, other): (View<str, u32>, View<str, u32>) = (cache.view("n"), over(server.url()).view("n"));
    assert_eq!(fetched(&view, "k", 1).await, 1);
    let subscriptions = proxy.hold(|frame| frame.is_request("SUBSCRIBE"));
    server.command("CLIENT KILL TYPE pubsub");
    eventually("memory alone is not served any more", async || !cache.coherence().memory_trusted).await;
    assert_eq!(cached(&view, "k").await, 1, "redis says that it is right");
    other.delete("k").await.everywhere();
    assert!(view.read("k").await.is_none(), "and that it is not");
    subscriptions.release();
}

#[tokio::test]
async fn long_load_renews_its_lease() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let (gate, loading) = begun(&a, 1).await;
    let left_ms = || -> u64 {
        let reply = server.command("PTTL test:n:k");
        reply.trim_start_matches(':').trim_end().parse().expect("a lease with a time to live")
    };
    server.pass(Duration::from_secs(5));
    let soon = left_ms();
    eventually("it is renewed", async || left_ms() > soon).await;
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(cached(&b, "k").await, 1);
    server.command("FLUSHALL");
}

/// Redis may have evicted what the memory of another node still has.
#[tokio::test]
async fn deletion_by_pattern_reaches_memory_of_other_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = crate::pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let keys = ["a1", "a2", "b"];
    for key in keys {
        a.write(key, 1).await.everywhere();
    }
    // It keeps nothing in memory until it has heard from the server.
    eventually("the other node has all in memory", async || {
        for key in keys {
            assert_eq!(cached(&b, key).await, 1);
        }
        other.stats().memory.entries == Some(3)
    })
    .await;
    server.command("DEL test:n:a1");
    assert_eq!(one.delete_matched("n:a*").await.everywhere(), 1);
    assert!(a.read("a1").await.is_none() && a.read("a2").await.is_none());
    eventually("the other node forgets", async || other.stats().memory.entries == Some(1)).await;
    assert!(b.read("a1").await.is_none() && b.read("a2").await.is_none());
    assert_eq!((cached(&a, "b").await, cached(&b, "b").await), (1, 1));
    one.clear().await.everywhere();
}

#[tokio::test]
async fn load_begun_before_deletion_by_pattern_stores_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = crate::pair(&server);
    let view: View<str, u32> = one.view("n");
    let (gate, loading) = crate::begun(&view, 1).await;
    other.delete_matched("n:*").await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1, "it began before");
    assert_eq!(crate::fetched(&view, "k", 2).await, 2);
    assert_eq!(crate::fetched(&other.view("n"), "k", 3).await, 2);
    one.clear().await.everywhere();
}

#[tokio::test]
async fn pattern_that_nodes_and_redis_might_read_differently_is_refused() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("b", 1).await.everywhere();
    let many_stars = "*b".repeat(1_001);
    for pattern in ["n:[a-é]", "n:[^a-é]", "n:[é]", "n:[é", &many_stars, "n:[b"] {
        let is_refused = pattern != "n:[b";
        match cache.delete_matched(pattern).await {
            Err(error @ CacheError::Pattern { .. }) if is_refused => {
                assert!(error.to_string().contains(pattern), "{error}");
                assert_eq!(cached(&view, "b").await, 1, "{pattern}");
            }
            deleted if !is_refused => assert_eq!(deleted.everywhere(), 1, "a class ends with its pattern"),
            deleted => panic!("{pattern}: {deleted:?}"),
        }
    }
}

/// Redis tells nobody what it evicts: what the caller does not find there other nodes may still have in memory.
#[tokio::test]
async fn evicted_value_is_removed_from_other_nodes_too() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    for key in ["expired", "updated"] {
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
        server.command(&format!("UNLINK test:n:{key}"));
        assert_eq!(cached(&b, key).await, 1, "nobody tells it");
        match key {
            "expired" => assert!(!a.expire(key).await.everywhere()),
            _ => assert!(!a.update(key, |_| Update::Remove).await.expect("it is removed").changed),
        }
        eventually("it is removed there", async || b.read(key).await.is_none()).await;
    }
}
