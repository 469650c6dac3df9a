//! Every operation with a Redis that fails in every way: a fetch answers in bounded time, a change says what it did, and
//! it all recovers by itself.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over};
use larder::{Cache, Counters, Invalidation, Policy, Reach, Source, Update, View};
use larder_testkit::{FlakyProxy, RedisServer, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// Longer than any number of timeouts that one operation may meet, and far shorter than for ever.
const BOUND: Duration = Duration::from_secs(5);

fn node(server: &RedisServer) -> Cache {
    node_at(server.url())
}

fn node_at(url: String) -> Cache {
    node_with(url, |options| options.ttl(Duration::from_secs(600)).redis_timeout(Duration::from_millis(100)))
}

/// Does everything there is, in bounded time; then lets Redis recover, and sees that the cache does.
async fn everything(
    server: &mut RedisServer,
    what: &str,
    harm: impl FnOnce(&mut RedisServer),
    heal: impl FnOnce(&mut RedisServer),
) {
    let url = server.url();
    everything_at(url, server, what, harm, heal).await;
}

/// The same through another address.
async fn everything_at(
    url: String,
    server: &mut RedisServer,
    what: &str,
    harm: impl FnOnce(&mut RedisServer),
    heal: impl FnOnce(&mut RedisServer),
) {
    let cache = node_at(url);
    let view: View<str, u32> = cache.view("n");
    let counters: Counters<str> = cache.counters("count");
    for key in ["k", "other", "taken", "expired", "updated", "touched", "matched:1"] {
        view.write(key, 1).await.everywhere();
    }
    harm(server);
    let began = Instant::now();
    assert_eq!(fetched(&view, "new", 2).await, 2, "{what}: fetch");
    let bulk =
        view.fetch_multi(["x", "y"]).load(|keys, _| async { Ok(keys.into_iter().map(|key| (key, 3))) });
    assert!(
        bulk.await.iter().all(|found| matches!(found, Ok(Some(value)) if **value == 3)),
        "{what}: fetch_multi"
    );
    _ = view.read("elsewhere").await;
    _ = view.read_multi(["elsewhere", "k"]).await;
    let refreshed = view.fetch("refreshed").refresh().load(|_| async { Ok(4) }).await;
    assert_eq!(*refreshed.unwrap(), 4, "{what}: refresh");
    let unconfirmed = [
        ("write", view.write("k", 5).await),
        ("write_multi", view.write_multi([("k", 5), ("l", 5)]).await),
        ("delete", view.delete("other").await.map(|removal| removal.reach)),
        ("delete_matched", cache.delete_matched("n:matched*").await.map(|removal| removal.reach)),
        ("invalidate_tags", cache.invalidate_tags(["t"], Invalidation::Hard).await),
        ("clear", cache.space("other").clear().await),
    ];
    for (operation, reach) in unconfirmed {
        assert!(matches!(reach, Ok(Reach::HereAndQueued)), "{what}: {operation}: {reach:?}");
    }
    let failed = [
        ("increment", counters.increment("c", 1).await.err()),
        ("take", view.take("taken").await.err()),
        ("add", view.add("added", 1).await.err()),
        ("update", view.update("updated", |_| Update::Put(1)).await.err()),
        ("touch", view.touch("touched", Policy::new()).await.err()),
    ];
    for (operation, error) in failed {
        assert!(error.is_some(), "{what}: {operation}");
    }
    match view.expire("expired").await {
        Ok(removal) => assert_eq!(removal.reach, Reach::HereAndQueued, "{what}: expire"),
        Err(_) => assert_eq!(cached(&view, "expired").await, 1, "{what}: expire has changed nothing"),
    }
    assert_eq!(cached(&view, "k").await, 5, "{what}: what was written holds here");
    for deleted in ["other", "matched:1"] {
        assert!(view.read(deleted).await.is_none(), "{what}: and what was deleted: {deleted}");
    }
    assert!(began.elapsed() < BOUND, "{what}: {:?}", began.elapsed());
    heal(server);
    eventually(&format!("{what}: no invalidation is pending"), async || {
        cache.coherence().pending_invalidations == 0
    })
    .await;
    eventually(&format!("{what}: writes work again"), async || view.write("k", 6).await.is_everywhere())
        .await;
    eventually(&format!("{what}: everybody sees them"), async || {
        let other: View<str, u32> = over(server.url()).view("n");
        other.read("k").await.as_deref() == Some(&6) && other.read("other").await.is_none()
    })
    .await;
}

#[tokio::test]
async fn killed_server_degrades_and_recovers() {
    let Some(mut server) = RedisServer::start() else { return };
    everything(&mut server, "killed", RedisServer::kill, RedisServer::restart).await;
}

#[tokio::test]
async fn paused_server_degrades_and_recovers() {
    let Some(mut server) = RedisServer::start() else { return };
    everything(&mut server, "paused", |server| server.pause(), |server| server.resume()).await;
}

#[tokio::test]
async fn server_that_refuses_writes_degrades_and_recovers() {
    let Some(mut server) = RedisServer::start() else { return };
    let set = |value: &'static str| {
        move |server: &mut RedisServer| {
            _ = server.command(&format!("CONFIG SET min-replicas-to-write {value}"))
        }
    };
    everything(&mut server, "refusing", set("1"), set("0")).await;
}

