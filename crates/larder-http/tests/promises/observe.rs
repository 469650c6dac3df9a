//! Nothing is silent: every request is counted once, under the name that its answer bears.

use larder_http::{Cached, Reason};

use crate::support::*;

#[tokio::test]
async fn each_request_is_counted_once() {
    let site = Site::new(|request, _| async move {
        match request.uri().path() {
            "/plain" => plain("x"),
            _ => with(plain("x"), Cached::ttl(SECOND).swr(SECOND)),
        }
    });
    site.get("/").await;
    site.get("/").await;
    site.clock.advance(SECOND);
    site.get("/").await;
    settle().await;
    site.get("/plain").await;
    site.get("/plain").await;
    site.send(request("POST", "/", &[])).await;
    site.send(get("/", &[("authorization", "x")])).await;
    site.send(get("/nothing", &[("cache-control", "only-if-cached")])).await;
    let stats = site.cache.stats();
    assert_eq!((stats.hits, stats.stale_hits, stats.misses, stats.collapsed), (1, 1, 3, 0));
    assert_eq!(stats.bypassed, [(Reason::Method, 1), (Reason::Authorization, 1), (Reason::OnlyIfCached, 1)]);
    assert_eq!(stats.bypassed_total(), 3);
    assert_eq!(stats.unstored, [(Reason::HitForMiss, 1), (Reason::NotOptedIn, 1)]);
    assert_eq!(stats.hit_ratio(), Some(0.4));
    assert_eq!(stats.miss_time.count(), 3);
}

#[tokio::test]
async fn one_hit_in_sixteen_is_timed_for_all() {
    let site = Site::counting();
    site.get("/").await;
    for _ in 0..160 {
        site.get("/").await;
    }
    assert_eq!(site.cache.stats().hit_time.count(), 160);
}

#[tokio::test]
async fn a_new_cache_has_no_hit_ratio() {
    assert_eq!(Site::counting().cache.stats().hit_ratio(), None);
}

#[tokio::test]
async fn only_if_cached_is_answered_504_when_nothing_is() {
    let site = Site::counting();
    let ask = || site.send(get("/", &[("cache-control", "only-if-cached")]));
    let answer = ask().await;
    assert_eq!((answer.status.as_u16(), answer.says()), (504, "fwd=bypass; detail=only-if-cached"));
    site.get("/").await;
    assert_eq!(ask().await.body, "1");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn the_key_is_not_shown() {
    let site = Site::counting();
    for _ in 0..2 {
        let answer = site.get("/secret-path?token=1").await;
        for value in answer.headers.values() {
            assert!(!value.to_str().unwrap().contains("secret-path"));
        }
    }
}
