//! No request makes the layer hold, read or send more than its limits.

use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::BodyExt;
use larder_http::{BodyRule, BodyRules, HttpCache};
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::*;

/// The answer to a POST whose body is a part of the key, up to `max_bytes` and within a second.
async fn post(
    max_bytes: usize,
    fields: &[(&str, &str)],
    body: Body,
) -> Response<larder_http::Body<TestBody>> {
    let rule = BodyRule::post().max_bytes(max_bytes).read_timeout(SECOND);
    let cache = HttpCache::builder().build().unwrap();
    let handler = service_fn(|request: Request<Body>| async {
        Ok::<_, Infallible>(cached(request.into_body().collect().await.unwrap().to_bytes()))
    });
    let mut request = Request::post("/").header("host", "site.example");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let service = cache.layer().body_rules(BodyRules::new().route("/", rule)).layer(handler);
    service.oneshot(request.body(body).unwrap()).await.unwrap()
}

/// A body of a frame every half second.
struct Dripping(Pin<Box<tokio::time::Sleep>>);

impl http_body::Body for Dripping {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        std::task::ready!(self.0.as_mut().poll(cx));
        self.0.as_mut().reset(Instant::now() + SECOND / 2);
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(b"x")))))
    }
}

#[tokio::test(start_paused = true)]
async fn dripping_body_is_answered_in_the_time_of_the_whole_body() {
    let started = Instant::now();
    let response = post(1000, &[], Body::new(Dripping(Box::pin(tokio::time::sleep(SECOND / 2))))).await;
    assert_eq!(response.status(), StatusCode::REQUEST_TIMEOUT);
    assert!((SECOND..SECOND + Duration::from_millis(50)).contains(&started.elapsed()));
}

/// A body that always has one more frame of `frame`. It panics after a million frames.
struct Endless {
    frame: &'static [u8],
    polled: Arc<AtomicUsize>,
}

impl http_body::Body for Endless {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        assert!(self.polled.fetch_add(1, Ordering::Relaxed) < 1_000_000, "the read does not end");
        Poll::Ready(Some(Ok(Frame::data(Bytes::from_static(self.frame)))))
    }
}

#[tokio::test(start_paused = true)]
async fn endless_empty_frames_end_with_the_read_timeout() {
    let body = Body::new(Endless { frame: b"", polled: Arc::default() });
    let task = tokio::spawn(post(1000, &[], body));
    settle().await;
    tokio::time::advance(SECOND * 2).await;
    assert_eq!(task.await.unwrap().status(), StatusCode::REQUEST_TIMEOUT);
}

#[tokio::test]
async fn body_is_read_no_further_than_its_limit() {
    let polled = Arc::new(AtomicUsize::new(0));
    let body = Body::new(Endless { frame: &[b'x'; 100], polled: polled.clone() });
    let response = post(1000, &[], body).await;
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(polled.load(Ordering::Relaxed), 11, "the frame that exceeds the limit is the last one");
    assert!(!response.into_body().collect().await.unwrap().to_bytes().starts_with(b"xx"), "it is not echoed");
}

#[tokio::test]
async fn declared_length_is_never_allocated() {
    // No allocation of this size succeeds.
    let declared = (usize::MAX / 2).to_string();
    let (frames, receiver) = tokio::sync::mpsc::unbounded_channel();
    [data("a"), data("b")].into_iter().for_each(|frame| frames.send(frame).unwrap());
    drop(frames);
    let response = post(usize::MAX, &[("content-length", &declared)], Body::new(Streamed(receiver))).await;
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ab");
}

#[tokio::test]
async fn further_request_fields_are_not_kept() {
    let bytes_after = async |fields: &[(&str, &str)]| {
        let site = Site::new(|_, _| async { field(cached("x"), "vary", "accept") });
        site.send(get("/", fields)).await;
        site.send(get("/missing", fields)).await;
        site.cache.stats().bytes
    };
    let long = "x".repeat(8 << 10);
    let names: Vec<_> = (0..500).map(|n| format!("x-flood-{n}")).collect();
    let flood: Vec<_> = names.iter().map(|name| (name.as_str(), long.as_str())).collect();
    assert_eq!(bytes_after(&flood).await, bytes_after(&[]).await);
}

#[tokio::test]
async fn unique_targets_without_a_storable_response_keep_nothing() {
    let site = Site::new(|_, _| async { plain(vec![b'x'; 10_000]) });
    for n in 0..2000 {
        site.get(&format!("/{n}")).await;
    }
    let stats = site.cache.stats();
    assert_eq!((stats.entries, stats.bytes, stats.body_bytes), (0, 0, 0));
}

#[tokio::test]
async fn many_or_overflowing_ranges_never_amplify_the_body() {
    let site = Site::new(|_, _| async { cached("0123456789") });
    site.get("/").await;
    let many = format!("bytes={}", ["0-"; 1000].join(","));
    let all_suffixes = format!("bytes={}", ["-9"; 1000].join(","));
    for range in [many.as_str(), &all_suffixes, "bytes=-9223372036854775808,0-18446744073709551615"] {
        let response = site.send(get("/", &[("range", range)])).await;
        assert_eq!((response.status, &response.body[..]), (StatusCode::OK, &b"0123456789"[..]));
    }
    for range in
        ["bytes=-9223372036854775808", "bytes=0-18446744073709551615", "bytes=0-18446744073709551616"]
    {
        let response = site.send(get("/", &[("range", range)])).await;
        assert_eq!((response.status, response.body.len()), (StatusCode::PARTIAL_CONTENT, 10), "{range}");
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn request_with_long_fields_releases_no_stampede() {
    let gate = Arc::new(Semaphore::new(0));
    let handler_gate = gate.clone();
    let site = Site::new(move |_, call| {
        let gate = handler_gate.clone();
        async move {
            gate.acquire().await.unwrap().forget();
            field(cached(call.to_string()), "vary", "x-long")
        }
    });
    let long = "x".repeat(17 << 10);
    let start = |request| tokio::spawn(site.service.clone().oneshot(request));
    let attack = start(get("/", &[("x-long", &long)]));
    settle().await;
    let others: Vec<_> = (0..20).map(|_| start(get("/", &[]))).collect();
    settle().await;
    gate.add_permits(100);
    for other in others {
        assert_eq!(CollectedResponse::read(other.await.unwrap().unwrap()).await.unwrap().body, "2");
    }
    let attack = CollectedResponse::read(attack.await.unwrap().unwrap()).await.unwrap();
    assert_eq!(attack.cache_status(), "fwd=uri-miss; detail=variant-too-long");
    assert_eq!(site.calls(), 2, "one for the attacker, and one for all others");
}
