//! A stored body is encoded once per coding, in the background, and each representation has its own validator.

use std::io::Read;
use std::time::{Duration, Instant};

use http::StatusCode;
use larder_http::{Coding, Profile};

use crate::support::*;

const LEN: usize = 10_000;

fn text() -> String {
    "all work and no play ".chars().cycle().take(LEN).collect()
}

fn site_with(finish: impl Fn(Reply) -> Reply + Clone + Send + Sync + 'static) -> Site {
    Site::with(
        |builder| builder.codings([Coding::Brotli, Coding::Zstd, Coding::Gzip]),
        move |_, _| {
            let finish = finish.clone();
            async move { finish(field(cached(text()), "content-type", "text/plain")) }
        },
    )
}

fn site() -> Site {
    site_with(|reply| reply)
}

fn accepting(accepted: &str) -> http::Request<String> {
    get("/", &[("accept-encoding", accepted)])
}

/// Repeats a request until its sibling has been made in the background.
pub(crate) async fn encoded(site: &Site, accepted: &str) -> CollectedResponse {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let response = site.send(accepting(accepted)).await;
        if response.headers.contains_key("content-encoding") {
            return response;
        }
        assert!(Instant::now() < deadline, "no sibling is made");
        tokio::task::yield_now().await;
    }
}

fn decode(coding: &str, body: &[u8]) -> String {
    let mut decoder: Box<dyn Read> = match coding {
        "br" => Box::new(brotli::Decompressor::new(body, 4096)),
        "zstd" => Box::new(zstd::Decoder::new(body).unwrap()),
        _ => Box::new(flate2::read::GzDecoder::new(body)),
    };
    let mut text = String::new();
    decoder.read_to_string(&mut text).unwrap();
    text
}

#[tokio::test]
async fn hit_is_sent_in_the_preferred_coding() {
    let site = site();
    let first = site.send(accepting("br")).await;
    assert_eq!((first.header("content-encoding"), first.body.len()), (None, LEN));
    assert_eq!(first.header("vary"), Some("accept-encoding"));
    for (accepted, coding) in [("br, gzip", "br"), ("gzip", "gzip"), ("br;q=0.1, zstd", "zstd")] {
        let response = encoded(&site, accepted).await;
        assert_eq!(response.header("content-encoding"), Some(coding));
        assert_eq!(response.header("content-length"), Some(&*response.body.len().to_string()));
        assert_eq!(response.cache_status(), "hit; ttl=60");
        assert_eq!(response.header("vary"), Some("accept-encoding"));
        assert_eq!(decode(coding, &response.body), text());
    }
    assert_eq!(site.get("/").await.body, text());
    assert_eq!(site.calls(), 1);
}

/// The field that encoded bodies add to `Vary` is not one of the origin.
#[tokio::test]
async fn validated_response_is_encoded_as_before() {
    let fields = [("cache-control", "max-age=10"), ("etag", "\"a\""), ("content-type", "text/plain")];
    let site = Site::with(
        |builder| builder.codings([Coding::Gzip]).profile(Profile::Rfc),
        move |request, _| {
            let is_validation = request.headers().contains_key("if-none-match");
            std::future::ready(if is_validation {
                not_modified(&fields)
            } else {
                reply_with(text(), &fields)
            })
        },
    );
    encoded(&site, "gzip").await;
    site.clock.advance(SECOND * 11);
    assert_eq!(site.get("/").await.cache_status(), "fwd=stale; fwd-status=304; stored");
    assert_eq!(encoded(&site, "gzip").await.header("vary"), Some("accept-encoding"));
    assert_eq!((site.get("/").await.cache_status(), site.calls()), ("hit; ttl=10", 2));
    site.clock.advance(SECOND * 5);
    site.send(request("HEAD", "/", &[("cache-control", "no-cache")])).await;
    assert_eq!(encoded(&site, "gzip").await.cache_status(), "hit; ttl=10");
}

#[tokio::test]
async fn each_representation_has_its_own_validator() {
    let site = site_with(|reply| field(reply, "etag", "\"v1\""));
    site.get("/").await;
    let response = encoded(&site, "br").await;
    assert_eq!(response.header("etag"), Some("\"v1-br\""));
    let conditional = |accepted, tag| get("/", &[("accept-encoding", accepted), ("if-none-match", tag)]);
    assert_eq!(site.send(conditional("br", "\"v1-br\"")).await.status, StatusCode::NOT_MODIFIED);
    assert_eq!(site.send(conditional("br", "\"v1\"")).await.status, StatusCode::OK);
    assert_eq!(site.send(conditional("identity", "\"v1-br\"")).await.status, StatusCode::OK);
    assert_eq!(site.send(conditional("identity", "\"v1\"")).await.status, StatusCode::NOT_MODIFIED);
}

