//! What Redis did not confirm holds here, and is repeated until it does.

use crate::mutation::Mutation;
use crate::{cached, fetched, marker_key, node_with, over, pair};
use larder::{Cache, Event, Invalidation, View};
use larder_engine::Clock;
use larder_testkit::{FlakyProxy, PATIENCE, RedisServer, eventually};
use std::time::Duration;
use tokio::time::sleep;

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
async fn close_waits_for_pending_invalidations() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 1).await.everywhere();
    assert_eq!(cached(&b, "k").await, 1);
    assert_eq!(one.close(Duration::from_secs(30)).await, 0, "nothing is pending");
    server.pause();
    a.delete("k").await.queued();
    assert_eq!(one.close(Duration::from_millis(50)).await, 1, "redis hangs");
    server.resume();
    assert_eq!(one.close(Duration::from_secs(30)).await, 0);
    drop((a, one));
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
}

#[tokio::test]
async fn failed_deletion_by_pattern_is_replayed() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    for key in ["k", "other"] {
        a.write(key, 1).await.everywhere();
        assert_eq!(cached(&b, key).await, 1);
    }
    server.command("CONFIG SET min-replicas-to-write 1");
    one.delete_matched("n:k*").await.queued();
    assert_eq!(one.coherence().pending_invalidations, 1);
    assert!(a.read("k").await.is_none(), "redis is not read for what matches");
    assert_eq!(cached(&a, "other").await, 1);
    server.command("CONFIG SET min-replicas-to-write 0");
    eventually("the invalidation is replayed", async || one.coherence().pending_invalidations == 0).await;
    eventually("the other node forgets", async || b.read("k").await.is_none()).await;
    assert_eq!(server.command("EXISTS test:n:k test:n:other"), ":1\r\n");
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

