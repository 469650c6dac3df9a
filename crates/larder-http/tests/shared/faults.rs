//! Redis is killed and comes back, a connection is paused, entries are damaged.

use std::time::Duration;

use larder::CoherenceMode;
use larder_http::{Access, Cached, Outcome, Scope};
use larder_testkit::{FlakyProxy, RedisServer, ScriptedProxy, eventually};

use crate::support::{self, LAG, MINUTE, Replica, tagged};

fn replica(url: String, disconnected: Duration) -> Replica {
    let redis =
        |redis: larder::Builder| redis.disconnected(disconnected).redis_timeout(Duration::from_millis(100));
    Replica::with(url, redis, |shared| shared, |_, call| async move { tagged(format!("{call}")) })
}

#[tokio::test]
async fn entries_are_served_for_disconnected_without_redis() {
    let Some(mut server) = RedisServer::start() else { return };
    let (patient, strict) =
        (replica(server.url(), Duration::from_secs(600)), replica(server.url(), Duration::ZERO));
    assert_eq!((patient.body("/a").await, strict.body("/a").await), ("1".into(), "1".into()));
    server.kill();
    eventually("redis is lost", async || strict.redis.coherence().mode == CoherenceMode::Lost).await;
    assert_eq!(patient.body("/a").await, "1", "within `disconnected`");
    assert_eq!((strict.body("/a").await, strict.body("/a").await), ("1".into(), "2".into()), "never");
    assert_eq!((patient.calls(), strict.calls()), (1, 2));
    assert_eq!((patient.body("/b").await, patient.body("/b").await), ("2".into(), "2".into()));
    assert!(!patient.cache.purge_tag("t").await.is_everywhere(), "it is queued");
    assert_eq!(patient.body("/a").await, "3", "and in effect here");
    server.restart();
    eventually("redis is back", async || {
        let both = [&patient, &strict].map(|replica| replica.redis.coherence());
        both.iter().all(|is| is.mode == CoherenceMode::Full && is.pending_invalidations == 0)
    })
    .await;
    let loaded = patient.body("/c").await;
    assert_eq!(strict.body("/c").await, loaded, "responses are shared again");
}

#[tokio::test]
async fn availability_serves_stale_beyond_disconnected_and_refreshes() {
    let Some(mut server) = RedisServer::start() else { return };
    let handler = |_, call| async move { tagged(format!("{call}")) };
    let replica = Replica::with(server.url(), prefer_availability, |shared| shared, handler);
    assert_eq!(replica.body("/a").await, "1");
    server.kill();
    eventually("redis is lost", async || replica.redis.coherence().mode == CoherenceMode::Lost).await;
    let stale = replica.get("/a").await;
    assert_eq!((&*stale.body, stale.outcome.as_str()), ("1", "stale"));
    eventually("it is refreshed", async || replica.body("/a").await == "2").await;
}

fn prefer_availability(redis: larder::Builder) -> larder::Builder {
    let redis = redis.disconnected(Duration::ZERO).redis_timeout(Duration::from_millis(100));
    redis.prefer(larder::Prefer::Availability)
}

/// Nobody knows whether the permission has ended, and a refresh would have no credentials.
#[tokio::test]
async fn availability_never_serves_guarded_or_revalidated_responses_stale() {
    let Some(mut server) = RedisServer::start() else { return };
    let allow = |_: &http::request::Parts| std::future::ready(Access::AllowedAs("ann".to_owned()));
    let handler = |request: http::Request<_>, call| {
        let cached = Cached::ttl(MINUTE);
        let mut reply = support::cached(
            format!("{call}"),
            match request.uri().path() {
                "/gated" => cached.scope(Scope::Gated),
                "/private" => cached.scope(Scope::Private),
                _ => cached,
            },
        );
        if request.uri().path() == "/must-revalidate" {
            let value = http::HeaderValue::from_static("must-revalidate");
            reply.headers_mut().insert("cache-control", value);
        }
        async move { reply }
    };
    let gated = |shared: larder_http::SharedBuilder| shared.options(|options| options.gate(allow));
    let replica = Replica::with(server.url(), prefer_availability, gated, handler);
    let targets = ["/gated", "/private", "/must-revalidate"];
    for target in targets {
        assert_eq!(replica.body(target).await, replica.body(target).await, "{target} is stored");
    }
    server.kill();
    eventually("redis is lost", async || replica.redis.coherence().mode == CoherenceMode::Lost).await;
    for target in targets {
        let before = replica.calls();
        let answer = replica.get(target).await;
        assert!(matches!(answer.outcome, Outcome::Miss { .. }), "{target}: {:?}", answer.outcome);
        assert_eq!(replica.calls(), before + 1, "{target}");
    }
}

