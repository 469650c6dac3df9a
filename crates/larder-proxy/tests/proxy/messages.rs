//! Requests and responses arrive whole: bodies, trailers, `100 Continue`, and with bounded memory.

use crate::support::*;
use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Frame;
use http_body_util::channel::Channel;
use http_body_util::{BodyExt, StreamBody};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn request_and_response_arrive_whole() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let answer = proxy
        .exchange("POST /a/b?c=%20d HTTP/1.1\r\nHost: site.example\r\nX-Own: 1\r\nContent-Length: 5\r\nConnection: close\r\n\r\nhello")
        .await;
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    let (_, request) = answer.split_once("\r\n\r\n").unwrap();
    assert!(request.starts_with("POST /a/b?c=%20d HTTP/1.1\r\n"), "{request}");
    assert_eq!((values(request, "x-own"), values(request, "content-length")), (vec!["1"], vec!["5"]));
    assert!(request.ends_with("\r\n\r\nhello"), "{request}");
}

#[tokio::test]
async fn http1_and_http2_clients_get_the_same() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let mut sender = http2(proxy.address).await;
    let request =
        http::Request::post("http://site.example/x").header("cookie", "a=1").header("cookie", "b=2");
    let response = sender.send_request(request.body(full("hello")).unwrap()).await.unwrap();
    let request = text(response).await;
    assert!(request.starts_with("POST /x HTTP/1.1\r\n") && request.ends_with("\r\n\r\nhello"), "{request}");
    assert_eq!(values(&request, "host"), ["site.example"]);
    assert_eq!(values(&request, "cookie"), ["a=1; b=2"]);
    assert_eq!(values(&request, "via")[0].split(' ').next(), Some("2.0"));
}

#[tokio::test]
async fn chunked_body_and_trailers_arrive() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    for method in ["POST", "GET"] {
        let request = format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X-Sum\r\nConnection: close\r\n\r\n\
             3\r\nabc\r\n2;note=1\r\nde\r\n0\r\nX-Sum: 7\r\n\r\n"
        );
        let answer = proxy.exchange(request).await;
        assert!(answer.ends_with("\r\n\r\nabcde[x-sum: 7]"), "{answer}");
        assert_eq!(origin.requests(), if method == "POST" { 1 } else { 2 });
    }
}

#[tokio::test]
async fn trailers_of_the_response_arrive() {
    let origin = HttpOrigin::start(|_| async {
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("7"))]);
        let frames = [Ok(Frame::data(Bytes::from_static(b"abc"))), Ok(Frame::trailers(trailers))];
        let mut response = Response::new(BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames))));
        response.headers_mut().insert("trailer", HeaderValue::from_static("x-sum"));
        response
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    let answer =
        proxy.exchange("GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: close, te\r\n\r\n").await;
    assert!(answer.contains("\r\n0\r\nx-sum: 7\r\n"), "{answer}");
    let mut sender = http2(proxy.address).await;
    let request = http::Request::get("http://a/").header("te", "trailers").body(full("")).unwrap();
    let body = sender.send_request(request).await.unwrap().into_body().collect().await.unwrap();
    assert_eq!(body.trailers().unwrap()["x-sum"], "7");
}

