//! A purge is final: after it has returned, no response whose handler started before it is served or stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use larder_http::{CacheCtx, Cached, HttpCache, Reason, Scope};
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::support::*;

/// A site whose responses have the tags "all" and their path. The handler waits for a permit if the query is `wait`.
fn tagged() -> (Site, Arc<Semaphore>) {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = Site::new(move |request, call| {
        let gate = handler_gate.clone();
        async move {
            if request.uri().query() == Some("wait") {
                gate.acquire().await.unwrap().forget();
            }
            let settings = Cached::ttl(MINUTE).tag("all").tag(format!("path:{}", request.uri().path()));
            field(with_cached(plain(call.to_string()), settings), "vary", "x-variant")
        }
    });
    (site, gate)
}

type Purge = fn(&HttpCache);

/// The four ways to purge `/shop/1?wait` on the site.
const PURGES: [Purge; 4] = [
    |cache| assert!(cache.purge_uri("http://site.example/shop/1?wait").is_ok()),
    |cache| cache.purge_tag("path:/shop/1"),
    |cache| cache.purge_prefix("http://site.example/shop/").unwrap(),
    |cache| cache.purge_all(),
];

#[tokio::test]
async fn every_purge_removes_stored_responses() {
    for purge in PURGES {
        let (site, gate) = tagged();
        gate.add_permits(10);
        let variants = || [get("/shop/1?wait", &[]), get("/shop/1?wait", &[("x-variant", "b")])];
        for request in variants() {
            site.send(request).await;
        }
        purge(&site.cache);
        for (request, body) in variants().into_iter().zip(["3", "4"]) {
            assert_eq!(site.send(request).await.body, body);
        }
        for (request, body) in variants().into_iter().zip(["3", "4"]) {
            assert_eq!(site.send(request).await.body, body, "stored again");
        }
    }
}

#[tokio::test]
async fn every_purge_covers_running_fills() {
    for purge in PURGES {
        let (site, gate) = tagged();
        let early = tokio::spawn(site.service.clone().oneshot(get("/shop/1?wait", &[])));
        settle().await;
        purge(&site.cache);
        let late = tokio::spawn(site.service.clone().oneshot(get("/shop/1?wait", &[])));
        settle().await;
        gate.add_permits(2);
        let early = CollectedResponse::read(early.await.unwrap().unwrap()).await.unwrap();
        let late = CollectedResponse::read(late.await.unwrap().unwrap()).await.unwrap();
        assert_eq!((&early.body[..], &late.body[..]), (&b"1"[..], &b"2"[..]));
        assert_eq!(
            site.get("/shop/1?wait").await.body,
            "2",
            "the fill that started before the purge is not stored"
        );
    }
}

/// The second fill is for all who have waited for the first one; nobody waits for a third one.
#[tokio::test]
async fn purges_during_every_fill_hold_no_request_up() {
    for purge in PURGES {
        let (site, gate) = tagged();
        let clients: Vec<_> =
            (0..6).map(|_| tokio::spawn(site.service.clone().oneshot(get("/shop/1?wait", &[])))).collect();
        settle().await;
        assert_eq!(site.calls(), 1);
        for calls in [2, 6] {
            purge(&site.cache);
            gate.add_permits(1);
            settle().await;
            assert_eq!(site.calls(), calls);
        }
        gate.add_permits(4);
        let mut statuses = Vec::new();
        for client in clients {
            let response = CollectedResponse::read(client.await.unwrap().unwrap()).await.unwrap();
            statuses.push(response.cache_status().to_owned());
        }
        assert_eq!(statuses, ["fwd=uri-miss; detail=purged"; 6]);
    }
}

#[tokio::test]
async fn narrow_purges_keep_other_responses() {
    for purge in &PURGES[..3] {
        let (site, _gate) = tagged();
        site.get("/blog/1").await;
        site.get("/shop").await;
        purge(&site.cache);
        assert_eq!(site.get("/blog/1").await.body, "1");
        assert_eq!(site.get("/shop").await.body, "2");
    }
}

#[tokio::test]
async fn purge_of_shared_tag_covers_all_its_responses() {
    let (site, _gate) = tagged();
    site.get("/a").await;
    site.get("/b").await;
    site.cache.purge_tag("all");
    assert_eq!(site.get("/a").await.body, "3");
    assert_eq!(site.get("/b").await.body, "4");
}

