//! The cache is between both: the fields of the origin decide.

use crate::support::*;
use http::header::{CACHE_CONTROL, ETAG, HOST, IF_NONE_MATCH};
use http::{HeaderValue, Response, StatusCode};
use std::time::Duration;

/// An origin whose responses are fresh for a minute, and say for which host and scheme they are.
async fn fresh() -> HttpOrigin {
    HttpOrigin::start(|request: http::Request<_>| async move {
        let value = |name: &str| request.headers()[name].to_str().unwrap().to_owned();
        let mut response =
            Response::new(full(format!("{} {}", value("x-forwarded-proto"), value(HOST.as_str()))));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        response
    })
    .await
}

#[tokio::test]
async fn fresh_response_comes_from_the_cache() {
    let origin = fresh().await;
    let proxy = in_front_of(origin.address).await;
    let first = proxy.get("/").await;
    assert_eq!(values(&first, "cache-status"), ["larder; fwd=uri-miss; stored"]);
    let second = proxy.get("/").await;
    assert!(values(&second, "cache-status")[0].starts_with("larder; hit"), "{second}");
    assert_eq!(values(&second, "via"), ["1.1 larder"]);
    assert!(second.ends_with("http site.example"), "{second}");
    assert_eq!(origin.requests(), 1);
}

#[tokio::test]
async fn hosts_and_schemes_are_apart() {
    let origin = fresh().await;
    let mut options = config([origin.address]);
    options.trusted_proxies = vec!["127.0.0.1".into()];
    let proxy = start(options).await;
    for _ in 0..2 {
        for (host, scheme) in [("a", "http"), ("b", "http"), ("a", "https")] {
            let answer = proxy
                .exchange(format!(
                    "GET / HTTP/1.1\r\nHost: {host}\r\nX-Forwarded-Proto: {scheme}\r\nConnection: close\r\n\r\n"
                ))
                .await;
            assert!(answer.ends_with(&format!("{scheme} {host}")), "{answer}");
        }
    }
    assert_eq!(origin.requests(), 3);
}

#[tokio::test]
async fn concurrent_requests_reach_the_origin_once() {
    let origin = HttpOrigin::start(|_| async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        let mut response = Response::new(full("slow"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        response
    })
    .await;
    let proxy = std::sync::Arc::new(in_front_of(origin.address).await);
    let clients: Vec<_> = (0..20)
        .map(|_| {
            let proxy = proxy.clone();
            tokio::spawn(async move { proxy.get("/").await })
        })
        .collect();
    for client in clients {
        assert!(client.await.unwrap().ends_with("slow"));
    }
    assert_eq!(origin.requests(), 1);
}

#[tokio::test]
async fn failure_of_the_origin_is_not_stored() {
    let address = nobody().await;
    let proxy = in_front_of(address).await;
    assert!(proxy.get("/").await.starts_with("HTTP/1.1 502 "));
    let origin = HttpOrigin::at(address, |_| async {
        let mut response = Response::new(full("back"));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        response
    })
    .await;
    let mut status = String::new();
    for _ in 0..3 {
        let answer = proxy.get("/").await;
        assert!(answer.ends_with("back"), "{answer}");
        status = values(&answer, "cache-status")[0].to_owned();
    }
    assert!(status.starts_with("larder; hit"), "{status}");
    assert!(origin.requests() < 3);
}

/// Such an origin has several servers, one of which is behind the others. The second request has what the first one had, and its place
/// among the requests of the origin.
#[tokio::test]
async fn request_is_repeated_if_its_304_is_about_another_response() {
    let origin = HttpOrigin::start(|request: http::Request<_>| async move {
        let is_conditional = request.headers().contains_key(IF_NONE_MATCH);
        let lines = |name: &str| request.headers().get_all(name).iter().count();
        let text = format!("{} {} {}", lines("via"), lines("x-forwarded-for"), lines("x-own"));
        let mut response = Response::new(full(if is_conditional { String::new() } else { text }));
        *response.status_mut() = if is_conditional { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
        let etag = if is_conditional { "\"b\"" } else { "\"a\"" };
        response.headers_mut().insert(ETAG, HeaderValue::from_static(etag));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        response
    })
    .await;
    let mut options = config([origin.address]);
    (options.max_origin_requests, options.connect_timeout_ms) = (1, 500);
    let proxy = start(options).await;
    for requests in [1, 3, 5] {
        let answer =
            proxy.exchange("GET / HTTP/1.1\r\nHost: a\r\nX-Own: 1\r\nConnection: close\r\n\r\n").await;
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("1 1 1"), "{answer}");
        assert_eq!(values(&answer, "cache-status"), ["larder; fwd=uri-miss; stored"]);
        assert_eq!(origin.requests(), requests);
    }
}

/// The cache sees the error of the origin itself, and not a response that was made of it.
#[tokio::test]
async fn stale_response_is_served_while_the_origin_is_gone() {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = in_front_of(listener.local_addr().unwrap()).await;
    let serving = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_until(&mut stream, "\r\n\r\n").await;
        let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nConnection: close\r\n\
                       Cache-Control: max-age=1, stale-if-error=60\r\n\r\nkept";
        tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
    };
    let (first, ()) = tokio::join!(proxy.get("/"), serving);
    assert!(first.ends_with("kept"), "{first}");
    drop(listener);
    let is_stale = |answer: &str| {
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("kept"), "{answer}");
        !values(answer, "cache-status")[0].starts_with("larder; hit; ttl=0")
    };
    get_until(&proxy, is_stale).await;
}
