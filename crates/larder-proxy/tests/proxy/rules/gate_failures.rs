//! Without an answer of the gate there is no response: a 503, and never a stored one.

use super::*;
use larder_proxy::{Config, RuleScope};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};

const ALLOWED: &str =
    "HTTP/1.1 200 OK\r\nX-Principal: ann\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
const PAGE: &str =
    "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\nContent-Length: 4\r\nConnection: close\r\n\r\npage";

/// Answers one request: the page, or the question as `answers` has it by its number. Without an answer it sends nothing.
async fn serve(mut stream: TcpStream, answers: &[&str], asked: &AtomicUsize) {
    let head = read_until(&mut stream, "\r\n\r\n").await;
    let answer = match head.starts_with("GET /auth/check ") {
        true => answers[asked.fetch_add(1, Ordering::SeqCst).min(answers.len() - 1)],
        false => PAGE,
    };
    if answer.is_empty() {
        std::future::pending::<()>().await;
    }
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// A proxy in front of a gate with these answers. The last one is repeated.
async fn proxy_with(answers: &'static [&'static str], scope: RuleScope, gate: GateConfig) -> Running {
    let asked = Arc::new(AtomicUsize::new(0));
    let origin = raw_origin(move |stream, _| {
        let asked = asked.clone();
        async move { serve(stream, answers, &asked).await }
    })
    .await;
    start(options(origin, scope, gate)).await
}

fn options(origin: SocketAddr, scope: RuleScope, gate: GateConfig) -> Config {
    let rule = RuleConfig { scope: Some(scope), cookies: vec!["session".into()], ..rule("/") };
    with_gate(origin, GateConfig { path: "/auth/check".into(), ..gate }, [rule])
}

async fn get_page(proxy: &Running) -> String {
    proxy.exchange(get_with("/page", "Cookie: session=a\r\n")).await
}

#[track_caller]
fn assert_refused(response: &str, reason: &str) {
    assert!(response.starts_with("HTTP/1.1 503 "), "{response}");
    assert!(response.contains("the gate has no answer: ") && response.contains(reason), "{response}");
    assert!(!response.contains("page") && !cache_status(response).contains("hit"), "{response}");
}

#[tokio::test]
async fn answer_that_is_no_verdict_is_a_503() {
    const ANSWERS: [(&[&str], &str); 7] = [
        (&[ALLOWED, "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"], "it responded with 500"),
        (
            &[ALLOWED, "HTTP/1.1 302 Found\r\nLocation: /login\r\nContent-Length: 0\r\n\r\n"],
            "it responded with 302",
        ),
        (&[ALLOWED, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"], "it responded with 404"),
        (
            &[ALLOWED, "HTTP/1.1 200 OK\r\nX-Principal: a\r\nX-Principal: b\r\nContent-Length: 0\r\n\r\n"],
            "x-principal",
        ),
        (&[ALLOWED, "HTTP/1.1 200 OK\r\nX-Principal: \r\nContent-Length: 0\r\n\r\n"], "x-principal"),
        (&[ALLOWED, "this is no HTTP\r\n\r\n"], "not valid"),
        (&[ALLOWED, "HTTP/1.1 200 OK\r\nX-Principal: ann\r\nContent-Length: 9\r\n\r\nshort"], "ended early"),
    ];
    for (answers, reason) in ANSWERS {
        for scope in [RuleScope::Gated, RuleScope::Private] {
            let proxy = proxy_with(answers, scope, GateConfig::default()).await;
            assert_eq!(cache_status(&get_page(&proxy).await), "larder; fwd=uri-miss; stored");
            for _ in 0..2 {
                assert_refused(&get_page(&proxy).await, reason);
            }
        }
    }
}

#[tokio::test]
async fn gate_that_is_too_slow_is_a_503() {
    let gate = || GateConfig { timeout_ms: 50, ..GateConfig::default() };
    let proxy = proxy_with(&[ALLOWED, ""], RuleScope::Gated, gate()).await;
    get_page(&proxy).await;
    assert_refused(&get_page(&proxy).await, "it did not respond within 50 ms");
    // Also before anything is stored, and if only the body does not come.
    let proxy = proxy_with(&[""], RuleScope::Gated, gate()).await;
    assert_refused(&get_page(&proxy).await, "it did not respond within 50 ms");
    let proxy =
        proxy_with(&["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n"], RuleScope::Gated, gate())
            .await;
    assert_refused(&get_page(&proxy).await, "");
}

#[tokio::test]
async fn gate_that_cannot_be_reached_is_a_503() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let proxy = start(options(listener.local_addr().unwrap(), RuleScope::Gated, GateConfig::default())).await;
    let asked = AtomicUsize::new(0);
    let serving = async {
        loop {
            serve(listener.accept().await.unwrap().0, &[ALLOWED], &asked).await;
        }
    };
    tokio::select! {
        () = serving => unreachable!("it serves until the client has its response"),
        response = async {
            get_page(&proxy).await;
            get_page(&proxy).await
        } => assert_hit(&response),
    }
    drop(listener);
    assert_refused(&get_page(&proxy).await, "cannot connect to the origin");
}

#[tokio::test]
async fn gate_that_answers_again_is_believed_again() {
    const FAILURE: &str = "HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n";
    // A failure is not remembered either.
    let gate = GateConfig { ttl_seconds: 60, ..GateConfig::default() };
    let proxy = proxy_with(&[FAILURE, FAILURE, ALLOWED], RuleScope::Gated, gate).await;
    assert_refused(&get_page(&proxy).await, "500");
    assert_refused(&get_page(&proxy).await, "500");
    assert_eq!(body(&get_page(&proxy).await), "page");
    assert_eq!(body(&get_page(&proxy).await), "page");
}

#[tokio::test]
async fn gate_that_fails_does_not_concern_others() {
    let proxy = proxy_with(
        &["HTTP/1.1 500 Oops\r\nContent-Length: 0\r\n\r\n"],
        RuleScope::Gated,
        GateConfig::default(),
    )
    .await;
    // Without a credential the request goes to the origin as it is, and so does one that changes something.
    assert_eq!(body(&proxy.get("/page").await), "page");
    let post = "POST /page HTTP/1.1\r\nHost: h\r\nCookie: session=a\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    assert_eq!(body(&proxy.exchange(post).await), "page");
}