/// A server that was demoted, and promoted again without a restart, has the data of the one that was the primary in between.
#[tokio::test]
async fn server_that_was_a_replica_in_between_gets_last_minute_replayed() {
    // `larder server` is nobody's replica.
    let Some(server) = RedisServer::start().filter(RedisServer::is_redis) else { return };
    // Once the node connects again, and once its connection outlives the silence.
    for timeout in [Duration::from_millis(200), Duration::from_secs(5)] {
        let cache = node_with(server.url(), |options| options.redis_timeout(timeout));
        let view: View<str, u32> = cache.view("n");
        view.write("deleted", 1).await.everywhere();
        assert_eq!(server.command("COPY test:n:deleted older"), ":1\r\n");
        view.delete("deleted").await.everywhere();
        let mut events = cache.events();
        assert_eq!(server.command("RENAME older test:n:deleted"), "+OK\r\n");
        server.set_read_only(true);
        server.set_read_only(false);
        server.pause();
        sleep(Duration::from_millis(1_500)).await;
        server.resume();
        eventually("it is noticed", async || {
            events.try_recv().is_ok_and(|event| matches!(event, Event::ServerChanged { replayed: 1.. }))
        })
        .await;
        eventually("it is repeated", async || cache.coherence().pending_invalidations == 0).await;
        let new: View<str, u32> = over(server.url()).view("n");
        assert!(new.read("deleted").await.is_none() && view.read("deleted").await.is_none());
        cache.close(PATIENCE).await;
    }
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

/// Waits for a marker with a later time than now. A snapshot that is taken then is covered by what the nodes heard since now.
async fn marked(server: &RedisServer) {
    let numbers =
        |reply: String| reply.lines().filter_map(|line| line.trim().parse().ok()).collect::<Vec<u64>>();
    let time = numbers(server.command("TIME"));
    let [seconds, micros] = time[..] else { panic!("TIME is {time:?}") };
    eventually("a later marker is written", async || {
        let marker = marker_key(server).map(|key| numbers(server.command(&format!("GET {key}"))));
        marker.is_some_and(|marker| marker.iter().any(|time| *time > seconds * 1_000_000 + micros))
    })
    .await;
}

#[tokio::test]
async fn older_snapshot_gets_invalidations_of_lost_node_from_those_who_heard_them() {
    let Some(mut server) = RedisServer::start() else { return };
    let (lost, other) = (impatient(&server), impatient(&server));
    let (a, b): (View<str, u32>, View<str, u32>) = (lost.view("n"), other.view("n"));
    for key in ["deleted", "matched", "kept"] {
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
    }
    marked(&server).await;
    server.take_snapshot();
    a.delete("deleted").await.everywhere();
    lost.delete_matched("n:mat*").await.everywhere();
    for key in ["deleted", "matched"] {
        eventually("the other node has heard it", async || b.read(key).await.is_none()).await;
    }
    drop((a, lost));
    server.restart_from_snapshot();
    assert_eq!(server.command("EXISTS test:n:deleted test:n:matched"), ":2\r\n", "the snapshot is older");
    let gone = async || server.command("EXISTS test:n:deleted test:n:matched") == ":0\r\n";
    eventually("the other node repeats it", gone).await;
    assert_eq!(server.command("EXISTS test:n:kept"), ":1\r\n", "and no more than that");
    assert!(b.read("deleted").await.is_none() && b.read("matched").await.is_none());
}

/// Takes a snapshot that is older than it seems, by its marker. A node whose clock is at rest writes one marker only.
async fn take_snapshot_of_age(server: &RedisServer, seconds: u64) {
    eventually("the marker is written", async || marker_key(server).is_some()).await;
    let time = server.command("TIME");
    let now: u64 = time.lines().nth(2).and_then(|line| line.trim().parse().ok()).expect("seconds");
    let marker = marker_key(server).expect("it was written");
    server.command(&format!("SET {marker} {}", (now - seconds) * 1_000_000));
    server.take_snapshot();
}

/// The age of a snapshot is the age of the marker in it.
#[tokio::test]
async fn snapshot_older_than_replay_log_loses_everything() {
    let Some(mut server) = RedisServer::start() else { return };
    let (clock, hand) = Clock::manual();
    let cache = node_with(server.url(), |options| {
        options.ttl(Duration::from_secs(600)).redis_timeout(Duration::from_millis(200)).clock(clock)
    });
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    take_snapshot_of_age(&server, 56).await;
    view.delete("k").await.everywhere();
    hand.advance(Duration::from_secs(61));
    server.restart_from_snapshot();
    assert_eq!(server.command("EXISTS test:n:k"), ":1\r\n", "the snapshot is older");
    let fresh: View<str, u32> = over(server.url()).view("n");
    eventually("no node reads it", async || fresh.read("k").await.is_none()).await;
    assert!(view.read("k").await.is_none());
}

/// A node that starts after the restore knows no invalidation. Its markers do not make the copy younger for the others.
#[tokio::test]
async fn node_that_reaches_older_snapshot_first_hides_no_age() {
    let Some(mut server) = RedisServer::start() else { return };
    let proxy = FlakyProxy::before(&server, 1);
    let (clock, hand) = Clock::manual();
    let cache = node_with(proxy.url(), |options| options.ttl(Duration::from_secs(600)).clock(clock));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    take_snapshot_of_age(&server, 56).await;
    view.delete("k").await.everywhere();
    hand.advance(Duration::from_secs(61));
    proxy.refuse(true);
    proxy.cut();
    server.restart_from_snapshot();
    let fresh: View<str, u32> = over(server.url()).view("n");
    assert_eq!(fresh.read("k").await.as_deref(), Some(&1), "nobody has told it");
    let markers = async || server.command("KEYS test::marker:*").starts_with("*2");
    eventually("it has written its own marker", markers).await;
    proxy.refuse(false);
    eventually("the other node has told it", async || fresh.read("k").await.is_none()).await;
    assert!(view.read("k").await.is_none());
}

fn ledger_clock(server: &RedisServer) -> f64 {
    let score = server.command("ZSCORE test::ledger clock");
    score.lines().nth(1).and_then(|clock| clock.trim().parse().ok()).expect("there is a ledger")
}

const LOST_AT_MOST: f64 = 1e6;

/// In a cluster other primaries have values with the clocks of advances that the failover of the ledger's primary has lost. One
/// of these clocks was given to a later invalidation, which then did not invalidate such a value.
#[tokio::test]
async fn invalidation_after_a_failover_is_later_than_the_advances_that_it_lost() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = impatient(&server);
    cache.clear().await.everywhere();
    let before = ledger_clock(&server);
    server.take_snapshot();
    server.restart_from_snapshot();
    eventually("the clear is repeated", async || ledger_clock(&server) > before).await;
    assert!(ledger_clock(&server) > before + LOST_AT_MOST, "{} after {before}", ledger_clock(&server));
}

