//! Clients that are slow on purpose hold nobody else up, and end.

use super::*;
use http::{HeaderValue, Response};
use std::time::{Duration, Instant};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// A byte of a head from time to time: the time for a head is that of the whole head.
#[tokio::test]
async fn dripping_heads_end_with_the_header_timeout() {
    let origin = HttpOrigin::saying("hello").await;
    let mut options = config([origin.address]);
    options.header_timeout_ms = 500;
    let proxy = start(options).await;
    let mut clients = Vec::new();
    for _ in 0..50 {
        let mut client = proxy.connect().await;
        clients.push(tokio::spawn(async move {
            let started = Instant::now();
            for byte in
                "GET / HTTP/1.1\r\nHost: site.example\r\nX-Slow: ".bytes().chain(std::iter::repeat(b'x'))
            {
                if client.write_all(&[byte]).await.is_err() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
            started.elapsed()
        }));
    }
    assert!(proxy.get("/").await.ends_with("hello"), "others are answered meanwhile");
    for client in clients {
        let lasted = client.await.unwrap();
        assert!(lasted < Duration::from_secs(5), "{lasted:?}");
    }
    assert_eq!(origin.requests(), 1);
}

/// Many bodies that stop: their places are free after the response timeout, and others are answered meanwhile.
#[tokio::test]
async fn bodies_that_stop_hold_nobody_up() {
    let origin = HttpOrigin::echo().await;
    let mut options = config([origin.address]);
    (options.response_timeout_ms, options.max_origin_requests) = (500, 21);
    let proxy = start(options).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = proxy.connect().await;
        let begin = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nConnection: close\r\n\r\nabc";
        client.write_all(begin).await.unwrap();
        clients.push(client);
    }
    until(|| origin.requests() == 20).await;
    assert!(proxy.get("/").await.starts_with("HTTP/1.1 200 "), "others are answered meanwhile");
    for mut client in clients {
        let answer = read_to_end(&mut client).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
    }
}

/// Many bodies of which a byte comes from time to time: they hold no place for as long as their clients like.
#[tokio::test]
async fn dripping_bodies_end_with_the_response_timeout() {
    let origin = HttpOrigin::echo().await;
    let mut options = config([origin.address]);
    (options.response_timeout_ms, options.max_origin_requests) = (500, 20);
    let proxy = start(options).await;
    let mut clients = Vec::new();
    for _ in 0..20 {
        let client = proxy.connect().await;
        let (mut answers, mut body) = client.into_split();
        let begin = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n";
        body.write_all(begin).await.unwrap();
        tokio::spawn(async move {
            while body.write_all(b"x").await.is_ok() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        clients.push(tokio::spawn(async move {
            let mut answer = Vec::new();
            // The proxy closes the connection while bytes are on their way, which may be a reset.
            _ = answers.read_to_end(&mut answer).await;
            String::from_utf8(answer).unwrap()
        }));
    }
    until(|| origin.requests() == 20).await;
    for client in clients {
        let answer = tokio::time::timeout(Duration::from_secs(10), client).await.unwrap().unwrap();
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("less than 250 bytes of its body within 500 ms"), "{answer}");
    }
    assert!(proxy.get("/").await.starts_with("HTTP/1.1 200 "), "their places are free");
}

/// A body that takes several times as long as a response may, and keeps the pace, arrives.
#[tokio::test]
async fn slow_body_that_keeps_the_pace_arrives() {
    let origin = HttpOrigin::echo().await;
    let mut options = config([origin.address]);
    options.response_timeout_ms = 300;
    let proxy = start(options).await;
    let mut client = proxy.connect().await;
    client
        .write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 15000\r\nConnection: close\r\n\r\n")
        .await
        .unwrap();
    for _ in 0..15 {
        client.write_all(&[b'x'; 1_000]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(80)).await;
    }
    let answer = read_to_end(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
}

/// A client reads a large stored response slowly: it is held once, others read it at their speed, and it takes no fill.
#[tokio::test]
async fn slow_reader_of_a_large_hit_holds_nobody_up() {
    const LENGTH: usize = 8 << 20;
    let origin = HttpOrigin::start(|_| async {
        let mut response = Response::new(full("x".repeat(LENGTH)));
        response.headers_mut().insert("cache-control", HeaderValue::from_static("max-age=60"));
        response
    })
    .await;
    let mut options = config([origin.address]);
    options.write_timeout_ms = 1_000;
    let proxy = start(options).await;
    proxy.get("/").await;
    until(|| proxy.cache().stats().stores == 1).await;
    let slow = tokio::net::TcpSocket::new_v4().unwrap();
    slow.set_recv_buffer_size(4_096).unwrap();
    let mut slow = slow.connect(proxy.address).await.unwrap();
    slow.write_all(get("/").as_bytes()).await.unwrap();
    let started = Instant::now();
    let mut byte = [0];
    for _ in 0..3 {
        slow.read_exact(&mut byte).await.unwrap();
        let other = proxy.get("/").await;
        assert!(other.len() > LENGTH && values(&other, "cache-status")[0].starts_with("larder; hit"));
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(proxy.cache().stats().body_bytes < 3 * LENGTH as u64, "{:?}", proxy.cache().stats().body_bytes);
    assert_eq!(origin.requests(), 1);
    // Then it takes nothing for longer than the time for a write: its connection ends before all was sent.
    tokio::time::sleep(Duration::from_secs(3)).await;
    let rest = read_to_end(&mut slow).await;
    assert!(rest.len() < LENGTH, "{} bytes after {:?}", rest.len(), started.elapsed());
}
