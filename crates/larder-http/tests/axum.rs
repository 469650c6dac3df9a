//! Integration with axum: settings in the return value, the handle as an extractor, a router behind the cache.

use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::IntoResponse;
use axum::routing::{get, post};
use http::header::ACCEPT_LANGUAGE;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder_http::{CacheCtx, Cached, HttpCache, RequestFields};
use tower::ServiceExt;

const MINUTE: Duration = Duration::from_secs(60);

async fn send(router: &Router, cache: &HttpCache, path: &str) -> (StatusCode, String, String) {
    let request = Request::get(path).header("host", "site.example").body(Body::empty()).unwrap();
    let response = cache.in_front_of(router.clone()).oneshot(request).await.unwrap();
    let cache_status = response.headers()["cache-status"].to_str().unwrap().to_owned();
    let status = response.status();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, cache_status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn settings_apply_from_return_value_and_from_extractor() {
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
        let (_, cache_status, body) = send(&router, &cache, path).await;
        assert_eq!((cache_status.as_str(), body.as_str()), ("larder; fwd=uri-miss; stored", &path[1..]));
        assert!(send(&router, &cache, path).await.1.starts_with("larder; hit"), "{path}");
    }
}

#[tokio::test]
async fn fields_that_the_extractor_reads_are_noted() {
    let greet = |fields: RequestFields| async move {
        let is_german = fields.get(&ACCEPT_LANGUAGE).is_some();
        (Cached::ttl(MINUTE), if is_german { "Hallo" } else { "Hello" })
    };
    let cache = HttpCache::builder().build().unwrap();
    let (_, cache_status, body) = send(&Router::new().route("/", get(greet)), &cache, "/").await;
    assert_eq!((cache_status.as_str(), &*body), ("larder; fwd=uri-miss; detail=unkeyed-field", "Hello"));
}

#[tokio::test]
async fn extractor_without_layer_has_no_effect() {
    let router = Router::new().route("/", get(|ctx: CacheCtx| async move { ctx.ttl(MINUTE) }));
    let request = Request::get("/").body(Body::empty()).unwrap();
    assert_eq!(router.oneshot(request).await.unwrap().status(), StatusCode::OK);
}

#[tokio::test]
async fn missing_route_is_not_cached_and_opted_in_status_is_replayed() {
    let gone = || async {
        let settings = Cached::ttl(MINUTE).cached_errors([StatusCode::GONE]);
        (StatusCode::GONE, settings, "gone").into_response()
    };
    let router = Router::new().route("/gone", get(gone));
    let cache = HttpCache::builder().build().unwrap();
    assert_eq!(send(&router, &cache, "/nowhere").await.0, StatusCode::NOT_FOUND);
    assert_eq!(send(&router, &cache, "/nowhere").await.1, "larder; fwd=uri-miss; detail=hit-for-miss");
    send(&router, &cache, "/gone").await;
    let (status, cache_status, _) = send(&router, &cache, "/gone").await;
    assert_eq!((status, cache_status.starts_with("larder; hit")), (StatusCode::GONE, true));
}

fn product() -> Router {
    Router::new().route("/{id}", get(|| async { (Cached::ttl(MINUTE), "x") }))
}

/// Sends requests for two products, most of which are hits, and returns the routes that the cache has counted.
async fn counted_routes(service: Router, cache: &HttpCache) -> Vec<String> {
    for n in 0..1_000 {
        let request = Request::get(format!("/products/{}", n % 2)).header("host", "site.example");
        service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    }
    let stats = cache.stats();
    assert_eq!((stats.hits, stats.misses), (998, 2));
    stats.top_routes.iter().map(|top| String::from_utf8_lossy(&top.key).into_owned()).collect()
}

#[tokio::test]
async fn hits_are_counted_by_route_in_front_of_a_router_and_inside_of_it() {
    let cache = HttpCache::builder().build().unwrap();
    let in_front = cache.in_front_of(Router::new().nest("/products", product()));
    assert_eq!(counted_routes(in_front, &cache).await, ["/products/{id}"]);

    let cache = HttpCache::builder().build().unwrap();
    let inside = Router::new().nest("/products", product().layer(cache.layer()));
    assert_eq!(counted_routes(inside, &cache).await, ["/products/{id}"]);
}

/// What a service answers to `target`: the outcome and the body.
async fn answered(service: &Router, target: &str) -> String {
    let request = Request::get(target).header("host", "site.example").body(Body::empty()).unwrap();
    let response = service.clone().oneshot(request).await.unwrap();
    let outcome = response.headers()["cache-status"].to_str().unwrap().to_owned();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    format!("{outcome} {}", String::from_utf8_lossy(&body))
}