#[tokio::test]
async fn replica_degrades_and_recovers() {
    let Some(mut server) = RedisServer::start() else { return };
    let replica = |server: &mut RedisServer| _ = server.command("REPLICAOF 127.0.0.1 1");
    everything(&mut server, "replica", replica, |server| _ = server.command("REPLICAOF NO ONE")).await;
}

#[tokio::test]
async fn take_that_redis_was_not_asked_for_changes_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.pause();
    for _ in 0..3 {
        assert!(view.take("k").await.is_err());
    }
    assert_eq!(cached(&view, "k").await, 1);
    assert_eq!(cache.coherence().pending_invalidations, 0);
    server.resume();
    let taken = async || matches!(view.take("k").await, Ok(Some(value)) if *value == 1);
    eventually("it is taken", taken).await;
}

/// A node that only reads gets no refused write that would show it.
#[tokio::test]
async fn replica_is_not_read_by_readers() {
    let Some(server) = RedisServer::start() else { return };
    let writer: View<str, u32> = node(&server).view("n");
    writer.write("k", 1).await.everywhere();
    let cache =
        node_with(server.url(), |options| options.ttl(Duration::from_secs(600)).disconnected(Duration::ZERO));
    let view: View<str, u32> = cache.view("n");
    assert_eq!(view.read("k").await.as_deref(), Some(&1));
    server.command("REPLICAOF 127.0.0.1 1");
    eventually("it is not asked any more", async || view.read("k").await.is_none()).await;
}

/// A primary that was cut off from its replicas answers heartbeats, and another one may have taken its place.
#[tokio::test]
async fn primary_that_takes_no_writes_proves_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    let trusted = || cache.coherence().memory_trusted;
    eventually("heartbeats are answered", async || trusted()).await;
    let mut events = cache.events();
    server.command("CONFIG SET min-replicas-to-write 1");
    eventually("memory alone is not served any more", async || !trusted()).await;
    let found = view.read("k").await.expect("Redis has it");
    assert_eq!((*found, found.source()), (1, Source::Memory), "compared with Redis");
    server.command("CONFIG SET min-replicas-to-write 0");
    eventually("memory is trusted again", async || trusted()).await;
    assert!(events.try_recv().is_err(), "the subscription was never closed");
}

/// A full server takes no marker; its replies prove as much as before.
#[tokio::test]
async fn full_server_is_read_and_trusted() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.max_lag(Duration::from_millis(100)));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.set_full(true);
    let other: View<str, u32> = node(&server).view("n");
    let loads = async |key| *other.fetch(key).load(|_| async { Ok(2) }).await.expect("a value");
    assert_eq!((loads("k").await, loads("absent").await), (1, 2), "what is there is read without a lease");
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(cache.coherence().memory_trusted);
    view.delete("k").await.everywhere();
    eventually("the other node has heard it", async || other.read("k").await.is_none()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_server_degrades_and_recovers() {
    let Some(mut server) = RedisServer::start() else { return };
    let flaky_proxy = FlakyProxy::before(&server, 1);
    let slow = |_: &mut RedisServer| flaky_proxy.delay(Duration::from_millis(300));
    let heal = |_: &mut RedisServer| flaky_proxy.delay(Duration::ZERO);
    everything_at(flaky_proxy.url(), &mut server, "slow", slow, heal).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn refused_connections_degrade_and_recover() {
    let Some(mut server) = RedisServer::start() else { return };
    let flaky_proxy = FlakyProxy::before(&server, 1);
    let refuse = |_: &mut RedisServer| {
        flaky_proxy.refuse(true);
        flaky_proxy.cut();
    };
    let heal = |_: &mut RedisServer| flaky_proxy.refuse(false);
    everything_at(flaky_proxy.url(), &mut server, "refusing connections", refuse, heal).await;
}

/// Connections that break inside requests and replies: what this node deleted it does not serve again, whether Redis
/// confirmed or not, and in the end all nodes agree.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_cut_at_random_bytes_degrade_and_recover() {
    let Some(server) = RedisServer::start() else { return };
    for seed in 1..=6 {
        server.command("FLUSHALL");
        let flaky_proxy = FlakyProxy::before(&server, seed);
        let build = |url: String| {
            let builder = Cache::builder("test").ttl(Duration::from_secs(600)).redis(url);
            builder.redis_timeout(Duration::from_millis(100)).build().expect("valid options")
        };
        let (cut, whole) = (build(flaky_proxy.url()), build(server.url()));
        let (a, b): (View<str, u32>, View<str, u32>) = (cut.view("n"), whole.view("n"));
        let origin = Arc::new(AtomicU32::new(0));
        let load = |view: &View<str, u32>| {
            let (view, origin) = (view.clone(), origin.clone());
            async move {
                *view
                    .fetch("k")
                    .load(move |_| async move { Ok(origin.load(Ordering::SeqCst)) })
                    .await
                    .expect("loads")
            }
        };
        load(&a).await;
        flaky_proxy.cut_after(Some(1..600));
        let mut unconfirmed = 0;
        for _ in 0..150 {
            let version = origin.fetch_add(1, Ordering::SeqCst) + 1;
            let (deleted, meanwhile) = tokio::join!(a.delete("k"), load(&b));
            unconfirmed += u32::from(!deleted.is_everywhere());
            assert!(meanwhile <= version);
            let here = load(&a).await;
            assert!(
                here >= version,
                "seed {seed}: {here} after version {version} was invalidated: {deleted:?}"
            );
        }
        flaky_proxy.cut_after(None);
        eventually("no invalidation is pending", async || cut.coherence().pending_invalidations == 0).await;
        let last = origin.load(Ordering::SeqCst);
        eventually("all agree", async || load(&b).await == last && load(&a).await == last).await;
        assert!(flaky_proxy.cuts() > 0 && unconfirmed > 0, "seed {seed}: {} cuts", flaky_proxy.cuts());
    }
}

#[tokio::test]
async fn server_restarted_empty_degrades_and_recovers() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    server.restart();
    eventually("writes work again", async || view.write("other", 1).await.is_everywhere()).await;
    eventually("what redis has lost is loaded again", async || fetched(&view, "k", 2).await == 2).await;
}

