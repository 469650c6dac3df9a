//! Caches of the crate `larder` on the dashboard, and purging them over the admin port.

#![cfg(feature = "tiers")]

#[cfg(feature = "http")]
#[path = "tiers/responses.rs"]
mod responses;

use axum::Router;
use axum::body::Body;
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder::{Cache, CacheError, Reach, Requirement, View, WriteOptions};
use larder_admin::{Admin, Registry, Token};
use larder_testkit::{Cluster, RedisServer, eventually};
use std::time::Duration;
use tower::ServiceExt;

fn registered() -> (Cache, Registry) {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build().expect("valid options");
    let registry = Registry::new();
    registry.register_cache("shop", &cache);
    (cache, registry)
}

async fn stats(registry: Registry) -> serde_json::Value {
    json(&larder_admin::router(registry), "/api/stats").await
}

async fn json(router: &Router, path: &str) -> serde_json::Value {
    let request = Request::get(path).header(HOST, "localhost").body(Body::empty()).expect("a request");
    let response = router.clone().oneshot(request).await.expect("infallible");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    serde_json::from_slice(&body).expect("JSON")
}

#[tokio::test(flavor = "current_thread")]
async fn registered_cache_has_hits_and_misses_in_the_stats() {
    let (cache, registry) = registered();
    let prices: View<str, u32> = cache.view("price");
    assert!(prices.read("apple").await.is_none());
    assert_eq!(prices.write("apple", 42).await.ok(), Some(Reach::Everywhere));
    assert_eq!(prices.read("apple").await.as_deref(), Some(&42));

    let stats = stats(registry).await;
    let memory = &stats["parts"][0]["tiers"][0];
    assert_eq!((&stats["parts"][0]["part"], &memory["tier"]), (&"shop".into(), &"memory".into()));
    assert_eq!((&memory["lookups"]["hit"], &memory["entries"]), (&1.into(), &1.into()), "{memory}");
}

#[tokio::test(flavor = "current_thread")]
async fn values_too_heavy_for_memory_are_in_the_stats() {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).memory_bytes(64 << 10).build();
    let cache = cache.expect("valid options");
    let registry = Registry::new();
    registry.register_cache("shop", &cache);
    let pages: View<str, String> = cache.view("page");
    assert_eq!(pages.write("long", "x".repeat(1 << 20)).await.ok(), Some(Reach::Everywhere));
    let stats = stats(registry).await;
    let figures = stats["parts"][0]["figures"].as_array().expect("a list");
    let figure = figures.iter().find(|figure| figure["name"] == "too_heavy").expect("the figure");
    assert_eq!((&figure["value"], &figure["total"]), (&1.0.into(), &true.into()), "{figure}");
}

