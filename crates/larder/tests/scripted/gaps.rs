//! What is on its way while a node does not hear: an answer from before the gap says nothing about what came in it, and
//! a load from before it is nobody's to join afterwards.

use crate::{MAX_LAG, Origin, Stage, Versions};
use larder::{Event, FetchError, Invalidation, Policy, Source, WriteOptions};
use larder_testkit::{Gate, Hold, PATIENCE, RedisServer, eventually, within};
use std::convert::Infallible;
use std::time::Duration;

/// A node that does not hear, until it is let go.
struct Deaf {
    subscriptions: Hold,
}

impl Stage {
    /// Cuts the connection by which the far node hears, and keeps it from coming back.
    async fn deafen(&self) -> Deaf {
        let subscriptions = self.proxy.hold(|frame| frame.is_request("SUBSCRIBE"));
        let mut events = self.far_cache.events();
        // Only a beat says HELLO on a connection that is open.
        let beats = self.proxy.hold(|frame| frame.is_request("HELLO"));
        let listening = beats.arrival().await.connection;
        self.proxy.cut(listening);
        drop(beats);
        let lost = async { while events.recv().await != Ok(Event::Disconnected) {} };
        within(PATIENCE, "the far node loses its subscription", lost).await;
        Deaf { subscriptions }
    }

    /// Lets the far node hear again, and returns once it knows that it does.
    async fn hears_again(&self, deaf: Deaf) {
        let mut events = self.far_cache.events();
        deaf.subscriptions.release();
        let back = async { while events.recv().await != Ok(Event::Connected) {} };
        within(PATIENCE, "the far node subscribes again", back).await;
        // A beat, so that it believes again what it knows.
        eventually("a beat proves it", async || self.far_cache.coherence().memory_trusted).await;
    }

    async fn write_tagged(&self, key: &str, version: u64) {
        let options = WriteOptions::new().tag("t");
        self.near.write_with(key, version, &options).await.expect("written");
    }
}

/// The stamps of a tag were read before the gap in which the tag was invalidated, and arrive after it.
#[tokio::test]
async fn stamps_read_before_gap_are_not_used_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    stage.write_tagged("asked", 1).await;
    stage.write_tagged("old", 1).await;

    let stamps = stage.proxy.hold(|frame| frame.is_reply("ZMSCORE"));
    let far = stage.far.clone();
    let asking = tokio::spawn(async move { far.read("asked").await.map(|value| *value) });
    stamps.arrival().await;
    let deaf = stage.deafen().await;
    stage.near_cache.invalidate_tags(["t"], Invalidation::Hard).await.expect("invalidated");
    stage.hears_again(deaf).await;
    drop(stamps);
    assert!(asking.await.expect("no panic").is_none_or(|version| version == 1), "it began before");

    tokio::time::sleep(MAX_LAG).await;
    assert!(stage.far.read("old").await.is_none(), "invalidated, and not heard of");
}

/// When somebody asks for what is being loaded since before a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CasAction {
    InTheGap,
    AfterTheGap,
}

/// A load began, a gap came, and in it an invalidation by tag, which no lease knows of. Who asks later does not get what
/// that load brings.
async fn joining(refresh: bool, then: CasAction) {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    let (origin, gate) = (Origin::new(), Gate::closed());
    let early = tokio::spawn(loading(stage.far.clone(), origin.clone(), gate.clone()));
    gate.arrival().await;
    let deaf = stage.deafen().await;
    origin.change();
    stage.near_cache.invalidate_tags(["t"], Invalidation::Hard).await.expect("invalidated");
    let floor = origin.read();
    tokio::time::sleep(2 * MAX_LAG).await;
    let deaf = match then {
        CasAction::InTheGap => Some(deaf),
        CasAction::AfterTheGap => {
            stage.hears_again(deaf).await;
            None
        }
    };

    let (far, loads) = (stage.far.clone(), origin.clone());
    let late = tokio::spawn(async move {
        let fetch = far.fetch("k").tag("t");
        let fetch = if refresh { fetch.refresh() } else { fetch };
        fetch.load(move |_| async move { Ok(loads.read()) }).await.map(|value| *value)
    });
    // Its first turn is enough for it to find the load, on this one thread.
    tokio::task::yield_now().await;
    gate.open(1);
    assert_eq!(early.await.expect("no panic").ok(), Some(1), "it began before");
    assert_eq!(late.await.expect("no panic").ok(), Some(floor), "it began long after");
    drop(deaf);
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
    joining(false, CasAction::InTheGap).await;
    joining(false, CasAction::AfterTheGap).await;
}

#[tokio::test]
async fn refresh_after_gap_does_not_join_earlier_load() {
    joining(true, CasAction::InTheGap).await;
    joining(true, CasAction::AfterTheGap).await;
}

