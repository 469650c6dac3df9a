//! Every decision is reported: each request is counted once, under the outcome in its `Cache-Status`.

use larder_http::{Cached, Reason, TopKey};

use crate::support::*;

#[tokio::test]
async fn requests_are_counted_once() {
    let site = Site::new(|request, _| async move {
        match request.uri().path() {
            "/plain" => plain("x"),
            _ => with_cached(plain("x"), Cached::ttl(SECOND).swr(SECOND)),
        }
    });
    site.get("/").await;
    site.get("/").await;
    site.clock.advance(SECOND);
    site.get("/").await;
    settle().await;
    site.get("/plain").await;
    site.get("/plain").await;
    site.send(get("/", &[("authorization", "x")])).await;
    site.send(request("POST", "/", &[])).await;
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
async fn every_sixteenth_hit_is_timed() {
    let site = Site::counting();
    site.get("/").await;
    for _ in 0..160 {
        site.get("/").await;
    }
    assert_eq!(site.cache.stats().hit_time.count(), 160);
}

#[tokio::test]
async fn hit_ratio_before_first_request_is_none() {
    assert_eq!(Site::counting().cache.stats().hit_ratio(), None);
}

#[tokio::test]
async fn only_if_cached_with_credentials_is_504() {
    let site = Site::counting();
    site.get("/").await;
    let response = site.send(get("/", &[("cache-control", "only-if-cached"), ("cookie", "a=b")])).await;
    assert_eq!((response.status.as_u16(), site.calls()), (504, 1));
    assert_eq!(response.cache_status(), "fwd=bypass; detail=only-if-cached");
    for field in [("if-match", "\"a\""), ("upgrade", "x"), ("cache-control", "no-store")] {
        let response = site.send(get("/", &[("cache-control", "only-if-cached"), field])).await;
        assert_eq!(response.cache_status(), "fwd=bypass; detail=only-if-cached", "{field:?}");
    }
}

#[tokio::test]
async fn only_if_cached_without_entry_is_504() {
    let site = Site::counting();
    let send = || site.send(get("/", &[("cache-control", "only-if-cached")]));
    let response = send().await;
    assert_eq!(
        (response.status.as_u16(), response.cache_status()),
        (504, "fwd=bypass; detail=only-if-cached")
    );
    site.get("/").await;
    assert_eq!(send().await.body, "1");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn key_is_not_in_response_headers() {
    let site = Site::counting();
    for _ in 0..2 {
        let response = site.get("/secret-path?token=1").await;
        for value in response.headers.values() {
            assert!(!value.to_str().unwrap().contains("secret-path"));
        }
    }
}

#[tokio::test]
async fn misses_are_counted_by_cause() {
    let site = Site::new(|request, _| async move {
        let is_stored = !request.uri().path().starts_with("/never");
        if is_stored { with_cached(plain("x"), Cached::ttl(MINUTE).tag("all")) } else { plain("x") }
    });
    let visit = async |path: &str| {
        for n in 0..1_000 {
            site.get(&format!("/{path}/{n}")).await;
        }
    };
    let causes = || site.cache.stats().miss_causes;
    visit("a").await;
    let first = causes().first;
    assert!((400..1_600).contains(&first), "an estimate of 1000: {:?}", causes());
    visit("a").await;
    assert_eq!(causes().first, first, "hits have no cause");
    site.clock.advance(MINUTE * 2);
    visit("a").await;
    assert_eq!(causes().expired, first);
    site.cache.purge_tag("all");
    visit("a").await;
    assert_eq!(causes().purged, 1_000, "each is found, and is not served");
    site.cache.purge_all();
    visit("a").await;
    assert_eq!(causes().purged, 1_000 + first);
    visit("never").await;
    visit("never").await;
    assert!((400..1_600).contains(&causes().not_stored), "{:?}", causes());
}

#[tokio::test]
async fn hits_are_counted_by_path_by_label_and_by_tag() {
    let site = Site::new(|request, _| async move {
        let settings = Cached::ttl(MINUTE).label("route", "/products/{id}").tag("products");
        let path = request.uri().path().to_owned();
        with_cached(plain("x"), settings.tag(format!("product:{}", &path[1..])))
    });
    for n in 0..4_000 {
        site.get(if n % 4 == 0 { "/a?n=1" } else { "/b" }).await;
    }
    let stats = site.cache.stats();
    let names = |top: &[TopKey]| -> Vec<String> {
        top.iter().map(|top| String::from_utf8_lossy(&top.key).into_owned()).collect()
    };
    assert_eq!(names(&stats.top_paths), ["/b", "/a"]);
    assert_eq!(names(&stats.top_routes), ["/products/{id}"]);
    assert_eq!(names(&stats.top_tags), ["products", "product:b", "product:a"]);
    let all = [&stats.top_routes[0], &stats.top_tags[0]];
    assert!(all.iter().all(|top| top.count.abs_diff(3_998) <= 3 * top.error), "{all:?}");
    // All of a hit is drawn at once.
    assert_eq!(stats.top_paths.iter().map(|top| top.count).sum::<u64>(), stats.top_routes[0].count);
}