/// The value of a metric of the part `shop`.
async fn metric(registry: &Registry, name: &str) -> Option<f64> {
    let request = Request::get("/metrics").header(HOST, "localhost").body(Body::empty()).expect("a request");
    let response = larder_admin::router(registry.clone()).oneshot(request).await.expect("infallible");
    let body = response.into_body().collect().await.expect("a body").to_bytes();
    let page = String::from_utf8_lossy(&body).into_owned();
    let start = format!("{name}{{part=\"shop\"");
    let line = page.lines().find(|line| line.starts_with(&start))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The others answer: it must not look as if all of Redis were lost.
#[tokio::test(flavor = "current_thread")]
async fn lost_primary_of_a_cluster_is_named() {
    let Some(mut cluster) = Cluster::start_primaries(3) else { return };
    let options = Cache::builder("shop").ttl(Duration::from_secs(60)).redis(cluster.url());
    let cache = options.max_lag(Duration::from_millis(400)).build().expect("valid options");
    let registry = Registry::new();
    registry.register_cache("shop", &cache);
    let prices: View<str, u32> = cache.view("price");
    assert_eq!(prices.write("apple", 42).await.ok(), Some(Reach::Everywhere));
    assert_eq!(metric(&registry, "larder_primaries").await, Some(3.0));
    assert_eq!(metric(&registry, "larder_coherent").await, Some(1.0));
    cluster.pause(1);
    let address = format!("127.0.0.1:{}", cluster.port(1));
    eventually("the dashboard names it", async || {
        let part = stats(registry.clone()).await["parts"][0].to_string();
        part.contains(&format!("1 of 3 primaries does not answer, {address}"))
    })
    .await;
    cluster.resume(1);
    eventually("it is back", async || metric(&registry, "larder_coherent").await == Some(1.0)).await;
}

/// The page named neither the new primary nor, if it took less than five seconds, that anything had happened.
#[tokio::test(flavor = "current_thread")]
async fn primary_that_replaces_another_is_an_event() {
    let Some(mut cluster) = Cluster::start() else { return };
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).redis(cluster.url()).build();
    let cache = cache.expect("valid options");
    let registry = Registry::new();
    registry.register_cache("shop", &cache);
    let router = larder_admin::router(registry.clone());
    let prices: View<str, u32> = cache.view("price");
    assert_eq!(prices.write("apple", 42).await.ok(), Some(Reach::Everywhere));
    let lost = cluster.owner_of("apple");
    let replica = cluster.replica_of(lost);
    let [lost_address, new_address] =
        [lost, replica].map(|server| format!("127.0.0.1:{}", cluster.port(server)));
    eventually("the page has the primaries", async || {
        stats(registry.clone()).await["parts"][0]["notes"]["primaries"].to_string().contains(&lost_address)
    })
    .await;
    // A sample that knows them.
    eventually("a sample is taken", async || json(&router, "/api/history").await["intervals"][0].is_object())
        .await;
    cluster.kill(lost);
    eventually("the other one is an event", async || {
        let events = json(&router, "/api/history").await["events"].to_string();
        events.contains(&format!("uses {new_address} instead of {lost_address}"))
    })
    .await;
    eventually("the page has it", async || {
        stats(registry.clone()).await["parts"][0]["notes"]["primaries"].to_string().contains(&new_address)
    })
    .await;
}

/// It looked as if the node had lost Redis, or could not tell.
#[tokio::test(flavor = "current_thread")]
async fn cache_that_nobody_has_used_is_not_reported_as_incoherent() {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).redis("redis://127.0.0.1:1").build();
    let cache = cache.expect("valid options");
    let registry = Registry::new();
    registry.register_cache("shop", &cache);
    assert_eq!(metric(&registry, "larder_coherent").await, Some(1.0));
    let part = stats(registry).await["parts"][0].take();
    assert_eq!(part["state"], "running", "{part}");
    assert!(part["notes"]["coherence"].as_str().expect("a note").starts_with("unknown: "), "{part}");
}

#[tokio::test(flavor = "current_thread")]
async fn cache_that_cannot_reach_its_redis_is_degraded_and_says_what_that_means() {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).redis("redis://127.0.0.1:1").build();
    let cache = cache.expect("valid options");
    let registry = Registry::new();
    registry.register_cache("shop", &cache);
    let prices: View<str, u32> = cache.view("price");
    assert!(prices.read("apple").await.is_none());
    assert_eq!(prices.write("apple", 42).await.ok(), Some(Reach::HereAndQueued));

    assert_eq!(metric(&registry, "larder_coherent").await, Some(0.0));
    let part = stats(registry).await["parts"][0].take();
    assert_eq!((&part["state"], part.get("notes")), (&"degraded".into(), None), "{part}");
    let own = &part["degradations"][0];
    assert_eq!((&own["name"], &own["ready"]), (&"redis".into(), &true.into()), "{own}");
    let meaning = own["meaning"].as_str().expect("a sentence");
    let problem = "Redis was never reached (Connection refused (os error 111)): memory is served for ";
    assert!(meaning.starts_with(problem), "{meaning}");
    assert!(meaning.ends_with("; 1 invalidation of this node waits for it"), "{meaning}");
}

