//! Memory is bounded, whatever clients request.

use crate::support::*;

#[tokio::test]
async fn distinct_queries_stay_within_max_bytes() {
    let site = Site::with(|b| b.max_bytes(256 << 10), |_, _| async { cached(vec![b'x'; 1000]) });
    for n in 0..2000 {
        site.get(&format!("/?n={n}")).await;
        assert!(site.cache.stats().bytes <= 256 << 10);
    }
    let stats = site.cache.stats();
    assert!(stats.entries > 50, "{} entries in 256 KiB", stats.entries);
    assert_eq!((stats.stores, stats.capacity), (2000, 256 << 10));
}

#[tokio::test]
async fn variants_per_resource_are_limited() {
    let site = Site::new(|_, _| async { field(cached("x"), "vary", "user-agent") });
    for n in 0..1000 {
        site.send(get("/", &[("user-agent", &n.to_string())])).await;
    }
    assert_eq!(site.cache.stats().entries, 17);
}

#[tokio::test]
async fn response_larger_than_cache_is_served_and_reported() {
    let site = Site::with(|b| b.max_bytes(8192), |_, _| async { cached(vec![b'x'; 10_000]) });
    let response = site.get("/").await;
    assert_eq!((response.cache_status(), response.body.len()), ("fwd=uri-miss; detail=refused", 10_000));
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn variant_larger_than_cache_is_served_and_reported() {
    let handler = |_, n: usize| async move {
        // The third response varies by another field.
        let vary = if n < 3 { "user-agent" } else { "accept" };
        field(cached(vec![b'x'; if n == 2 { 100 } else { 10_000 }]), "vary", vary)
    };
    let site = Site::with(|b| b.max_bytes(8192), handler);
    let response = site.get("/").await;
    assert_eq!((response.cache_status(), response.body.len()), ("fwd=uri-miss; detail=refused", 10_000));
    let stats = site.cache.stats();
    assert_eq!((stats.entries, stats.stores), (0, 0), "no record leads to it");

    site.clock.advance(SECOND * 10);
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(
        site.send(get("/", &[("user-agent", "b")])).await.cache_status(),
        "fwd=vary-miss; detail=refused"
    );
    assert_eq!(site.cache.stats().stores, 1);
}

#[tokio::test]
async fn weight_includes_key_headers_and_body() {
    let site = Site::new(|_, _| async { field(cached(vec![b'x'; 1000]), "x-long", &"y".repeat(500)) });
    site.get(&format!("/{}", "k".repeat(300))).await;
    let bytes = site.cache.stats().bytes;
    assert!((1800..4000).contains(&bytes), "{bytes}");
}

#[tokio::test]
async fn weight_includes_variant_keys_in_their_record() {
    let site = Site::new(|_, _| async { field(cached("x"), "vary", "x-long") });
    for n in 0..16 {
        site.send(get("/", &[("x-long", &format!("{n}{}", "v".repeat(8 << 10)))])).await;
    }
    let bytes = site.cache.stats().bytes;
    let in_keys = 16 * (8 << 10);
    assert!(bytes > 2 * in_keys, "{bytes}: a key stands in its entry and in the record");
}

#[tokio::test]
async fn too_long_variant_key_bypasses() {
    let site = Site::new(|_, _| async { field(cached("x"), "vary", "x-long") });
    let long = "v".repeat(17 << 10);
    let statuses = ["fwd=uri-miss; detail=variant-too-long", "fwd=bypass; detail=variant-too-long"];
    assert_eq!(site.send(get("/", &[("x-long", &long)])).await.cache_status(), statuses[0]);
    site.clock.advance(SECOND * 10);
    site.get("/").await;
    assert_eq!(site.send(get("/", &[("x-long", &long)])).await.cache_status(), statuses[1]);
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=60");
}
