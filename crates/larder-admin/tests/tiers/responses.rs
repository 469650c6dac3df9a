//! Response caches on the dashboard: their rows, metrics, explanations and purges by one call.

use axum::body::Body;
use axum::routing::get;
use http::header::{AUTHORIZATION, CONTENT_TYPE, COOKIE, HOST};
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder_admin::{Admin, Registry, Token};
use larder_http::{Cached, HttpCache};
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt;

async fn send(router: &axum::Router, request: Request<Body>) -> (StatusCode, String) {
    let response = router.clone().oneshot(request).await.expect("infallible");
    let (head, body) = response.into_parts();
    let body = body.collect().await.expect("a body").to_bytes();
    (head.status, String::from_utf8(body.to_vec()).expect("a text"))
}

async fn page(router: &axum::Router, path: &str) -> String {
    let request = Request::get(path).header(HOST, "localhost").body(Body::empty()).expect("a request");
    send(router, request).await.1
}

#[tokio::test]
async fn registered_response_cache_has_rows_metrics_explanations_and_purges() {
    let cache = HttpCache::builder().max_bytes(1 << 20).build().expect("valid options");
    let registry = Registry::new();
    registry.register_http("responses", &cache);
    let folder = tempfile::tempdir().expect("a temporary folder");
    let token = Token::load_or_create(folder.path()).expect("a token");
    let admin = Admin::new(registry).token(token.clone()).router();
    let products = || async { (Cached::ttl(Duration::from_secs(60)).tag("products"), "jam") };
    let service = cache.in_front_of(axum::Router::new().route("/products", get(products)));
    let ask = async |cookie: Option<&str>| {
        let request = Request::get("/products").header(HOST, "shop.example");
        let request = cookie.into_iter().fold(request, |request, cookie| request.header(COOKIE, cookie));
        send(&service, request.body(Body::empty()).expect("a request")).await
    };
    for cookie in [None, None, None, Some("a=b")] {
        assert_eq!(ask(cookie).await, (StatusCode::OK, "jam".to_owned()));
    }

    let stats: Value = serde_json::from_str(&page(&admin, "/api/stats").await).expect("JSON");
    let part = &stats["parts"][0];
    let tier = &part["tiers"][0];
    assert_eq!(
        (&part["part"], &part["kind"], &tier["tier"]),
        (&json!("responses"), &json!("http"), &json!("http"))
    );
    assert_eq!((&tier["lookups"]["hit"], &tier["lookups"]["miss"]), (&json!(2), &json!(1)), "{tier}");
    assert_eq!(part["reasons"]["bypass"], json!({ "cookie": 1 }));
    assert_eq!(part["purge_targets"], json!(["tag", "uri", "prefix", "principal", "all"]));
    let metrics = page(&admin, "/metrics").await;
    for line in [
        r#"larder_tier_lookups_total{part="responses",tier="http",outcome="hit"} 2"#,
        r#"larder_uncached_responses_total{part="responses",outcome="bypass",reason="cookie"} 1"#,
    ] {
        assert!(metrics.lines().any(|own| own == line), "{line}\n{metrics}");
    }

    let explained = async || {
        let path = "/api/explain?target=http://shop.example/products";
        let mut answer: Value = serde_json::from_str(&page(&admin, path).await).expect("JSON");
        answer["parts"][0].take()
    };
    let before = explained().await;
    assert_eq!(
        (&before["part"], &before["verdict"]),
        (&json!("responses"), &json!("answered from the cache"))
    );
    assert_eq!(before["facts"]["tags"], json!(["products"]));
    let purge = Request::post("/api/purge")
        .header(HOST, "localhost")
        .header(AUTHORIZATION, format!("Bearer {}", token.as_str()))
        .header(CONTENT_TYPE, "application/json")
        .body(Body::from(r#"{"part": "responses", "tag": "products"}"#))
        .expect("a request");
    assert_eq!(send(&admin, purge).await.0, StatusCode::OK);
    assert_eq!(explained().await["verdict"], "purged: the handler runs");
}
