//! Messages and loads that cross a gap, that is a time in which a node has no subscription. A reply from before the gap
//! says nothing about invalidations in the gap, and later callers do not join a load from before it.

use crate::mutation::Mutation;
use crate::{Fixture, MAX_LAG, Origin, Versions, is_step_request, on_first_connection};
use larder::{Event, FetchError, Invalidation, Policy, Source, WriteOptions};
use larder_testkit::{Gate, Hold, PATIENCE, RedisServer, eventually, within};
use std::convert::Infallible;
use std::time::Duration;

/// A node without a subscription.
struct Unsubscribed {
    subscriptions: Hold,
}

impl Fixture {
    /// Cuts the subscription of the far node, and holds its next one.
    async fn unsubscribe(&self) -> Unsubscribed {
        let subscriptions = self.proxy.hold(|frame| frame.is_request("SUBSCRIBE"));
        let mut events = self.far_cache.events();
        // On an open connection only a heartbeat is a HELLO.
        let heartbeats = self.proxy.hold(|frame| frame.is_request("HELLO"));
        let subscription = heartbeats.arrival().await.connection;
        self.proxy.cut(subscription);
        drop(heartbeats);
        let lost = async { while events.recv().await != Ok(Event::Disconnected) {} };
        within(PATIENCE, "the far node loses its subscription", lost).await;
        Unsubscribed { subscriptions }
    }

    /// Lets the far node subscribe again, and returns once it serves from memory again.
    async fn resubscribe(&self, unsubscribed: Unsubscribed) {
        let mut events = self.far_cache.events();
        unsubscribed.subscriptions.release();
        let back = async { while events.recv().await != Ok(Event::Connected) {} };
        within(PATIENCE, "the far node subscribes again", back).await;
        // A heartbeat proves that it gets every announcement.
        eventually("a heartbeat proves the subscription", async || self.far_cache.coherence().memory_trusted)
            .await;
    }

    async fn write_tagged(&self, key: &str, version: u64) {
        let options = WriteOptions::new().tag("t");
        self.near.write_with(key, version, &options).await.everywhere();
    }
}

/// The stamps of a tag were read before the gap in which the tag was invalidated, and arrive after it.
#[tokio::test]
async fn stamps_read_before_gap_are_not_used_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    fixture.write_tagged("asked", 1).await;
    fixture.write_tagged("old", 1).await;

    let stamps = fixture.proxy.hold(on_first_connection(|frame| frame.is_reply("ZMSCORE")));
    let far = fixture.far.clone();
    let asking = tokio::spawn(async move { far.read("asked").await.map(|value| *value) });
    stamps.arrival().await;
    let unsubscribed = fixture.unsubscribe().await;
    fixture.near_cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    fixture.resubscribe(unsubscribed).await;
    drop(stamps);
    assert!(asking.await.expect("no panic").is_none_or(|version| version == 1), "it started before");

    tokio::time::sleep(MAX_LAG).await;
    assert!(fixture.far.read("old").await.is_none(), "invalidated, without the announcement");
}

/// When a caller asks for a key whose load started before the gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Moment {
    InTheGap,
    AfterTheGap,
}

/// A load starts, then a gap, and in it an invalidation by tag, which no lease reflects. A later caller does not get the
/// value of that load.
async fn joining(refresh: bool, then: Moment) {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let (origin, gate) = (Origin::new(), Gate::closed());
    let early = tokio::spawn(loading(fixture.far.clone(), origin.clone(), gate.clone()));
    gate.arrival().await;
    let unsubscribed = fixture.unsubscribe().await;
    origin.change();
    fixture.near_cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    let floor = origin.read();
    tokio::time::sleep(2 * MAX_LAG).await;
    let unsubscribed = match then {
        Moment::InTheGap => Some(unsubscribed),
        Moment::AfterTheGap => {
            fixture.resubscribe(unsubscribed).await;
            None
        }
    };

    let (far, loads) = (fixture.far.clone(), origin.clone());
    let late = tokio::spawn(async move {
        let fetch = far.fetch("k").tag("t");
        let fetch = if refresh { fetch.refresh() } else { fetch };
        fetch.load(move |_| async move { Ok(loads.read()) }).await.map(|value| *value)
    });
    // On this one thread it finds the load in its first poll.
    tokio::task::yield_now().await;
    gate.open(1);
    assert_eq!(early.await.expect("no panic").ok(), Some(1), "it started before");
    assert_eq!(late.await.expect("no panic").ok(), Some(floor), "it started long after");
    drop(unsubscribed);
}

/// Fetches `k` by a loader that has read the origin when it waits at the gate.
async fn loading(far: Versions, origin: Origin, gate: Gate) -> Result<u64, FetchError<Infallible>> {
    let loader = move |_| async move {
        let version = origin.read();
        gate.pass().await;
        Ok(version)
    };
    far.fetch("k").tag("t").load(loader).await.map(|value| *value)
}

#[tokio::test]
async fn fetch_after_gap_does_not_join_earlier_load() {
    joining(false, Moment::InTheGap).await;
    joining(false, Moment::AfterTheGap).await;
}

#[tokio::test]
async fn refresh_after_gap_does_not_join_earlier_load() {
    joining(true, Moment::InTheGap).await;
    joining(true, Moment::AfterTheGap).await;
}