#[tokio::test]
async fn purge_covers_tag_from_nested_code() {
    let site = Site::new(|request, call| async move {
        request.extensions().get::<larder_http::CacheCtx>().unwrap().tag("user:7");
        cached(call.to_string())
    });
    site.get("/").await;
    site.cache.purge_tag("user:7");
    assert_eq!(site.get("/").await.body, "2");
}

#[tokio::test]
async fn purge_uri_returns_whether_response_was_stored() {
    let site = Site::counting();
    assert!(!site.cache.purge_uri("http://site.example/").unwrap());
    site.get("/").await;
    assert!(site.cache.purge_uri("http://SITE.example:80/").unwrap());
}

#[tokio::test]
async fn invalid_purge_uri_is_error_with_reason() {
    let site = Site::counting();
    for (uri, why) in [
        ("/relative", "not an absolute URI of http or https"),
        ("ftp://site.example/", "not an absolute URI of http or https"),
        ("http://a b/", "not a URI"),
        ("http://user@site.example/", "authority"),
    ] {
        let error = site.cache.purge_uri(uri).unwrap_err();
        assert_eq!(error.to_string(), format!("cannot purge {uri:?}: {why}"));
        assert!(site.cache.purge_prefix(uri).is_err());
    }
    let error = site.cache.purge_prefix("http://site.example/?q").unwrap_err();
    assert!(error.to_string().ends_with("a prefix has no query"));
}

#[tokio::test]
async fn successful_unsafe_method_invalidates_resource() {
    let site = Site::new(|request, call| async move {
        let mut reply = cached(call.to_string());
        if request.uri().query() == Some("fails") {
            *reply.status_mut() = http::StatusCode::CONFLICT;
        }
        reply
    });
    site.get("/a").await;
    site.get("/a?fails").await;
    site.send(request("POST", "/a", &[])).await;
    site.send(request("POST", "/a?fails", &[])).await;
    site.send(request("OPTIONS", "/a", &[])).await;
    assert_eq!(site.get("/a").await.body, "6");
    site.send(request("DELETE", "/b", &[])).await;
    assert_eq!(site.get("/a").await.body, "6");
}

#[tokio::test]
async fn unsafe_method_covers_running_fills_and_logs_nothing_else() {
    for cookie in [None, Some(("cookie", "a=b"))] {
        let gate = Arc::new(Semaphore::new(0));
        let handler_gate = gate.clone();
        let site = Site::new(move |_, call| {
            let gate = handler_gate.clone();
            async move {
                if call == 1 {
                    gate.acquire().await.unwrap().forget();
                }
                with_cached(plain(call.to_string()), Cached::ttl(MINUTE).scope(Scope::Public))
            }
        });
        let fields: Vec<_> = cookie.into_iter().collect();
        let early = tokio::spawn(site.service.clone().oneshot(get("/", &fields)));
        settle().await;
        site.send(request("POST", "/", &[])).await;
        gate.add_permits(1);
        early.await.unwrap().unwrap();
        let next = site.get("/").await;
        assert_eq!((&*next.body, next.cache_status()), (&b"3"[..], "fwd=uri-miss; stored"), "{cookie:?}");
        let before = site.cache.stats().purges;
        site.send(request("POST", "/never-cached", &[])).await;
        assert_eq!(site.cache.stats().purges, before);
    }
}

#[tokio::test]
async fn thousand_prefix_purges_keep_other_responses() {
    let site = Site::counting();
    site.get("/kept").await;
    for n in 0..1000 {
        site.cache.purge_prefix(&format!("http://site.example/gone/{n}/")).unwrap();
        assert_eq!(site.get("/kept").await.body, "1");
    }
}

