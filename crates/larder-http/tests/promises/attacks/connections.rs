//! Attacks over HTTP/1.1 and HTTP/2 as clients speak them: hyper serves the layer on a pipe in memory.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use axum::body::Body;
use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper::server::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use larder_http::{BodyRule, BodyRules, HttpCache};
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::sync::mpsc;
use tower::util::BoxCloneService;
use tower::{Layer, ServiceExt, service_fn};

use crate::support::*;

type Service = BoxCloneService<Request<Incoming>, http::Response<larder_http::Body<TestBody>>, Infallible>;

/// A site whose handler never reads request bodies. Its replies are cached, and name the target and the number of the
/// call.
struct Served {
    service: Service,
    /// The targets of all requests that reached the handler.
    seen: Arc<Mutex<Vec<String>>>,
}

impl Served {
    fn new() -> Served {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let targets = seen.clone();
        let handler = service_fn(move |request: Request<Body>| {
            let mut targets = targets.lock().unwrap();
            targets.push(request.uri().path().to_owned());
            let reply = cached(format!("{} {}\n", request.uri().path(), targets.len()));
            async move { Ok::<_, Infallible>(reply) }
        });
        let rules = BodyRules::new().route("/search", BodyRule::post().max_bytes(100).read_timeout(SECOND));
        let cache = HttpCache::builder().ignored_cookies(["theme"]).build().unwrap();
        let layered = cache.layer().body_rules(rules).layer(handler);
        let service = layered.map_request(|request: Request<Incoming>| request.map(Body::new));
        Served { service: BoxCloneService::new(service), seen }
    }

    fn seen(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }

    /// A connection of HTTP/1.1.
    fn http1(&self) -> DuplexStream {
        let (client, server) = duplex(1 << 20);
        let service = TowerToHyperService::new(self.service.clone());
        let connection =
            http1::Builder::new().timer(TokioTimer::new()).serve_connection(TokioIo::new(server), service);
        // It fails if it refuses a request.
        tokio::spawn(async { drop(connection.await) });
        client
    }

    /// What the server sends for these bytes until it closes the connection.
    async fn exchange(&self, requests: &str) -> String {
        let mut connection = self.http1();
        connection.write_all(requests.as_bytes()).await.unwrap();
        let mut replies = String::new();
        connection.read_to_string(&mut replies).await.unwrap();
        replies
    }

    /// A connection of HTTP/2.
    async fn http2(&self) -> SendRequest<TestBody> {
        let (client, server) = duplex(1 << 20);
        let service = TowerToHyperService::new(self.service.clone());
        tokio::spawn(
            http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(server), service),
        );
        let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(client)).await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

/// A GET of HTTP/2 with the bytes of its body, if it has one; its length is not declared.
async fn get2(
    connection: &mut SendRequest<TestBody>,
    fields: &[(&str, &str)],
    body: Option<&'static str>,
) -> (String, Bytes) {
    let mut request = Request::get("http://site.example/page");
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    let body = match body {
        None => Full::default().map_err(|never| match never {}).boxed(),
        Some(text) => {
            let (frames, receiver) = mpsc::unbounded_channel();
            frames.send(data(text)).unwrap();
            Streamed(receiver).boxed()
        }
    };
    let response = connection.send_request(request.body(body).unwrap()).await.unwrap();
    let status = response.headers()["cache-status"].to_str().unwrap().to_owned();
    (status, response.into_body().collect().await.unwrap().to_bytes())
}

const PAGE: &str = "GET /page HTTP/1.1\r\nHost: site.example\r\n\r\n";
const LAST: &str = "GET /page HTTP/1.1\r\nHost: site.example\r\nConnection: close\r\n\r\n";
const SMUGGLED: &str = "GET /smuggled HTTP/1.1\r\nHost: site.example\r\n\r\n";

/// The fields `Cache-Status` in the replies, without the name of the cache.
fn cache_statuses(replies: &str) -> Vec<&str> {
    replies.lines().filter_map(|line| line.strip_prefix("cache-status: larder; ")).collect()
}

#[tokio::test]
async fn unread_body_of_a_get_is_never_a_request() {
    let framings = [
        format!("Content-Length: {}\r\n\r\n{SMUGGLED}", SMUGGLED.len()),
        format!("Transfer-Encoding: chunked\r\n\r\n{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n", SMUGGLED.len()),
    ];
    for framing in framings {
        let site = Served::new();
        let fat = format!("GET /page HTTP/1.1\r\nHost: site.example\r\n{framing}");
        let replies = site.exchange(&format!("{PAGE}{fat}{LAST}")).await;
        let statuses = ["fwd=uri-miss; stored", "fwd=bypass; detail=request-body", "hit; ttl=59"];
        assert_eq!(cache_statuses(&replies)[..2], statuses[..2], "{replies}");
        assert_eq!(site.seen(), ["/page", "/page"], "{replies}");
    }
}

#[tokio::test]
async fn rest_of_a_rejected_body_is_never_a_request() {
    let padding = "x".repeat(100);
    let long = format!("{padding}{SMUGGLED}");
    let framings = [
        format!("Content-Length: {}\r\n\r\n{long}", long.len()),
        format!(
            "Transfer-Encoding: chunked\r\n\r\n64\r\n{padding}\r\n{:x}\r\n{SMUGGLED}\r\n0\r\n\r\n",
            SMUGGLED.len()
        ),
    ];
    for framing in framings {
        let site = Served::new();
        let replies =
            site.exchange(&format!("POST /search HTTP/1.1\r\nHost: site.example\r\n{framing}{LAST}")).await;
        assert!(replies.starts_with("HTTP/1.1 413 "), "{replies}");
        assert!(!site.seen().contains(&"/smuggled".to_owned()), "{replies}");
    }
}

