//! An origin that dies in the middle of a response: nobody takes a part for the whole, nothing of it is stored, and the next request
//! works.

use super::*;
use bytes::Bytes;
use http_body_util::BodyExt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;

const GOOD: &str = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 5\r\n\r\nwhole";

/// An origin whose first connections die after these bytes, each at the end of a head that it gets; further ones are good.
async fn dying(deaths: &'static [&'static str]) -> (SocketAddr, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let counted = requests.clone();
    let address = raw_origin(move |mut stream, index| {
        let counted = counted.clone();
        async move {
            read_until(&mut stream, "\r\n\r\n").await;
            counted.fetch_add(1, Ordering::SeqCst);
            let bytes = deaths.get(index).copied().unwrap_or(GOOD);
            let _ = stream.write_all(bytes.as_bytes()).await;
            reset(stream);
        }
    })
    .await;
    (address, requests)
}

/// Ends a connection as a process does that was killed.
fn reset(stream: TcpStream) {
    stream.set_zero_linger().expect("a connection");
}

#[tokio::test]
async fn part_of_a_response_is_never_complete_nor_stored() {
    for (death, status) in [
        ("", "502"),
        ("HTTP/1.1 200", "502"),
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n", "502"),
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nabc", "200"),
        (
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n",
            "200",
        ),
        ("HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc", "200"),
        (
            "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n",
            "200",
        ),
        ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 20", "502"),
    ] {
        let deaths: &'static [&'static str] = Box::leak(Box::new([death]));
        let (origin, _) = dying(deaths).await;
        let proxy = in_front_of(origin).await;
        let answer = proxy.get("/").await;
        // A reset may come before the head, which is a failure then.
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status} "))
                || answer.starts_with("HTTP/1.1 502 ")
                || answer.is_empty(),
            "{death:?}: {answer}"
        );
        if answer.starts_with("HTTP/1.1 200 ") {
            let is_complete = answer.ends_with("0\r\n\r\n") || (values(&answer, "content-length") == ["3"]);
            assert!(!is_complete, "{death:?}: {answer}");
        }
        let next = proxy.get("/").await;
        assert!(next.ends_with("whole"), "{death:?}: {next}");
        let third = proxy.get("/").await;
        assert!(third.ends_with("whole"), "{death:?}: {third}");
    }
}

/// Its length is not declared, so only a reset shows that it is not whole. An orderly end is the end of the body.
#[tokio::test]
async fn reset_in_a_body_that_the_connection_delimits_is_not_its_end() {
    let deaths = &["HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nConnection: close\r\n\r\nabc"];
    let (origin, _) = dying(deaths).await;
    let proxy = in_front_of(origin).await;
    let answer = proxy.get("/").await;
    assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
    assert!(proxy.get("/").await.ends_with("whole"));
}

/// It dies instead of validating: the response that it would have validated answers if that is allowed, and works again later.
#[tokio::test]
async fn death_during_a_validation_is_a_failure_of_the_origin() {
    for (control, expected) in [("max-age=1", "old"), ("max-age=1, must-revalidate", "HTTP/1.1 502 ")] {
        let first: &'static str = Box::leak(
            format!(
                "HTTP/1.1 200 OK\r\nCache-Control: {control}\r\nETag: \"a\"\r\nContent-Length: 3\r\n\r\nold"
            )
            .into_boxed_str(),
        );
        let deaths: &'static [&'static str] =
            Box::leak(Box::new([first, "HTTP/1.1 304 Not Mod", "HTTP/1.1 304"]));
        let (origin, requests) = dying(deaths).await;
        let proxy = in_front_of(origin).await;
        assert!(proxy.get("/").await.ends_with("old"));
        tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
        let answer = proxy.get("/").await;
        assert!(answer.ends_with(expected) || answer.starts_with(expected), "{control}: {answer}");
        assert!(requests.load(Ordering::SeqCst) >= 2);
        get_until(&proxy, |answer| answer.ends_with("whole")).await;
    }
}

#[tokio::test]
async fn death_after_100_continue_is_a_502() {
    let origin = raw_origin(|mut stream, _| async move {
        read_until(&mut stream, "\r\n\r\n").await;
        let _ = stream.write_all(b"HTTP/1.1 100 Continue\r\n\r\n").await;
        read_until(&mut stream, "abc").await;
        reset(stream);
    })
    .await;
    let proxy = in_front_of(origin).await;
    let mut client = proxy.connect().await;
    let head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\nExpect: 100-continue\r\nConnection: close\r\n\r\n";
    client.write_all(head.as_bytes()).await.unwrap();
    read_until(&mut client, "100 Continue").await;
    client.write_all(b"abcdefghi").await.unwrap();
    let answer = read_to_end(&mut client).await;
    assert!(answer.contains("HTTP/1.1 502 "), "{answer}");
}

#[tokio::test]
async fn death_of_a_tunnel_ends_the_connection_of_its_client() {
    let origin = raw_origin(|mut stream, _| async move {
        read_until(&mut stream, "\r\n\r\n").await;
        let switched =
            b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhello";
        stream.write_all(switched).await.unwrap();
        read_until(&mut stream, "ping").await;
        reset(stream);
    })
    .await;
    let proxy = in_front_of(origin).await;
    let mut client = proxy.connect().await;
    let ask = "GET / HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n";
    client.write_all(ask.as_bytes()).await.unwrap();
    read_until(&mut client, "hello").await;
    client.write_all(b"ping").await.unwrap();
    assert_eq!(read_to_end(&mut client).await, "");
}

/// HTTP/2: the stream is reset, or its connection ends, after a part of the body.
#[tokio::test]
async fn part_of_a_response_of_http2_is_never_complete() {
    let (origin, requests) =
        dying(&["HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nabc"]).await;
    let proxy = in_front_of(origin).await;
    let mut client = http2(proxy.address).await;
    let request = || http::Request::get("http://site.example/").body(full(Bytes::new())).unwrap();
    match client.send_request(request()).await {
        Ok(response) if response.status() == 200 => {
            response.into_body().collect().await.expect_err("the body is not complete");
        }
        Ok(response) => assert_eq!(response.status(), 502),
        Err(error) => panic!("the connection goes on: {error}"),
    }
    assert_eq!(text(client.send_request(request()).await.unwrap()).await, "whole");
    assert_eq!(requests.load(Ordering::SeqCst), 2);
}

/// All who follow a response that is being received see that it was not whole.
#[tokio::test]
async fn followers_of_a_truncated_response_get_no_complete_one() {
    let origin = raw_origin(|mut stream, index| async move {
        read_until(&mut stream, "\r\n\r\n").await;
        if index > 0 {
            let _ = stream.write_all(GOOD.as_bytes()).await;
            return;
        }
        let begin = b"HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 9\r\n\r\nabc";
        stream.write_all(begin).await.unwrap();
        tokio::time::sleep(std::time::Duration::from_millis(300)).await;
        reset(stream);
    })
    .await;
    let proxy = in_front_of(origin).await;
    let mut clients = Vec::new();
    for _ in 0..4 {
        let mut client = proxy.connect().await;
        client.write_all(get("/").as_bytes()).await.unwrap();
        let begin = read_until(&mut client, "abc").await;
        assert_eq!(values(&begin, "content-length"), ["9"], "{begin}");
        clients.push(client);
    }
    for mut client in clients {
        assert_eq!(read_to_end(&mut client).await, "", "nothing follows that would complete it");
    }
    assert!(proxy.get("/").await.ends_with("whole"));
}