/// The same by a node that has started after the failover, and knows no clock.
#[tokio::test]
async fn invalidation_of_a_new_node_is_later_than_the_advances_that_a_failover_lost() {
    let Some(mut server) = RedisServer::start() else { return };
    let former = impatient(&server);
    former.clear().await.everywhere();
    server.take_snapshot();
    let kept = ledger_clock(&server);
    former.clear().await.everywhere();
    assert_eq!(ledger_clock(&server), kept + 1.0, "nothing is skipped on one server");
    former.close(PATIENCE).await;
    server.restart_from_snapshot();
    assert_eq!(ledger_clock(&server), kept, "one advance is lost");
    let new = over(server.url());
    new.clear().await.everywhere();
    let first = ledger_clock(&server);
    assert!(first > kept + LOST_AT_MOST, "{first} after {kept}");
    new.clear().await.everywhere();
    assert_eq!(ledger_clock(&server), first + 1.0, "once");
}

/// A node that makes a new ledger knows nothing of the lost one, which was ahead.
#[tokio::test]
async fn value_of_lost_ledger_is_not_newer_than_later_invalidations() {
    let Some(server) = RedisServer::start() else { return };
    let ahead =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros()
            + 3_600_000_000;
    server.command(&format!("ZADD test::ledger {ahead} clock {ahead} floor"));
    let cache = impatient(&server);
    let view: View<str, u32> = cache.view("n").with_tag("t");
    view.write("k", 1).await.everywhere();
    server.command("COPY test:n:k copy");
    cache.close(PATIENCE).await;
    drop((view, cache));
    server.command("DEL test::ledger");
    let fresh = over(server.url());
    let view: View<str, u32> = fresh.view("n").with_tag("t");
    assert!(view.read("other").await.is_none());
    fresh.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    server.command("COPY copy test:n:k REPLACE");
    assert!(view.read("k").await.is_none(), "it was invalidated here");
}

/// A ledger that is made again starts at the clock of the server, which may have gone back since. The nodes that know a
/// later clock see to it that nothing older is read.
#[tokio::test]
async fn lost_ledger_and_clock_that_went_back_revive_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let cache = impatient(&server);
    let view: View<str, u32> = cache.view("n").with_tag("t");
    // The clock was an hour ahead.
    let ahead =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros()
            + 3_600_000_000;
    server.command(&format!("ZADD test::ledger {ahead} clock {ahead} floor"));
    view.write("k", 1).await.everywhere();
    let stale = server.command("DUMP test:n:k");
    assert!(stale.starts_with('$'));
    server.command("COPY test:n:k copy");
    cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    server.command("DEL test::ledger");
    // A node that knows no clock.
    let fresh: View<str, u32> = over(server.url()).view("n").with_tag("t");
    assert!(fresh.read("other").await.is_none());
    server.command("COPY copy test:n:k REPLACE");
    eventually("no node reads it", async || fresh.read("k").await.is_none()).await;
    let fresh: View<str, u32> = over(server.url()).view("n").with_tag("t");
    assert!(fresh.read("k").await.is_none() && view.read("k").await.is_none());
}

/// A node that knew the lost ledger advances the one that was made after the clock had gone back. Values of the lost one must
/// not seem to belong to the other once its clock has reached theirs.
#[tokio::test]
async fn ledger_of_a_clock_that_went_back_is_not_advanced_over_values_of_the_lost_one() {
    let Some(server) = RedisServer::start() else { return };
    let (knows, fresh) = pair(&server);
    server.command("FLUSHALL");
    let view: View<str, u32> = knows.view("n").with_tag("t");
    let ahead =
        std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_micros()
            + 3_600_000_000;
    server.command(&format!("ZADD test::ledger {ahead} clock {ahead} floor"));
    view.write("k", 1).await.everywhere();
    // No heartbeat comes in between, mostly.
    server.command("DEL test::ledger");
    fresh.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    let other: View<str, u32> = fresh.view("n").with_tag("t");
    assert!(other.read("k").await.is_none(), "its clock was not reached");
    knows.invalidate_tags(["other"], Invalidation::Hard).await.everywhere();
    assert!(other.read("k").await.is_none(), "it was invalidated here");
    eventually("the node that knew it", async || view.read("k").await.is_none()).await;
}