#[tokio::test(flavor = "current_thread")]
async fn cache_over_an_unsupported_server_is_degraded_and_names_the_requirement() {
    let Some(server) = RedisServer::start_with(&["--rename-command", "EVAL", ""]) else { return };
    for (is_allowed, reads) in
        [(false, "every fetch loads from the origin"), (true, "memory alone answers, without the changes")]
    {
        let options = Cache::builder("shop").ttl(Duration::from_secs(60)).redis(server.url());
        let options = options.allow_uncoordinated(is_allowed).redis_timeout(Duration::from_secs(5));
        let cache = options.build().expect("valid options");
        let registry = Registry::new();
        registry.register_cache("shop", &cache);
        assert_eq!(metric(&registry, "larder_unsupported").await, Some(0.0));
        let prices: View<str, u32> = cache.view("price");
        assert!(matches!(
            prices.write("apple", 42).await,
            Err(CacheError::Unsupported(Requirement::Scripts))
        ));
        assert_eq!(metric(&registry, "larder_unsupported").await, Some(1.0));
        assert_eq!(metric(&registry, "larder_coherent").await, Some(0.0));
        let part = stats(registry).await["parts"][0].take();
        let own = &part["degradations"][0];
        assert_eq!((&part["state"], &own["name"]), (&"degraded".into(), &"redis".into()), "{part}");
        let meaning = own["meaning"].as_str().expect("a sentence");
        let start = format!(
            "the server is not supported: EVAL or EVALSHA is unknown, or refused to this user: {reads}"
        );
        assert!(meaning.starts_with(&start), "{meaning}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn purge_of_a_registered_cache_by_tag_invalidates_its_entries() {
    let (cache, registry) = registered();
    let folder = tempfile::tempdir().expect("a temporary folder");
    let token = Token::load_or_create(folder.path()).expect("a token");
    let router = Admin::new(registry).token(token.clone()).router();
    let prices: View<str, u32> = cache.view("price");
    let written = prices.write_with("apple", 42, &WriteOptions::new().tag("fruit")).await;
    assert_eq!(written.ok(), Some(Reach::Everywhere));
    assert_eq!(prices.write("nail", 1).await.ok(), Some(Reach::Everywhere));

    let purge = |body: &'static str| {
        let request = Request::post("/api/purge")
            .header(HOST, "localhost")
            .header(AUTHORIZATION, format!("Bearer {}", token.as_str()))
            .header(CONTENT_TYPE, "application/json");
        router.clone().oneshot(request.body(Body::from(body)).expect("a request"))
    };
    let refused = purge(r#"{"part": "shop", "prefix": "a"}"#).await.expect("infallible");
    assert_eq!(refused.status(), StatusCode::UNPROCESSABLE_ENTITY);
    let body = refused.into_body().collect().await.expect("a body").to_bytes();
    assert_eq!(body, r#"{"error":"a cache cannot purge prefix \"a\"; expected a tag, or all: true"}"#);
    let purged = purge(r#"{"part": "shop", "tag": "fruit"}"#).await.expect("infallible");
    assert_eq!(purged.status(), StatusCode::OK);
    assert!(prices.read("apple").await.is_none() && prices.read("nail").await.is_some());
    purge(r#"{"part": "shop", "all": true}"#).await.expect("infallible");
    assert!(prices.read("nail").await.is_none());
}

#[tokio::test(flavor = "current_thread")]
async fn tags_of_hits_are_in_the_stats_with_their_errors() {
    let (cache, registry) = registered();
    let prices: View<str, u32> = cache.view("price");
    let written = prices.write_with("apple", 42, &WriteOptions::new().tag("fruit")).await;
    assert_eq!(written.ok(), Some(Reach::Everywhere));
    for _ in 0..1_000 {
        assert!(prices.read("apple").await.is_some());
    }
    let top = &stats(registry).await["parts"][0]["top"]["tags"][0];
    assert_eq!(top["name"], "fruit");
    let [count, error] = ["count", "error"].map(|name| top[name].as_u64().expect("a number"));
    assert!(count.abs_diff(1_000) <= 3 * error && error > 0, "{top}");
}
