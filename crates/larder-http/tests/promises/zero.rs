//! Zero, false and empty are values: such a body is stored, and such an option or setting applies.

use std::time::Duration;

use larder_http::{Builder, CacheCtx, Cached};
use tower::ServiceExt;

use crate::support::*;

#[tokio::test]
async fn falsy_bodies_are_stored_and_hit() {
    for body in ["false", "null", "0", "0.0", "\"\"", "[]", "{}", " ", ""] {
        let site =
            Site::new(move |_, _| async move { field(cached(body), "content-type", "application/json") });
        site.get("/").await;
        let hit = site.get("/").await;
        assert_eq!((hit.cache_status(), &hit.body[..]), ("hit; ttl=60", body.as_bytes()));
        assert_eq!(hit.header("content-type"), Some("application/json"));
        assert_eq!(site.calls(), 1);
    }
}

#[tokio::test]
async fn zero_from_nested_code_wins_over_the_handler() {
    let site_with = |nested: fn(&CacheCtx)| {
        Site::new(move |request, call| async move {
            nested(request.extensions().get::<CacheCtx>().unwrap());
            with_cached(plain(call.to_string()), Cached::ttl(SECOND).swr(MINUTE))
        })
    };
    let site = site_with(|ctx| ctx.ttl(Duration::ZERO));
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=zero-ttl");

    let site = site_with(|ctx| ctx.swr(Duration::ZERO));
    site.get("/").await;
    site.clock.advance(SECOND);
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored", "no grace period");

    let site = site_with(|_| {});
    site.get("/").await;
    site.clock.advance(SECOND);
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=0; detail=stale");
}

/// The statuses of two concurrent requests to a handler that replies after `delay`, and after some other tasks.
async fn two_requests(delay: Duration, options: fn(Builder) -> Builder) -> [String; 2] {
    let site = Site::with(options, move |_, call| async move {
        settle().await;
        if !delay.is_zero() {
            tokio::time::sleep(delay).await;
        }
        cached(call.to_string())
    });
    let start = || tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    let tasks = [start(), start()];
    let mut statuses = Vec::new();
    for task in tasks {
        let response = CollectedResponse::read(task.await.unwrap().unwrap()).await.unwrap();
        statuses.push(response.cache_status().to_owned());
    }
    statuses.try_into().unwrap()
}

#[tokio::test]
async fn wait_timeout_of_zero_never_waits() {
    let [first, second] = two_requests(Duration::ZERO, |b| b.wait_timeout(Duration::ZERO)).await;
    assert_eq!(
        (first.as_str(), second.as_str()),
        ("fwd=uri-miss; stored", "fwd=uri-miss; detail=wait-timeout")
    );
}

#[tokio::test(start_paused = true)]
async fn options_of_zero_apply() {
    const STORED: &str = "fwd=uri-miss; stored";
    for (options, first, second) in [
        ((|b| b) as fn(Builder) -> Builder, STORED, Some("fwd=uri-miss; collapsed")),
        (|b| b.max_waiters(0), STORED, Some("fwd=uri-miss; detail=too-many-waiters")),
        // The second request may see the first one running, or ended.
        (|b| b.fill_timeout(Duration::ZERO), "fwd=uri-miss; detail=fill-timeout", None),
        (|b| b.max_body_bytes(0), "fwd=uri-miss; detail=body-too-large", None),
    ] {
        let statuses = two_requests(SECOND, options).await;
        assert_eq!(statuses[0], first);
        assert!(second.map_or(statuses[1] != STORED, |second| statuses[1] == second), "{statuses:?}");
    }
}

#[tokio::test]
async fn empty_lists_allow_nothing() {
    let site = Site::with(
        |b| b.cached_errors([]).ignored_cookies([""; 0]).credential_fields([]),
        |request, call| async move {
            let mut reply = with_cached(plain(call.to_string()), Cached::ttl(MINUTE).cached_errors([]));
            if request.uri().path() == "/missing" {
                *reply.status_mut() = http::StatusCode::NOT_FOUND;
            }
            reply
        },
    );
    assert_eq!(site.get("/missing").await.cache_status(), "fwd=uri-miss; detail=status");
    assert_eq!(site.send(get("/", &[("cookie", "a=b")])).await.cache_status(), "fwd=uri-miss; detail=cookie");
    assert_eq!(
        site.send(get("/", &[("authorization", "x")])).await.cache_status(),
        "fwd=uri-miss; detail=authorization"
    );
}
