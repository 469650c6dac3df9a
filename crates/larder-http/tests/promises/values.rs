//! A response is fresh no longer than the values that its handler gets, and purged with those that it declares.

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use larder::{Cache, Invalidation, Policy, Source, View};
use larder_http::{Builder, CacheCtx, Cached, Clock, HttpCache, ManualClock};
use tokio::sync::Notify;
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

/// What the loader returns, unless the origin is down.
fn load(call: usize, is_down: bool) -> Result<usize, &'static str> {
    if is_down { Err("down") } else { Ok(call) }
}

/// A page that is made from a price. Its path says how the handler gets it, and what it tells of that.
async fn page(request: http::Request<String>, call: usize, prices: Prices, is_down: bool) -> Reply {
    let ctx = request.extensions().get::<CacheCtx>().expect("behind the cache").clone();
    let fetch = async || {
        let load = move |cx: larder::LoadCx<usize>| async move {
            cx.tag("product:jam");
            load(call, is_down)
        };
        prices.fetch("jam").load(load).await.unwrap()
    };
    let (price, cached) = match request.uri().path() {
        "/returned" => {
            let price = fetch().await;
            let cached = Cached::ttl(MINUTE).uses(&price);
            (*price, cached)
        }
        "/nested" => {
            let price = fetch().await;
            ctx.uses(&price);
            (*price, Cached::ttl(MINUTE))
        }
        "/limited" => {
            let price = fetch().await;
            let cached = Cached::ttl(MINUTE).limit_ttl(price.remaining_ttl());
            (*price, cached)
        }
        "/fetched-together" => {
            let load = move |keys: Vec<String>, _| async move {
                let price = load(call, is_down)?;
                Ok(keys.into_iter().map(|key| (key, price)).collect::<Vec<_>>())
            };
            let mut found = prices.fetch_multi(["jam"]).load(load).await;
            (*found.pop().unwrap().unwrap().unwrap(), Cached::ttl(MINUTE))
        }
        "/read" => (*prices.read("jam").await.unwrap(), Cached::ttl(MINUTE)),
        "/read-together" => {
            let mut found = prices.read_multi(["jam"]).await;
            (*found.pop().unwrap().unwrap(), Cached::ttl(MINUTE))
        }
        "/taken" => (*prices.take("jam").await.unwrap().unwrap(), Cached::ttl(MINUTE)),
        "/outliving" => (*fetch().await, Cached::ttl(MINUTE).may_outlive_values()),
        "/outliving-nested" => {
            ctx.may_outlive_values();
            (*fetch().await, Cached::ttl(MINUTE))
        }
        path if path.starts_with("/spawned") => {
            let prices = prices.clone();
            let load = move |_| async move { load(call, is_down) };
            let task = tokio::spawn(async move { prices.fetch("jam").load(load).await.unwrap() });
            let price = task.await.unwrap();
            if path == "/spawned-declared" {
                ctx.uses(&price);
            }
            (*price, Cached::ttl(MINUTE))
        }
        _ => (*fetch().await, Cached::ttl(MINUTE)),
    };
    with_cached(plain(price.to_string()), cached)
}

/// A site whose pages are made from prices, their clock, and what says that the origin of the prices is down.
fn shop(options: impl FnOnce(Builder) -> Builder) -> (Site, Prices, ManualClock, Arc<AtomicBool>) {
    let (_, prices, clock, hand) = prices();
    let is_down = Arc::new(AtomicBool::new(false));
    let (is_down_now, prices_of_site) = (is_down.clone(), prices.clone());
    let site = Site::with(
        |builder| options(builder.clock(clock)),
        move |request, call| page(request, call, prices_of_site.clone(), is_down_now.load(Ordering::SeqCst)),
    );
    (site, prices, hand, is_down)
}

#[tokio::test]
async fn response_is_fresh_no_longer_than_its_value() {
    let (site, _prices, hand, is_down) = shop(|builder| builder);
    site.get("/first").await;
    hand.advance(SECOND * 4);
    let declared = ["/returned", "/nested", "/limited", "/spawned-declared"];
    for target in declared.iter().chain(&["/other", "/fetched-together", "/read", "/read-together"]) {
        assert_eq!(site.get(target).await.cache_status(), "fwd=uri-miss; stored", "{target}");
        assert_eq!(site.get(target).await.cache_status(), "hit; ttl=6", "{target}");
    }
    is_down.store(true, Ordering::SeqCst);
    hand.advance(SECOND * 7);
    for target in declared.iter().chain(&["/other", "/fetched-together"]) {
        let stale = site.get(target).await;
        let expected = ("fwd=uri-miss; detail=zero-ttl", &b"1"[..]);
        assert_eq!((stale.cache_status(), &stale.body[..]), expected, "{target}");
    }
}