/// As a client and a server of gRPC need it: HTTP/2 on both sides, with trailers both ways, and nothing encrypted.
#[tokio::test]
async fn origin_with_http2_by_its_url_gets_http2() {
    let origin = HttpOrigin::echo().await;
    let proxy = start(config([format!("h2c://{}", origin.address)])).await;
    let mut sender = http2(proxy.address).await;
    for _ in 0..2 {
        let trailers = HeaderMap::from_iter([("x-sum".parse().unwrap(), HeaderValue::from_static("7"))]);
        let frames = [Ok(Frame::data(Bytes::from_static(b"abc"))), Ok(Frame::trailers(trailers))];
        let body = BodyExt::boxed(StreamBody::new(futures_util::stream::iter(frames)));
        let request =
            http::Request::post("http://site.example/call").header("te", "trailers").body(body).unwrap();
        let request = text(sender.send_request(request).await.unwrap()).await;
        assert!(request.starts_with("POST http://site.example/call HTTP/2.0\r\n"), "{request}");
        assert_eq!(values(&request, "te"), ["trailers"]);
        assert!(request.ends_with("\r\n\r\nabc[x-sum: 7]"), "{request}");
    }
    let answer = proxy.exchange("GET /x HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(answer.contains("GET http://a/x HTTP/2.0\r\n"), "{answer}");
    assert_eq!((origin.requests(), origin.connections()), (3, 1), "one connection carries all");
}

#[tokio::test]
async fn responses_without_a_body_have_none() {
    let origin = HttpOrigin::start(|request: http::Request<_>| async move {
        let mut response = Response::new(full(""));
        *response.status_mut() = match request.uri().path() {
            "/204" => StatusCode::NO_CONTENT,
            "/304" => StatusCode::NOT_MODIFIED,
            _ => return Response::new(full("hello")),
        };
        response
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    for path in ["/204", "/304"] {
        let answer = proxy.get(path).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {}", &path[1..])) && answer.ends_with("\r\n\r\n"),
            "{answer}"
        );
    }
    let head = proxy.exchange("HEAD / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert_eq!(values(&head, "content-length"), ["5"]);
    assert!(head.ends_with("\r\n\r\n"), "{head}");
}

#[tokio::test]
async fn response_is_sent_while_it_is_made() {
    let (mut sender, body) = Channel::<Bytes, Infallible>::new(1);
    let body = Arc::new(std::sync::Mutex::new(Some(body.boxed())));
    let origin = HttpOrigin::start(move |_| {
        let body = body.lock().unwrap().take().unwrap();
        async move { Response::new(body) }
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    let mut client = proxy.connect().await;
    client.write_all(get("/").as_bytes()).await.unwrap();
    for part in ["first", "second"] {
        sender.send_data(Bytes::from_static(part.as_bytes())).await.unwrap();
        read_until(&mut client, part).await;
    }
    drop(sender);
    assert!(read_to_end(&mut client).await.ends_with("0\r\n\r\n"));
}

#[tokio::test]
async fn request_is_sent_while_it_is_read() {
    let address = raw_origin(|mut stream, _| async move {
        read_until(&mut stream, "first").await;
        // An answer before the end of the request.
        stream
            .write_all(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nearly\r\n")
            .await
            .unwrap();
        read_until(&mut stream, "second").await;
        stream.write_all(b"4\r\nlate\r\n0\r\n\r\n").await.unwrap();
    })
    .await;
    let proxy = in_front_of(address).await;
    let mut client = proxy.connect().await;
    client.write_all(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 11\r\n\r\nfirst").await.unwrap();
    read_until(&mut client, "early").await;
    client.write_all(b"second").await.unwrap();
    read_until(&mut client, "late").await;
}

#[tokio::test]
async fn connection_whose_request_goes_on_gets_no_other_one() {
    let origin = raw_origin(|mut stream, connection| async move {
        read_until(&mut stream, if connection == 0 { "first" } else { "\r\n\r\n" }).await;
        let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n{connection}");
        stream.write_all(answer.as_bytes()).await.unwrap();
        read_to_end(&mut stream).await;
    })
    .await;
    let mut options = config([origin]);
    // A wait for the first connection would last longer than the test.
    options.connect_timeout_ms = 600_000;
    let proxy = start(options).await;
    let (mut upload, body) = Channel::<Bytes, Infallible>::new(1);
    upload.send_data(Bytes::from_static(b"first")).await.unwrap();
    let request = http::Request::post("http://a/").body(body.boxed()).unwrap();
    assert_eq!(text(http2(proxy.address).await.send_request(request).await.unwrap()).await, "0");
    assert!(proxy.get("/").await.ends_with("\r\n\r\n1"));
    drop(upload);
}

#[tokio::test]
async fn client_that_does_not_read_stops_the_origin() {
    const CHUNK: usize = 64 << 10;
    let sent = Arc::new(AtomicUsize::new(0));
    let counted = sent.clone();
    let origin = HttpOrigin::start(move |_| {
        let counted = counted.clone();
        async move {
            let chunks = std::iter::repeat_n(Bytes::from(vec![b'x'; CHUNK]), 4096).map(move |chunk| {
                counted.fetch_add(CHUNK, Ordering::SeqCst);
                Ok(Frame::data(chunk))
            });
            Response::new(BodyExt::boxed(StreamBody::new(futures_util::stream::iter(chunks))))
        }
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    let mut client = proxy.connect().await;
    client.write_all(get("/").as_bytes()).await.unwrap();
    read_until(&mut client, "xxx").await;
    // Until nothing moves: the buffers of the sockets and of the proxy are full.
    let mut last = 0;
    while sent.load(Ordering::SeqCst) != last {
        last = sent.load(Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(300)).await;
    }
    assert!(last < 64 << 20, "{last} bytes of 256 MiB left the origin");
}

#[tokio::test]
async fn client_is_told_to_continue_when_the_origin_is_reached() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\nConnection: close\r\n\r\n";
    let mut client = proxy.connect().await;
    client.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "HTTP/1.1 100 Continue\r\n\r\n").await;
    client.write_all(b"hello").await.unwrap();
    let answer = read_to_end(&mut client).await;
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("\r\n\r\nhello"), "{answer}");
    assert!(answer.contains("expect: 100-continue"), "{answer}");

    // Nobody is asked for a body that no origin can take.
    let proxy = in_front_of(nobody().await).await;
    let answer = proxy.exchange(head).await;
    assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn requests_share_a_connection_to_the_origin() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    for _ in 0..5 {
        proxy.get("/").await;
        proxy.exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nConnection: close\r\n\r\nx").await;
    }
    assert_eq!((origin.connections(), origin.requests()), (1, 10));
}

#[tokio::test]
async fn server_wide_options_arrive_as_such() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let answer = proxy.exchange("OPTIONS * HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").await;
    assert!(answer.contains("\r\n\r\nOPTIONS * HTTP/1.1\r\n"), "{answer}");
}
