//! An origin that fails is a clear error, and works again when it does.

use crate::support::*;
use http::Response;
use http_body_util::BodyExt;
use std::future::pending;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpListener;

#[tokio::test]
async fn origin_that_is_not_there_is_a_502_until_it_is() {
    let address = nobody().await;
    let proxy = in_front_of(address).await;
    for _ in 0..5 {
        let answer = proxy.get("/").await;
        assert!(answer.starts_with("HTTP/1.1 502 Bad Gateway\r\n"), "{answer}");
        assert!(answer.contains("cannot connect to the origin: Connection refused"), "{answer}");
        assert!(!answer.contains(&address.port().to_string()), "no address is told: {answer}");
        assert_eq!(values(&answer, "proxy-status"), ["larder; error=connection_refused"]);
        assert_eq!(values(&answer, "cache-status"), ["larder; fwd=miss; detail=connection_refused"]);
        assert_eq!(values(&answer, "cache-control"), ["no-store"]);
    }
    let listener = TcpListener::bind(address).await.unwrap();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
        stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nback").await.unwrap();
    });
    assert!(proxy.get("/").await.ends_with("back"));
}

#[tokio::test]
async fn name_without_an_address_is_a_502() {
    // RFC 6761 promises that nobody has this name.
    let answer = start(config(["http://nobody.invalid"])).await.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    assert_eq!(values(&answer, "proxy-status"), ["larder; error=dns_error"]);
}

#[tokio::test]
async fn response_that_is_not_http_is_a_502() {
    for (bytes, error) in [
        ("SSH-2.0-OpenSSH_9.6\r\n", "http_protocol_error"),
        ("HTTP/1.1 2x0 OK\r\n\r\n", "http_protocol_error"),
        ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", "http_protocol_error"),
        ("HTTP/1.1 200 OK\r\nContent-Length: +4\r\n\r\nabcd", "http_protocol_error"),
        ("HTTP/1.1 200 OK\r\nX-A : 1\r\n\r\n", "http_protocol_error"),
        ("HTTP/1.1 200 OK\r\nX-A: 1\r\n folded\r\n\r\n", "http_protocol_error"),
        (
            "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
            "http_upgrade_failed",
        ),
        ("HTTP/1.1 200 OK\r\nX-A", "connection_terminated"),
        ("", "connection_terminated"),
    ] {
        let answer = in_front_of(origin_sending(bytes).await).await.get("/").await;
        assert!(answer.starts_with("HTTP/1.1 502 "), "{bytes:?}: {answer}");
        assert_eq!(values(&answer, "proxy-status"), [format!("larder; error={error}")], "{bytes:?}");
    }
}

#[tokio::test]
async fn head_of_a_response_has_a_limit() {
    let head = format!("HTTP/1.1 200 OK\r\nX-Long: {}\r\n\r\n", "x".repeat(80 << 10));
    let answer = in_front_of(origin_sending(head).await).await.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn origin_that_does_not_respond_is_a_504() {
    let origin = HttpOrigin::start(|_| pending()).await;
    let mut options = config([origin.address]);
    options.response_timeout_ms = 50;
    let answer = start(options).await.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert!(answer.contains("the origin did not respond within 50 ms"), "{answer}");
}

#[tokio::test]
async fn handshake_that_does_not_end_is_a_504() {
    let silent = silent_origin().await;
    let mut options = config([format!("https://{silent}")]);
    options.connect_timeout_ms = 50;
    let answer = start(options).await.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 504 "), "{answer}");
    assert_eq!(values(&answer, "proxy-status"), ["larder; error=connection_timeout"]);
}

#[tokio::test]
async fn body_that_stops_or_ends_early_is_never_complete() {
    for (framing, rest) in [("Content-Length: 9", "abc"), ("Transfer-Encoding: chunked", "3\r\nabc\r\n")] {
        for stops in [false, true] {
            let head = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{rest}");
            let origin = raw_origin(move |mut stream, _| {
                let head = head.clone();
                async move {
                    read_until(&mut stream, "\r\n\r\n").await;
                    stream.write_all(head.as_bytes()).await.unwrap();
                    if stops {
                        pending::<()>().await;
                    }
                }
            })
            .await;
            let mut options = config([origin]);
            options.body_timeout_ms = 50;
            let answer = start(options).await.get("/").await;
            let is_complete = answer.ends_with("0\r\n\r\n")
                || values(&answer, "content-length") != ["9"] && framing.starts_with('C');
            assert!(answer.contains("abc") && !is_complete, "{framing} {stops}: {answer}");
        }
    }
}

#[tokio::test]
async fn origin_with_too_many_requests_is_a_503() {
    let origin = HttpOrigin::start(|request: http::Request<_>| async move {
        if request.uri().path() == "/slow" {
            pending::<()>().await;
        }
        Response::new(full("fast"))
    })
    .await;
    let mut options = config([origin.address]);
    (options.max_origin_requests, options.connect_timeout_ms) = (1, 50);
    let proxy = start(options).await;
    let mut slow = proxy.connect().await;
    slow.write_all(get("/slow").as_bytes()).await.unwrap();
    until(|| origin.requests() == 1).await;
    let answer = proxy.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 503 "), "{answer}");
    assert_eq!((values(&answer, "retry-after"), origin.requests()), (vec!["1"], 1));
}

#[tokio::test]
async fn place_of_a_request_is_free_after_its_response() {
    let origin = HttpOrigin::saying("hello").await;
    let mut options = config([origin.address]);
    (options.max_origin_requests, options.connect_timeout_ms) = (1, 2_000);
    let proxy = start(options).await;
    for method in ["GET", "HEAD", "POST", "GET"] {
        let answer =
            proxy.exchange(format!("{method} / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{method}: {answer}");
    }
    let mut sender = http2(proxy.address).await;
    for _ in 0..3 {
        let request = http::Request::post("http://a/").body(full("")).unwrap();
        assert_eq!(sender.send_request(request).await.unwrap().status(), 200);
    }
}

#[tokio::test]
async fn client_that_sends_no_body_is_a_408() {
    let origin = HttpOrigin::start(|request: http::Request<hyper::body::Incoming>| async move {
        let _ = request.into_body().collect().await;
        Response::new(full(""))
    })
    .await;
    let mut options = config([origin.address]);
    options.response_timeout_ms = 50;
    let proxy = start(options).await;
    let mut client = proxy.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await.unwrap();
    let answer = read_until(&mut client, "\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
}

#[tokio::test]
async fn origin_hears_of_a_client_that_leaves() {
    let (heard, mut hearing) = tokio::sync::mpsc::unbounded_channel();
    let origin = raw_origin(move |mut stream, _| {
        let heard = heard.clone();
        async move {
            heard.send(read_until(&mut stream, "abc").await).unwrap();
            heard.send(read_to_end(&mut stream).await).unwrap();
        }
    })
    .await;
    let proxy = in_front_of(origin).await;
    let mut client = proxy.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc").await.unwrap();
    let mut next = async || tokio::time::timeout(LIMIT, hearing.recv()).await.unwrap().unwrap();
    assert!(next().await.starts_with("POST / HTTP/1.1\r\n"));
    drop(client);
    assert_eq!(next().await, "");
}
