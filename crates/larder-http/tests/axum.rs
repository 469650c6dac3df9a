//! The helpers for axum: a wish in the return value, the handle as an extractor, a whole router behind the layer.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::get;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder_http::{CacheCtx, Cached, HttpCache};
use tower::ServiceExt;

const MINUTE: Duration = Duration::from_secs(60);

async fn ask(router: &Router, cache: &HttpCache, path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).header("host", "site.example").body(Body::empty()).unwrap();
    let response = cache.in_front_of(router.clone()).oneshot(request).await.unwrap();
    let says = response.headers()["cache-status"].to_str().unwrap().to_owned();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, says, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn handlers_speak_in_either_way() {
    let router =
        Router::new().route("/returned", get(|| async { (Cached::ttl(MINUTE).tag("t"), "returned") })).route(
            "/extracted",
            get(|ctx: CacheCtx| async move {
                ctx.ttl(MINUTE);
                "extracted"
            }),
        );
    let cache = HttpCache::builder().build().unwrap();
    for path in ["/returned", "/extracted"] {
        let (_, says, body) = ask(&router, &cache, path).await;
        assert_eq!((says.as_str(), body.as_str()), ("larder; fwd=uri-miss; stored", &path[1..]));
        assert!(ask(&router, &cache, path).await.1.starts_with("larder; hit"), "{path}");
    }
}

#[tokio::test]
async fn the_extractor_works_without_the_layer() {
    let router = Router::new().route("/", get(|ctx: CacheCtx| async move { ctx.ttl(MINUTE) }));
    let request = Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn a_missing_route_is_not_cached_and_a_cached_one_keeps_its_status() {
    let gone = || async {
        let wish = Cached::ttl(MINUTE).cached_errors([StatusCode::GONE]);
        (StatusCode::GONE, wish, "gone").into_response()
    };
    let router = Router::new().route("/gone", get(gone));
    let cache = HttpCache::builder().build().unwrap();
    assert_eq!(ask(&router, &cache, "/nowhere").await.0, StatusCode::NOT_FOUND);
    assert_eq!(ask(&router, &cache, "/nowhere").await.1, "larder; fwd=uri-miss; detail=hit-for-miss");
    ask(&router, &cache, "/gone").await;
    let (status, says, _) = ask(&router, &cache, "/gone").await;
    assert_eq!((status, says.starts_with("larder; hit")), (StatusCode::GONE, true));
}
