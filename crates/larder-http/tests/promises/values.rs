//! A response is fresh no longer than the values that its handler says it is made from, and purged with them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use larder::{Cache, Invalidation, Policy, View};
use larder_http::{CacheCtx, Cached, Clock, HttpCache, ManualClock};
use tower::{Layer, ServiceExt, service_fn};

use crate::support::*;

type Prices = View<str, usize, &'static str>;

/// Prices that are fresh for ten seconds, and stale for an hour.
fn prices() -> (Cache, Prices, Clock, ManualClock) {
    let (clock, hand) = Clock::manual();
    let policy = Policy::new().ttl(SECOND * 10).grace(MINUTE * 60);
    let values = Cache::builder("shop").policy(policy).clock(clock.clone()).build().unwrap();
    let prices = values.view("price");
    (values, prices, clock, hand)
}

/// A page that is made from a price. Its path says what the handler tells of that.
async fn page(request: http::Request<String>, call: usize, prices: Prices, is_down: bool) -> Reply {
    let ctx = request.extensions().get::<CacheCtx>().expect("behind the cache").clone();
    let load = move |cx: larder::LoadCx<usize>| async move {
        cx.tag("product:jam");
        if is_down { Err("down") } else { Ok(call) }
    };
    let price = prices.fetch("jam").load(load).await.unwrap();
    let cached = Cached::ttl(MINUTE);
    let cached = match request.uri().path() {
        "/returned" => cached.uses(&price),
        "/limited" => cached.limit_ttl(price.remaining_ttl()),
        path => {
            if path == "/nested" {
                ctx.uses(&price);
            }
            cached
        }
    };
    with_cached(plain(price.to_string()), cached)
}

#[tokio::test]
async fn response_is_fresh_no_longer_than_its_value() {
    let (_values, prices, clock, hand) = prices();
    let is_down = Arc::new(AtomicBool::new(false));
    let is_down_now = is_down.clone();
    let site = Site::with(
        |builder| builder.clock(clock),
        move |request, call| page(request, call, prices.clone(), is_down_now.load(Ordering::SeqCst)),
    );
    let limited = ["/returned", "/nested", "/limited"];
    site.get("/other").await;
    hand.advance(SECOND * 4);
    for target in limited {
        assert_eq!(site.get(target).await.cache_status(), "fwd=uri-miss; stored", "{target}");
        assert_eq!(site.get(target).await.cache_status(), "hit; ttl=6", "{target}");
    }
    is_down.store(true, Ordering::SeqCst);
    hand.advance(SECOND * 7);
    for target in limited {
        let stale = site.get(target).await;
        assert_eq!((stale.cache_status(), &stale.body[..]), ("fwd=uri-miss; detail=zero-ttl", &b"1"[..]));
    }
    assert_eq!(site.get("/unlimited").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(
        site.get("/unlimited").await.cache_status(),
        "hit; ttl=60",
        "it ignores how fresh its value is"
    );
}

#[tokio::test]
async fn response_is_purged_with_its_value() {
    let (values, prices, clock, _) = prices();
    let cache = HttpCache::builder().clock(clock).shared(values.shared("http")).build().unwrap();
    let calls = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let handler = service_fn(move |request| {
        let call = calls.fetch_add(1, Ordering::SeqCst) + 1;
        let page = page(request, call, prices.clone(), false);
        async move { Ok::<_, std::convert::Infallible>(page.await) }
    });
    let service = cache.layer().layer(handler);
    let body = async |target| {
        let response = service.clone().oneshot(get(target, &[])).await.unwrap();
        CollectedResponse::read(response).await.unwrap().body
    };
    for target in ["/returned", "/other"] {
        assert_eq!(body(target).await, "1");
    }
    assert!(values.invalidate_tags(["product:jam"], Invalidation::Hard).await.unwrap().is_everywhere());
    assert_eq!((body("/other").await, body("/returned").await), ("1".into(), "3".into()));
}
