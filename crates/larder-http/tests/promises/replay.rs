//! A stored response is replayed unchanged: status, fields and bytes; or as a 304, a part, or without a body.

use bytes::Bytes;
use http::StatusCode;
use http_body_util::BodyExt;
use larder_http::Cached;
use tokio::sync::mpsc;
use tower::ServiceExt;

use crate::support::*;

#[tokio::test]
async fn hit_replays_status_fields_and_bytes() {
    let site = Site::new(|_, _| async {
        let mut reply = with_cached(
            plain(&b"\xff\0bytes"[..]),
            Cached::ttl(MINUTE).cached_errors([StatusCode::NOT_FOUND]),
        );
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
    assert_eq!(hit.cache_status(), "hit; ttl=60");
    for response in [miss, hit] {
        assert_eq!(response.status, StatusCode::NOT_FOUND);
        assert_eq!(&response.body[..], b"\xff\0bytes");
        for (name, value) in [
            ("content-type", "application/x-thing"),
            ("content-language", "de"),
            ("content-encoding", "br"),
            ("etag", "W/\"own\""),
            ("cache-control", "max-age=5"),
            ("content-length", "7"),
        ] {
            assert_eq!(response.header(name), Some(value));
        }
        let links: Vec<_> = response.headers.get_all("link").iter().collect();
        assert_eq!(links, ["</a>; rel=prev", "</b>; rel=next"]);
        assert!(response.headers.contains_key("date"));
    }
}

#[tokio::test]
async fn hop_by_hop_fields_are_not_stored() {
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
async fn hit_shares_stored_bytes() {
    let body = Bytes::from(vec![7; 100_000]);
    let site = Site::new(move |_, _| {
        let body = body.clone();
        async { cached(body) }
    });
    let mut addresses = Vec::new();
    for _ in 0..3 {
        let response = site.service.clone().oneshot(get("/", &[])).await.unwrap();
        let frame = response.into_body().frame().await.unwrap().unwrap();
        addresses.push(frame.data_ref().unwrap().as_ptr());
    }
    assert_eq!(addresses, [addresses[0]; 3]);
}

#[tokio::test]
async fn age_advances_and_date_is_unchanged() {
    let site = Site::counting();
    site.get("/").await;
    let first = site.get("/").await;
    site.clock.advance(SECOND * 42);
    let later = site.get("/").await;
    assert_eq!((first.header("age"), later.header("age")), (Some("0"), Some("42")));
    assert_eq!(later.cache_status(), "hit; ttl=18");
    assert_eq!(first.header("date"), later.header("date"));
}

#[tokio::test]
async fn missing_etag_is_computed_from_body() {
    let site = Site::new(|request, _| async move { cached(request.uri().query().unwrap_or("").to_owned()) });
    let etag = |response: CollectedResponse| response.header("etag").unwrap().to_owned();
    let (same, twin, other) =
        (etag(site.get("/a?x").await), etag(site.get("/b?x").await), etag(site.get("/a?y").await));
    assert_eq!(same, twin);
    assert_ne!(same, other);
    assert!(same.starts_with('"') && same.len() == 34, "{same}");
}

#[tokio::test]
async fn matching_validator_yields_304() {
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
        let response = site.send(get("/", &[condition])).await;
        assert_eq!((response.status, response.body.len()), (StatusCode::NOT_MODIFIED, 0), "{condition:?}");
        assert_eq!(response.header("etag"), Some(etag.as_str()));
        assert_eq!(response.header("cache-control"), Some("max-age=5"));
        assert_eq!(response.header("vary"), Some("accept"));
        assert_eq!(response.header("age"), Some("1"));
        assert!(response.headers.contains_key("date"));
        assert_eq!(response.header("content-type"), None);
        assert_eq!(response.header("content-length"), None);
        assert_eq!(response.cache_status(), "hit; ttl=59");
    }
    let stale_tag = [("if-none-match", "\"old\""), ("if-modified-since", "Sun, 06 Nov 1994 08:49:37 GMT")];
    assert_eq!(site.send(get("/", &stale_tag)).await.status, StatusCode::OK);
    assert_eq!(site.cache.stats().not_modified, 4);
}

#[tokio::test]
async fn conditional_miss_stores_complete_response() {
    let site = Site::new(|request, _| async move {
        let conditional = request.headers().contains_key("if-none-match");
        let mut reply = field(cached("whole"), "etag", "\"v1\"");
        if conditional {
            *reply.status_mut() = StatusCode::NOT_MODIFIED;
        }
        reply
    });
    let response = site.send(get("/", &[("if-none-match", "\"v1\"")])).await;
    assert_eq!(
        (response.status, response.cache_status()),
        (StatusCode::NOT_MODIFIED, "fwd=uri-miss; stored")
    );
    assert_eq!(site.get("/").await.body, "whole");
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn conditional_request_for_unstored_response_yields_304() {
    let site = Site::new(|_, _| async { field(field(plain("x"), "etag", "\"v1\""), "x-own", "1") });
    let response = site.send(get("/", &[("if-none-match", "\"v1\"")])).await;
    assert_eq!((response.status, response.body.len()), (StatusCode::NOT_MODIFIED, 0));
    assert_eq!(response.header("x-own"), Some("1"));
    assert_eq!(response.cache_status(), "fwd=uri-miss; detail=not-opted-in");
}

#[tokio::test]
async fn stored_error_never_yields_304() {
    let site = Site::new(|_, _| async {
        let mut reply = with_cached(plain("no"), Cached::ttl(MINUTE).cached_errors([StatusCode::NOT_FOUND]));
        *reply.status_mut() = StatusCode::NOT_FOUND;
        field(reply, "etag", "\"v1\"")
    });
    for _ in 0..2 {
        let response = site.send(get("/", &[("if-none-match", "\"v1\"")])).await;
        assert_eq!((response.status, &response.body[..]), (StatusCode::NOT_FOUND, &b"no"[..]));
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn head_is_answered_from_stored_get() {
    let site = Site::counting();
    assert_eq!(site.send(request("HEAD", "/", &[])).await.cache_status(), "fwd=bypass; detail=head");
    assert_eq!(site.get("/").await.body, "2", "a HEAD stored nothing");
    let head = site.send(request("HEAD", "/", &[])).await;
    assert_eq!((head.cache_status(), head.body.len()), ("hit; ttl=60", 0));
    assert_eq!(head.header("content-length"), Some("1"));
}

#[tokio::test]
async fn range_is_served_from_stored_body_and_bypasses_otherwise() {
    let site = Site::new(|_, _| async { field(cached("0123456789"), "etag", "\"v1\"") });
    let range = |range, if_range| site.send(get("/", &[("range", range), ("if-range", if_range)]));
    assert_eq!(
        site.send(get("/", &[("range", "bytes=0-0")])).await.cache_status(),
        "fwd=bypass; detail=range"
    );
    assert_eq!(site.get("/").await.header("accept-ranges"), Some("bytes"));

    let part = range("bytes=2-4", "\"v1\"").await;
    assert_eq!((part.status, &part.body[..]), (StatusCode::PARTIAL_CONTENT, &b"234"[..]));
    assert_eq!(
        (part.header("content-range"), part.header("content-length")),
        (Some("bytes 2-4/10"), Some("3"))
    );
    assert_eq!(part.cache_status(), "hit; ttl=60");

    let both = [("range", "bytes=2-4"), ("if-range", "\"v1\""), ("if-range", "\"v0\"")];
    assert_eq!(site.send(get("/", &both)).await.status, StatusCode::OK, "a validator twice matches nothing");
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

/// Digests of the content are those of the bytes that are sent (RFC 9530, section 2), and an error is no copy of the page.
const TEXT: &str = "0123456789";

/// A reply of ten bytes, or of the part in the range `2-4` if the request has it and the handler `serves_ranges`.
fn maybe_part(request: &http::Request<String>, serves_ranges: bool) -> Reply {
    match request.headers().get("range") {
        Some(range) if serves_ranges => {
            assert_eq!(range, "bytes=2-4");
            let mut reply = field(plain(&TEXT[2..=4]), "content-range", "bytes 2-4/10");
            *reply.status_mut() = StatusCode::PARTIAL_CONTENT;
            reply
        }
        _ => plain(TEXT),
    }
}

#[tokio::test]
async fn resource_that_is_asked_for_in_ranges_only_is_stored() {
    for serves_ranges in [true, false] {
        let site = Site::new(move |request, _| async move {
            with_cached(maybe_part(&request, serves_ranges), Cached::ttl(MINUTE))
        });
        let part = || get("/", &[("range", "bytes=2-4")]);
        let first = site.send(part()).await;
        let (status, body) = if serves_ranges { (206, "234") } else { (200, TEXT) };
        assert_eq!((first.cache_status(), first.status.as_u16()), ("fwd=bypass; detail=range", status));
        assert_eq!(first.body, body);
        for cache_status in ["fwd=uri-miss; stored", "hit; ttl=60"] {
            let part = site.send(part()).await;
            assert_eq!((part.cache_status(), part.status), (cache_status, StatusCode::PARTIAL_CONTENT));
            assert_eq!((part.header("content-range"), &part.body[..]), (Some("bytes 2-4/10"), &b"234"[..]));
        }
        assert_eq!((site.get("/").await.body, site.calls()), (TEXT.into(), 2));
        let behind = site.send(get("/", &[("range", "bytes=10-")])).await;
        assert_eq!((behind.status, site.calls()), (StatusCode::RANGE_NOT_SATISFIABLE, 2));
    }
}

/// A client that asks for a part of a long or personal file must not get all of it.
#[tokio::test]
async fn range_of_what_cannot_be_stored_always_reaches_the_handler() {
    let site = Site::with(
        |builder| builder.max_body_bytes(9),
        |request, _| async move {
            let reply = maybe_part(&request, true);
            match request.uri().path() {
                "/long" => with_cached(reply, Cached::ttl(MINUTE)),
                "/private" => field(with_cached(reply, Cached::ttl(MINUTE)), "cache-control", "private"),
                "/unknown-length" => {
                    let mut reply = with_cached(reply, Cached::ttl(MINUTE));
                    reply.headers_mut().insert("content-range", "bytes 2-4/*".parse().unwrap());
                    reply
                }
                _ => reply,
            }
        },
    );
    for target in ["/long", "/private", "/unknown-length", "/not-opted-in"] {
        for _ in 0..3 {
            let part = site.send(get(target, &[("range", "bytes=2-4")])).await;
            assert_eq!((part.status, &part.body[..]), (StatusCode::PARTIAL_CONTENT, &b"234"[..]), "{target}");
            assert_eq!(part.cache_status(), "fwd=bypass; detail=range", "{target}");
            site.clock.advance(SECOND * 11);
        }
    }
}

/// The response has no scope, so that nobody with credentials may have what others have, or wait for them.
#[tokio::test]
async fn range_with_credentials_always_reaches_the_handler() {
    let site =
        Site::new(|request, _| async move { with_cached(maybe_part(&request, true), Cached::ttl(MINUTE)) });
    site.send(get("/", &[("range", "bytes=2-4")])).await;
    for calls in 2..4 {
        let part = site.send(get("/", &[("range", "bytes=2-4"), ("cookie", "a=b")])).await;
        assert_eq!((part.cache_status(), &part.body[..]), ("fwd=bypass; detail=range", &b"234"[..]));
        assert_eq!(site.calls(), calls);
    }
}

/// The body arrives slowly: a client that wants a part of it waits for its end.
#[tokio::test]
async fn concurrent_ranges_of_one_resource_call_the_handler_once() {
    let (site, replies) = streaming(Some("10"));
    replies.send(reply(vec![data(TEXT)])).unwrap();
    assert_eq!(site.send(get("/", &[("range", "bytes=2-4")])).await.body, TEXT);
    let (frames, body) = mpsc::unbounded_channel();
    replies.send(body).unwrap();
    let parts = [("bytes=0-3", "0123"), ("bytes=4-", "456789"), ("bytes=-2", "89")];
    let requests = parts.map(|(range, _)| get("/", &[("range", range)]));
    let started = requests.map(|request| tokio::spawn(site.service.clone().oneshot(request)));
    for part in ["01234", "56789"] {
        settle().await;
        frames.send(data(part)).unwrap();
    }
    drop(frames);
    for (started, (range, part)) in started.into_iter().zip(parts) {
        let response = CollectedResponse::read(started.await.unwrap().unwrap()).await.unwrap();
        assert_eq!(
            (response.status, &response.body[..]),
            (StatusCode::PARTIAL_CONTENT, part.as_bytes()),
            "{range}"
        );
    }
    assert_eq!(site.calls(), 2);
}

#[tokio::test]
async fn part_and_416_have_no_fields_of_the_whole_content() {
    let site = Site::new(|_, _| async {
        let reply = field(cached("0123456789"), "content-digest", "sha-256=:AA==:");
        let reply = field(field(reply, "content-md5", "AA=="), "repr-digest", "sha-256=:AA==:");
        field(field(reply, "cache-control", "public, max-age=600"), "vary", "accept")
    });
    site.get("/").await;
    let part = site.send(get("/", &[("range", "bytes=0-1")])).await;
    assert_eq!((part.status, &part.body[..]), (StatusCode::PARTIAL_CONTENT, &b"01"[..]));
    assert_eq!((part.header("content-digest"), part.header("content-md5")), (None, None));
    assert!(part.header("repr-digest").is_some() && part.header("cache-control").is_some());
    let behind = site.send(get("/", &[("range", "bytes=50-")])).await;
    assert_eq!(
        (behind.status, behind.header("content-length")),
        (StatusCode::RANGE_NOT_SATISFIABLE, Some("0"))
    );
    for name in ["content-digest", "content-md5", "repr-digest", "cache-control", "etag", "age"] {
        assert_eq!(behind.header(name), None, "{name}");
    }
    assert_eq!((behind.header("vary"), behind.header("accept-ranges")), (Some("accept"), Some("bytes")));
}

#[tokio::test]
async fn empty_response_is_replayed_empty() {
    let site = Site::new(|_, _| async { cached("") });
    for _ in 0..2 {
        let response = site.get("/").await;
        assert_eq!((response.body.len(), response.header("content-length")), (0, Some("0")));
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn inner_cache_status_precedes_own() {
    let site = Site::new(|request, _| async move {
        let response = if request.uri().path() == "/stored" { cached("x") } else { plain("x") };
        field(field(response, "cache-status", "inner; hit"), "etag", "\"v1\"")
    });
    let lines = async |target, fields: &[(&str, &str)]| {
        let response = site.send(get(target, fields)).await;
        let lines: Vec<_> = response.headers.get_all("cache-status").iter().cloned().collect();
        (response.status.as_u16(), lines)
    };
    let own = |status, own: &str| (status, vec!["inner; hit".parse().unwrap(), own.parse().unwrap()]);
    assert_eq!(lines("/", &[]).await, own(200, "larder; fwd=uri-miss; detail=not-opted-in"));
    assert_eq!(lines("/stored", &[]).await, own(200, "larder; fwd=uri-miss; stored"));
    for (fields, status) in [
        (&[][..], 200),
        (&[("range", "bytes=0-0")], 206),
        (&[("range", "bytes=7-")], 416),
        (&[("if-none-match", "\"v1\"")], 304),
    ] {
        assert_eq!(lines("/stored", fields).await, own(status, "larder; hit; ttl=60"));
    }
}

#[tokio::test]
async fn age_of_the_origin_is_added() {
    let site = Site::new(|_, _| async { field(cached("x"), "age", "500") });
    site.get("/").await;
    assert_eq!(site.get("/").await.header("age"), Some("500"));
    site.clock.advance(SECOND * 42);
    assert_eq!(site.get("/").await.header("age"), Some("542"));
}

#[tokio::test]
async fn malformed_validator_yields_no_304() {
    let site = Site::new(|_, _| async { field(cached("x"), "etag", "\"v1\"") });
    site.get("/").await;
    for malformed in ["W/ \"v1\"", "w/\"v1\"", "x\"v1\"", "\"v1\"x", "\"a\" \"v1\"", "W/W/\"v1\""] {
        let response = site.send(get("/", &[("if-none-match", malformed)])).await;
        assert_eq!(response.status, StatusCode::OK, "{malformed}");
    }
}

#[tokio::test]
async fn age_is_that_of_a_stored_response_only() {
    let site = Site::new(|request, _| async move {
        match request.uri().path() {
            "/upstream" => field(cached("x"), "age", "7"),
            _ => cached("x"),
        }
    });
    assert_eq!((site.get("/").await.header("age"), site.get("/").await.header("age")), (None, Some("0")));
    assert_eq!(site.get("/upstream").await.header("age"), Some("7"), "a cache behind the handler had it");
}
