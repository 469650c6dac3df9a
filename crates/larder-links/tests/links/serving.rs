//! Over real sockets: draining, limits, and a restart.

use crate::support::{Fixture, open, open_with};
use axum::Router;
use http::Method;
use larder_links::{Links, LinksError, ServeOptions, VisitDetails};
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

struct Serving {
    address: SocketAddr,
    stop: oneshot::Sender<()>,
    task: JoinHandle<Result<(), LinksError>>,
}

async fn serve(links: &Links) -> Serving {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel();
    let links = links.clone();
    let task = tokio::spawn(async move { links.serve(listener, async { drop(stopped.await) }).await });
    Serving { address, stop, task }
}

async fn exchange(address: SocketAddr, request: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
}

#[tokio::test]
async fn stop_finishes_the_running_request_and_writes_visits() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let serving = serve(&fixture.links).await;
    assert!(exchange(serving.address, &get("/a")).await.starts_with("HTTP/1.1 302 Found\r\n"));

    // A request whose body is under way when the service is told to stop.
    let mut stream = TcpStream::connect(serving.address).await.unwrap();
    let head = "POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 45\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut ready = [0; 25];
    stream.read_exact(&mut ready).await.unwrap();
    assert_eq!(&ready, b"HTTP/1.1 100 Continue\r\n\r\n");
    serving.stop.send(()).unwrap();
    stream.write_all(br#"{"url": "https://b.example/", "slug": "last"}"#).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 201 Created\r\n"), "{answer}");

    serving.task.await.unwrap().unwrap();
    let again = reopen(&fixture);
    assert_eq!(again.store().find("a").await.unwrap().unwrap().visits, 1);
    assert!(again.store().find("last").await.unwrap().is_some());
}