#[tokio::test]
async fn rejected_body_is_not_asked_for() {
    let site = Served::new();
    let head = "POST /search HTTP/1.1\r\nHost: site.example\r\nExpect: 100-continue\r\nConnection: close\r\n";
    let replies = site.exchange(&format!("{head}Content-Length: 101\r\n\r\n")).await;
    assert!(replies.starts_with("HTTP/1.1 413 "), "{replies}");
    assert_eq!(site.seen(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn rest_of_a_late_body_is_never_a_request() {
    let site = Served::new();
    let mut connection = site.http1();
    let head =
        format!("POST /search HTTP/1.1\r\nHost: site.example\r\nContent-Length: {}\r\n\r\n", SMUGGLED.len());
    connection.write_all(head.as_bytes()).await.unwrap();
    let mut reply = [0; 12];
    connection.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"HTTP/1.1 408");
    // The server may have closed the connection.
    let _ = connection.write_all(SMUGGLED.as_bytes()).await;
    settle().await;
    assert_eq!(site.seen(), [""; 0]);
}

#[tokio::test]
async fn ambiguous_target_or_host_bypasses() {
    for (head, status) in [
        ("GET /page HTTP/1.1\r\nHost: site.example", "hit"),
        ("GET http://site.example/page HTTP/1.1\r\nHost: site.example", "hit"),
        ("GET http://SITE.example:80/page HTTP/1.1\r\nHost: site.EXAMPLE:80", "hit"),
        ("GET http://evil.example/page HTTP/1.1\r\nHost: site.example", "fwd=bypass; detail=authority"),
        ("GET http://u@site.example/page HTTP/1.1\r\nHost: site.example", "fwd=bypass; detail=authority"),
        ("GET /page HTTP/1.1\r\nHost: site.example\r\nHost: evil.example", "fwd=bypass; detail=authority"),
        ("GET /page HTTP/1.1\r\nHost: site.example\r\nHost: site.example", "fwd=bypass; detail=authority"),
        ("GET /page HTTP/1.1\r\nHost: site.example, evil.example", "fwd=bypass; detail=authority"),
        ("GET /page HTTP/1.1\r\nHost: :80", "fwd=bypass; detail=authority"),
        ("GET https://site.example/page HTTP/1.1\r\nHost: site.example", "fwd=uri-miss; stored"),
        ("GET /page HTTP/1.0", "fwd=uri-miss; stored"),
    ] {
        let site = Served::new();
        let replies = site.exchange(&format!("{PAGE}{head}\r\nConnection: close\r\n\r\n")).await;
        let second = cache_statuses(&replies)[1];
        assert!(second.starts_with(status), "{head}: {second}");
    }
}

#[tokio::test]
async fn header_flood_is_answered_before_the_layer() {
    let site = Served::new();
    let flood: String = (0..200).map(|n| format!("X-Flood-{n}: x\r\n")).collect();
    let reply = site.exchange(&format!("GET /page HTTP/1.1\r\nHost: site.example\r\n{flood}\r\n")).await;
    assert!(reply.starts_with("HTTP/1.1 431 "), "{reply}");
    assert_eq!(site.seen(), [""; 0]);
    assert_eq!(cache_statuses(&site.exchange(LAST).await), ["fwd=uri-miss; stored"]);
}

#[tokio::test]
async fn http2_get_with_a_body_bypasses() {
    let site = Served::new();
    let mut connection = site.http2().await;
    let (status, fat) = get2(&mut connection, &[], Some("evil")).await;
    assert_eq!((status.as_str(), &fat[..]), ("larder; fwd=bypass; detail=request-body", &b"/page 1\n"[..]));
    let (status, page) = get2(&mut connection, &[], None).await;
    assert_eq!((status.as_str(), &page[..]), ("larder; fwd=uri-miss; stored", &b"/page 2\n"[..]));
    let (status, fat) = get2(&mut connection, &[], Some("evil")).await;
    assert_eq!((status.as_str(), &fat[..]), ("larder; fwd=bypass; detail=request-body", &b"/page 3\n"[..]));
    assert_eq!(get2(&mut connection, &[], None).await.1, "/page 2\n");
}

#[tokio::test]
async fn http2_host_must_equal_the_authority() {
    let site = Served::new();
    let mut connection = site.http2().await;
    get2(&mut connection, &[], None).await;
    let (status, _) = get2(&mut connection, &[("host", "evil.example")], None).await;
    assert_eq!(status, "larder; fwd=bypass; detail=authority");
    assert!(get2(&mut connection, &[("host", "site.example")], None).await.0.starts_with("larder; hit"));
}

#[tokio::test]
async fn http2_cookie_lines_are_all_seen() {
    let site = Served::new();
    let mut connection = site.http2().await;
    get2(&mut connection, &[], None).await;
    let ignored = ("cookie", "theme=dark");
    assert!(get2(&mut connection, &[ignored], None).await.0.starts_with("larder; hit"));
    let (status, _) = get2(&mut connection, &[ignored, ("cookie", "session=2")], None).await;
    assert_eq!(status, "larder; fwd=bypass; detail=cookie");
}

#[tokio::test]
async fn http2_rejection_of_a_body_is_sent_before_its_end() {
    let site = Served::new();
    let mut connection = site.http2().await;
    let (frames, receiver) = mpsc::unbounded_channel();
    frames.send(Ok(http_body::Frame::data(Bytes::from(vec![b'x'; 101])))).unwrap();
    let request = Request::post("http://site.example/search").body(Streamed(receiver).boxed()).unwrap();
    let response = connection.send_request(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(site.seen(), [""; 0]);
}
