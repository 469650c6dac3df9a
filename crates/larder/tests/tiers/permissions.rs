//! Users of Redis who may not run some command: what still works, and what degrades. `docs/coherence.md` has the table.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over};
use larder::{Builder, Cache, CoherenceMode, Invalidation, Reach, View};
use larder_testkit::{PATIENCE, RedisServer, eventually};
use std::time::Duration;

/// Lets a user run every command but these.
fn allow_all_but(server: &RedisServer, commands: &str) {
    let reply = server.command(&format!("ACL SETUSER limited reset on nopass ~* &* +@all {commands}"));
    assert_eq!(reply, "+OK\r\n", "{commands}");
}

/// A node of that user.
fn node(server: &RedisServer, commands: &str, change: impl FnOnce(Builder) -> Builder) -> Cache {
    allow_all_but(server, commands);
    node_with(format!("{}?user=limited&pass=any", server.url()), |options| {
        change(options.max_lag(Duration::from_millis(100)).redis_timeout(PATIENCE))
    })
}

async fn is_coherent(cache: &Cache) {
    eventually("the node is coherent", async || cache.coherence().mode == CoherenceMode::Full).await;
}

/// What one node writes, deletes and invalidates reaches the other.
async fn work_together(one: &Cache, other: &Cache) {
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    b.delete("k").await.everywhere();
    eventually("the deletion reaches the node", async || a.read("k").await.is_none()).await;
    assert_eq!(fetched(&a, "k", 2).await, 2);
    one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    one.clear().await.everywhere();
    eventually("the clear reaches the other node", async || b.read("k").await.is_none()).await;
}

#[tokio::test]
async fn user_who_may_not_ask_for_config_or_kill_clients_is_coherent() {
    let Some(server) = RedisServer::start() else { return };
    let other = over(server.url());
    for commands in ["-config", "-client|kill", "-info"] {
        let cache = node(&server, commands, |options| options);
        work_together(&cache, &other).await;
        is_coherent(&cache).await;
    }
}

#[tokio::test]
async fn user_who_may_not_kill_clients_replaces_connections_that_time_out() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node(&server, "-client|kill", |options| options.redis_timeout(Duration::from_millis(100)));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.pause();
    for _ in 0..4 {
        assert_eq!(view.delete("k").await.expect("queued").reach, Reach::HereAndQueued);
    }
    server.resume();
    eventually("it is replayed", async || cache.coherence().pending_invalidations == 0).await;
    assert!(view.read("k").await.is_none());
    let is_stored = async || view.write("k", 2).await.is_ok_and(|reach| reach == Reach::Everywhere);
    eventually("redis is used again", is_stored).await;
}

/// The identity of a server is in its INFO.
#[tokio::test]
async fn user_who_may_not_ask_for_info_notices_older_server_by_its_ledger_only() {
    for (commands, invalidates_tag, is_replayed) in
        [("", false, true), ("-info", false, false), ("-info", true, true)]
    {
        let Some(mut server) = RedisServer::start() else { return };
        let cache = node(&server, commands, |options| options);
        let view: View<str, u32> = cache.view("n");
        cache.invalidate_tags(["other"], Invalidation::Hard).await.everywhere();
        view.write("k", 1).await.everywhere();
        is_coherent(&cache).await;
        server.take_snapshot();
        view.delete("k").await.everywhere();
        if invalidates_tag {
            cache.invalidate_tags(["other"], Invalidation::Hard).await.everywhere();
        }
        server.restart_from_snapshot();
        allow_all_but(&server, commands);
        let subscribes = async || server.command("PUBSUB CHANNELS") != "*0\r\n";
        eventually("the node subscribes again", subscribes).await;
        is_coherent(&cache).await;
        let is_back = async || view.read("k").await.is_some();
        if is_replayed {
            eventually("the deletion holds again", async || !is_back().await).await;
        } else {
            eventually("the deleted value is back", is_back).await;
        }
    }
}

/// Values have deadlines by the clock of the server.
#[tokio::test]
async fn user_who_may_not_ask_for_time_stores_nothing_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let other = over(server.url());
    other.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    let elsewhere: View<str, u32> = other.view("n");
    elsewhere.write("there", 1).await.everywhere();
    let cache = node(&server, "-time", |options| options);
    let view: View<str, u32> = cache.view("n");
    assert!(view.read("there").await.is_none(), "its deadline cannot be judged");
    assert_eq!(view.write("k", 1).await.expect("written here"), Reach::HereAndQueued);
    assert_eq!(cached(&view, "k").await, 1);
    assert_eq!(fetched(&view, "l", 2).await, 2);
    assert_eq!(cached(&view, "l").await, 2);
    assert_eq!(server.command("EXISTS test:n:k test:n:l"), ":0\r\n");
    assert!(view.add("m", 1).await.is_err() && view.take("l").await.is_err(), "they are about redis");
    elsewhere.delete("l").await.everywhere();
    eventually("the deletion reaches the node", async || view.read("l").await.is_none()).await;
    view.delete("k").await.everywhere();
    cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    server.command("DEL test::ledger");
    let cleared = cache.clear().await.expect("cleared here");
    assert_eq!(cleared, Reach::HereAndQueued, "a new ledger starts at the time of the server");
    is_coherent(&cache).await;
}

#[tokio::test]
async fn user_who_may_not_scan_cannot_delete_by_pattern() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, other) = (node(&server, "-scan", |options| options), over(server.url()));
    work_together(&cache, &other).await;
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    assert_eq!(cache.delete_matched("n:*").await.expect("queued").reach, Reach::HereAndQueued);
    assert!(view.read("k").await.is_none(), "on this node at once");
}