#[tokio::test]
async fn nested_routers_that_share_a_cache_share_no_responses() {
    let cache = HttpCache::builder().build().unwrap();
    let tenant = |name: &'static str| {
        let answer = move || async move { (Cached::ttl(MINUTE), name) };
        Router::new()
            .route("/", get(answer))
            .route("/x", get(answer).delete(|| async {}))
            .layer(cache.layer())
    };
    let service = Router::new().nest("/a", tenant("a")).nest("/b", tenant("b"));
    for path in ["", "/x", "/x?q"] {
        for name in ["a", "b"] {
            let target = format!("/{name}{path}");
            assert_eq!(
                answered(&service, &target).await,
                format!("larder; fwd=uri-miss; stored {name}"),
                "{target}"
            );
            let hit = answered(&service, &target).await;
            assert!(
                hit.starts_with("larder; hit; ttl=") && hit.ends_with(&format!(" {name}")),
                "{target}: {hit}"
            );
        }
    }
    // Purges and unsafe methods name the URI as the client sends it.
    assert!(cache.purge_uri("http://site.example/a/x").unwrap());
    assert!(answered(&service, "/a/x").await.contains("stored"));
    let delete = Request::delete("/b/x").header("host", "site.example").body(Body::empty()).unwrap();
    assert_eq!(service.clone().oneshot(delete).await.unwrap().status(), StatusCode::OK);
    assert!(answered(&service, "/b/x").await.contains("stored"));
    assert!(answered(&service, "/a/x").await.contains("hit"));
}

/// The rest of a URI, as a nested router gets it, is what a middleware may have chosen too.
#[tokio::test]
async fn target_that_a_middleware_rewrites_to_a_rest_of_it_is_a_part_of_the_key() {
    let cache = HttpCache::builder().build().unwrap();
    let page = |name: &'static str| get(move || async move { (Cached::ttl(MINUTE), name) });
    let pages = Router::new()
        .route("/admin/page", page("admin"))
        .route("/page", page("page"))
        .route("/", page("root"));
    let cached = cache.in_front_of(pages);
    let rewrite = move |mut request: axum::extract::Request| {
        if let Some(target) = request.headers().get("x-target") {
            *request.uri_mut() = target.to_str().unwrap().parse().unwrap();
        }
        let cached = cached.clone();
        async move { cached.oneshot(request).await.unwrap() }
    };
    let service = Router::new().fallback(rewrite);
    for (target, rewritten, body) in [
        ("/admin/page", Some("/page"), "page"),
        ("/admin/page", None, "admin"),
        ("/page", Some("/"), "root"),
        ("/page", None, "page"),
    ] {
        let request = Request::get(target).header("host", "site.example");
        let request = rewritten.iter().fold(request, |request, target| request.header("x-target", *target));
        let response = service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body, "{target} {rewritten:?}");
    }
}

#[tokio::test]
async fn target_that_a_middleware_rewrites_is_a_part_of_the_key() {
    let cache = HttpCache::builder().build().unwrap();
    let page = |name: &'static str| get(move || async move { (Cached::ttl(MINUTE), name) });
    let pages = Router::new().route("/en/page", page("en")).route("/de/page", page("de"));
    // Rewritten by a field that is not in the key, after axum has noted the URI.
    let change = cache.in_front_of(Router::new().route("/page", post(async || "changed")));
    let cached = cache.in_front_of(pages);
    let rewrite = move |mut request: axum::extract::Request| {
        let is_german = request.headers().contains_key("x-german");
        *request.uri_mut() = if is_german { "/de/page" } else { "/en/page" }.parse().unwrap();
        let cached = cached.clone();
        async move { cached.oneshot(request).await.unwrap() }
    };
    let service = Router::new().route("/page", get(rewrite).post_service(change));
    for (field, body) in [("x-english", "en"), ("x-german", "de"), ("x-english", "en"), ("x-german", "de")] {
        let request = Request::get("/page").header("host", "site.example").header(field, "yes");
        let response = service.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), body);
    }
    cache.purge_uri("http://site.example/page").unwrap();
    assert!(answered(&service, "/page").await.contains("stored"));
    let changed = Request::post("/page").header("host", "site.example").body(Body::empty()).unwrap();
    assert_eq!(service.clone().oneshot(changed).await.unwrap().status(), 200);
    assert!(
        answered(&service, "/page").await.contains("stored"),
        "a change that is not rewritten invalidates it"
    );
}
