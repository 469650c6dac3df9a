//! The cache hints of a schema decide: the lowest TTL, and nothing personal.

use crate::api::Site;

#[tokio::test]
async fn lowest_hint_is_the_ttl() {
    let site = Site::new();
    for (document, ttl) in [("{echo}", 60), ("{stock}", 5), ("{echo stock}", 5), ("{echo unhinted}", 60)] {
        assert!(site.query(document).await.is_stored(), "{document}");
        assert_eq!(site.query(document).await.cache_status, format!("hit; ttl={ttl}"), "{document}");
    }
}

#[tokio::test]
async fn query_without_a_hint_is_not_stored() {
    let site = Site::new();
    assert_eq!(site.query("{unhinted}").await.cache_status, "fwd=uri-miss; detail=not-opted-in");
    assert_eq!(site.query("{__typename}").await.cache_status, "fwd=uri-miss; detail=not-opted-in");
}

#[tokio::test]
async fn no_cache_forbids_storing() {
    let site = Site::new();
    for document in ["{now}", "{now stock}", "{...F} fragment F on Query{now}"] {
        let reply = site.query(document).await;
        assert_eq!(reply.cache_status, "fwd=uri-miss; detail=forbidden", "{document}");
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn private_without_a_gate_is_not_stored() {
    let site = Site::new();
    for document in ["{basket}", "{echo basket}", "{...F} fragment F on Query{basket}"] {
        let reply = site.query(document).await;
        assert_eq!(reply.cache_status, "fwd=uri-miss; detail=scope", "{document}");
    }
    assert_eq!(site.cache.stats().entries, 0);
}
