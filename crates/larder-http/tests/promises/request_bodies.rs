//! A request body is a part of the key where a rule says so, and nowhere else.

use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use larder_http::{
    BodyRule, BodyRules, Cached, Clock, HttpCache, HttpCacheService, ManualClock, Outcome, Reason,
};
use tower::util::BoxCloneSyncService;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::{CollectedResponse, MINUTE, Reply, SECOND, field, plain, settle, with_cached};

type Handler = BoxCloneSyncService<Request<Body>, Reply, Infallible>;

/// A search whose reply is the method, the body and the number of the call.
struct Search {
    cache: HttpCache,
    clock: ManualClock,
    service: HttpCacheService<Handler, BodyRules>,
    calls: Arc<AtomicUsize>,
}

impl Search {
    fn new() -> Search {
        Search::with(|reply| reply)
    }

    fn with(finish: impl Fn(Reply) -> Reply + Clone + Send + Sync + 'static) -> Search {
        let (clock, manual_clock) = Clock::manual();
        let cache = HttpCache::builder().clock(clock).build().unwrap();
        let rules = BodyRules::new()
            .route("/search", BodyRule::post().max_bytes(10).max_reading_bytes(15).read_timeout(SECOND))
            .route("/search", BodyRule::query().max_bytes(10));
        let calls = Arc::new(AtomicUsize::new(0));
        let counter = calls.clone();
        let handler = service_fn(move |request: Request<Body>| {
            let call = counter.fetch_add(1, Ordering::SeqCst) + 1;
            let finish = finish.clone();
            async move {
                settle().await;
                let method = request.method().clone();
                let body = request.into_body().collect().await.map_or(Bytes::from("?"), |b| b.to_bytes());
                let text = format!("{method} {} {call}", String::from_utf8_lossy(&body));
                Ok(finish(with_cached(plain(text), Cached::ttl(MINUTE).swr(MINUTE))))
            }
        });
        let service = cache.layer().body_rules(rules).layer(BoxCloneSyncService::new(handler));
        Search { cache, clock: manual_clock, service, calls }
    }

    fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    async fn send(&self, request: Request<Body>) -> CollectedResponse {
        CollectedResponse::read(self.service.clone().oneshot(request).await.unwrap()).await.unwrap()
    }

    async fn post(&self, body: &'static str) -> CollectedResponse {
        self.send(request("POST", "/search", &[], Body::from(body))).await
    }
}

fn request(method: &str, target: &str, fields: &[(&str, &str)], body: Body) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(target).header("host", "site.example");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(body).unwrap()
}

/// Method, target, further fields and body of a request.
type Parts = (&'static str, &'static str, &'static [(&'static str, &'static str)], &'static str);

/// A body without a declared length: some frames, then an error, the end, or nothing more.
struct Frames(Vec<&'static str>, After);

#[derive(Clone, Copy)]
enum After {
    End,
    Error,
    Silence,
    Panic,
}

impl http_body::Body for Frames {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        if !self.0.is_empty() {
            return Poll::Ready(Some(Ok(Frame::data(Bytes::from(self.0.remove(0))))));
        }
        match self.1 {
            After::End => Poll::Ready(None),
            After::Error => Poll::Ready(Some(Err(io::Error::other("cut")))),
            After::Silence => Poll::Pending,
            After::Panic => panic!("the body was read"),
        }
    }
}

#[tokio::test]
async fn equal_requests_share_a_response() {
    let site = Search::new();
    assert_eq!(site.post("a").await.body, "POST a 1");
    let hit = site.post("a").await;
    assert_eq!((hit.cache_status(), &hit.body[..]), ("hit; ttl=60", &b"POST a 1"[..]));
    let in_frames = Body::new(Frames(vec!["", "a"], After::End));
    assert_eq!(site.send(request("POST", "/search", &[], in_frames)).await.body, "POST a 1");
    let in_frames = Body::new(Frames(vec!["ab", "", "c", "d"], After::End));
    assert_eq!(site.send(request("POST", "/search", &[], in_frames)).await.body, "POST abcd 2");
    assert_eq!(site.post("abcd").await.body, "POST abcd 2");
}