/// Redis was lost when the load started, so that only announcements could show that its value is old, and a gap followed.
#[tokio::test]
async fn load_without_redis_before_gap_is_not_served_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    let (origin, gate) = (Origin::new(), Gate::closed());
    let looks = fixture.proxy.hold(|frame| is_step_request(frame, "s:v:k"));
    let early = tokio::spawn(loading(fixture.far.clone(), origin.clone(), gate.clone()));
    looks.arrival().await;
    looks.lose_one();
    drop(looks);
    gate.arrival().await;
    let unsubscribed = fixture.unsubscribe().await;
    origin.change();
    fixture.near.delete("k").await.everywhere();
    fixture.resubscribe(unsubscribed).await;
    gate.open(1);
    assert_eq!(early.await.expect("no panic").ok(), Some(1), "it started before");
    tokio::time::sleep(2 * MAX_LAG).await;
    assert!(fixture.far.read("k").await.is_none(), "deleted, without the announcement");
}

/// A value is on its way from Redis when a gap begins in which it is deleted, and arrives after it.
#[tokio::test]
async fn value_read_before_gap_is_not_served_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    fixture.near.write("k", 1).await.everywhere();
    let replies = fixture.proxy.hold(on_first_connection(|frame| frame.is_reply("MGET")));
    let far = fixture.far.clone();
    let reading = tokio::spawn(async move { far.read("k").await.map(|value| *value) });
    replies.arrival().await;
    let unsubscribed = fixture.unsubscribe().await;
    fixture.near.delete("k").await.everywhere();
    fixture.resubscribe(unsubscribed).await;
    drop(replies);
    reading.await.expect("no panic");
    tokio::time::sleep(MAX_LAG).await;
    assert!(fixture.far.read("k").await.is_none(), "deleted, without the announcement");
}

/// The operation by which a node learns that Redis has lost a value.
#[derive(Clone, Copy, Debug)]
enum How {
    Read,
    ReadMulti,
    Fetch,
    FetchMulti,
}

/// A node does not serve, when Redis is lost, a value that Redis had reported as absent before.
#[tokio::test]
async fn removed_value_stays_removed_when_redis_is_lost() {
    for (how, foreign_writers) in [
        (How::Read, false),
        (How::ReadMulti, false),
        (How::Fetch, false),
        (How::FetchMulti, false),
        (How::Read, true),
    ] {
        let Some(server) = RedisServer::start() else { return };
        let fixture = Fixture::with(&server, |options| {
            let options = options.disconnected(Duration::from_secs(30)).foreign_writers(foreign_writers);
            options.redis_timeout(Duration::from_millis(500))
        })
        .await;
        fixture.near.write("k", 1).await.everywhere();
        eventually("it is in memory", async || {
            fixture.far.read("k").await.is_some_and(|found| found.source() == Source::Memory)
        })
        .await;
        let unsubscribed = fixture.unsubscribe().await;
        fixture.near.delete("k").await.everywhere();
        fixture.resubscribe(unsubscribed).await;

        let slow = fixture.far.clone().with_policy(Policy::new().hard_timeout(Duration::from_millis(10)));
        let found = match how {
            How::Read => fixture.far.read("k").await.is_some(),
            How::ReadMulti => fixture.far.read_multi(["k", "l"]).await[0].is_some(),
            How::Fetch => slow.fetch("k").load(|_| std::future::pending()).await.is_ok(),
            How::FetchMulti => {
                let loader = |_: Vec<String>, _| std::future::pending::<Result<Vec<_>, _>>();
                slow.fetch_multi(["k", "l"]).load(loader).await[0].is_ok()
            }
        };
        assert!(!found, "{how:?}: redis says that it is gone");
        if foreign_writers {
            // One more push, by tracking.
            let pushes = fixture.proxy.hold(|frame| frame.is_push("s:v:k"));
            server.command("SET s:v:k x");
            pushes.arrival().await;
            drop(pushes);
            tokio::time::sleep(MAX_LAG).await;
        }
        server.pause();
        // The first read notices that Redis is lost, the second one knows.
        let found = [fixture.far.read("k").await.is_some(), fixture.far.read("k").await.is_some()];
        server.resume();
        assert_eq!(found, [false; 2], "{how:?}, {foreign_writers}: it stays gone");
    }
}

/// A node of another program version announces in a format that this one cannot read. That counts as a missed
/// announcement, also for values in Redis.
#[tokio::test]
async fn unreadable_announcement_makes_stamps_unknown() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::new(&server, false).await;
    fixture.write_tagged("known", 1).await;
    fixture.write_tagged("old", 1).await;
    assert_eq!(fixture.far.read("known").await.as_deref(), Some(&1), "now it knows the tag's stamp");

    let pushes = fixture.proxy.hold(|frame| frame.is_push("another version"));
    let clock = server.command("ZINCRBY s::ledger 1 clock");
    let clock = clock.lines().last().expect("the new clock").to_owned();
    server.command(&format!("ZADD s::ledger {clock} !t"));
    server.command("PUBLISH s::news:0 \"another version\"");
    pushes.arrival().await;
    drop(pushes);
    tokio::time::sleep(MAX_LAG).await;
    assert!(fixture.far.read("old").await.is_none(), "invalidated in words that it cannot read");
    assert!(fixture.far.read("known").await.is_none(), "in memory, too");
}
