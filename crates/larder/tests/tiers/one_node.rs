//! A server without transactions, announcements and sorted sets, or a user who may not use them: no promise between nodes, and no
//! invalidated value on one node.

use crate::mutation::Mutation;
use crate::{begun, cached, fetched, gated, marker_key, node_with};
use larder::{Cache, CoherenceMode, Event, Invalidation, View};
use larder_testkit::{Direction, Frame, Gate, PATIENCE, RedisServer, ScriptedProxy, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A user without the commands that such a server lacks.
const PLAIN: &str = "ACL SETUSER plain on nopass ~* &* +@all -multi -exec -watch -eval -evalsha -publish -subscribe \
                     -zscore -zmscore -zadd -zincrby";

/// A node over such a server.
pub(crate) fn node(server: &RedisServer) -> Cache {
    server.command(PLAIN);
    node_with(format!("{}?user=plain&pass=any", server.url()), |options| options)
}

#[tokio::test]
async fn server_without_announcements_is_mode_one_node() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, restarted) = (node(&server), node(&server));
    let (view, later): (View<str, u32>, View<str, u32>) = (cache.view("n"), restarted.view("n"));
    let mut events = cache.events();
    assert_eq!(fetched(&view, "k", 1).await, 1);
    view.write("l", 2).await.everywhere();
    assert_eq!((cached(&later, "k").await, cached(&later, "l").await), (1, 2));
    assert_eq!(cache.coherence().mode, CoherenceMode::OneNode);
    assert_eq!(events.recv().await, Ok(Event::OneNode), "nobody misses it");
    assert!(view.delete("k").await.everywhere());
    assert!(view.read("k").await.is_none());
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
}

#[tokio::test]
async fn load_does_not_undo_local_delete_or_write() {
    let Some(server) = RedisServer::start() else { return };
    let view: View<str, u32> = node(&server).view("n");
    let (gate, loading) = begun(&view, 1).await;
    view.delete("k").await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert!(view.read("k").await.is_none());
    let loading = gated(&view, &gate, 1);
    gate.arrival().await;
    view.write("k", 2).await.everywhere();
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(cached(&view, "k").await, 2);
    assert_eq!(cached(&node(&server).view("n"), "k").await, 2);
}

#[tokio::test]
async fn tagged_value_stays_in_memory_and_clear_deletes_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    let tagged = || view.fetch("t").tag("tag").load(|_| async { Ok(1) });
    assert_eq!(tagged().await.map(|f| *f).ok(), Some(1));
    assert_eq!(cached(&view, "t").await, 1);
    assert_eq!(server.command("EXISTS test:n:t"), ":0\r\n", "no ledger, no tags in redis");
    cache.invalidate_tags(["tag"], Invalidation::Hard).await.everywhere();
    assert!(view.read("t").await.is_none());
    view.write("k", 1).await.everywhere();
    cache.clear().await.everywhere();
    assert!(view.read("k").await.is_none());
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
}

/// A touch moves the deadline in the value and that of the key, and makes no key.
#[tokio::test]
async fn touch_renews_value_and_makes_no_key() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n").touch_on_read();
    let other: View<str, u32> = node(&server).view("n");
    view.write("k", 1).await.everywhere();
    server.pass(Duration::from_secs(55));
    assert!(view.read("k").await.is_some());
    let left = || server.command("PTTL test:n:k").trim_matches([':', '\r', '\n']).parse().unwrap_or(0_u64);
    eventually("the key lives on", async || left() > 50_000).await;
    let found = other.read("k").await.expect("found");
    assert!(found.remaining_ttl() > Duration::from_secs(50), "{:?}", found.remaining_ttl());

    server.command("DEL test:n:k");
    server.command("CONFIG RESETSTAT");
    assert!(view.read("k").await.is_some(), "from memory");
    let has_compared = async || server.command("INFO commandstats").contains("cmdstat_getrange");
    eventually("the touch compares", has_compared).await;
    assert!(view.read("other").await.is_none(), "a later request");
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
}

/// The first server that a node reaches is known to it: a restart of it is noticed like any later one.
#[tokio::test]
async fn deletion_is_replayed_after_first_restart_from_snapshot() {
    let Some(mut server) = RedisServer::start() else { return };
    server.command(PLAIN);
    let cache = node(&server);
    let view: View<str, u32> = cache.view("n");
    assert_eq!((fetched(&view, "k", 1).await, fetched(&view, "kept", 1).await), (1, 1));
    eventually("the marker is written", async || marker_key(&server).is_some()).await;
    server.take_snapshot();
    view.delete("k").await.everywhere();
    let mut events = cache.events();
    server.restart_from_snapshot();
    server.command(PLAIN);
    let replayed = Event::ServerChanged { replayed: 1 };
    eventually("the restart is noticed", async || events.try_recv().as_ref() == Ok(&replayed)).await;
    eventually("it is deleted again", async || server.command("EXISTS test:n:k") == ":0\r\n").await;
    assert!(view.read("k").await.is_none());
    assert_eq!(server.command("EXISTS test:n:kept"), ":1\r\n");
}

