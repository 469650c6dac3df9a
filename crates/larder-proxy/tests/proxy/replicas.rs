//! Replicas of the proxy share responses and purges through a real Redis, and go on without it.

use crate::support::*;
use http::{HeaderValue, Response};
use larder_http::SharedHttpCache;
use larder_proxy::{Config, ProxyCache};
use larder_testkit::{Cluster, RedisServer, eventually};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// The options of a replica.
fn replica(origin: SocketAddr, redis: String) -> Config {
    Config { redis: Some(redis), redis_max_lag_ms: 200, ..config([origin]) }
}

async fn replicas(origin: &HttpOrigin, redis: &str) -> (Running, Running) {
    let start = async || start(replica(origin.address, redis.to_owned())).await;
    (start().await, start().await)
}

/// Waits until the second replica answers with what the first one has stored.
async fn until_shared(origin: &HttpOrigin, first: &Running, second: &Running) {
    eventually("responses are shared", async || {
        let path = format!("/{}", origin.requests());
        first.get(&path).await;
        status(&second.get(&path).await).ends_with("; detail=shared")
    })
    .await;
}

fn responses(proxy: &Running) -> &SharedHttpCache {
    match proxy.proxy.cache() {
        ProxyCache::Shared { responses, .. } => responses,
        ProxyCache::Alone(_) => panic!("it has replicas"),
    }
}

fn status(answer: &str) -> &str {
    values(answer, "cache-status")[0]
}

/// An origin whose responses are fresh for a minute and have the tag `page`; their text is the number of the request.
async fn numbering(cache_control: &'static str) -> HttpOrigin {
    let number = Arc::<AtomicUsize>::default();
    HttpOrigin::start(move |request: http::Request<_>| {
        let number = number.fetch_add(1, Ordering::SeqCst) + 1;
        let is_conditional = request.headers().contains_key("if-none-match");
        async move {
            let mut response =
                Response::new(full(if is_conditional { String::new() } else { number.to_string() }));
            if is_conditional {
                *response.status_mut() = http::StatusCode::NOT_MODIFIED;
            }
            let headers = response.headers_mut();
            headers.insert("cache-control", HeaderValue::from_static(cache_control));
            headers.insert("etag", HeaderValue::from_static("\"a\""));
            headers.insert("xkey", HeaderValue::from_static("page"));
            response
        }
    })
    .await
}

#[tokio::test]
async fn response_of_one_replica_answers_the_other() {
    let Some(server) = RedisServer::start() else { return };
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &server.url()).await;
    let stored = first.get("/").await;
    assert!(stored.ends_with("\r\n\r\n1"), "{stored}");
    get_until(&first, |answer| status(answer).starts_with("larder; hit")).await;
    let shared = second.get("/").await;
    assert!(shared.ends_with("\r\n\r\n1") && status(&shared).ends_with("; detail=shared"), "{shared}");
    assert!(values(&shared, "xkey").is_empty(), "{shared}");
    assert!(status(&second.get("/").await).starts_with("larder; hit; ttl="));
    assert_eq!(origin.requests(), 1);
    // Another service that uses the same Redis.
    let other = Config { redis_namespace: "other".into(), ..replica(origin.address, server.url()) };
    assert!(start(other).await.get("/").await.ends_with("\r\n\r\n2"));
}

#[tokio::test]
async fn concurrent_misses_on_both_replicas_reach_the_origin_once() {
    let Some(server) = RedisServer::start() else { return };
    let origin = HttpOrigin::start(|_| async {
        tokio::time::sleep(Duration::from_millis(300)).await;
        let mut response = Response::new(full("slow"));
        response.headers_mut().insert("cache-control", HeaderValue::from_static("max-age=60"));
        response
    })
    .await;
    let mut replicas = Vec::new();
    for _ in 0..2 {
        let proxy = start(replica(origin.address, server.url())).await;
        // The first one connects, which takes time.
        proxy.get("/connected").await;
        replicas.push(Arc::new(proxy));
    }
    let before = origin.requests();
    let clients: Vec<_> = (0..10)
        .map(|client| {
            let proxy = replicas[client % 2].clone();
            tokio::spawn(async move { proxy.get("/").await })
        })
        .collect();
    for client in clients {
        let answer = client.await.unwrap();
        assert!(answer.ends_with("slow"), "{answer}");
    }
    assert_eq!(origin.requests(), before + 1);
}

#[tokio::test]
async fn purge_on_one_replica_reaches_the_other() {
    let Some(server) = RedisServer::start() else { return };
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &server.url()).await;
    first.get("/").await;
    get_until(&second, |answer| status(answer).starts_with("larder; hit")).await;
    for (number, name) in ["tag", "uri", "prefix", "all"].into_iter().enumerate() {
        let cache = responses(&first);
        let reach = match name {
            "tag" => cache.purge_tag("page").await,
            "uri" => cache.purge_uri("http://site.example/").await.unwrap(),
            "prefix" => cache.purge_prefix("http://site.example/").await.unwrap(),
            _ => cache.purge_all().await,
        };
        assert!(reach.is_everywhere(), "{name}");
        let text = format!("\r\n\r\n{}", number + 2);
        assert!(first.get("/").await.ends_with(&text), "{name}: at once on this replica");
        get_until(&second, |answer| answer.ends_with(&text)).await;
    }
}

