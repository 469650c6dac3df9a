//! One handler among all replicas, and a fresh replica needs none.

use std::sync::Arc;
use std::time::Duration;

use http::{Request, StatusCode};
use larder_http::{Cached, HttpCache, Outcome, Reason};
use larder_testkit::{Gate, RedisServer, eventually};
use tokio::task::JoinSet;
use tower::{Layer, ServiceExt};

use crate::support::{MINUTE, Replica, cached, field, plain, tagged};

#[tokio::test]
async fn fresh_replica_answers_without_its_handler() {
    let Some(server) = RedisServer::start() else { return };
    let handler = |_, _| async {
        let reply = cached("gone", Cached::ttl(MINUTE).cached_errors([StatusCode::GONE]).tag("t"));
        let mut reply = field(field(field(reply, "x-many", "1"), "x-many", "2"), "age", "7");
        *reply.status_mut() = StatusCode::GONE;
        reply
    };
    let first = Replica::new(server.url(), handler);
    let loaded = first.get("/a?b").await;
    assert!(matches!(loaded.outcome, Outcome::Miss { unstored: None, .. }), "{:?}", loaded.outcome);
    let fresh = Replica::new(server.url(), |_, _| async { panic!("the handler runs again") });
    let shared = fresh.get("/a?b").await;
    assert!(matches!(shared.outcome, Outcome::Shared { ttl: 50..=60 }), "{:?}", shared.outcome);
    assert_eq!((shared.status, &*shared.body), (StatusCode::GONE, "gone"));
    assert_eq!(shared.headers.get_all("x-many").iter().collect::<Vec<_>>(), ["1", "2"]);
    for name in ["etag", "date", "content-length"] {
        assert_eq!(shared.headers[name], loaded.headers[name], "{name}");
    }
    let age: u64 = shared.headers["age"].to_str().unwrap().parse().unwrap();
    assert!((7..20).contains(&age), "{age}");
    let hit = fresh.get("/a?b").await;
    assert!(matches!(hit.outcome, Outcome::Hit { .. }), "from its own store: {:?}", hit.outcome);
    let etag = loaded.headers["etag"].to_str().unwrap();
    let third = Replica::new(server.url(), |_, _| async { panic!("the handler runs again") });
    let current = third.send("GET", "/a?b", &[("if-none-match", etag)]).await;
    assert_eq!(current.status, StatusCode::GONE, "only a 200 has conditions");
    assert_eq!((fresh.cache.stats().shared_hits, fresh.cache.stats().hits), (1, 1));
}

/// What these requests want may be in Redis, although none of them would store it.
#[tokio::test]
async fn requests_that_fill_nothing_find_the_response_of_another_replica() {
    let Some(server) = RedisServer::start() else { return };
    let handler = |_, _| async { field(tagged("0123456789"), "vary", "accept") };
    let first = Replica::new(server.url(), handler);
    first.get("/a").await;
    let fresh = || Replica::new(server.url(), |_, _| async { panic!("the handler runs again") });
    for (method, fields, status, body) in [
        ("HEAD", &[][..], 200, ""),
        ("GET", &[("range", "bytes=2-4")], 206, "234"),
        ("GET", &[("cache-control", "only-if-cached")], 200, "0123456789"),
    ] {
        let replica = fresh();
        let found = replica.send(method, "/a", fields).await;
        assert!(matches!(found.outcome, Outcome::Shared { .. }), "{method} {fields:?}: {:?}", found.outcome);
        assert_eq!((found.status.as_u16(), &*found.body), (status, body));
        let length = if status == 206 { "3" } else { "10" };
        assert_eq!(found.headers["content-length"], length, "{method} {fields:?}");
        assert!(matches!(replica.get("/a").await.outcome, Outcome::Hit { .. }), "it is stored here now");
    }
    let other = fresh().send("GET", "/b", &[("cache-control", "only-if-cached")]).await;
    assert_eq!(other.cache_status(), "fwd=bypass; detail=only-if-cached");
    let [calling] = Replica::site(&server);
    assert_eq!(calling.send("HEAD", "/b", &[]).await.cache_status(), "fwd=bypass; detail=head");
    assert_eq!(calling.calls(), 1);
}

#[tokio::test]
async fn replica_answers_with_no_longer_body_than_it_stores() {
    let Some(server) = RedisServer::start() else { return };
    let [first] = Replica::site(&server);
    let handler = |_, _| async { tagged("own") };
    let limit = |shared: larder_http::SharedBuilder| shared.options(|options| options.max_body_bytes(2));
    let small = Replica::with(server.url(), |redis| redis, limit, handler);
    assert_eq!(first.body("/a").await, "0:1");
    let own = small.get("/a").await;
    assert_eq!((&*own.body, own.cache_status()), ("own", "fwd=uri-miss; detail=body-too-large"));
    assert_eq!(first.body("/a").await, "0:1");
}