/// Readers and a purger run concurrently: a request that starts after a purge has returned gets no older version.
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn request_after_purge_never_gets_older_version() {
    const PURGE_COUNT: u64 = 3000;
    for purge in PURGES {
        let version = Arc::new(AtomicU64::new(0));
        let purged = Arc::new(AtomicU64::new(0));
        let current = version.clone();
        let site = Site::new(move |request, call| {
            let body = current.load(Ordering::SeqCst).to_string();
            async move {
                // Long enough that some purges run meanwhile.
                for _ in 0..call % 30 {
                    tokio::task::yield_now().await;
                }
                let tag = format!("path:{}", request.uri().path());
                field(with_cached(plain(body), Cached::ttl(MINUTE).tag(tag)), "vary", "x-variant")
            }
        });
        let site = Arc::new(site);
        let read = |variant: &'static str| {
            let (site, purged) = (site.clone(), purged.clone());
            async move {
                while purged.load(Ordering::SeqCst) < PURGE_COUNT {
                    let before = purged.load(Ordering::SeqCst);
                    let response = site.send(get("/shop/1?wait", &[("x-variant", variant)])).await;
                    let version: u64 = std::str::from_utf8(&response.body).unwrap().parse().unwrap();
                    assert!(
                        version >= before,
                        "version {version} after purge {before}: {}",
                        response.cache_status()
                    );
                    tokio::task::yield_now().await;
                }
            }
        };
        let readers: Vec<_> =
            ["a", "a", "b", "b", "a"].into_iter().map(|variant| tokio::spawn(read(variant))).collect();
        let (cache, published) = (site.cache.clone(), purged.clone());
        let purger = tokio::spawn(async move {
            for next in 1..=PURGE_COUNT {
                version.store(next, Ordering::SeqCst);
                purge(&cache);
                published.store(next, Ordering::SeqCst);
                for _ in 0..next % 60 {
                    tokio::task::yield_now().await;
                }
            }
        });
        purger.await.unwrap();
        for reader in readers {
            reader.await.unwrap();
        }
        let stats = site.cache.stats();
        assert!(stats.hits > 100 && stats.misses > 100, "too few hits or misses: {stats:?}");
    }
}

#[tokio::test]
async fn method_override_invalidates() {
    for name in ["x-http-method-override", "x-http-method", "x-method-override"] {
        let site = Site::counting();
        site.get("/").await;
        site.send(get("/", &[(name, "DELETE")])).await;
        assert_eq!(site.get("/").await.body, "3", "{name}");
    }
}

/// Every kind of request whose handler runs: forwarded for its method or its credentials, hit-for-miss, and a fill.
#[tokio::test]
async fn handler_of_any_request_purges_tags() {
    let site = Site::new(|request, call| async move {
        let tag = request.uri().query().map(str::to_owned);
        if let Some(tag) = tag {
            request.extensions().get::<CacheCtx>().unwrap().purge_tag(tag);
            return plain("purged");
        }
        with_cached(plain(call.to_string()), Cached::ttl(MINUTE).tag("jam"))
    });
    let purges = [
        request("POST", "/change?jam", &[]),
        get("/change?jam", &[("authorization", "Bearer x")]),
        get("/change?jam", &[]),
        get("/change?jam", &[]),
    ];
    for purge in purges {
        let stored = site.get("/jam").await.body;
        assert_eq!(site.get("/jam").await.body, stored);
        let status = site.send(purge).await.cache_status().to_owned();
        assert_ne!(site.get("/jam").await.body, stored, "{status}");
    }
    assert!(site.cache.stats().unstored.iter().any(|(reason, _)| *reason == Reason::HitForMiss));
}

#[tokio::test]
async fn purge_after_the_handler_has_ended_is_effective() {
    let (sender, ctx) = tokio::sync::oneshot::channel();
    let sender = std::sync::Mutex::new(Some(sender));
    let site = Site::new(move |request, call| {
        if *request.method() == http::Method::POST {
            let ctx = request.extensions().get::<CacheCtx>().unwrap().clone();
            sender.lock().unwrap().take().unwrap().send(ctx).unwrap();
        }
        async move { with_cached(plain(call.to_string()), Cached::ttl(MINUTE).tag("jam")) }
    });
    site.send(request("POST", "/change", &[])).await;
    let stored = site.get("/jam").await.body;
    ctx.await.unwrap().purge_tag("jam");
    assert_ne!(site.get("/jam").await.body, stored);
}

#[tokio::test]
async fn unsafe_request_that_ends_without_a_response_invalidates() {
    for panics in [false, true] {
        let version = Arc::new(AtomicUsize::new(1));
        let of_handler = version.clone();
        let site = Site::new(move |request, _| {
            let version = of_handler.clone();
            async move {
                if request.method() == "POST" {
                    version.fetch_add(1, Ordering::SeqCst);
                    tokio::task::yield_now().await;
                    assert!(!panics, "after the change");
                    std::future::pending::<()>().await;
                }
                cached(version.load(Ordering::SeqCst).to_string())
            }
        });
        assert_eq!(site.get("/").await.body, "1");
        let post = tokio::spawn(site.service.clone().oneshot(request("POST", "/", &[])));
        settle().await;
        post.abort();
        assert!(post.await.is_err());
        assert_eq!(site.get("/").await.body, "2", "panics: {panics}");
    }
}
