//! What was stored comes back as it was: status, fields, bytes; and as a 304 or without a body where that is asked.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use larder_http::Cached;
use tower::ServiceExt;

use crate::support::*;

#[tokio::test]
async fn status_fields_and_bytes_come_back() {
    let site = Site::new(|_, _| async {
        let mut reply =
            with(plain(&b"\xff\0bytes"[..]), Cached::ttl(MINUTE).cached_errors([StatusCode::NOT_FOUND]));
        *reply.status_mut() = StatusCode::NOT_FOUND;
        for (name, value) in [
            ("content-type", "application/x-thing"),
            ("content-language", "de"),
            ("content-encoding", "br"),
            ("link", "</a>; rel=prev"),
            ("link", "</b>; rel=next"),
            ("etag", "W/\"own\""),
            ("cache-control", "max-age=5"),
        ] {
            reply = field(reply, name, value);
        }
        reply
    });
    let miss = site.get("/").await;
    let hit = site.get("/").await;
    assert_eq!(hit.says(), "hit; ttl=60");
    for answer in [miss, hit] {
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        assert_eq!(&answer.body[..], b"\xff\0bytes");
        for (name, value) in [
            ("content-type", "application/x-thing"),
            ("content-language", "de"),
            ("content-encoding", "br"),
            ("etag", "W/\"own\""),
            ("cache-control", "max-age=5"),
            ("content-length", "7"),
        ] {
            assert_eq!(answer.header(name), Some(value));
        }
        let links: Vec<_> = answer.headers.get_all("link").iter().collect();
        assert_eq!(links, ["</a>; rel=prev", "</b>; rel=next"]);
        assert!(answer.headers.contains_key("date"));
    }
}

#[tokio::test]
async fn fields_of_one_connection_are_not_stored() {
    let site = Site::new(|_, _| async {
        let mut reply = cached("x");
        for (name, value) in [
            ("connection", "X-Hop, keep-alive"),
            ("x-hop", "1"),
            ("keep-alive", "timeout=5"),
            ("te", "trailers"),
            ("proxy-authenticate", "Basic"),
            ("upgrade", "h2c"),
            ("x-kept", "1"),
        ] {
            reply = field(reply, name, value);
        }
        reply
    });
    site.get("/").await;
    let hit = site.get("/").await;
    for name in ["connection", "x-hop", "keep-alive", "te", "proxy-authenticate", "upgrade"] {
        assert_eq!(hit.header(name), None, "{name}");
    }
    assert_eq!(hit.header("x-kept"), Some("1"));
}

#[tokio::test]
async fn the_bytes_are_shared_and_not_copied() {
    let body = Bytes::from(vec![7; 100_000]);
    let start = body.as_ptr();
    let site = Site::new(move |_, _| {
        let body = body.clone();
        async { cached(body) }
    });
    for _ in 0..3 {
        let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
        let frame = response.into_body().frame().await.unwrap().unwrap();
        assert_eq!(frame.data_ref().unwrap().as_ptr(), start);
    }
}

#[tokio::test]
async fn age_counts_and_the_date_stays() {
    let site = Site::counting();
    site.get("/").await;
    let first = site.get("/").await;
    site.clock.advance(SECOND * 42);
    let later = site.get("/").await;
    assert_eq!((first.header("age"), later.header("age")), (Some("0"), Some("42")));
    assert_eq!(later.says(), "hit; ttl=18");
    assert_eq!(first.header("date"), later.header("date"));
}

#[tokio::test]
async fn a_missing_etag_is_made_of_the_body() {
    let site = Site::new(|request, _| async move { cached(request.uri().query().unwrap_or("").to_owned()) });
    let etag = |answer: Answer| answer.header("etag").unwrap().to_owned();
    let (same, twin, other) =
        (etag(site.get("/a?x").await), etag(site.get("/b?x").await), etag(site.get("/a?y").await));
    assert_eq!(same, twin);
    assert_ne!(same, other);
    assert!(same.starts_with('"') && same.len() == 34, "{same}");
}

