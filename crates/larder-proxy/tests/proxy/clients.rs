//! Slow, idle and many clients are bounded, and running requests end before the proxy.

use crate::support::*;
use http::Response;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::sync::Semaphore;

#[tokio::test]
async fn connection_without_a_request_is_closed() {
    let origin = HttpOrigin::saying("hello").await;
    let mut options = config([origin.address]);
    (options.header_timeout_ms, options.keepalive_timeout_ms) = (100, 100);
    let proxy = start(options).await;
    // Nothing, the beginning of either protocol, half a head, the preface of HTTP/2 alone, and a request with a pause after it.
    let served = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    for begin in ["", "P", "PRI * HT", "GET / HTTP/1.1\r\nHost:", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", served]
    {
        let mut client = proxy.connect().await;
        client.write_all(begin.as_bytes()).await.unwrap();
        let answer = read_to_end(&mut client).await;
        assert_eq!(answer.contains("hello"), begin == served, "{begin:?}: {answer}");
    }
}

#[tokio::test]
async fn idle_connection_of_http2_is_closed() {
    let origin = HttpOrigin::saying("hello").await;
    let mut options = config([origin.address]);
    options.keepalive_timeout_ms = 100;
    let proxy = start(options).await;
    let mut sender = http2(proxy.address).await;
    let request = http::Request::get("http://a/").body(full("")).unwrap();
    assert_eq!(text(sender.send_request(request).await.unwrap()).await, "hello");
    until(|| sender.is_closed()).await;
}

#[tokio::test]
async fn client_that_does_not_read_makes_way() {
    let origin = HttpOrigin::start(|request: http::Request<_>| async move {
        Response::new(full("x".repeat(if request.uri().path() == "/long" { 64 << 20 } else { 3 })))
    })
    .await;
    let mut options = config([origin.address]);
    (options.max_connections, options.write_timeout_ms) = (1, 100);
    let proxy = start(options).await;
    let mut idle = proxy.connect().await;
    idle.write_all(get("/long").as_bytes()).await.unwrap();
    read_until(&mut idle, "xxx").await;
    assert!(proxy.get("/short").await.ends_with("xxx"));
}

#[tokio::test]
async fn head_of_a_request_has_a_limit() {
    let origin = HttpOrigin::saying("hello").await;
    let proxy = in_front_of(origin.address).await;
    let line = "x".repeat(80 << 10);
    let many: String = (0..200).map(|index| format!("X-{index}: x\r\n")).collect();
    for (head, status) in [
        (format!("GET / HTTP/1.1\r\nHost: a\r\nX-Long: {line}\r\n\r\n"), "431"),
        (format!("GET /{line} HTTP/1.1\r\nHost: a\r\n\r\n"), "4"),
        (format!("GET / HTTP/1.1\r\nHost: a\r\n{many}\r\n"), "431"),
    ] {
        let answer = proxy.exchange(head).await;
        assert!(answer.is_empty() || answer.starts_with(&format!("HTTP/1.1 {status}")), "{answer}");
    }
    let mut sender = http2(proxy.address).await;
    let request = http::Request::get("http://a/").header("x-long", line).body(full("")).unwrap();
    let status = sender.send_request(request).await.map(|response| response.status().as_u16());
    assert!(!matches!(status, Ok(200)), "{status:?}");
    assert_eq!(origin.requests(), 0);
}

/// CVE-2023-44487: each stream costs the client nothing, because it does not wait for any.
#[tokio::test]
async fn client_that_resets_its_streams_is_disconnected() {
    let origin = HttpOrigin::start(|_| std::future::pending()).await;
    let proxy = in_front_of(origin.address).await;
    let mut client = proxy.connect().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(http2_frame(4, 0, 0, &[]));
    for stream in (1..1_000).step_by(2) {
        bytes.extend(http2_frame(1, 0x5, stream, HTTP2_GET));
        bytes.extend(http2_frame(3, 0, stream, &8_u32.to_be_bytes()));
    }
    client.write_all(&bytes).await.unwrap();
    let disconnected = async {
        // GOAWAY with ENHANCE_YOUR_CALM, or a connection that is closed at once.
        while let Some((kind, payload)) = read_http2_frame(&mut client).await {
            if kind == 7 {
                assert_eq!(payload[4..8], 11_u32.to_be_bytes());
                return;
            }
        }
    };
    tokio::time::timeout(LIMIT, disconnected).await.expect("it is disconnected");
    assert!(origin.requests() < 200, "{}", origin.requests());
}

#[tokio::test]
async fn streams_of_a_connection_are_bounded() {
    let origin = HttpOrigin::start(|_| std::future::pending()).await;
    let mut options = config([origin.address]);
    options.max_origin_requests = 4_096;
    let proxy = start(options).await;
    let mut client = proxy.connect().await;
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(http2_frame(4, 0, 0, &[]));
    // POST is never shared by the cache.
    let post: Vec<u8> = [&[0x83], &HTTP2_GET[1..]].concat();
    for stream in (1..600).step_by(2) {
        bytes.extend(http2_frame(1, 0x5, stream, &post));
    }
    client.write_all(&bytes).await.unwrap();
    until(|| origin.requests() >= 128).await;
    // The others are refused.
    let refused = async {
        let mut refused = 0;
        while refused < 300 - 128 {
            let (kind, _) = read_http2_frame(&mut client).await.expect("the connection stays");
            refused += usize::from(kind == 3);
        }
    };
    tokio::time::timeout(LIMIT, refused).await.expect("streams are refused");
    assert_eq!(origin.requests(), 128);
}

#[tokio::test]
async fn running_request_ends_before_the_proxy_and_idle_connections_do_not_hold_it() {
    static ALLOWED: Semaphore = Semaphore::const_new(0);
    let origin = HttpOrigin::start(|_| async {
        let _ = ALLOWED.acquire().await;
        Response::new(full("hello"))
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    let idle = proxy.connect().await;
    let mut client = proxy.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(|| origin.requests() == 1).await;
    let task = proxy.stop();
    tokio::time::sleep(Duration::from_millis(50)).await;
    assert!(!task.is_finished());
    ALLOWED.add_permits(1);
    let answer = read_to_end(&mut client).await;
    assert!(answer.ends_with("hello"), "{answer}");
    tokio::time::timeout(Duration::from_secs(5), task).await.expect("it ends").unwrap();
    drop(idle);
}

#[tokio::test]
async fn endless_request_is_abandoned_after_the_drain_timeout() {
    let origin = HttpOrigin::start(|_| std::future::pending()).await;
    let mut options = config([origin.address]);
    options.drain_timeout_ms = 50;
    let proxy = start(options).await;
    let mut client = proxy.connect().await;
    client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
    until(|| origin.requests() == 1).await;
    tokio::time::timeout(Duration::from_secs(5), proxy.stop()).await.expect("it ends").unwrap();
}

#[tokio::test]
async fn garbage_closes_only_its_own_connection() {
    let origin = HttpOrigin::saying("hello").await;
    let proxy = in_front_of(origin.address).await;
    for garbage in [
        "\r\n\r\n\r\n",
        "SET a b\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "\0\0\0\0\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
    ] {
        let mut client = proxy.connect().await;
        client.write_all(garbage.as_bytes()).await.unwrap();
        client.shutdown().await.unwrap();
        let answer = read_to_end(&mut client).await;
        assert!(answer.is_empty() || answer.starts_with("HTTP/1.1 400"), "{garbage:?}: {answer}");
    }
    assert!(proxy.get("/").await.ends_with("hello"));
}