#[tokio::test]
async fn server_without_scripts_gets_them_again() {
    let Some(mut server) = RedisServer::start() else { return };
    let flush = |server: &mut RedisServer| _ = server.command("SCRIPT FLUSH");
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    for round in 0..3 {
        let key = format!("k{round}");
        assert_eq!(fetched(&view, &key, round).await, round);
        cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        flush(&mut server);
    }
    assert_eq!(cache.stats().redis.expect("a redis tier").errors, 0);
    let other: View<str, u32> = over(server.url()).view("n");
    assert_eq!(cached(&other, "k2").await, 2, "stored although the script was lost");
}

#[tokio::test]
async fn full_server_degrades_and_recovers() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.set_full(true);
    let other: View<str, u32> = node(&server).view("n");
    assert_eq!(cached(&other, "k").await, 1, "what is there is still found");
    assert_eq!(fetched(&other, "new", 2).await, 2);
    assert_eq!(cached(&other, "new").await, 2, "kept in memory");
    view.write("k", 3).await.queued();
    assert!(!view.delete("gone").await.everywhere(), "deleting needs no room");
    cache.invalidate_tags(["t"], Invalidation::Hard).await.queued();
    server.set_full(false);
    eventually("no invalidation is pending", async || cache.coherence().pending_invalidations == 0).await;
    eventually("and nothing old is left", async || fetched(&other, "k", 4).await == 4).await;
}

/// A node whose time a test moves.
fn by_hand(server: &RedisServer) -> (Cache, larder_engine::ManualClock) {
    let (clock, hand) = larder_engine::Clock::manual();
    let cache = node_with(server.url(), |options| {
        options.ttl(Duration::from_secs(3_600)).redis_timeout(Duration::from_millis(100)).clock(clock)
    });
    (cache, hand)
}

#[tokio::test]
async fn memory_stops_after_disconnected_time() {
    let Some(mut server) = RedisServer::start() else { return };
    let (cache, hand) = by_hand(&server);
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    server.kill();
    hand.advance(Duration::from_secs(20));
    assert_eq!(cached(&view, "k").await, 1, "for a while");
    hand.advance(Duration::from_secs(20));
    assert_eq!(fetched(&view, "k", 2).await, 2, "and no longer");
}

#[tokio::test]
async fn reads_do_not_extend_disconnected_time() {
    let Some(mut server) = RedisServer::start() else { return };
    let (cache, hand) = by_hand(&server);
    let view: View<str, u32> = cache.view("n");
    view.write("other", 0).await.everywhere();
    server.kill();
    view.delete("k").await.queued();
    assert_eq!(fetched(&view, "k", 1).await, 1);
    server.restart();
    // Once the delete is repeated, what was loaded without Redis has to be compared; and cannot be.
    eventually("no invalidation is pending", async || cache.coherence().pending_invalidations == 0).await;
    server.kill();
    hand.advance(Duration::from_secs(20));
    assert_eq!(cached(&view, "k").await, 1, "for a while");
    hand.advance(Duration::from_secs(20));
    assert_eq!(fetched(&view, "k", 2).await, 2, "which its use has not begun anew");
}

#[tokio::test]
async fn failure_of_one_cache_leaves_other_caches() {
    let (Some(broken), Some(sound)) = (RedisServer::start(), RedisServer::start()) else { return };
    let (one, other) = (node(&broken), node(&sound));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    broken.pause();
    a.write("k", 1).await.queued();
    b.write("k", 1).await.everywhere();
    assert_eq!(other.stats().redis.expect("a redis tier").errors, 0);
}
