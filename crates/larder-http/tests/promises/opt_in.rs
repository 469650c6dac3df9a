//! Nothing is cached unless the handler, or nested code, opts in. Several settings merge.

use std::time::Duration;

use http::StatusCode;
use larder_http::{CacheCtx, Cached, ForbiddenBecause, Outcome, Reason};
use tower::ServiceExt;

use crate::support::*;

#[tokio::test]
async fn response_without_opt_in_is_not_stored() {
    let site = Site::new(|_, call| async move { plain(call.to_string()) });
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=not-opted-in");
    assert_eq!(site.get("/").await.body, "2");
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn settings_in_response_apply() {
    let site = Site::counting();
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
    let second = site.get("/").await;
    assert_eq!((second.cache_status(), &second.body[..]), ("hit; ttl=60", &b"1"[..]));
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn settings_from_nested_code_survive_rebuilt_response() {
    let site = Site::new(|request, call| async move {
        request.extensions().get::<CacheCtx>().unwrap().ttl(MINUTE);
        let original = cached(call.to_string());
        // As a middleware does that builds a new response from the body.
        http::Response::new(original.into_body())
    });
    site.get("/").await;
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=60");
}

#[tokio::test]
async fn lowest_ttl_applies() {
    let site = Site::new(|request, call| async move {
        let ctx = request.extensions().get::<CacheCtx>().unwrap();
        ctx.ttl(SECOND * 10);
        ctx.ttl(SECOND * 30);
        cached(call.to_string())
    });
    site.get("/").await;
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=10");
    site.clock.advance(SECOND * 10);
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn forbid_wins_and_its_reason_is_not_sent() {
    let site = Site::new(|request, _| async move {
        request.extensions().get::<CacheCtx>().unwrap().forbid("shows the cart");
        cached("x")
    });
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    assert_eq!(response.headers()["cache-status"], "larder; fwd=uri-miss; detail=forbidden");
    assert_eq!(response.extensions().get(), Some(&ForbiddenBecause("shows the cart")));
    assert_eq!(site.get("/").await.outcome.as_str(), "miss");
}

#[tokio::test]
async fn zero_ttl_is_not_stored() {
    let site = Site::new(|_, _| async { with_cached(plain("x"), Cached::ttl(Duration::ZERO)) });
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=zero-ttl");
}

#[tokio::test]
async fn non_200_requires_opt_in_by_handler_or_builder() {
    let missing = |settings: Cached| {
        move |_, call: usize| {
            let mut reply = with_cached(plain(call.to_string()), settings.clone());
            *reply.status_mut() = StatusCode::NOT_FOUND;
            async move { reply }
        }
    };
    let site = Site::new(missing(Cached::ttl(MINUTE)));
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=status");

    let by_handler = Site::new(missing(Cached::ttl(MINUTE).cached_errors([StatusCode::NOT_FOUND])));
    let by_builder = Site::with(|b| b.cached_errors([StatusCode::NOT_FOUND]), missing(Cached::ttl(MINUTE)));
    for site in [by_handler, by_builder] {
        site.get("/").await;
        let hit = site.get("/").await;
        assert_eq!((hit.cache_status(), hit.status), ("hit; ttl=60", StatusCode::NOT_FOUND));
    }
}

#[tokio::test]
async fn statuses_of_builder_and_handler_add_up() {
    let site = Site::with(
        |b| b.cached_errors([StatusCode::NOT_FOUND]),
        |request, _| async move {
            let mut reply = with_cached(plain("x"), Cached::ttl(MINUTE).cached_errors([StatusCode::GONE]));
            *reply.status_mut() = request.uri().path()[1..].parse().unwrap();
            reply
        },
    );
    for (status, stored) in [("404", true), ("410", true), ("403", false), ("500", false), ("200", true)] {
        site.get(&format!("/{status}")).await;
        let second = site.get(&format!("/{status}")).await;
        assert_eq!((second.status.as_str(), second.cache_status() == "hit; ttl=60"), (status, stored));
    }
}

#[tokio::test]
async fn client_provoked_statuses_are_never_stored() {
    for code in [400, 413, 414, 431] {
        let status = StatusCode::from_u16(code).unwrap();
        let site = Site::new(move |_, _| async move {
            let mut reply = with_cached(plain("x"), Cached::ttl(MINUTE).cached_errors([status]));
            *reply.status_mut() = status;
            reply
        });
        let outcome = site.get("/").await.outcome;
        assert!(matches!(outcome, Outcome::Miss { unstored: Some(Reason::Status), .. }), "{code}");
    }
}

#[tokio::test]
async fn cache_control_of_the_response_limits_the_ttl() {
    for (directive, status) in [
        ("s-maxage=5", "hit; ttl=5"),
        ("s-maxage=600", "hit; ttl=60"),
        ("s-maxage=\"5\"", "hit; ttl=5"),
        ("s-maxage=5, s-maxage=7", "hit; ttl=5"),
        ("max-age=5", "hit; ttl=60"),
        ("s-maxage=0", "fwd=uri-miss; detail=hit-for-miss"),
        ("s-maxage=x", "fwd=uri-miss; detail=hit-for-miss"),
        ("no-cache", "fwd=uri-miss; detail=hit-for-miss"),
        ("no-cache=\"x-user\"", "fwd=uri-miss; detail=hit-for-miss"),
    ] {
        let site = Site::new(move |_, _| async move { field(cached("x"), "cache-control", directive) });
        site.get("/").await;
        assert_eq!(site.get("/").await.cache_status(), status, "{directive}");
    }
}