/// Redis was lost when the load began, so that only announcements could say that its value is too old, and there was a gap
/// in them.
#[tokio::test]
async fn load_without_redis_before_gap_is_not_served_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    let (origin, gate) = (Origin::new(), Gate::closed());
    let looks = stage.proxy.hold(|frame| frame.is_request("EVALSHA"));
    let early = tokio::spawn(loading(stage.far.clone(), origin.clone(), gate.clone()));
    looks.arrival().await;
    looks.lose_one();
    drop(looks);
    gate.arrival().await;
    let deaf = stage.deafen().await;
    origin.change();
    stage.near.delete("k").await.expect("deleted");
    stage.hears_again(deaf).await;
    gate.open(1);
    assert_eq!(early.await.expect("no panic").ok(), Some(1), "it began before");
    tokio::time::sleep(2 * MAX_LAG).await;
    assert!(stage.far.read("k").await.is_none(), "deleted, and not heard of");
}

/// A value is on its way from Redis when a gap begins in which it is deleted, and arrives after it.
#[tokio::test]
async fn value_read_before_gap_is_not_served_after_it() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    stage.near.write("k", 1).await.expect("written");
    let replies = stage.proxy.hold(|frame| frame.is_reply("MGET") || frame.is_reply("EVALSHA"));
    let far = stage.far.clone();
    let reading = tokio::spawn(async move { far.read("k").await.map(|value| *value) });
    replies.arrival().await;
    let deaf = stage.deafen().await;
    stage.near.delete("k").await.expect("deleted");
    stage.hears_again(deaf).await;
    drop(replies);
    reading.await.expect("no panic");
    tokio::time::sleep(MAX_LAG).await;
    assert!(stage.far.read("k").await.is_none(), "deleted, and not heard of");
}

/// By which question a node learns that Redis has a value no more.
#[derive(Clone, Copy, Debug)]
enum How {
    Read,
    ReadMulti,
    Fetch,
    FetchMulti,
}

/// What a node was told that Redis does not have any more, it does not serve when Redis is lost afterwards.
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
        let stage = Stage::set_with(&server, |options| {
            let options = options.disconnected(Duration::from_secs(30)).foreign_writers(foreign_writers);
            options.redis_timeout(Duration::from_millis(500))
        })
        .await;
        stage.near.write("k", 1).await.expect("written");
        eventually("it is in memory", async || {
            stage.far.read("k").await.is_some_and(|found| found.source() == Source::Memory)
        })
        .await;
        let deaf = stage.deafen().await;
        stage.near.delete("k").await.expect("deleted");
        stage.hears_again(deaf).await;

        let slow = stage.far.clone().with_policy(Policy::new().hard_timeout(Duration::from_millis(10)));
        let found = match how {
            How::Read => stage.far.read("k").await.is_some(),
            How::ReadMulti => stage.far.read_multi(["k", "l"]).await[0].is_some(),
            How::Fetch => slow.fetch("k").load(|_| std::future::pending()).await.is_ok(),
            How::FetchMulti => {
                let loader = |_: Vec<String>, _| std::future::pending::<Result<Vec<_>, _>>();
                slow.fetch_multi(["k", "l"]).load(loader).await[0].is_ok()
            }
        };
        assert!(!found, "{how:?}: redis says that it is gone");
        if foreign_writers {
            // Heard of once more, by tracking.
            let pushes = stage.proxy.hold(|frame| frame.is_push("s:v:k"));
            server.command("SET s:v:k x");
            pushes.arrival().await;
            drop(pushes);
            tokio::time::sleep(MAX_LAG).await;
        }
        server.pause();
        // The first one learns that redis is lost, the second one knows.
        let found = [stage.far.read("k").await.is_some(), stage.far.read("k").await.is_some()];
        server.resume();
        assert_eq!(found, [false; 2], "{how:?}, {foreign_writers}: it stays gone");
    }
}

/// A node of another program version announces in words that this one cannot read: as good as a missed announcement,
/// also for what Redis has.
#[tokio::test]
async fn unreadable_announcement_makes_stamps_unknown() {
    let Some(server) = RedisServer::start() else { return };
    let stage = Stage::set(&server, false).await;
    stage.write_tagged("known", 1).await;
    stage.write_tagged("old", 1).await;
    assert_eq!(stage.far.read("known").await.as_deref(), Some(&1), "now it knows the tag's stamp");

    let pushes = stage.proxy.hold(|frame| frame.is_push("another version"));
    let clock = server.command("ZINCRBY s::ledger 1 clock");
    let clock = clock.lines().last().expect("the new clock").to_owned();
    server.command(&format!("ZADD s::ledger {clock} !t"));
    server.command("PUBLISH s::news:0 \"another version\"");
    pushes.arrival().await;
    drop(pushes);
    tokio::time::sleep(MAX_LAG).await;
    assert!(stage.far.read("old").await.is_none(), "invalidated in words that it cannot read");
    assert!(stage.far.read("known").await.is_none(), "in memory, too");
}