#[tokio::test]
async fn ranges_are_of_the_plain_body_whatever_is_accepted() {
    let site = site();
    site.get("/").await;
    let text = text();
    for coding in ["gzip", "br", "zstd"] {
        // That of python-requests, whose first range may come before there is a sibling, and the next ones after.
        let accepted = format!("{coding}, deflate");
        let whole = encoded(&site, &accepted).await;
        let length = whole.body.len();
        for (first, last) in [(0, 9), (length, length + 9), (LEN - 9, LEN - 1)] {
            let range = format!("bytes={first}-{last}");
            let fields = [("accept-encoding", &*accepted), ("range", &*range)];
            let part = site.send(get("/", &fields)).await;
            assert_eq!(part.status, StatusCode::PARTIAL_CONTENT, "{coding} {range}");
            assert_eq!(
                (part.header("content-encoding"), &part.body[..]),
                (None, &text.as_bytes()[first..=last])
            );
            let head = site.send(request("HEAD", "/", &fields)).await;
            assert_eq!((head.status, head.header("content-encoding")), (StatusCode::OK, None));
            assert_eq!(head.header("content-length"), Some(&*LEN.to_string()));
            assert_eq!(head.header("etag"), part.header("etag"));
        }
        let past = [("accept-encoding", &*accepted), ("range", "bytes=10000-")];
        let past = site.send(get("/", &past)).await;
        assert_eq!(past.status, StatusCode::RANGE_NOT_SATISFIABLE);
        assert_eq!(past.header("content-range"), Some("bytes */10000"));
    }
    assert_eq!(site.calls(), 1);
}

#[tokio::test]
async fn range_is_of_the_sibling_that_if_range_names() {
    let site = site();
    site.get("/").await;
    for (coding, other) in [("gzip", "br"), ("br", "zstd"), ("zstd", "gzip")] {
        let whole = encoded(&site, coding).await;
        let etag = whole.header("etag").unwrap();
        let with_range = |accepted, etag| {
            site.send(get("/", &[("accept-encoding", accepted), ("range", "bytes=2-9"), ("if-range", etag)]))
        };
        let (both, refused) = (format!("{other}, {coding};q=0.5"), format!("{coding};q=0"));
        let part = with_range(&both, etag).await;
        assert_eq!(
            (part.status, part.header("content-encoding")),
            (StatusCode::PARTIAL_CONTENT, Some(coding))
        );
        assert_eq!((part.header("etag"), &part.body[..]), (Some(etag), &whole.body[2..10]));
        for (accepted, etag) in [(other, etag), (coding, "\"other\""), (&*refused, etag)] {
            let whole = with_range(accepted, etag).await;
            assert_eq!(
                (whole.status, whole.header("content-encoding")),
                (StatusCode::OK, None),
                "{accepted}"
            );
            assert_eq!(whole.body, text());
        }
        let plain = site.get("/").await;
        let part = with_range(coding, plain.header("etag").unwrap()).await;
        assert_eq!((part.header("content-encoding"), &part.body[..]), (None, &text().as_bytes()[2..10]));
    }
}

#[tokio::test]
async fn siblings_are_charged_and_purged_with_their_entry() {
    let site = site();
    site.get("/").await;
    let before = site.cache.stats().bytes;
    let response = encoded(&site, "br").await;
    let mut after = site.cache.stats().bytes;
    let deadline = Instant::now() + Duration::from_secs(60);
    while after < before + response.body.len() as u64 {
        assert!(Instant::now() < deadline, "{after} bytes");
        tokio::task::yield_now().await;
        after = site.cache.stats().bytes;
    }
    assert_eq!(site.cache.stats().entries, 1);
    site.cache.purge_uri("http://site.example/").unwrap();
    assert_eq!(site.send(accepting("br")).await.cache_status(), "fwd=uri-miss; stored");
    assert_eq!(site.calls(), 2);
}

#[tokio::test]
async fn body_that_is_encoded_or_varies_is_sent_as_it_is() {
    for (name, value) in
        [("content-encoding", "x"), ("vary", "accept-encoding"), ("cache-control", "no-transform")]
    {
        let site = site_with(move |reply| field(reply, name, value));
        site.send(accepting("br")).await;
        for _ in 0..20 {
            let response = site.send(accepting("br")).await;
            assert_eq!(response.body, text(), "{name}");
            settle().await;
        }
        assert_eq!(site.calls(), 1, "{name}");
    }
}

#[tokio::test]
async fn cache_without_codings_does_not_add_vary() {
    let site = Site::new(|_, _| async { field(cached(text()), "content-type", "text/plain") });
    site.get("/").await;
    let hit = site.send(accepting("br")).await;
    assert_eq!((hit.header("vary"), hit.header("content-encoding")), (None, None));
}