#[tokio::test]
async fn failed_clear_and_lost_marker_are_made_good_without_ledger() {
    let Some(mut server) = RedisServer::start() else { return };
    server.command(PLAIN);
    let cache = node_with(format!("{}?user=plain&pass=any", server.url()), |options| {
        options.redis_timeout(Duration::from_millis(200))
    });
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.pause();
    cache.clear().await.queued();
    assert_eq!(cache.coherence().pending_invalidations, 1);
    server.resume();
    eventually("it is cleared", async || server.command("EXISTS test:n:k") == ":0\r\n").await;
    eventually("nothing is pending", async || cache.coherence().pending_invalidations == 0).await;

    view.write("k", 2).await.everywhere();
    eventually("the marker is written", async || marker_key(&server).is_some()).await;
    server.command(&format!("DEL {}", marker_key(&server).expect("it was written")));
    server.take_snapshot();
    view.delete("k").await.everywhere();
    server.restart_from_snapshot();
    server.command(PLAIN);
    eventually("it is deleted again", async || server.command("EXISTS test:n:k") == ":0\r\n").await;
    eventually("nothing is pending", async || cache.coherence().pending_invalidations == 0).await;
    view.write("k", 3).await.everywhere();
    assert_eq!(cached(&node(&server).view("n"), "k").await, 3);
}

#[tokio::test]
async fn add_of_tagged_value_stays_in_memory() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server);
    let by_view: View<str, u32> = cache.view("n").with_tag("tag");
    let in_space: View<str, u32> = cache.space("eu").view("n");
    for (view, clear) in [(&by_view, false), (&in_space, true)] {
        assert_eq!(view.add("k", 1).await.ok(), Some(true));
        assert_eq!(view.add("k", 2).await.ok(), Some(false));
        assert_eq!(cached(view, "k").await, 1);
        assert_eq!(server.command("EXISTS test:n:k test:eu.n:k"), ":0\r\n", "no ledger, no tags in redis");
        match clear {
            true => cache.space("eu").clear().await,
            false => cache.invalidate_tags(["tag"], Invalidation::Hard).await,
        }
        .everywhere();
        assert!(view.read("k").await.is_none());
        assert_eq!(view.add("k", 3).await.ok(), Some(true));
        assert_eq!(cached(view, "k").await, 3);
    }
}

#[tokio::test]
async fn add_of_tagged_value_respects_value_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, restarted) = (node(&server), node(&server));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    let tagged: View<str, u32> = restarted.view("n").with_tag("tag");
    assert_eq!(tagged.add("k", 2).await.ok(), Some(false));
    assert_eq!(cached(&tagged, "k").await, 1);
    server.command("SET test:n:other \"no value of this view\"");
    assert_eq!(tagged.add("other", 2).await.ok(), Some(true));
    assert_eq!(cached(&tagged, "other").await, 2);
    assert_eq!(server.command("EXISTS test:n:other"), ":0\r\n", "what it replaces is gone");
}

/// How a key is changed while a load of it waits to store.
#[derive(Clone, Copy, Debug)]
enum How {
    Delete,
    Write,
    Take,
}

/// Such a server compares nothing: a load that waits until a change is through must know that it may not store, before
/// it is let go. A clock that is slow to answer makes the time between the two long.
#[test]
fn load_waiting_for_a_write_does_not_store_after_it() {
    for how in [How::Delete, How::Write, How::Take] {
        let Some(server) = RedisServer::start() else { return };
        server.command(PLAIN);
        let (slow, began) = (Arc::new(AtomicBool::new(false)), Instant::now());
        let hand = slow.clone();
        let clock = larder_engine::Clock::custom(move || {
            if hand.load(Ordering::SeqCst) {
                std::thread::sleep(Duration::from_millis(20));
            }
            began.elapsed()
        });
        let proxy = ScriptedProxy::before(&server);
        let cache = node_with(proxy.url().replace("//", "//plain:any@"), |options| {
            options.redis_timeout(PATIENCE).clock(clock)
        });
        let view: View<str, u32> = cache.view("n");
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_current_thread();
            builder.enable_all();
            builder
        };
        // The load has a runtime of its own, so that it runs while the other thread does.
        let (gate, loads) = (Gate::closed(), view.clone());
        let passes = gate.clone();
        let (loaded, waits) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
        let (has_loaded, parked) = (loaded.clone(), waits.clone());
        let loading = std::thread::spawn(move || {
            let mut runtime = runtime();
            runtime.on_thread_park(move || parked.store(has_loaded.load(Ordering::SeqCst), Ordering::SeqCst));
            runtime.build().expect("a runtime").block_on(async {
                let loader = move |_| async move {
                    passes.pass().await;
                    loaded.store(true, Ordering::SeqCst);
                    Ok(1)
                };
                *loads.fetch("k").load(loader).await.expect("loads")
            })
        });
        let other = runtime().build().expect("a runtime");
        other.block_on(async {
            gate.arrival().await;
            let changes = view.clone();
            let is_change =
                |frame: &Frame| frame.direction == Direction::ToServer && frame.contains("test:n:k");
            let held = proxy.hold(is_change);
            let changing = tokio::spawn(async move {
                match how {
                    How::Delete => _ = changes.delete("k").await.everywhere(),
                    How::Write => changes.write("k", 2).await.everywhere(),
                    How::Take => _ = changes.take("k").await.expect("taken"),
                }
            });
            held.arrival().await;
            gate.open(1);
            // Its thread has nothing else to wait for than the lock that the change holds.
            eventually("the load waits", async || waits.load(Ordering::SeqCst)).await;
            slow.store(true, Ordering::SeqCst);
            held.release();
            changing.await.expect("no panic");
            slow.store(false, Ordering::SeqCst);
        });
        assert_eq!(loading.join().expect("no panic"), 1);
        let there = server.command("EXISTS test:n:k");
        let expected = if matches!(how, How::Write) { ":1\r\n" } else { ":0\r\n" };
        assert_eq!(there, expected, "{how:?}");
        let found = other.block_on(async { view.read("k").await.map(|found| *found) });
        assert_eq!(found, matches!(how, How::Write).then_some(2), "{how:?}");
    }
}
