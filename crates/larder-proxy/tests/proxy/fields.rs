//! The origin learns of the client, the client of the proxy, and neither of the other's connection.

use crate::support::*;
use http::header::{CACHE_CONTROL, VARY};
use http::{HeaderValue, Response};
use std::sync::{Arc, Mutex};
use tokio::io::AsyncWriteExt;

#[tokio::test]
async fn fields_of_a_connection_are_not_passed_on() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let answer = proxy
        .exchange(
            "GET / HTTP/1.1\r\nHost: a\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\nTE: gzip\r\n\
             Proxy-Authorization: Basic x\r\nProxy-Connection: close\r\nUpgrade: h2c\r\nX-End: 1\r\n\r\n",
        )
        .await;
    let (_, request) = answer.split_once("\r\n\r\n").unwrap();
    for name in
        ["x-hop", "keep-alive", "te", "proxy-authorization", "proxy-connection", "upgrade", "connection"]
    {
        assert!(values(request, name).is_empty(), "{name}: {request}");
    }
    assert_eq!(values(request, "x-end"), ["1"]);

    let response = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close, X-Hop\r\nX-Hop: 1\r\nKeep-Alive: timeout=5\r\n\
                    Proxy-Authenticate: Basic\r\nUpgrade: h2c\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\nX-End: 1\r\n\r\nok";
    let proxy = in_front_of(origin_sending(response).await).await;
    let answer = proxy
        .exchange("GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
        .await;
    assert_eq!(
        answer.matches("HTTP/1.1 200 OK").count(),
        2,
        "the connection of the client goes on: {answer}"
    );
    for name in ["x-hop", "keep-alive", "proxy-authenticate", "upgrade", "connection"] {
        assert!(values(&answer, name).is_empty(), "{name}: {answer}");
    }
    assert_eq!(values(&answer, "date"), ["Thu, 01 Jan 2026 00:00:00 GMT"]);
    assert_eq!((values(&answer, "x-end"), values(&answer, "via")), (vec!["1"], vec!["1.1 larder"]));
}

#[tokio::test]
async fn origin_learns_of_the_client_and_not_what_it_claims() {
    let origin = HttpOrigin::echo().await;
    let request = "GET / HTTP/1.1\r\nHost: site.example\r\nX-Forwarded-For: 203.0.113.9\r\nX-Forwarded-Host: evil.example\r\n\
                   X-Forwarded-Proto: https\r\nForwarded: for=203.0.113.9\r\nX-Original-URL: /admin\r\nConnection: close\r\n\r\n";
    let proxy = in_front_of(origin.address).await;
    let answer = proxy.exchange(request).await;
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(values(seen, "host"), ["site.example"]);
    assert_eq!(values(seen, "x-forwarded-for"), ["127.0.0.1"]);
    assert_eq!(values(seen, "x-forwarded-host"), ["site.example"]);
    assert_eq!(values(seen, "x-forwarded-proto"), ["http"]);
    assert_eq!(values(seen, "forwarded"), ["for=127.0.0.1;host=\"site.example\";proto=http"]);
    assert!(values(seen, "x-original-url").is_empty());
    assert!(values(seen, "via")[0].starts_with("1.1 larder-"));

    let mut trusting = config([origin.address]);
    trusting.trusted_proxies = vec!["127.0.0.0/8".into()];
    let answer = start(trusting).await.exchange(request).await;
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(values(seen, "x-forwarded-for"), ["203.0.113.9, 127.0.0.1"]);
    assert_eq!(values(seen, "x-forwarded-host"), ["evil.example"]);
    assert_eq!(values(seen, "x-forwarded-proto"), ["https"]);
}

#[tokio::test]
async fn connection_cannot_remove_what_the_proxy_adds() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let request = "GET / HTTP/1.1\r\nHost: site.example\r\nConnection: close, Host, X-Forwarded-For, Forwarded, Via\r\n\r\n";
    let answer = proxy.exchange(request).await;
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    for name in ["host", "x-forwarded-for", "forwarded", "via"] {
        assert_eq!(values(seen, name).len(), 1, "{name}: {seen}");
    }
}

#[tokio::test]
async fn host_is_that_of_the_origin_if_it_is_not_preserved() {
    let origin = HttpOrigin::echo().await;
    let mut options = config([origin.address]);
    options.preserve_host = false;
    let answer = start(options).await.get("/").await;
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(values(seen, "host"), [origin.address.to_string()]);
    assert_eq!(values(seen, "x-forwarded-host"), ["site.example"]);
}