#[tokio::test]
async fn a_client_with_the_same_version_gets_a_304() {
    let site = Site::new(|_, _| async {
        let reply = field(cached("x"), "last-modified", "Sun, 06 Nov 1994 08:49:37 GMT");
        let reply = field(reply, "cache-control", "max-age=5");
        field(field(reply, "content-type", "text/plain"), "vary", "accept")
    });
    let etag = site.get("/").await.header("etag").unwrap().to_owned();
    site.clock.advance(SECOND);
    let list = format!("\"other\", W/{etag}");
    for condition in [
        ("if-none-match", etag.as_str()),
        ("if-none-match", &list),
        ("if-none-match", "*"),
        ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT"),
    ] {
        let answer = site.send(get("/", &[condition])).await;
        assert_eq!((answer.status, answer.body.len()), (StatusCode::NOT_MODIFIED, 0), "{condition:?}");
        assert_eq!(answer.header("etag"), Some(etag.as_str()));
        assert_eq!(answer.header("cache-control"), Some("max-age=5"));
        assert_eq!(answer.header("vary"), Some("accept"));
        assert_eq!(answer.header("age"), Some("1"));
        assert!(answer.headers.contains_key("date"));
        assert_eq!(answer.header("content-type"), None);
        assert_eq!(answer.header("content-length"), None);
        assert_eq!(answer.says(), "hit; ttl=59");
    }
    let stale_tag = [("if-none-match", "\"old\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert_eq!(site.send(get("/", &stale_tag)).await.status, StatusCode::OK);
    assert_eq!(site.cache.stats().not_modified, 4);
}

#[tokio::test]
async fn a_conditional_miss_fetches_the_whole_response() {
    let site = Site::new(|request, _| async move {
        let conditional = request.headers().contains_key("if-none-match");
        let mut reply = field(cached("whole"), "etag", "\"v1\"");
        if conditional {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
        }
        reply
    });
    let answer = site.send(get("/", &[("if-none-match", "\"v1\"")])).await;
    assert_eq!((answer.status, answer.says()), (StatusCode::NOT_MODIFIED, "fwd=uri-miss; stored"));
    assert_eq!(site.get("/").await.body, "whole");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn a_conditional_request_is_answered_304_though_nothing_is_stored() {
    let site = Site::new(|_, _| async { field(field(plain("x"), "etag", "\"v1\""), "x-own", "1") });
    let answer = site.send(get("/", &[("if-none-match", "\"v1\"")])).await;
    assert_eq!((answer.status, answer.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(answer.header("x-own"), Some("1"));
    assert_eq!(answer.says(), "fwd=uri-miss; detail=not-opted-in");
}

#[tokio::test]
async fn a_stored_error_is_never_a_304() {
    let site = Site::new(|_, _| async {
        let mut reply = with(plain("no"), Cached::ttl(MINUTE).cached_errors([StatusCode::NOT_FOUND]));
        *reply.status_mut() = StatusCode::NOT_FOUND;
        field(reply, "etag", "\"v1\"")
    });
    for _ in 0..2 {
        let answer = site.send(get("/", &[("if-none-match", "\"v1\"")])).await;
        assert_eq!((answer.status, &answer.body[..]), (StatusCode::NOT_FOUND, &b"no"[..]));
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn head_is_answered_from_the_get() {
    let site = Site::counting();
    assert_eq!(site.send(request("HEAD", "/", &[])).await.says(), "fwd=bypass; detail=head");
    assert_eq!(site.get("/").await.body, "2", "a HEAD stored nothing");
    let head = site.send(request("HEAD", "/", &[])).await;
    assert_eq!((head.says(), head.body.len()), ("hit; ttl=60", 0));
    assert_eq!(head.header("content-length"), Some("1"));
}

#[tokio::test]
async fn a_range_is_cut_from_the_stored_body_and_of_nothing_stored_left_to_the_handler() {
    let site = Site::new(|_, _| async { field(cached("0123456789"), "etag", "\"v1\"") });
    let range = |range, if_range| site.send(get("/", &[("range", range), ("if-range", if_range)]));
    assert_eq!(site.send(get("/", &[("range", "bytes=0-0")])).await.says(), "fwd=bypass; detail=range");
    assert_eq!(site.get("/").await.header("accept-ranges"), Some("bytes"));

    let part = range("bytes=2-4", "\"v1\"").await;
    assert_eq!((part.status, &part.body[..]), (StatusCode::PARTIAL_CONTENT, &b"234"[..]));
    assert_eq!(
        (part.header("content-range"), part.header("content-length")),
        (Some("bytes 2-4/10"), Some("3"))
    );
    assert_eq!(part.says(), "hit; ttl=60");

    let changed = range("bytes=2-4", "\"v0\"").await;
    assert_eq!((changed.status, changed.body.len()), (StatusCode::OK, 10));
    let several = range("bytes=0-1,4-5", "\"v1\"").await;
    assert_eq!((several.status, several.body.len()), (StatusCode::OK, 10));

    let behind = range("bytes=10-", "\"v1\"").await;
    assert_eq!((behind.status, behind.body.len()), (StatusCode::RANGE_NOT_SATISFIABLE, 0));
    assert_eq!(behind.header("content-range"), Some("bytes */10"));

    let head = site.send(request("HEAD", "/", &[("range", "bytes=2-4")])).await;
    assert_eq!((head.status, head.header("content-length")), (StatusCode::OK, Some("10")));
}

#[tokio::test]
async fn an_empty_response_stays_empty() {
    let site = Site::new(|_, _| async { cached("") });
    for _ in 0..2 {
        let answer = site.get("/").await;
        assert_eq!((answer.body.len(), answer.header("content-length")), (0, Some("0")));
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn the_inner_cache_status_stays_in_front() {
    let site = Site::new(|_, _| async { field(plain("x"), "cache-status", "inner; hit") });
    let answer = site.get("/").await;
    let lines: Vec<_> = answer.headers.get_all("cache-status").iter().collect();
    assert_eq!(lines, ["inner; hit", "larder; fwd=uri-miss; detail=not-opted-in"]);
}
