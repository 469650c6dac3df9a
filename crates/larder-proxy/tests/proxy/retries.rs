//! A request is repeated only if it is safe to: it has no body, its method is idempotent, and an open connection was closed
//! before any byte of the response.

use crate::support::*;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;

const OK: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";

/// What happens to a request.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Answered,
    ClosedAtOnce,
    ClosedInTheHead,
}

/// An origin that answers the first request of its first connection, and treats the second one as `second`. Further
/// connections treat their requests as `later`.
async fn flaky(second: Fate, later: Fate) -> (SocketAddr, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let counted = requests.clone();
    let address = raw_origin(move |mut stream, connection| {
        let counted = counted.clone();
        async move {
            for request in 0.. {
                read_until(&mut stream, "\r\n\r\n").await;
                counted.fetch_add(1, Ordering::SeqCst);
                let fate = match (connection, request) {
                    (0, 0) => Fate::Answered,
                    (0, _) => second,
                    _ => later,
                };
                match fate {
                    Fate::Answered => stream.write_all(OK).await.unwrap(),
                    Fate::ClosedAtOnce => return,
                    Fate::ClosedInTheHead => return stream.write_all(b"HTTP/1.1 20").await.unwrap(),
                }
            }
        }
    })
    .await;
    (address, requests)
}

async fn status_of_second(address: SocketAddr, method: &str, body: &str) -> String {
    let proxy = in_front_of(address).await;
    proxy.get("/first").await;
    let length = body.len();
    let answer = proxy
        .exchange(format!(
            "{method} / HTTP/1.1\r\nHost: a\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}"
        ))
        .await;
    answer.split(' ').nth(1).unwrap().to_owned()
}

#[tokio::test]
async fn idempotent_request_is_repeated_once_on_a_new_connection() {
    for method in ["GET", "HEAD", "OPTIONS", "TRACE", "DELETE"] {
        let (address, requests) = flaky(Fate::ClosedAtOnce, Fate::Answered).await;
        assert_eq!(status_of_second(address, method, "").await, "200", "{method}");
        assert_eq!(requests.load(Ordering::SeqCst), 3, "{method}");
    }
    let (address, requests) = flaky(Fate::ClosedAtOnce, Fate::ClosedAtOnce).await;
    assert_eq!(status_of_second(address, "GET", "").await, "502");
    assert_eq!(requests.load(Ordering::SeqCst), 3);
}

#[tokio::test]
async fn other_requests_are_sent_once() {
    for (method, body) in [("POST", ""), ("POST", "x"), ("PUT", "x"), ("PATCH", "x"), ("GET", "x")] {
        let (address, requests) = flaky(Fate::ClosedAtOnce, Fate::Answered).await;
        assert_eq!(status_of_second(address, method, body).await, "502", "{method} {body}");
        assert_eq!(requests.load(Ordering::SeqCst), 2, "{method} {body}");
    }
}

#[tokio::test]
async fn request_is_not_repeated_once_a_response_has_begun() {
    let (address, requests) = flaky(Fate::ClosedInTheHead, Fate::Answered).await;
    assert_eq!(status_of_second(address, "GET", "").await, "502");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn request_on_a_new_connection_is_not_repeated() {
    let requests = Arc::<AtomicUsize>::default();
    let counted = requests.clone();
    let address = raw_origin(move |mut stream, _| {
        let counted = counted.clone();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            counted.fetch_add(1, Ordering::SeqCst);
        }
    })
    .await;
    assert!(in_front_of(address).await.get("/").await.starts_with("HTTP/1.1 502 "));
    assert_eq!(requests.load(Ordering::SeqCst), 1);
}