/// The replica does not hear of the purge. It serves the old response within the lag, and then asks its handler.
#[tokio::test]
async fn replica_with_a_paused_connection_serves_nothing_older_than_the_lag() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = FlakyProxy::before(&server, 1);
    let (first, paused) = (replica(server.url(), Duration::ZERO), replica(proxy.url(), Duration::ZERO));
    assert_eq!((first.body("/a").await, paused.body("/a").await), ("1".into(), "1".into()));
    proxy.pause();
    assert!(first.cache.purge_tag("t").await.is_everywhere());
    tokio::time::sleep(LAG + Duration::from_millis(50)).await;
    let answer = paused.get("/a").await;
    assert!(matches!(answer.outcome, Outcome::Miss { .. }), "{:?}", answer.outcome);
    assert_eq!(paused.calls(), 1);
    proxy.resume();
    let new = first.body("/a").await;
    eventually("it shares again", async || paused.body("/a").await == new).await;
}

#[tokio::test]
async fn entry_is_compared_once_after_a_gap() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let [first, second] = [0, 1].map(|name| {
        Replica::new(proxy.url(), move |_, call| async move { tagged(format!("{name}:{call}")) })
    });
    for target in ["/a", "/b"] {
        assert_eq!(first.body(target).await, second.body(target).await);
    }
    let _subscriptions = proxy.hold(|frame| frame.is_request("SUBSCRIBE"));
    server.command("CLIENT KILL TYPE pubsub");
    eventually("the replicas hear nothing", async || {
        [&first, &second].iter().all(|replica| replica.redis.coherence().mode == CoherenceMode::Lost)
    })
    .await;
    assert!(first.cache.purge_uri("http://site.example/b").await.unwrap().is_everywhere());
    assert_eq!(second.body("/a").await, "0:1", "redis still has it");
    assert_ne!(second.body("/b").await, "0:2", "and no longer has this one");
    assert_eq!((first.calls(), second.calls()), (2, 1));
}

#[tokio::test]
async fn damaged_entries_are_misses() {
    let Some(server) = RedisServer::start() else { return };
    let [first] = Replica::site(&server);
    assert_eq!(first.body("/a").await, "0:1");
    let keys = server.command("KEYS site:http:*");
    let key = keys.lines().nth(2).expect("one entry");
    server.command(&format!("SETRANGE {key} 200 damage"));
    let fresh = Replica::new(server.url(), |_, _| async { tagged("loaded") });
    assert_eq!(fresh.body("/a").await, "loaded");
    server.command(&format!("SET {key} other"));
    let fresh = Replica::new(server.url(), |_, _| async { tagged("again") });
    assert_eq!(fresh.body("/a").await, "again");
    let readable = Replica::new(server.url(), |_, _| async { panic!("it was replaced") });
    assert_eq!(readable.body("/a").await, "again");
}

/// Bytes in an intact envelope that are no entry of this key: those of a crafted collision.
#[tokio::test]
async fn entry_of_another_key_is_a_miss() {
    let Some(server) = RedisServer::start() else { return };
    let [first] = Replica::site(&server);
    assert_eq!(first.body("/a").await, "0:1");
    let keys = server.command("KEYS site:http:*");
    let one = keys.lines().nth(2).expect("one entry").to_owned();
    assert_eq!(first.body("/b").await, "0:2");
    let keys = server.command("KEYS site:http:*");
    let other = keys.lines().find(|line| line.starts_with("site:") && *line != one).expect("two entries");
    server.command(&format!("COPY {one} {other} REPLACE"));
    let fresh = Replica::new(server.url(), |_, _| async { tagged("mine") });
    assert_eq!((fresh.body("/a").await, fresh.body("/b").await), ("0:1".into(), "mine".into()));
}
