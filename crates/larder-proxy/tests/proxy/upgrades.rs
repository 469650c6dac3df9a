//! WebSocket is tunnelled, HTTP/2 in HTTP/1.1 is not.

use crate::support::*;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const ASK: &str = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: x\r\n\r\n";

/// An origin that switches, and then sends back what it gets.
async fn echoing() -> std::net::SocketAddr {
    raw_origin(|mut stream, _| async move {
        let head = read_until(&mut stream, "\r\n\r\n").await;
        assert_eq!((values(&head, "connection"), values(&head, "upgrade")), (vec!["upgrade"], vec!["websocket"]));
        let answer = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Accept: y\r\n\r\n";
        stream.write_all(answer).await.unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
        write.write_all(b"bye").await.unwrap();
    })
    .await
}

async fn open(proxy: &Running) -> TcpStream {
    let mut client = proxy.connect().await;
    client.write_all(ASK.as_bytes()).await.unwrap();
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 101 "), "{answer}");
    assert_eq!(values(&answer, "upgrade"), ["websocket"]);
    assert_eq!(values(&answer, "connection"), ["upgrade"]);
    assert_eq!(values(&answer, "sec-websocket-accept"), ["y"]);
    client
}

#[tokio::test]
async fn tunnel_copies_both_ways_until_both_sides_end() {
    let proxy = in_front_of(echoing().await).await;
    let mut client = open(&proxy).await;
    for text in ["one", "two"] {
        client.write_all(text.as_bytes()).await.unwrap();
        read_until(&mut client, text).await;
    }
    client.shutdown().await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "bye");
}

#[tokio::test]
async fn tunnel_outlives_the_time_outs_of_requests() {
    let mut options = config([echoing().await]);
    (options.keepalive_timeout_ms, options.header_timeout_ms, options.body_timeout_ms) = (100, 100, 100);
    let proxy = start(options).await;
    let mut client = open(&proxy).await;
    tokio::time::sleep(Duration::from_millis(400)).await;
    client.write_all(b"still").await.unwrap();
    read_until(&mut client, "still").await;
}

#[tokio::test]
async fn tunnel_has_a_place_among_the_connections_and_requests() {
    let mut options = config([echoing().await]);
    (options.max_origin_requests, options.connect_timeout_ms) = (1, 50);
    let proxy = start(options).await;
    let client = open(&proxy).await;
    assert!(proxy.get("/").await.starts_with("HTTP/1.1 503 "));
    drop(client);
    let waiting = async { while proxy.get("/").await.starts_with("HTTP/1.1 503 ") {} };
    // The origin refuses the GET by its own assertion: any answer but 503 shows that the place is free.
    tokio::time::timeout(LIMIT, waiting).await.expect("the place is free again");
}

#[tokio::test]
async fn tunnel_ends_when_the_proxy_stops() {
    let proxy = in_front_of(echoing().await).await;
    let mut client = open(&proxy).await;
    tokio::time::timeout(LIMIT, proxy.stop()).await.expect("it does not wait for tunnels").unwrap();
    let mut rest = Vec::new();
    let read = tokio::time::timeout(LIMIT, client.read_to_end(&mut rest)).await.expect("the tunnel ends");
    assert!(read.is_err() || rest.is_empty());
}

#[tokio::test]
async fn refused_upgrade_is_an_ordinary_response() {
    let proxy = in_front_of(HttpOrigin::saying("no").await.address).await;
    let mut client = proxy.connect().await;
    client.write_all(ASK.as_bytes()).await.unwrap();
    read_until(&mut client, "\r\n\r\nno").await;
    client.write_all(get("/").as_bytes()).await.unwrap();
    assert!(read_to_end(&mut client).await.ends_with("no"));
}

/// A tunnel of HTTP/2 would carry requests past every check.
#[tokio::test]
async fn http2_is_never_tunnelled() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let answer = proxy
        .exchange("GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade, HTTP2-Settings, close\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABk\r\n\r\n")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert!(values(seen, "upgrade").is_empty() && values(seen, "http2-settings").is_empty(), "{seen}");
}

#[tokio::test]
async fn upgrade_of_a_request_with_a_body_is_dropped() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let answer = proxy
        .exchange("POST / HTTP/1.1\r\nHost: a\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\nContent-Length: 2\r\n\r\nhi")
        .await;
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert!(values(seen, "upgrade").is_empty() && seen.ends_with("\r\n\r\nhi"), "{seen}");
}