#[tokio::test]
async fn taken_value_limits_its_response() {
    let (site, _prices, hand, _is_down) = shop(|builder| builder);
    site.get("/first").await;
    hand.advance(SECOND * 4);
    assert_eq!(site.get("/taken").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/taken").await.cache_status(), "hit; ttl=6");
}

#[tokio::test]
async fn response_that_may_outlive_its_value_has_its_own_ttl() {
    let (site, _prices, hand, is_down) = shop(|builder| builder);
    site.get("/first").await;
    hand.advance(SECOND * 4);
    for at in ["fresh", "stale"] {
        for path in ["/outliving", "/outliving-nested", "/spawned"] {
            let target = format!("{path}?{at}");
            assert_eq!(site.get(&target).await.cache_status(), "fwd=uri-miss; stored", "{target}");
            assert_eq!(site.get(&target).await.cache_status(), "hit; ttl=60", "{target}");
        }
        is_down.store(true, Ordering::SeqCst);
        hand.advance(SECOND * 7);
    }
}

#[tokio::test]
async fn cache_whose_responses_may_outlive_values_limits_declared_ones_only() {
    let (site, _prices, hand, _is_down) = shop(|builder| builder.responses_may_outlive_values());
    site.get("/first").await;
    hand.advance(SECOND * 4);
    for (target, hit) in [("/other", "hit; ttl=60"), ("/returned", "hit; ttl=6"), ("/nested", "hit; ttl=6")] {
        assert_eq!(site.get(target).await.cache_status(), "fwd=uri-miss; stored", "{target}");
        assert_eq!(site.get(target).await.cache_status(), hit, "{target}");
    }
}

#[tokio::test]
async fn responses_made_from_a_stale_value_prolong_hit_for_miss() {
    let (site, _prices, hand, is_down) = shop(|builder| builder);
    site.get("/first").await;
    is_down.store(true, Ordering::SeqCst);
    hand.advance(SECOND * 11);
    assert_eq!(site.get("/other").await.cache_status(), "fwd=uri-miss; detail=zero-ttl");
    for _ in 0..3 {
        hand.advance(SECOND * 6);
        assert_eq!(site.get("/other").await.cache_status(), "fwd=uri-miss; detail=hit-for-miss");
    }
}

#[tokio::test]
async fn value_ages_while_the_handler_runs() {
    let (_values, prices, clock, hand) = prices();
    let replies = Arc::new(Notify::new());
    let may_reply = replies.clone();
    let site = Arc::new(Site::with(
        |builder| builder.clock(clock),
        move |request, call| {
            let (prices, may_reply) = (prices.clone(), may_reply.clone());
            async move {
                let page = page(request, call, prices, false).await;
                may_reply.notified().await;
                page
            }
        },
    ));
    let asking = site.clone();
    let client = tokio::spawn(async move { asking.get("/other").await.cache_status().to_owned() });
    settle().await;
    hand.advance(SECOND * 4);
    replies.notify_one();
    assert_eq!(client.await.unwrap(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/other").await.cache_status(), "hit; ttl=6");
}

/// A body whose only frame is made by a future.
struct Late(Mutex<Option<BoxFuture>>);

type BoxFuture = Pin<Box<dyn Future<Output = Bytes> + Send>>;

impl http_body::Body for Late {
    type Data = Bytes;
    type Error = std::io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        let future = self.0.get_mut().unwrap();
        let Some(running) = future else { return Poll::Ready(None) };
        let bytes = ready!(running.as_mut().poll(cx));
        *future = None;
        Poll::Ready(Some(Ok(Frame::data(bytes))))
    }
}

#[tokio::test]
async fn body_that_is_made_from_a_value_limits_its_response() {
    let (_values, prices, clock, hand) = prices();
    let is_down = Arc::new(AtomicBool::new(false));
    let (is_down_now, stale_price) = (is_down.clone(), prices.clone());
    let site = Site::with(
        |builder| builder.clock(clock),
        move |request, call| {
            let (prices, is_down) = (prices.clone(), is_down_now.load(Ordering::SeqCst));
            let body = async move {
                if request.uri().path() == "/streamed" {
                    tokio::task::yield_now().await;
                }
                let load = move |_| async move { load(call, is_down) };
                prices.fetch("jam").load(load).await.unwrap().to_string().into()
            };
            let body = Late(Mutex::new(Some(Box::pin(body))));
            async { cached("").map(|_| body.boxed()) }
        },
    );
    site.get("/first").await;
    hand.advance(SECOND * 4);
    for (target, miss) in [("/ready", "stored"), ("/streamed", "detail=streaming")] {
        assert_eq!(site.get(target).await.cache_status(), format!("fwd=uri-miss; {miss}"));
        assert_eq!(site.get(target).await.cache_status(), "hit; ttl=6", "{target}");
    }
    is_down.store(true, Ordering::SeqCst);
    hand.advance(SECOND * 7);
    // From now on memory answers with the stale value at once, until the next attempt to load it.
    assert_eq!(
        stale_price.fetch("jam").load(|_| async { Err("down") }).await.unwrap().source(),
        Source::Stale
    );
    for (target, statuses) in [
        ("/ready", ["fwd=uri-miss; detail=zero-ttl", "fwd=uri-miss; detail=hit-for-miss"]),
        ("/streamed", ["fwd=uri-miss; detail=streaming"; 2]),
    ] {
        for status in statuses {
            let stale = site.get(target).await;
            assert_eq!((stale.cache_status(), &stale.body[..]), (status, &b"1"[..]), "{target}");
        }
    }
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
