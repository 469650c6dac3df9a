//! Only complete responses are stored. Incomplete or too large ones reach their client unchanged.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body as _, Frame};
use http_body_util::BodyExt;
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::support::*;

fn trailers() -> Part {
    let mut trailers = HeaderMap::new();
    trailers.insert("x-checksum", "1".parse().unwrap());
    Ok(Frame::trailers(trailers))
}

#[tokio::test]
async fn chunked_body_is_stored_complete() {
    let (site, replies) = streaming(None);
    replies.send(reply(vec![data("one "), data("two"), data("")])).unwrap();
    assert_eq!(site.get("/").await.body, "one two");
    let hit = site.get("/").await;
    assert_eq!((&hit.body[..], hit.header("content-length")), (&b"one two"[..], Some("7")));
}

#[tokio::test]
async fn client_reads_while_fill_runs() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    assert_eq!(response.headers()["cache-status"], "larder; fwd=uri-miss; detail=streaming");
    let mut body = response.into_body();
    for text in ["one ", "two"] {
        frames.send(data(text)).unwrap();
        assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), text);
    }
    assert_eq!(site.cache.stats().stores, 0);
    drop(frames);
    assert!(body.frame().await.is_none());
    assert_eq!(site.get("/").await.body, "one two");
}

#[tokio::test]
async fn fill_completes_after_client_stops_reading() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    drop(response);
    frames.send(data("whole")).unwrap();
    drop(frames);
    settle().await;
    assert_eq!(site.get("/").await.body, "whole");
}

#[tokio::test]
async fn body_above_limit_is_streamed_and_not_stored() {
    for pieces in [vec![data("0123456789a")], vec![data("01234"), data("56789"), data("a"), data("b")]] {
        let expected = if pieces.len() == 1 { "0123456789a" } else { "0123456789ab" };
        let (site, replies) = streaming(None);
        replies.send(reply(pieces)).unwrap();
        let response = site.get("/").await;
        assert_eq!(
            (&response.body[..], response.cache_status()),
            (expected.as_bytes(), "fwd=uri-miss; detail=body-too-large")
        );
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn body_at_limit_is_stored() {
    let (site, replies) = streaming(None);
    replies.send(reply(vec![data("0123456789")])).unwrap();
    site.get("/").await;
    assert_eq!(site.get("/").await.body, "0123456789");
}

#[tokio::test]
async fn body_exceeding_limit_while_streaming_reaches_client() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    let reader = tokio::spawn(response.into_body().collect());
    for text in ["01234", "56789", "abcde", "fghij"] {
        frames.send(data(text)).unwrap();
        settle().await;
    }
    drop(frames);
    assert_eq!(reader.await.unwrap().unwrap().to_bytes(), "0123456789abcdefghij");
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn body_with_wrong_length_is_not_stored() {
    for length in ["4", "6", "x", "5, 4", "4, 5", "5,"] {
        let (site, replies) = streaming(Some(length));
        replies.send(reply(vec![data("12345")])).unwrap();
        assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=body-length", "{length}");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn body_with_its_length_twice_is_stored() {
    let (site, replies) = streaming(Some("5, 5"));
    replies.send(reply(vec![data("12345")])).unwrap();
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.get("/").await.header("content-length"), Some("5"));
}

#[tokio::test]
async fn failing_body_is_not_stored_and_error_reaches_client() {
    let (site, replies) = streaming(None);
    replies.send(reply(vec![data("12"), Err(io::Error::other("cut"))])).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    let mut body = response.into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "12");
    assert_eq!(body.frame().await.unwrap().unwrap_err().to_string(), "cut");
    replies.send(reply(vec![data("whole")])).unwrap();
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn body_failing_while_streaming_is_not_stored() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    frames.send(data("12")).unwrap();
    settle().await;
    frames.send(Err(io::Error::other("cut"))).unwrap();
    assert_eq!(response.into_body().collect().await.unwrap_err().to_string(), "cut");
    assert_eq!(site.cache.stats().unstored, [(larder_http::Reason::BodyError, 1)]);
}

#[tokio::test]
async fn body_with_trailers_reaches_client_and_is_not_stored() {
    let (site, replies) = streaming(None);
    replies.send(reply(vec![data("12"), trailers()])).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    assert_eq!(response.headers()["cache-status"], "larder; fwd=uri-miss; detail=trailers");
    let collected = response.into_body().collect().await.unwrap();
    assert_eq!(collected.trailers().unwrap()["x-checksum"], "1");
    assert_eq!(collected.to_bytes(), "12");
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn body_with_too_large_size_hint_is_not_collected() {
    let site = Site::with(|b| b.max_body_bytes(10), |_, _| async { cached("0123456789a") });
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    assert_eq!(response.body().size_hint().exact(), Some(11));
    assert_eq!(response.headers()["cache-status"], "larder; fwd=uri-miss; detail=body-too-large");
}

/// A body that panics at the second poll.
struct PanickingBody(bool);

impl http_body::Body for PanickingBody {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Part>> {
        assert!(!self.0, "the body panics");
        self.0 = true;
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

#[tokio::test]
async fn panicking_body_never_looks_complete() {
    let site = Site::new(|_, _| async { cached("").map(|_| PanickingBody(false).boxed()) });
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    let error = response.into_body().collect().await.unwrap_err();
    let error = error.downcast::<larder_http::IncompleteBody>().unwrap();
    assert_eq!(error.reason(), larder_http::Reason::HandlerPanic);
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test]
async fn streamed_body_above_limit_is_hit_for_miss() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    frames.send(data("0123456789a")).unwrap();
    drop(frames);
    response.into_body().collect().await.unwrap();
    replies.send(reply(vec![data("1")])).unwrap();
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; detail=hit-for-miss");
}

#[tokio::test]
async fn head_of_a_running_body_does_not_claim_to_be_stored() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    assert_eq!(response.headers()["cache-status"], "larder; fwd=uri-miss; detail=streaming");
    frames.send(Err(io::Error::other("cut"))).unwrap();
    assert!(response.into_body().collect().await.is_err());
    assert_eq!(site.cache.stats().unstored, [(larder_http::Reason::BodyError, 1)]);
}

#[tokio::test(start_paused = true)]
async fn slow_body_reaches_client_and_is_not_stored() {
    let (site, replies) = streaming(None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
    frames.send(data("1")).unwrap();
    settle().await;
    tokio::time::advance(SECOND * 61).await;
    settle().await;
    assert_eq!(site.cache.stats().unstored, [(larder_http::Reason::FillTimeout, 1)]);
    frames.send(data("2")).unwrap();
    drop(frames);
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "12");
    assert_eq!(site.cache.stats().entries, 0);
}
