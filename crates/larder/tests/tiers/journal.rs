//! What Redis did not confirm holds here, and is repeated until it does.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over};
use larder::{Cache, Event, Invalidation, View};
use larder_testkit::{RedisServer, eventually};
use std::time::Duration;

fn impatient(server: &RedisServer) -> Cache {
    node_with(server.url(), |options| {
        options.ttl(Duration::from_secs(600)).redis_timeout(Duration::from_millis(200))
    })
}

#[tokio::test]
async fn failed_delete_is_replayed_when_redis_returns() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    a.write("tagged", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    server.pause();
    a.delete("k").await.queued();
    assert_eq!(one.coherence().pending_invalidations, 1);
    assert!(a.read("k").await.is_none(), "it holds here");
    assert_eq!(fetched(&a, "k", 2).await, 2, "and what is loaded now is new");
    server.resume();
    eventually("the invalidation is replayed", async || one.coherence().pending_invalidations == 0).await;
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
    assert_eq!(fetched(&b, "k", 3).await, 3);
    eventually("both agree", async || cached(&a, "k").await == 3).await;
}

#[tokio::test]
async fn key_with_pending_invalidation_is_not_read_from_redis() {
    let Some(server) = RedisServer::start() else { return };
    let cache = impatient(&server);
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    cache.invalidate_tags(["none"], Invalidation::Hard).await.everywhere();
    // Redis answers reads and refuses what changes it.
    server.command("CONFIG SET min-replicas-to-write 1");
    view.delete("k").await.queued();
    cache.invalidate_tags(["t"], Invalidation::Hard).await.queued();
    assert_eq!(server.command("EXISTS test:n:k"), ":1\r\n");
    assert!(view.read("k").await.is_none());
    assert_eq!(fetched(&view, "k", 2).await, 2);
    assert_eq!(cached(&view, "k").await, 2);
    server.command("CONFIG SET min-replicas-to-write 0");
    eventually("the invalidations are replayed", async || cache.coherence().pending_invalidations == 0).await;
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
}

#[tokio::test]
async fn failed_tag_and_clear_are_replayed() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<str, u32>, View<str, u32>) =
        (one.view("n").with_tag("t"), other.view("n").with_tag("t"));
    a.write("k", 1).await.everywhere();
    a.write("l", 1).await.everywhere();
    assert_eq!((cached(&b, "k").await, cached(&b, "l").await), (1, 1));
    server.pause();
    one.invalidate_tags(["t"], Invalidation::Hard).await.queued();
    assert!(a.read("k").await.is_none() && a.read("l").await.is_none());
    one.clear().await.queued();
    server.resume();
    eventually("the invalidations are replayed", async || one.coherence().pending_invalidations == 0).await;
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
    assert_eq!(fetched(&a, "k", 2).await, 2);
    assert_eq!(cached(&b, "k").await, 2);
}

#[tokio::test]
async fn older_snapshot_gets_last_minute_replayed() {
    let Some(mut server) = RedisServer::start() else { return };
    let (one, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n").with_tag("t"));
    a.write("deleted", 1).await.everywhere();
    b.write("tagged", 1).await.everywhere();
    a.write("kept", 1).await.everywhere();
    server.take_snapshot();
    a.delete("deleted").await.everywhere();
    one.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    let mut events = one.events();
    server.restart_from_snapshot();
    assert_eq!(server.command("EXISTS test:n:deleted"), ":1\r\n", "the snapshot is older");
    eventually("it is noticed", async || {
        events
            .try_recv()
            .is_ok_and(|event| matches!(event, Event::ServerChanged { replayed } if replayed >= 2))
    })
    .await;
    eventually("it is repeated", async || {
        one.coherence().pending_invalidations == 0 && server.command("EXISTS test:n:deleted") == ":0\r\n"
    })
    .await;
    let new: View<str, u32> = over(server.url()).view("n");
    assert!(new.read("deleted").await.is_none() && new.read("tagged").await.is_none());
    assert!(a.read("deleted").await.is_none() && b.read("tagged").await.is_none());
}

#[tokio::test]
async fn too_many_pending_invalidations_become_one_of_everything() {
    // Of the last batch: the first requests may reach the server although their replies are lost.
    const LAST: u32 = 10_499;
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<u32, u32>, View<u32, u32>) = (one.view("n"), other.view("n"));
    a.write(&LAST, 1).await.everywhere();
    assert_eq!(b.read(&LAST).await.as_deref(), Some(&1));
    server.pause();
    let keys: Vec<u32> = (0..=LAST).collect();
    a.delete_multi(&keys).await.queued();
    assert!(one.coherence().pending_invalidations < 1_000);
    server.resume();
    eventually("the invalidations are replayed", async || one.coherence().pending_invalidations == 0).await;
    eventually("the other node forgets", async || b.read(&LAST).await.is_none()).await;
    assert!(a.read(&LAST).await.is_none());
}