#[tokio::test]
async fn loop_is_detected() {
    // The origin of each proxy is the other one: the first cannot know its address before it is bound.
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let first_address = listener.local_addr().unwrap();
    let second = in_front_of(first_address).await;
    let first = larder_proxy::Proxy::new(config([second.address])).unwrap();
    listener.set_nonblocking(true).unwrap();
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move { first.serve(listener, std::future::pending()).await });
    let answer = second.get("/").await;
    assert!(answer.starts_with("HTTP/1.1 508 "), "{answer}");
    assert_eq!(values(&answer, "proxy-status"), ["larder; error=proxy_loop_detected"]);
}

#[tokio::test]
async fn last_recipient_of_trace_and_options_is_the_proxy() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let request = |method: &str, forwards: u32| {
        format!(
            "{method} /x HTTP/1.1\r\nHost: a\r\nMax-Forwards: {forwards}\r\nCookie: secret\r\nX-Own: 1\r\nConnection: close\r\n\r\n"
        )
    };
    let answer = proxy.exchange(request("TRACE", 0)).await;
    assert_eq!(values(&answer, "content-type"), ["message/http"]);
    assert!(answer.contains("x-own: 1") && !answer.contains("secret"), "{answer}");
    let answer = proxy.exchange(request("OPTIONS", 0)).await;
    assert!(answer.starts_with("HTTP/1.1 204 ") && values(&answer, "allow").len() == 1, "{answer}");
    assert_eq!(origin.requests(), 0);
    let answer = proxy.exchange(request("OPTIONS", 5)).await;
    let (_, seen) = answer.split_once("\r\n\r\n").unwrap();
    assert_eq!(values(seen, "max-forwards"), ["4"]);
}

#[tokio::test]
async fn tunnels_to_other_hosts_are_refused() {
    let origin = HttpOrigin::echo().await;
    let proxy = in_front_of(origin.address).await;
    let answer = proxy.exchange("CONNECT b.example:443 HTTP/1.1\r\nHost: b.example:443\r\n\r\n").await;
    assert!(answer.starts_with("HTTP/1.1 405 ") && values(&answer, "allow").len() == 1, "{answer}");
    assert_eq!(origin.requests(), 0);
}

#[tokio::test]
async fn refresh_has_arrived_as_the_request_that_caused_it() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let noted = seen.clone();
    let origin = HttpOrigin::start(move |request: http::Request<_>| {
        noted.lock().unwrap().push(request.headers().clone());
        async {
            let mut response = Response::new(full("page"));
            let stale_at_once = HeaderValue::from_static("max-age=0, stale-while-revalidate=60");
            response.headers_mut().insert(CACHE_CONTROL, stale_at_once);
            response
        }
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    for _ in 0..2 {
        assert!(proxy.get("/").await.ends_with("page"));
    }
    until(|| origin.requests() == 2).await;
    let seen = seen.lock().unwrap();
    for name in ["x-forwarded-for", "x-forwarded-host", "x-forwarded-proto", "forwarded", "via"] {
        assert!(seen[0].contains_key(name), "{name}");
        assert_eq!(seen[0].get(name), seen[1].get(name), "{name}");
    }
}

#[tokio::test]
async fn response_that_varies_by_the_client_is_for_that_client() {
    let origin = HttpOrigin::start(|request: http::Request<_>| async move {
        let client = request.headers()["x-forwarded-for"].to_str().unwrap().to_owned();
        let mut response = Response::new(full(client));
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("max-age=60"));
        response.headers_mut().insert(VARY, HeaderValue::from_static("X-Forwarded-For"));
        response
    })
    .await;
    let proxy = in_front_of(origin.address).await;
    for (client, number) in [("127.0.0.1", 1), ("127.0.0.2", 2), ("127.0.0.1", 3)] {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        socket.bind(format!("{client}:0").parse().unwrap()).unwrap();
        let mut stream = socket.connect(proxy.address).await.unwrap();
        stream.write_all(get("/").as_bytes()).await.unwrap();
        let answer = read_to_end(&mut stream).await;
        assert!(answer.ends_with(client), "{answer}");
        assert_eq!((values(&answer, "vary"), origin.requests()), (vec!["X-Forwarded-For"], number));
    }
}