#[tokio::test]
async fn client_of_a_fresh_replica_may_have_a_current_copy() {
    let Some(server) = RedisServer::start() else { return };
    let [first, fresh] = Replica::site(&server);
    let etag = first.get("/a").await.headers["etag"].to_str().unwrap().to_owned();
    let current = fresh.send("GET", "/a", &[("if-none-match", &etag)]).await;
    assert_eq!((current.status, fresh.calls()), (StatusCode::NOT_MODIFIED, 0));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_concurrent_requests_on_three_replicas_call_one_handler() {
    let Some(server) = RedisServer::start() else { return };
    let replicas: Arc<[Replica; 3]> = Arc::new(std::array::from_fn(|name| {
        Replica::new(server.url(), move |_, call| async move {
            tokio::time::sleep(Duration::from_millis(200)).await;
            tagged(format!("{name}:{call}"))
        })
    }));
    let mut requests = JoinSet::new();
    for n in 0..1_000 {
        let replicas = replicas.clone();
        requests.spawn(async move { replicas[n % 3].body("/cold").await });
    }
    let bodies = requests.join_all().await;
    assert!(bodies.iter().all(|body| *body == bodies[0]), "one body for all");
    assert_eq!(replicas.iter().map(Replica::calls).sum::<usize>(), 1);
}

#[tokio::test]
async fn replica_waits_for_the_fill_of_another_one() {
    let Some(server) = RedisServer::start() else { return };
    let gate = Gate::closed();
    let passing = gate.clone();
    let slow = Replica::new(server.url(), move |_, _| {
        let gate = passing.clone();
        async move {
            gate.pass().await;
            tagged("slow")
        }
    });
    let [other] = Replica::site(&server);
    let slow = Arc::new(slow);
    let filling = tokio::spawn({
        let slow = slow.clone();
        async move { slow.body("/a").await }
    });
    gate.arrival().await;
    let waiting = tokio::spawn(async move { (other.body("/a").await, other.calls()) });
    tokio::time::sleep(Duration::from_millis(50)).await;
    gate.open(1);
    assert_eq!(filling.await.unwrap(), "slow");
    assert_eq!(waiting.await.unwrap(), ("slow".to_owned(), 0));
}

#[tokio::test]
async fn response_that_is_not_stored_is_not_shared() {
    let Some(server) = RedisServer::start() else { return };
    let first = Replica::new(server.url(), |_, _| async { plain("first") });
    let other = Replica::new(server.url(), |_, _| async { plain("other") });
    let answer = first.get("/a").await;
    assert!(matches!(answer.outcome, Outcome::Miss { unstored: Some(Reason::NotOptedIn), .. }));
    assert_eq!(other.body("/a").await, "other");
    eventually("the lease is released", async || server.command("KEYS site:http:*") == "*0\r\n").await;
}

#[tokio::test]
async fn stale_response_is_refreshed_by_one_replica() {
    let Some(server) = RedisServer::start() else { return };
    let handler = |_, call| async move {
        cached(format!("{call}"), Cached::ttl(Duration::from_millis(300)).swr(MINUTE))
    };
    let (first, other) = (Replica::new(server.url(), handler), Replica::new(server.url(), handler));
    assert_eq!((first.body("/a").await, other.body("/a").await), ("1".into(), "1".into()));
    tokio::time::sleep(Duration::from_millis(400)).await;
    let (one, two) = tokio::join!(first.get("/a"), other.get("/a"));
    assert!(matches!(one.outcome, Outcome::Stale { .. }) && matches!(two.outcome, Outcome::Stale { .. }));
    eventually("one has refreshed it", async || first.calls() + other.calls() == 3 - 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!(first.calls() + other.calls(), 2, "the other one got its response");
}

#[tokio::test]
async fn long_body_stays_on_its_replica_and_is_purged_there() {
    let Some(server) = RedisServer::start() else { return };
    let replica = |name: &'static str| {
        let handler = move |_, call| async move { tagged(format!("a long body of {name}, {call}")) };
        Replica::with(server.url(), |redis| redis, |shared| shared.max_shared_body_bytes(10), handler)
    };
    let (first, other) = (replica("first"), replica("other"));
    assert_eq!(first.body("/a").await, "a long body of first, 1");
    assert_eq!(other.body("/a").await, "a long body of other, 1");
    assert_eq!(first.body("/a").await, "a long body of first, 1");
    assert!(other.cache.purge_tag("t").await.is_everywhere());
    assert_eq!(other.body("/a").await, "a long body of other, 2");
    eventually("the purge reaches it", async || first.body("/a").await == "a long body of first, 2").await;
}

#[tokio::test]
async fn top_tags_are_those_of_the_handlers() {
    let Some(server) = RedisServer::start() else { return };
    let space = |redis: larder::Cache| redis.space("tenant").shared("http");
    let [replica] = Replica::site(&server);
    let in_space = HttpCache::builder().shared(space(replica.redis.clone())).build().unwrap();
    let service = in_space.layer().layer(replica.handler());
    let request = || Request::get("/a").header("host", "site.example").body(String::new()).unwrap();
    for _ in 0..2_000 {
        replica.body("/a").await;
        service.clone().oneshot(request()).await.unwrap();
    }
    for stats in [replica.cache.stats(), in_space.stats()] {
        let tags: Vec<_> = stats.top_tags.iter().map(|top| String::from_utf8_lossy(&top.key)).collect();
        assert_eq!(tags, ["t"]);
    }
}

#[tokio::test]
async fn views_of_a_shared_cache_share_it() {
    let Some(server) = RedisServer::start() else { return };
    let [first] = Replica::site(&server);
    let view = first.cache.view("api").options(|options| options.max_body_bytes(1000)).build().unwrap();
    assert_eq!(first.body("/a").await, "0:1");
    assert_eq!(view.stats().entries, 1);
    assert!(view.purge_tag("t").await.is_everywhere());
    assert_eq!(first.body("/a").await, "0:2");
}

/// The response comes out of Redis in the last millisecond of its time, again and again.
#[tokio::test]
async fn response_without_a_grace_period_is_never_stale_on_another_replica() {
    let Some(server) = RedisServer::start() else { return };
    let handler = |_, _| async { cached("page", Cached::ttl(Duration::from_millis(2))) };
    let (first, other) = (Replica::new(server.url(), handler), Replica::new(server.url(), handler));
    for round in 0..300 {
        let target = format!("/{round}");
        first.body(&target).await;
        for _ in 0..3 {
            let outcome = other.get(&target).await.outcome;
            assert!(!matches!(outcome, Outcome::Stale { .. }), "{outcome:?} in round {round}");
        }
    }
}