/// A 304 of the origin makes the response good for both.
#[tokio::test]
async fn soft_purge_is_validated_once_for_both_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &server.url()).await;
    first.get("/").await;
    get_until(&second, |answer| status(answer).starts_with("larder; hit")).await;
    assert!(responses(&first).soft_purge_tag("page").await.is_everywhere());
    let validated = first.get("/").await;
    assert_eq!(status(&validated), "larder; fwd=stale; fwd-status=304; stored", "{validated}");
    assert!(validated.ends_with("\r\n\r\n1"), "{validated}");
    let is_good = |answer: &str| {
        assert!(answer.ends_with("\r\n\r\n1"), "{answer}");
        status(answer).ends_with("; detail=shared")
    };
    get_until(&second, is_good).await;
    assert_eq!(origin.requests(), 2, "one load, one validation");
}

/// Entries are served for `disconnected`, 30 s, and misses and purges go on.
#[tokio::test]
async fn requests_are_answered_without_redis_and_shared_again_once_it_is_back() {
    let Some(mut server) = RedisServer::start() else { return };
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &server.url()).await;
    first.get("/").await;
    get_until(&second, |answer| status(answer).starts_with("larder; hit")).await;
    server.kill();
    for proxy in [&first, &second] {
        let stored = proxy.get("/").await;
        assert!(stored.starts_with("HTTP/1.1 200 ") && stored.ends_with("\r\n\r\n1"), "{stored}");
        let missing = proxy.get("/missing").await;
        assert!(missing.starts_with("HTTP/1.1 200 "), "{missing}");
    }
    assert!(!responses(&first).purge_tag("page").await.is_everywhere(), "Redis did not confirm");
    let purged = first.get("/").await;
    assert!(purged.starts_with("HTTP/1.1 200 ") && !purged.ends_with("\r\n\r\n1"), "{purged}");
    server.restart();
    eventually("the purge is replayed", async || {
        let answer = second.get("/").await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
        !answer.ends_with("\r\n\r\n1")
    })
    .await;
    until_shared(&origin, &first, &second).await;
}

/// The proxy starts without its Redis, as it does without its origins.
#[tokio::test]
async fn redis_that_is_not_there_at_the_start_is_found_later() {
    let Some(mut server) = RedisServer::start() else { return };
    let url = server.url();
    server.kill();
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &url).await;
    assert!(first.get("/").await.starts_with("HTTP/1.1 200 "));
    server.restart();
    until_shared(&origin, &first, &second).await;
}

#[tokio::test]
async fn replicas_share_through_a_cluster() {
    let Some(cluster) = Cluster::start() else { return };
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &cluster.url()).await;
    until_shared(&origin, &first, &second).await;
    assert!(responses(&second).purge_all().await.is_everywhere());
}

/// `ignore_query` is told to the cache by a field, which each replica learns.
#[tokio::test]
async fn ignored_parameters_are_ignored_by_all_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let origin = numbering("max-age=60").await;
    let rule =
        larder_proxy::RuleConfig { ignore_query: vec!["utm".into()], ..larder_proxy::RuleConfig::default() };
    let options = || Config { rules: vec![rule.clone()], ..replica(origin.address, server.url()) };
    let (first, second) = (start(options()).await, start(options()).await);
    for utm in 1..=2 {
        first.get(&format!("/?a=1&utm={utm}")).await;
    }
    assert!(status(&first.get("/?utm=3&a=1").await).starts_with("larder; hit"));
    second.get("/?a=2").await;
    let shared = second.get("/?a=1&utm=4").await;
    assert!(status(&shared).ends_with("; detail=shared"), "{shared}");
    // A client that wants a validation gets one.
    let reload = "GET /?a=1&utm=5 HTTP/1.1\r\nHost: site.example\r\nCache-Control: no-cache\r\nConnection: close\r\n\r\n";
    assert_eq!(status(&second.exchange(reload).await), "larder; fwd=stale; fwd-status=304; stored");
}

#[tokio::test]
async fn purge_that_is_pending_reaches_redis_before_the_proxy_ends() {
    let Some(mut server) = RedisServer::start() else { return };
    let origin = numbering("max-age=60").await;
    let (first, second) = replicas(&origin, &server.url()).await;
    first.get("/").await;
    get_until(&second, |answer| status(answer).starts_with("larder; hit")).await;
    server.kill();
    assert!(!responses(&first).purge_tag("page").await.is_everywhere());
    let ended = first.stop();
    server.restart();
    tokio::time::timeout(LIMIT, ended).await.expect("it ends in time").unwrap();
    eventually("the other one has the purge", async || !second.get("/").await.ends_with("\r\n\r\n1")).await;
}
