//! An inspection says what a request would get, and changes nothing.

use http::{Request, StatusCode};
use larder_http::{Access, Cached, Inspection, Reason, Scope};

use crate::support::*;

fn inspect(site: &Site, fields: &[(&str, &str)]) -> Inspection {
    site.cache.inspect(&get("/a?b", fields))
}

#[tokio::test]
async fn inspection_shows_the_response_that_would_be_served() {
    let site = Site::new(|_, _| async {
        with_cached(plain("body"), Cached::ttl(SECOND * 10).swr(SECOND * 30).tag("one").tag("two"))
    });
    assert!(inspect(&site, &[]).response.is_none());
    site.get("/a?b").await;
    site.clock.advance(SECOND * 4);
    let before = site.cache.stats();
    let found = inspect(&site, &[]);
    let response = found.response.expect("a response");
    assert_eq!((response.status, response.is_filling), (StatusCode::OK, false));
    assert_eq!(response.tags, ["one", "two"]);
    assert_eq!((response.age, response.ttl, response.grace), (SECOND * 4, SECOND * 6, SECOND * 30));
    assert_eq!((found.bypass, found.is_purged, found.is_hit_for_miss), (None, false, false));
    // An absolute URI has the same key as a target with a host.
    let absolute = Request::get("http://site.example/a?b").body(String::new()).unwrap();
    assert!(site.cache.inspect(&absolute).response.is_some());
    site.clock.advance(SECOND * 10);
    let stale = inspect(&site, &[]).response.expect("a stale response");
    assert_eq!((stale.ttl.as_secs(), stale.grace), (0, SECOND * 26));
    let after = site.cache.stats();
    assert_eq!((after.hits, after.misses, after.refreshes), (before.hits, before.misses, before.refreshes));
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn inspection_says_why_nothing_would_be_served() {
    let site = Site::new(|_, _| async { with_cached(plain("x"), Cached::ttl(MINUTE).tag("tag")) });
    site.get("/a?b").await;
    assert_eq!(inspect(&site, &[("cookie", "session=1")]).bypass, Some(Reason::Cookie));
    assert_eq!(inspect(&site, &[("cache-control", "no-store")]).bypass, Some(Reason::RequestNoStore));
    site.cache.purge_tag("tag");
    let purged = inspect(&site, &[]);
    assert!(purged.is_purged && purged.response.is_none());

    let unstored = Site::new(|_, _| async { plain("x") });
    unstored.get("/a?b").await;
    assert!(inspect(&unstored, &[]).is_hit_for_miss);
}

#[tokio::test]
async fn inspection_finds_the_variant_and_the_scope() {
    let varied = Site::new(|_, _| async { field(cached("x"), "vary", "x-variant") });
    varied.send(get("/a?b", &[("x-variant", "1")])).await;
    let found = inspect(&varied, &[("x-variant", "1")]);
    assert_eq!(found.vary, ["x-variant"]);
    assert!(found.response.is_some());
    assert!(inspect(&varied, &[("x-variant", "2")]).response.is_none());

    let gated = Site::with(
        |builder| builder.gate(|_| async { Access::Allowed }),
        |_, _| async { with_cached(plain("x"), Cached::ttl(MINUTE).scope(Scope::Gated)) },
    );
    gated.get("/a?b").await;
    let found = inspect(&gated, &[("authorization", "Bearer x")]);
    assert_eq!((found.scope, found.bypass), (Some(Scope::Gated), None));
    assert!(found.response.is_some());
}