#[tokio::test]
async fn requests_with_any_different_part_do_not_share_a_response() {
    let site = Search::new();
    const JSON: (&str, &str) = ("content-type", "application/json");
    let requests: [Parts; 12] = [
        ("POST", "/search", &[], "a"),
        ("POST", "/search", &[], "b"),
        ("POST", "/search", &[], "a "),
        ("POST", "/search", &[], ""),
        ("QUERY", "/search", &[], "a"),
        ("POST", "/search?", &[], "a"),
        ("POST", "/search?q", &[], "a"),
        ("POST", "/search", &[JSON], "a"),
        ("POST", "/search", &[JSON, JSON], "a"),
        ("POST", "/search", &[("content-encoding", "gzip")], "a"),
        ("POST", "/search", &[("content-language", "de")], "a"),
        ("GET", "/search", &[], ""),
    ];
    for round in ["stored", "hit"] {
        for (n, (method, target, fields, body)) in requests.iter().enumerate() {
            let response = site.send(request(method, target, fields, Body::from(*body))).await;
            assert_eq!(response.body, format!("{method} {body} {}", n + 1), "{round} {method} {target}");
        }
    }
}

#[tokio::test]
async fn concurrent_equal_requests_call_handler_once() {
    let site = Search::new();
    let send = || tokio::spawn(site.service.clone().oneshot(request("QUERY", "/search", &[], "a".into())));
    let tasks: Vec<_> = (0..20).map(|_| send()).collect();
    for task in tasks {
        assert_eq!(CollectedResponse::read(task.await.unwrap().unwrap()).await.unwrap().body, "QUERY a 1");
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn request_without_rule_is_forwarded_unread() {
    let site = Search::new();
    let long = "longer than ten bytes";
    for (method, target) in [("POST", "/other"), ("PUT", "/search"), ("QUERY", "/search/")] {
        let body = Body::new(Frames(vec![long], After::End));
        let response = site.send(request(method, target, &[], body)).await;
        assert!(response.body.starts_with(format!("{method} {long}").as_bytes()), "{:?}", response.body);
        assert_eq!(response.cache_status(), "fwd=method");
    }
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn request_with_credentials_gets_its_own_response() {
    let site = Search::new();
    for call in 1..=2 {
        let response =
            site.send(request("POST", "/search", &[("authorization", "Bearer x")], "a".into())).await;
        assert_eq!(response.cache_status(), "fwd=uri-miss; detail=authorization");
        assert_eq!(response.body, format!("POST a {call}"));
    }
}

#[tokio::test]
async fn body_at_limit_is_accepted_and_longer_one_is_413() {
    let site = Search::new();
    assert_eq!(site.post("0123456789").await.status, StatusCode::OK);
    for body in [Body::from("0123456789a"), Body::new(Frames(vec!["01234", "56789", "a"], After::Panic))] {
        let response = site.send(request("POST", "/search", &[], body)).await;
        assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE);
        assert_eq!(response.body, "the request body is longer than the limit of 10 bytes\n");
        assert_eq!(response.cache_status(), "detail=request-body-too-large");
        assert_eq!(response.outcome, Outcome::Rejected(Reason::RequestBodyTooLarge));
    }
    assert_eq!(site.calls(), 1);
    assert_eq!(site.cache.stats().bypassed, [(Reason::RequestBodyTooLarge, 2)]);
}

#[tokio::test]
async fn bodies_that_are_being_read_share_a_limit() {
    let site = Search::new();
    let slow = Body::new(Frames(vec!["0123456789"], After::Silence));
    let reading = tokio::spawn(site.service.clone().oneshot(request("POST", "/search", &[], slow)));
    settle().await;
    let in_frames =
        |frames| site.send(request("POST", "/search", &[], Body::new(Frames(frames, After::End))));
    let refused = in_frames(vec!["0123", "45"]).await;
    assert_eq!(refused.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(refused.body, "too many request bodies are being read\n");
    assert_eq!(refused.cache_status(), "detail=request-body-memory");
    assert_eq!(in_frames(vec!["0123", "4"]).await.status, StatusCode::OK);
    assert_eq!(site.post("0123456789").await.status, StatusCode::OK, "it is here at once");
    reading.abort();
    assert!(reading.await.is_err());
    assert_eq!(in_frames(vec!["0123", "45"]).await.status, StatusCode::OK, "the client has left");
}

#[tokio::test]
async fn body_with_too_long_declared_length_is_not_read() {
    let site = Search::new();
    for length in ["11", "18446744073709551616", "x"] {
        let body = Body::new(Frames(vec![], After::Panic));
        let response = site.send(request("POST", "/search", &[("content-length", length)], body)).await;
        assert_eq!(response.status, StatusCode::PAYLOAD_TOO_LARGE, "{length}");
    }
}

#[tokio::test(start_paused = true)]
async fn body_that_does_not_arrive_in_time_is_408() {
    let site = Search::new();
    let body = Body::new(Frames(vec!["01"], After::Silence));
    let started = tokio::time::Instant::now();
    let response = site.send(request("POST", "/search", &[], body)).await;
    assert_eq!((response.status, site.calls()), (StatusCode::REQUEST_TIMEOUT, 0));
    assert!((SECOND..SECOND + Duration::from_millis(50)).contains(&started.elapsed()));
}

#[tokio::test]
async fn failing_body_is_400_and_never_reaches_handler() {
    let site = Search::new();
    let body = Body::new(Frames(vec!["01"], After::Error));
    let response = site.send(request("POST", "/search", &[], body)).await;
    assert_eq!((response.status, site.calls()), (StatusCode::BAD_REQUEST, 0));
}

#[tokio::test]
async fn purges_of_the_uri_cover_every_body() {
    let site = Search::new();
    let purges: [&dyn Fn(); 3] = [
        &|| assert!(!site.cache.purge_uri("http://site.example/search").unwrap(), "no GET is stored"),
        &|| site.cache.purge_prefix("http://site.example/sea").unwrap(),
        &|| site.cache.purge_all(),
    ];
    for purge in purges {
        let before = site.post("a").await.body;
        assert_eq!(site.post("a").await.body, before);
        purge();
        assert_ne!(site.post("a").await.body, before);
    }
}

#[tokio::test]
async fn unsafe_method_invalidates_every_body() {
    let site = Search::new();
    let before = site.post("a").await.body;
    site.send(request("DELETE", "/search", &[], Body::empty())).await;
    assert_ne!(site.post("a").await.body, before);
}

#[tokio::test]
async fn refresh_repeats_method_body_and_content_fields() {
    let site = Search::new();
    let send = || site.send(request("POST", "/search", &[("content-type", "a/b")], "x".into()));
    assert_eq!(send().await.body, "POST x 1");
    site.clock.advance(MINUTE);
    assert_eq!(send().await.cache_status(), "hit; ttl=0; detail=stale");
    settle().await;
    settle().await;
    assert_eq!(send().await.body, "POST x 2");
    assert_eq!(send().await.cache_status(), "hit; ttl=60");
}

#[tokio::test]
async fn response_to_a_body_may_vary() {
    let site = Search::with(|reply| field(reply, "vary", "accept-language"));
    let send = |language| site.send(request("POST", "/search", &[("accept-language", language)], "a".into()));
    assert_eq!(send("de").await.body, "POST a 1");
    assert_eq!(send("fr").await.body, "POST a 2");
    assert_eq!(send("de").await.body, "POST a 1");
}

#[tokio::test]
async fn get_with_a_body_of_undeclared_length_bypasses() {
    let site = Search::new();
    let body = Body::new(Frames(vec!["evil"], After::End));
    let response = site.send(request("GET", "/page", &[], body)).await;
    assert_eq!(response.cache_status(), "fwd=bypass; detail=request-body");
    assert_eq!(site.send(request("GET", "/page", &[], Body::empty())).await.body, "GET  2");
}