/// The service redirects in front of its router.
#[tokio::test]
async fn service_and_router_answer_alike() {
    let fixture = open_with(|config| config.visit_details = VisitDetails::All);
    fixture.link(Some("a"), "https://a.example/?b=1#c").await;
    fixture.link(Some("gone"), "https://gone.example/").await;
    fixture.send_json(Method::DELETE, "/api/links/gone", json!({})).await;
    let forwarding = json!({ "url": "https://q.example/", "slug": "q", "forward_query": true });
    fixture.post("/api/links", forwarding).await;
    let serving = serve(&fixture.links).await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let router = listener.local_addr().unwrap();
    let timeout = Duration::from_secs(10);
    let options = ServeOptions {
        max_connections: 9,
        header_timeout: timeout,
        write_timeout: timeout,
        drain_timeout: timeout,
    };
    tokio::spawn(larder_links::serve(listener, fixture.links.router(), options, std::future::pending()));
    let visit =
        |target: &str, fields: &str| format!("GET {target} HTTP/1.1\r\n{fields}Connection: close\r\n\r\n");
    let mut requests: Vec<_> =
        ["/a", "/a?x=%20", "/q?x=\u{e9}", "/q", "/gone", "/none", "/%61", "/a/", "/healthz", "/Api"]
            .iter()
            .map(|target| visit(target, "Host: localhost\r\nUser-Agent: curl/8\r\n"))
            .collect();
    requests.extend(["HEAD", "POST", "QUERY"].map(|method| get("/a").replace("GET", method)));
    requests.push(visit("/a", "Host: localhost\r\nContent-Length: 2\r\n") + "{}");
    requests.push(visit("/a", ""));
    requests.push(visit("/a", "Host: evil.example\r\nOrigin: http://evil.example\r\n"));
    requests.push(visit("/a", "Host: localhost\r\nHost: localhost\r\n"));
    requests.push(visit("http://localhost/a", "Host: localhost\r\n"));
    requests.push(visit("http://localhost/a", "Host: other\r\n"));
    let mut redirects = 0;
    for request in requests {
        let found = fixture.links.stats().redirects;
        let [own, routed] = [serving.address, router].map(|address| exchange(address, &request));
        let [own, routed] = [own.await, routed.await].map(|answer| {
            let lines = answer.split_inclusive("\r\n").filter(|line| !line.starts_with("date: "));
            let (mut lines, last): (Vec<_>, _) = (lines.collect(), answer.ends_with("\r\n"));
            lines.sort_unstable();
            (lines.concat(), last)
        });
        assert_eq!(own, routed, "{request}");
        let counted = fixture.links.stats().redirects;
        redirects += counted.found - found.found;
        assert_eq!((counted.found - found.found) % 2, 0, "{request}");
        assert_eq!((counted.not_found - found.not_found) % 2, 0, "{request}");
    }
    fixture.links.flush_visits().await.unwrap();
    let visits = fixture.written_visits("a").await + fixture.written_visits("q").await;
    // HEAD redirects, and does not count.
    assert_eq!((visits, redirects), (18, 20));
    let id = fixture.links.store().find("a").await.unwrap().unwrap().id;
    let bots: u64 =
        fixture.links.store().dimensions(id, 0).await.unwrap().bots.iter().map(|bot| bot.visits).sum();
    assert_eq!(bots, fixture.written_visits("a").await);
    serving.stop.send(()).unwrap();
    serving.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn endless_request_is_abandoned_after_the_drain_timeout() {
    let fixture = open_with(|config| config.drain_timeout_ms = 1);
    let serving = serve(&fixture.links).await;
    let mut stream = TcpStream::connect(serving.address).await.unwrap();
    let head = "POST /api/links HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Content-Length: 10\r\nExpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let mut ready = [0; 25];
    stream.read_exact(&mut ready).await.unwrap();
    serving.stop.send(()).unwrap();
    serving.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn endless_head_times_out() {
    let fixture = open_with(|config| config.header_timeout_ms = 100);
    let serving = serve(&fixture.links).await;
    let mut stream = TcpStream::connect(serving.address).await.unwrap();
    stream.write_all(b"GET / HTTP/1.1\r\nHost: loc").await.unwrap();
    let mut answer = Vec::new();
    // Ends, with or without an answer: the service does not wait for ever.
    let _ = stream.read_to_end(&mut answer).await;
    assert!(exchange(serving.address, &get("/healthz")).await.ends_with("ok\n"));
    serving.stop.send(()).unwrap();
    serving.task.await.unwrap().unwrap();
}

/// It held its connection, and the buffers of its response, for ever.
#[tokio::test]
async fn client_that_does_not_read_makes_way() {
    let routes = [("/long", 64 << 20), ("/short", 3)];
    let router = routes.into_iter().fold(Router::new(), |router, (path, bytes)| {
        router.route(path, axum::routing::get(move || async move { "x".repeat(bytes) }))
    });
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let options = ServeOptions {
        max_connections: 1,
        header_timeout: Duration::from_secs(60),
        write_timeout: Duration::from_millis(100),
        drain_timeout: Duration::ZERO,
    };
    tokio::spawn(larder_links::serve(listener, router, options, std::future::pending()));
    let mut idle = TcpStream::connect(address).await.unwrap();
    idle.write_all(get("/long").as_bytes()).await.unwrap();
    idle.read_u8().await.unwrap();
    assert!(exchange(address, &get("/short")).await.ends_with("xxx"));
}

#[tokio::test]
async fn garbage_closes_only_its_own_connection() {
    let fixture = open();
    let serving = serve(&fixture.links).await;
    for garbage in ["\r\n\r\n", "SET a b\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "\0\0\0\0\r\n\r\n"] {
        let mut stream = TcpStream::connect(serving.address).await.unwrap();
        stream.write_all(garbage.as_bytes()).await.unwrap();
        stream.shutdown().await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        assert!(answer.is_empty() || answer.starts_with(b"HTTP/1.1 400"), "{garbage:?}");
    }
    let two_hosts = "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\nConnection: close\r\n\r\n";
    assert!(exchange(serving.address, two_hosts).await.starts_with("HTTP/1.1 400"));
    assert!(exchange(serving.address, &get("/healthz")).await.ends_with("ok\n"));
    serving.stop.send(()).unwrap();
    serving.task.await.unwrap().unwrap();
}

#[tokio::test]
async fn service_restarts_with_its_store_and_caches() {
    let fixture = open();
    fixture.link(Some("a"), "https://a.example/").await;
    let first = serve(&fixture.links).await;
    assert!(exchange(first.address, &get("/a")).await.contains("https://a.example/"));
    first.task.abort();
    assert!(first.task.await.unwrap_err().is_cancelled());

    let second = serve(&fixture.links).await;
    assert!(exchange(second.address, &get("/a")).await.contains("https://a.example/"));
    second.stop.send(()).unwrap();
    second.task.await.unwrap().unwrap();
    assert_eq!(reopen(&fixture).store().find("a").await.unwrap().unwrap().visits, 2);

    let third = serve(&fixture.links).await;
    assert!(matches!(third.task.await.unwrap(), Err(LinksError::Stopped)));
}

fn reopen(fixture: &Fixture) -> Links {
    let deps = larder_links::Deps::open(&fixture.config).unwrap();
    Links::open(fixture.config.clone(), deps).unwrap()
}
