//! Purges reach what is stored, and are not for clients.

use super::*;

async fn fresh() -> HttpOrigin {
    HttpOrigin::start(|_| async { reply(200, "page", &[("cache-control", "max-age=60"), ("xkey", "one")]) })
        .await
}

#[tokio::test]
async fn purge_by_a_client_is_refused() {
    let origin = fresh().await;
    let proxy = in_front_of(origin.address).await;
    proxy.get("/").await;
    let purge = "PURGE / HTTP/1.1\r\nHost: site.example\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    let refused = proxy.exchange(purge).await;
    assert!(refused.starts_with("HTTP/1.1 405 "), "{refused}");
    assert!(refused.ends_with("purges are for the admin port\n"), "{refused}");
    assert!(values(&refused, "allow")[0].starts_with("GET, HEAD, "), "{refused}");
    assert_hit(&proxy.get("/").await);
    assert_eq!(origin.requests(), 1);
}

#[tokio::test]
async fn purge_by_uri_tag_prefix_and_of_all_reaches_stored_responses() {
    let origin = fresh().await;
    let proxy = in_front_of(origin.address).await;
    let cache = proxy.cache();
    let purges: [&dyn Fn(); 4] = [
        &|| assert!(cache.purge_uri("http://site.example/shop/1").unwrap()),
        &|| cache.purge_tag("one"),
        &|| cache.purge_prefix("http://site.example/shop/").unwrap(),
        &|| cache.purge_all(),
    ];
    for purge in purges {
        proxy.get("/shop/1").await;
        assert_hit(&proxy.get("/shop/1").await);
        purge();
        assert_eq!(cache_status(&proxy.get("/shop/1").await), "larder; fwd=uri-miss; stored");
    }
}
