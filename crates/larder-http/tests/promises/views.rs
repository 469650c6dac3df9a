//! Several caches share one store: budgets and tags are common, keys and policies are not.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use larder_http::{Cached, HttpCache, Reason};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{MINUTE, get};

/// Sends a request through the layer of `cache`, to a handler that replies with `text`.
async fn send(cache: &HttpCache, target: &str, text: &'static str) -> Bytes {
    let handler = service_fn(move |_: Request<String>| async move {
        let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
        response.extensions_mut().insert(Cached::ttl(MINUTE).tag("all"));
        Ok::<_, Infallible>(response)
    });
    let response = cache.layer().layer(handler).oneshot(get(target, &[])).await.unwrap();
    response.into_body().collect().await.unwrap().to_bytes()
}

#[tokio::test]
async fn equal_uris_of_two_views_are_two_entries() {
    let pages = HttpCache::builder().build().unwrap();
    let api = pages.view("api").build().unwrap();
    assert_eq!(send(&pages, "/", "page").await, "page");
    assert_eq!(send(&api, "/", "answer").await, "answer");
    assert_eq!(
        (send(&pages, "/", "new").await, send(&api, "/", "new").await),
        ("page".into(), "answer".into())
    );
    assert_eq!((pages.stats().entries, api.stats().entries), (2, 2), "one store");
    assert_eq!((pages.stats().hits, api.stats().hits), (1, 1), "own counters");
    let same = api.view("api").build().unwrap();
    assert_eq!(send(&same, "/", "new").await, "answer", "the same name means the same entries");
}

#[tokio::test]
async fn purge_by_uri_or_prefix_concerns_its_view_and_others_concern_all() {
    let pages = HttpCache::builder().build().unwrap();
    let api = pages.view("api").build().unwrap();
    type Purge = fn(&HttpCache);
    let purges: [(Purge, bool); 4] = [
        (|cache| assert!(cache.purge_uri("http://site.example/").unwrap()), false),
        (|cache| cache.purge_prefix("http://site.example/").unwrap(), false),
        (|cache| cache.purge_tag("all"), true),
        (|cache| cache.purge_all(), true),
    ];
    for (purge, concerns_all) in purges {
        pages.purge_all();
        send(&pages, "/", "old").await;
        send(&api, "/", "old").await;
        purge(&api);
        assert_eq!(send(&api, "/", "new").await, "new");
        assert_eq!(send(&pages, "/", "new").await, if concerns_all { "new" } else { "old" });
    }
}

#[tokio::test]
async fn views_have_their_own_limits_within_one_budget() {
    let pages = HttpCache::builder().max_bytes(64 << 10).build().unwrap();
    let api = pages.view("api").max_bytes(1 << 30).max_body_bytes(3).build().unwrap();
    send(&api, "/", "long").await;
    assert_eq!(api.stats().unstored, [(Reason::BodyTooLarge, 1)]);
    assert_eq!(api.stats().capacity, 64 << 10);
    for n in 0..1000 {
        send(&pages, &format!("/{n}"), "page").await;
        send(&api, &format!("/{n}"), "ans").await;
    }
    assert!(pages.stats().bytes <= 64 << 10);
}
