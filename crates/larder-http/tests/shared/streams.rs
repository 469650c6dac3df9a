//! Bodies that take time: other replicas wait for their end, and a purge elsewhere ends them for those who follow.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use http_body_util::{BodyExt, Full};
use larder_http::{BodyRule, BodyRules, Cached, Outcome, Reason};
use larder_testkit::{RedisServer, eventually};
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use tower::{Layer, ServiceExt};

use crate::support::{Replica, cached, field, streamed, tagged};

/// A replica whose first body arrives through the channel, and the others at once.
fn streaming(server: &RedisServer) -> (Replica, UnboundedSender<&'static str>) {
    let (frames, body) = unbounded_channel();
    let body = Arc::new(Mutex::new(Some(body)));
    let replica = Replica::new(server.url(), move |_, call| {
        let body = body.lock().unwrap().take();
        async move {
            match body {
                Some(frames) => streamed(tagged(""), frames),
                None => tagged(format!("whole {call}")),
            }
        }
    });
    (replica, frames)
}

#[tokio::test]
async fn streamed_body_is_shared_once_it_is_complete() {
    let Some(server) = RedisServer::start() else { return };
    let (first, frames) = streaming(&server);
    let [other] = Replica::site(&server);
    let (_, client) = first.open("/a").await;
    let (outcome, follower) = first.open("/a").await;
    assert!(matches!(outcome, Outcome::Miss { collapsed: true, .. }), "{outcome:?}");
    let waiting = tokio::spawn(async move { (other.body("/a").await, other.calls()) });
    frames.send("a").unwrap();
    frames.send("b").unwrap();
    drop(frames);
    assert_eq!((client.await.unwrap(), follower.await.unwrap()), ("ab".into(), "ab".into()));
    assert_eq!(waiting.await.unwrap(), ("ab".to_owned(), 0));
    assert_eq!((first.body("/a").await, first.calls()), ("ab".into(), 1));
}

#[tokio::test]
async fn purge_elsewhere_ends_a_running_body_for_its_followers() {
    let Some(server) = RedisServer::start() else { return };
    let (first, frames) = streaming(&server);
    let [other] = Replica::site(&server);
    let (_, client) = first.open("/a").await;
    let (_, follower) = first.open("/a").await;
    frames.send("old").unwrap();
    assert!(other.cache.purge_tag("t").await.is_everywhere());
    // Only the head: a body that was joined before the purge arrived would not end.
    eventually("requests no longer join it", async || {
        !matches!(first.open("/a").await.0, Outcome::Miss { collapsed: true, .. })
    })
    .await;
    drop(frames);
    assert_eq!(client.await.unwrap(), "old", "its client asked before");
    assert!(follower.await.is_err(), "it never looks complete");
    assert!(first.body("/a").await.starts_with("whole"), "it is stored nowhere");
    assert_ne!(other.body("/a").await, "old");
}

/// Some responses vary and others do not, so that the record of the resource comes and goes while bodies are read.
#[tokio::test]
async fn record_that_comes_and_goes_breaks_no_body() {
    let Some(server) = RedisServer::start() else { return };
    let replicas: [Arc<Replica>; 2] = std::array::from_fn(|_| {
        Arc::new(Replica::new(server.url(), |request: Request<String>, _| async move {
            let (frames, body) = unbounded_channel();
            tokio::spawn(async move {
                for part in ["a", "b", "c"] {
                    tokio::time::sleep(Duration::from_millis(3)).await;
                    _ = frames.send(part);
                }
            });
            let mut reply = streamed(cached("", Cached::ttl(Duration::from_millis(50))), body);
            if request.headers().contains_key("origin") {
                reply.headers_mut().insert("vary", "origin".parse().unwrap());
            }
            reply
        }))
    });
    let mut clients = JoinSet::new();
    for client in 0..12 {
        let replica = replicas[client % 2].clone();
        clients.spawn(async move {
            let origin: &[_] = if client < 6 { &[("origin", "http://x")] } else { &[] };
            let end = Instant::now() + Duration::from_secs(2);
            while Instant::now() < end {
                assert_eq!(replica.send("GET", "/a", origin).await.body, "abc");
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        });
    }
    clients.join_all().await;
    for replica in replicas {
        let unstored = replica.cache.stats().unstored;
        assert!(!unstored.iter().any(|(reason, _)| *reason == Reason::Purged), "{unstored:?}");
    }
}

/// Only the end of a GraphQL response shows whether others may have it, so that they wait for all of it. This one takes
/// longer than it is fresh.
#[tokio::test]
async fn purge_covers_a_response_that_was_over_before_its_end() {
    let Some(server) = RedisServer::start() else { return };
    let (frames, body) = unbounded_channel();
    let body = Arc::new(Mutex::new(Some(body)));
    let first = Replica::new(server.url(), move |_, call| {
        let body = body.lock().unwrap().take();
        let settings = Cached::ttl(Duration::from_millis(100)).tag("t");
        async move {
            let reply = cached(format!(r#"{{"data":{call}}}"#), settings);
            let reply = field(reply, "content-type", "application/json");
            match body {
                Some(frames) => streamed(reply, frames),
                None => reply,
            }
        }
    });
    let rules = BodyRules::new().route("/graphql", BodyRule::graphql());
    let handler = first.handler().map_request(|request: Request<Full<Bytes>>| request.map(|_| String::new()));
    let service = first.cache.layer().body_rules(rules).layer(handler);
    let post = || {
        let request = Request::post("/graphql")
            .header("host", "site.example")
            .header("content-type", "application/json")
            .body(Full::from(r#"{"query":"{n}"}"#));
        let service = service.clone();
        tokio::spawn(async move {
            let body = service.oneshot(request.unwrap()).await.unwrap().into_body();
            String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap()
        })
    };
    let before = post();
    eventually("its handler runs", async || first.calls() == 1).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert!(first.cache.purge_tag("t").await.is_everywhere());
    let after = post();
    tokio::time::sleep(Duration::from_millis(50)).await;
    frames.send(r#"{"data":1}"#).unwrap();
    drop(frames);
    assert_eq!(before.await.unwrap(), r#"{"data":1}"#);
    assert_eq!(after.await.unwrap(), r#"{"data":2}"#, "it asked after the purge");
}
