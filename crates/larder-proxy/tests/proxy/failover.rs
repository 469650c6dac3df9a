//! Origins that do not answer are left out, and probed.

use crate::support::*;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::net::TcpListener;

async fn answers(proxy: &Running, count: usize) -> BTreeMap<String, usize> {
    let mut answers = BTreeMap::new();
    for _ in 0..count {
        let answer = proxy
            .exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
            .await;
        *answers.entry(answer.rsplit("\r\n").next().unwrap().to_owned()).or_default() += 1;
    }
    answers
}

#[tokio::test]
async fn origins_get_requests_in_turn() {
    let (one, two) = (HttpOrigin::saying("one").await, HttpOrigin::saying("two").await);
    let proxy = start(config([one.address, two.address])).await;
    assert_eq!(answers(&proxy, 6).await, BTreeMap::from([("one".into(), 3), ("two".into(), 3)]));
}

#[tokio::test]
async fn request_with_a_body_goes_on_to_the_next_origin() {
    let echo = HttpOrigin::echo().await;
    let proxy = start(config([nobody().await, echo.address])).await;
    for _ in 0..4 {
        let answer = proxy
            .exchange("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi")
            .await;
        assert!(answer.ends_with("\r\n\r\nhi"), "{answer}");
    }
    assert_eq!(echo.requests(), 4);
}

#[tokio::test]
async fn origin_that_is_left_out_is_probed_and_comes_back() {
    let (address, two) = (nobody().await, HttpOrigin::saying("two").await);
    let proxy = start(config([address, two.address])).await;
    assert_eq!(answers(&proxy, 10).await, BTreeMap::from([("two".into(), 10)]));
    let listener = TcpListener::bind(address).await.unwrap();
    // It is left out for a second: nothing connects.
    assert_eq!(answers(&proxy, 2).await, BTreeMap::from([("two".into(), 2)]));
    let accepting = tokio::time::timeout(Duration::from_millis(1), listener.accept()).await;
    assert!(accepting.is_err(), "it is left out");
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            tokio::spawn(async move {
                read_until(&mut stream, "hi").await;
                let answer = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\none";
                tokio::io::AsyncWriteExt::write_all(&mut stream, answer).await.unwrap();
            });
        }
    });
    let waiting = async {
        while !answers(&proxy, 1).await.contains_key("one") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(LIMIT, waiting).await.expect("the origin is probed");
    assert_eq!(answers(&proxy, 6).await, BTreeMap::from([("one".into(), 3), ("two".into(), 3)]));
}

#[tokio::test]
async fn one_of_several_that_are_all_gone_is_tried() {
    let proxy = start(config([nobody().await, nobody().await])).await;
    for _ in 0..8 {
        assert!(proxy.get("/").await.starts_with("HTTP/1.1 502 "));
    }
    let stats = proxy.proxy.stats();
    assert_eq!((stats.responses, stats.server_errors), (8, 8));
    assert!(
        stats.origins.iter().all(|origin| origin.failures >= 3 && origin.down_for.is_some()),
        "{stats:?}"
    );
}

#[tokio::test]
async fn origin_that_times_out_is_left_out() {
    let silent = silent_origin().await;
    let two = HttpOrigin::saying("two").await;
    let mut options = config([silent, two.address]);
    options.response_timeout_ms = 50;
    let proxy = start(options).await;
    let mut failed = 0;
    for _ in 0..12 {
        failed += usize::from(proxy.get("/").await.starts_with("HTTP/1.1 504 "));
    }
    assert_eq!(failed, 3);
}
