//! A body that is being filled has many readers, and is held once. No follower takes a failed body as complete.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::BodyExt;
use larder_http::{Cached, IncompleteBody, Reason, Scope};
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::support::*;

type LayerBody = larder_http::Body<TestBody>;

/// A running reply: the site, and a sender for its frames.
async fn running(
    length: Option<&'static str>,
) -> (Site, mpsc::UnboundedSender<Part>, Response<LayerBody>, Replies) {
    let (site, replies) = streaming(length);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let response = open(&site, get("/", &[])).await;
    (site, frames, response, replies)
}

async fn open(site: &Site, request: http::Request<String>) -> Response<LayerBody> {
    site.service.clone().oneshot(request).await.unwrap()
}

async fn next(body: &mut LayerBody) -> Bytes {
    body.frame().await.unwrap().unwrap().into_data().unwrap()
}

/// Reads to the end, which must be an error of the layer.
async fn read_incomplete(body: LayerBody) -> Reason {
    body.collect().await.unwrap_err().downcast::<IncompleteBody>().unwrap().reason()
}

#[tokio::test]
async fn followers_read_while_fill_runs() {
    let (site, frames, client, _replies) = running(None).await;
    frames.send(data("one ")).unwrap();
    settle().await;
    let follower = open(&site, get("/", &[])).await;
    assert_eq!(follower.headers()["cache-status"], "larder; fwd=uri-miss; collapsed");
    let (mut client, mut follower) = (client.into_body(), follower.into_body());
    assert_eq!((next(&mut follower).await, next(&mut client).await), ("one ".into(), "one ".into()));
    frames.send(data("two")).unwrap();
    assert_eq!(next(&mut follower).await, "two");
    drop(frames);
    assert!(follower.frame().await.is_none());
    assert_eq!(client.collect().await.unwrap().to_bytes(), "two");
    assert_eq!(site.get("/").await.cache_status(), "hit; ttl=60");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn followers_that_wait_for_the_head_read_the_same_body() {
    let (site, replies) = streaming(None);
    let start = || tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    let tasks: Vec<_> = (0..3).map(|_| start()).collect();
    settle().await;
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let mut bodies = Vec::new();
    for task in tasks {
        bodies.push(task.await.unwrap().unwrap().into_body());
    }
    frames.send(data("whole")).unwrap();
    drop(frames);
    for body in bodies {
        assert_eq!(body.collect().await.unwrap().to_bytes(), "whole");
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn only_the_stored_response_has_a_generated_etag() {
    let (site, frames, client, _replies) = running(None).await;
    let follower = open(&site, get("/", &[])).await;
    for response in [&client, &follower] {
        assert!(!response.headers().contains_key("etag"));
        assert!(!response.headers().contains_key("content-length"));
    }
    frames.send(data("whole")).unwrap();
    drop(frames);
    settle().await;
    let hit = site.get("/").await;
    assert!(hit.headers.contains_key("etag"));
    assert_eq!(hit.header("content-length"), Some("5"));
}

#[tokio::test]
async fn failing_body_is_an_error_for_followers() {
    let (site, frames, client, replies) = running(Some("4")).await;
    let follower = open(&site, get("/", &[])).await.into_body();
    frames.send(data("12")).unwrap();
    settle().await;
    frames.send(Err(io::Error::other("cut"))).unwrap();
    assert_eq!(client.into_body().collect().await.unwrap_err().to_string(), "cut");
    assert_eq!(read_incomplete(follower).await, Reason::BodyError);
    replies.send(reply(vec![data("1234")])).unwrap();
    assert_eq!(site.get("/").await.cache_status(), "fwd=uri-miss; stored");
}

#[tokio::test]
async fn purged_body_never_ends_as_complete_for_followers() {
    for length in [None, Some("4")] {
        let (site, frames, client, replies) = running(length).await;
        let mut follower = open(&site, get("/", &[])).await.into_body();
        frames.send(data("12")).unwrap();
        assert_eq!(next(&mut follower).await, "12");
        frames.send(data("34")).unwrap();
        settle().await;
        site.cache.purge_uri("http://site.example/").unwrap();
        drop(frames);
        assert_eq!(client.into_body().collect().await.unwrap().to_bytes(), "1234");
        let mut read = Vec::new();
        let error = loop {
            match follower.frame().await.unwrap() {
                Ok(frame) => read.push(frame.into_data().unwrap()),
                Err(error) => break error,
            }
        };
        assert_eq!(error.downcast::<IncompleteBody>().unwrap().reason(), Reason::Purged);
        assert_eq!(read.len(), usize::from(length.is_none()), "a declared length must not be reached");
        replies.send(reply(vec![data("5678")])).unwrap();
        assert_eq!(site.get("/").await.body, "5678");
    }
}

#[tokio::test]
async fn request_after_purge_does_not_join_the_running_fill() {
    let purges: [fn(&Site); 3] = [
        |site| drop(site.cache.purge_prefix("http://site.example/")),
        |site| site.cache.purge_all(),
        |site| assert!(site.cache.purge_uri("http://site.example/").unwrap()),
    ];
    for purge in purges {
        let (site, frames, _client, replies) = running(None).await;
        purge(&site);
        replies.send(reply(vec![data("new")])).unwrap();
        assert_eq!(site.get("/").await.body, "new");
        drop(frames);
        settle().await;
        assert_eq!(site.get("/").await.body, "new", "the old fill must not replace it");
    }
}

#[tokio::test]
async fn too_large_body_is_an_error_for_followers_only() {
    let (site, frames, client, _replies) = running(None).await;
    let follower = open(&site, get("/", &[])).await.into_body();
    for text in ["01234", "56789", "abcde"] {
        frames.send(data(text)).unwrap();
        settle().await;
    }
    drop(frames);
    assert_eq!(client.into_body().collect().await.unwrap().to_bytes(), "0123456789abcde");
    assert_eq!(read_incomplete(follower).await, Reason::BodyTooLarge);
    assert_eq!(site.cache.stats().entries, 0);
}

#[tokio::test(start_paused = true)]
async fn slow_body_is_an_error_for_followers_only() {
    let (site, frames, client, _replies) = running(None).await;
    let follower = open(&site, get("/", &[])).await.into_body();
    settle().await;
    tokio::time::advance(SECOND * 61).await;
    assert_eq!(read_incomplete(follower).await, Reason::FillTimeout);
    frames.send(data("late")).unwrap();
    drop(frames);
    assert_eq!(client.into_body().collect().await.unwrap().to_bytes(), "late");
}

#[tokio::test]
async fn fill_continues_for_followers_after_its_client_has_left() {
    let (site, frames, client, _replies) = running(None).await;
    let follower = open(&site, get("/", &[])).await.into_body();
    drop(client);
    frames.send(data("whole")).unwrap();
    drop(frames);
    assert_eq!(follower.collect().await.unwrap().to_bytes(), "whole");
    assert_eq!(site.get("/").await.body, "whole");
}

#[tokio::test]
async fn range_and_head_do_not_join_a_running_fill() {
    let (site, frames, client, replies) = running(None).await;
    for (request, status) in [
        (get("/", &[("range", "bytes=0-1")]), "larder; fwd=bypass; detail=range"),
        (request("HEAD", "/", &[]), "larder; fwd=bypass; detail=head"),
        (get("/", &[("cookie", "a=b")]), "larder; fwd=bypass; detail=cookie"),
    ] {
        replies.send(reply(vec![data("own")])).unwrap();
        assert_eq!(open(&site, request).await.headers()["cache-status"], status);
    }
    drop((frames, client));
}

#[tokio::test]
async fn other_variant_does_not_join_a_running_fill() {
    let (frames, receiver) = mpsc::unbounded_channel();
    let first = std::sync::Mutex::new(Some(receiver));
    let site = Site::new(move |_, call| {
        let body = first.lock().unwrap().take();
        async move {
            let reply = match body {
                Some(frames) => cached("").map(|_| Streamed(frames).boxed()),
                None => cached(call.to_string()),
            };
            field(reply, "vary", "accept-language")
        }
    });
    let in_language = |language| get("/", &[("accept-language", language)]);
    let _client = open(&site, in_language("de")).await;
    assert_eq!(site.send(in_language("fr")).await.body, "2");
    let follower = open(&site, in_language("de")).await;
    frames.send(data("eins")).unwrap();
    drop(frames);
    assert_eq!(follower.into_body().collect().await.unwrap().to_bytes(), "eins");
    assert_eq!(site.send(in_language("de")).await.body, "eins");
}

#[tokio::test]
async fn large_body_is_held_once_for_all_readers() {
    const LEN: usize = 8 << 20;
    let (site, replies) = streaming_with(|b| b.max_bytes(64 << 20).max_body_bytes(LEN), None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let mut bodies = vec![open(&site, get("/", &[])).await.into_body()];
    for _ in 0..50 {
        bodies.push(open(&site, get("/", &[])).await.into_body());
    }
    for n in 0..LEN / (64 << 10) {
        frames.send(Ok(Frame::data(Bytes::from(vec![n as u8; 64 << 10])))).unwrap();
    }
    drop(frames);
    settle().await;
    let stats = site.cache.stats();
    assert!(stats.body_bytes < (LEN + LEN / 8) as u64, "{}", stats.body_bytes);
    for mut body in bodies {
        let mut len = 0;
        while let Some(frame) = body.frame().await {
            len += frame.unwrap().into_data().unwrap().len();
        }
        assert_eq!(len, LEN);
    }
    let part = site.send(get("/", &[("range", "bytes=1048570-1048579")])).await;
    assert_eq!(part.body, [[15u8; 6].as_slice(), &[16; 4]].concat());
    let hit = open(&site, get("/", &[])).await;
    assert_eq!(hit.body().size_hint().exact(), Some(LEN as u64));
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn long_body_is_sent_before_its_etag_is_made() {
    const LONG: usize = (4 << 20) + 1;
    let with_etag = ("if-none-match", "\"another\"");
    for (len, condition, has_etag) in
        [(LONG, None, false), (LONG - 1, None, true), (LONG, Some(with_etag), true)]
    {
        let (site, replies) = streaming_with(|b| b.max_bytes(64 << 20).max_body_bytes(LONG), None);
        let (frames, receiver) = mpsc::unbounded_channel();
        frames.send(Ok(Frame::data(Bytes::from(vec![7; len])))).unwrap();
        drop(frames);
        replies.send(receiver).unwrap();
        let first = open(&site, get("/", condition.as_slice())).await;
        assert_eq!(first.headers().contains_key("etag"), has_etag, "{len} bytes, {condition:?}");
        assert_eq!(first.body().size_hint().exact(), Some(len as u64));
        assert_eq!(first.into_body().collect().await.unwrap().to_bytes().len(), len);
        stores(&site, 1).await;
        let hit = site.get("/").await;
        assert_eq!((hit.cache_status(), hit.body.len()), ("hit; ttl=60", len));
        assert!(hit.headers.contains_key("etag"), "{len} bytes, {condition:?}");
        assert_eq!(site.calls(), 1);
    }
}

#[test]
fn etag_of_long_body_is_made_beside_the_runtime() {
    const LONG: usize = (4 << 20) + 1;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (site, replies) = streaming_with(|b| b.max_bytes(64 << 20).max_body_bytes(LONG), None);
        let (frames, receiver) = mpsc::unbounded_channel();
        frames.send(Ok(Frame::data(Bytes::from(vec![7; LONG])))).unwrap();
        drop(frames);
        replies.send(receiver).unwrap();
        // The only thread for long work is busy.
        let (free, is_free) = std::sync::mpsc::channel::<()>();
        let busy = tokio::task::spawn_blocking(move || is_free.recv());
        let first = open(&site, get("/", &[])).await;
        assert_eq!(
            first.into_body().collect().await.unwrap().to_bytes().len(),
            LONG,
            "its client needs no ETag"
        );
        assert_eq!(site.cache.stats().stores, 0, "it waits for the ETag");
        drop(free);
        _ = busy.await.unwrap();
        stores(&site, 1).await;
    });
}

#[test]
fn long_body_is_stored_though_no_other_thread_can_hash_it() {
    const LONG: usize = (4 << 20) + 1;
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(1).build().unwrap();
    runtime.block_on(async {
        let (site, replies) = streaming_with(|b| b.max_bytes(64 << 20).max_body_bytes(LONG), None);
        let (_free, is_free) = std::sync::mpsc::channel::<()>();
        tokio::task::spawn_blocking(move || is_free.recv());
        for (target, condition) in [("/a", None), ("/b", Some(("if-none-match", "\"another\"")))] {
            replies.send(reply(vec![Ok(Frame::data(Bytes::from(vec![7; LONG])))])).unwrap();
            let answered = CollectedResponse::read(open(&site, get(target, condition.as_slice())).await);
            assert_eq!(answered.await.unwrap().body.len(), LONG);
        }
        stores(&site, 2).await;
    });
}

#[tokio::test]
async fn post_invalidates_a_running_fill_whose_entry_was_evicted() {
    let (site, replies) = streaming_with(|b| b.max_bytes(64 << 10).max_body_bytes(4 << 10), None);
    let (frames, receiver) = mpsc::unbounded_channel();
    replies.send(receiver).unwrap();
    let first = open(&site, get("/", &[])).await;
    frames.send(data("old")).unwrap();
    settle().await;
    for n in 0..300 {
        replies.send(reply(vec![data("x")])).unwrap();
        site.get(&format!("/{n}")).await;
    }
    replies.send(reply(vec![data("posted")])).unwrap();
    assert_eq!(site.send(request("POST", "/", &[])).await.body, "posted");
    drop(frames);
    assert_eq!(first.into_body().collect().await.unwrap().to_bytes(), "old", "it was requested before");
    settle().await;
    replies.send(reply(vec![data("new")])).unwrap();
    assert_eq!(site.get("/").await.body, "new");
}

/// A body of five bytes that may announce another length, and panics if it is read after its end.
struct FiveBytes {
    announced: Option<u64>,
    unread: Option<&'static str>,
    has_ended: bool,
}

impl FiveBytes {
    fn reply(announced: Option<u64>) -> Reply {
        cached("").map(|_| FiveBytes { announced, unread: Some("five!"), has_ended: false }.boxed())
    }
}

impl http_body::Body for FiveBytes {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Part>> {
        assert!(!self.has_ended, "it was read after its end");
        self.has_ended = self.unread.is_none();
        Poll::Ready(self.unread.take().map(data))
    }

    fn size_hint(&self) -> SizeHint {
        self.announced.map_or(SizeHint::new(), SizeHint::with_exact)
    }
}

#[tokio::test]
async fn body_is_not_read_again_after_its_end() {
    let site = Site::new(|_, _| async { field(FiveBytes::reply(None), "content-length", "10") });
    let response = open(&site, get("/", &[])).await;
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "five!");
    assert_eq!(site.cache.stats().stores, 0, "its length is wrong");
}

#[tokio::test]
async fn body_shorter_than_it_announced_is_not_stored() {
    let site = Site::new(|_, _| async { FiveBytes::reply(Some(10)) });
    for call in 1..=2 {
        drop(open(&site, get("/", &[])).await.into_body().collect().await);
        assert_eq!((site.calls(), site.cache.stats().stores), (call, 0));
    }
}

/// A body that is always ready, and takes its time.
struct Slow(u32);

impl http_body::Body for Slow {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Part>> {
        std::thread::sleep(Duration::from_millis(5));
        self.0 -= 1;
        Poll::Ready((self.0 > 0).then(|| data("x")))
    }
}

#[tokio::test]
async fn body_that_is_always_ready_is_timed_out() {
    let site = Site::with(
        |builder| builder.fill_timeout(Duration::from_millis(20)),
        |_, _| async { cached("").map(|_| Slow(10).boxed()) },
    );
    let response = site.get("/").await;
    assert_eq!((response.cache_status(), response.body.len()), ("fwd=uri-miss; detail=fill-timeout", 9));
    assert_eq!(site.cache.stats().stores, 0);
}

#[tokio::test]
async fn stalled_readers_hold_no_more_than_the_limit() {
    const LEN: usize = 100 << 10;
    let (max_bytes, max_fill_bytes) = (1 << 20, 1 << 20);
    let (site, replies) = streaming_with(|b| b.max_bytes(max_bytes).max_fill_bytes(max_fill_bytes), None);
    let mut stalled = Vec::new();
    for n in 0..100 {
        let (frames, receiver) = mpsc::unbounded_channel();
        replies.send(receiver).unwrap();
        stalled.push(open(&site, get(&format!("/{n}"), &[])).await.into_body());
        for _ in 0..10 {
            frames.send(Ok(Frame::data(Bytes::from(vec![1; LEN / 10])))).unwrap();
        }
        drop(frames);
        settle().await;
        let held = site.cache.stats().body_bytes;
        assert!(held <= max_bytes + max_fill_bytes, "{held} bytes after {n}");
    }
    assert!(site.cache.stats().unstored.iter().any(|(reason, _)| *reason == Reason::BodyMemory));
    for body in stalled {
        assert_eq!(body.collect().await.unwrap().to_bytes().len(), LEN, "it continues from the handler");
    }
    site.cache.purge_all();
    assert_eq!(site.cache.stats().body_bytes, 0);
}

#[tokio::test]
async fn requests_above_max_waiters_call_the_handler() {
    let (site, replies) = streaming_with(|b| b.max_waiters(2), None);
    let start = || tokio::spawn(site.service.clone().oneshot(get("/", &[])));
    let tasks: Vec<_> = (0..5).map(|_| start()).collect();
    settle().await;
    assert_eq!(site.calls(), 3, "the first one, and two that may not wait");
    for _ in 0..3 {
        replies.send(reply(vec![data("1")])).unwrap();
    }
    let mut statuses = Vec::new();
    for task in tasks {
        statuses.push(task.await.unwrap().unwrap().headers()["cache-status"].clone());
    }
    let waited_for = statuses.iter().filter(|status| *status == "larder; fwd=uri-miss; collapsed").count();
    assert_eq!(waited_for, 2, "{statuses:?}");
}

/// The head tells when the response was made (RFC 9111, 4.2.3).
#[tokio::test]
async fn response_ages_while_its_body_arrives() {
    for kind in ["leader", "with a cookie", "refresh"] {
        let (replies, queue) = mpsc::unbounded_channel::<mpsc::UnboundedReceiver<Part>>();
        let queue = Arc::new(tokio::sync::Mutex::new(queue));
        let site = Arc::new(Site::new(move |_, _| {
            let queue = queue.clone();
            async move {
                let frames = queue.lock().await.recv().await.unwrap();
                let settings = Cached::ttl(MINUTE).swr(MINUTE).scope(Scope::Public);
                with_cached(plain(""), settings).map(|_| Streamed(frames).boxed())
            }
        }));
        if kind == "refresh" {
            replies.send(reply(vec![data("old")])).unwrap();
            site.get("/a").await;
            site.clock.advance(MINUTE + SECOND);
        }
        let (frames, receiver) = mpsc::unbounded_channel();
        replies.send(receiver).unwrap();
        frames.send(data("a")).unwrap();
        let fields: &[_] = if kind == "with a cookie" { &[("cookie", "a=b")] } else { &[] };
        let filling = tokio::spawn(site.service.clone().oneshot(get("/a", fields)));
        settle().await;
        site.clock.advance(50 * SECOND);
        frames.send(data("b")).unwrap();
        drop(frames);
        filling.await.unwrap().unwrap().into_body().collect().await.unwrap();
        settle().await;
        let hit = site.get("/a").await;
        assert_eq!((&hit.body[..], hit.cache_status()), (&b"ab"[..], "hit; ttl=10"), "{kind}");
        assert_eq!(hit.header("age"), Some("50"), "{kind}");
    }
}
