//! Pages that are open learn of visits and changes at once.

use crate::support::{Fixture, open, open_with, peer, request};
use axum::body::Body;
use http::{Method, StatusCode};
use http_body_util::BodyExt;
use larder_links::Scope;
use serde_json::json;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tower::ServiceExt;

const PATIENCE: Duration = Duration::from_secs(30);

/// An open stream, after its first bytes.
async fn connect(fixture: &Fixture) -> Body {
    let mut request = request(Method::GET, "/api/events").body(Body::empty()).unwrap();
    request.extensions_mut().insert(peer("127.0.0.1"));
    let response = fixture.links.router().oneshot(request).await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    assert_eq!(next(&mut body).await, ": connected\n\n");
    body
}

async fn next(body: &mut Body) -> String {
    let frame =
        tokio::time::timeout(PATIENCE, body.frame()).await.expect("an event").expect("an open stream");
    String::from_utf8(frame.unwrap().into_data().unwrap().to_vec()).unwrap()
}

#[tokio::test]
async fn visits_and_changes_reach_every_page() {
    let fixture = open();
    let mut pages = [connect(&fixture).await, connect(&fixture).await];
    fixture.link(Some("a"), "https://a.example/").await;
    for _ in 0..3 {
        fixture.get("/a").await;
    }
    fixture.links.flush_visits().await.unwrap();
    fixture.send_json(Method::PATCH, "/api/links/a", json!({ "title": "A" })).await;
    fixture.send_json(Method::DELETE, "/api/links/a", json!({})).await;
    fixture.post("/api/links/a/restore", json!({})).await;
    let changed = "event: changed\ndata: {}\n\n";
    let visits = "event: visits\ndata: {\"links\":[{\"slug\":\"a\",\"visits\":3}]}\n\n";
    for page in &mut pages {
        for expected in [changed, visits, changed, changed, changed] {
            assert_eq!(next(page).await, expected);
        }
    }
}

#[tokio::test]
async fn page_that_is_far_behind_is_told_so() {
    let fixture = open();
    let mut page = connect(&fixture).await;
    for n in 0..300 {
        fixture.link(None, &format!("https://a.example/{n}")).await;
    }
    let mut texts = Vec::new();
    while !texts.contains(&"event: lagged\ndata: {}\n\n".to_owned()) {
        texts.push(next(&mut page).await);
    }
    assert!(texts.len() < 10, "{}", texts.len());
}

#[tokio::test]
async fn stream_needs_a_token_and_ends_with_it() {
    let fixture = open_with(|config| config.public_url = Some("https://s.example".into()));
    assert_eq!(fixture.get("/api/events").await.status, StatusCode::UNAUTHORIZED);
    let (id, bearer) = fixture.bearer(Scope::Read).await;
    let request = request(Method::GET, "/api/events").header("authorization", bearer);
    let response = fixture.links.router().oneshot(request.body(Body::empty()).unwrap()).await.unwrap();
    let mut page = response.into_body();
    assert_eq!(next(&mut page).await, ": connected\n\n");
    fixture.links.remove_token(id).await.unwrap();
    // Without an error: a browser would report it.
    let end = tokio::time::timeout(PATIENCE, page.frame()).await.expect("the stream ends");
    assert!(end.is_none(), "{end:?}");
}

#[tokio::test]
async fn streams_are_bounded_and_a_closed_one_makes_room() {
    let fixture = open();
    let mut pages = Vec::new();
    for _ in 0..64 {
        pages.push(connect(&fixture).await);
    }
    let refused = fixture.get("/api/events").await;
    assert_eq!((refused.status, refused.header("retry-after")), (StatusCode::SERVICE_UNAVAILABLE, "1"));
    // Without an event that would tell the stream that its page is gone: pages come and go while nothing happens.
    drop(pages.pop());
    pages.push(connect(&fixture).await);
}

#[tokio::test]
async fn open_stream_does_not_delay_the_end_of_the_service() {
    let fixture = open();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let links = fixture.links.clone();
    let serving = tokio::spawn(async move { links.serve(listener, async { drop(stopped.await) }).await });
    let mut page = TcpStream::connect(address).await.unwrap();
    page.write_all(format!("GET /api/events HTTP/1.1\r\nhost: {address}\r\n\r\n").as_bytes()).await.unwrap();
    let mut text = Vec::new();
    while !text.ends_with(b": connected\n\n\r\n") {
        assert!(page.read_buf(&mut text).await.unwrap() > 0, "{}", String::from_utf8_lossy(&text));
    }
    stop.send(()).unwrap();
    // The end of the chunked body, long before the drain timeout of 10 s: the connection is not cut.
    page.read_to_end(&mut text).await.unwrap();
    assert!(text.ends_with(b"0\r\n\r\n"), "{}", String::from_utf8_lossy(&text));
    serving.await.unwrap().unwrap();
}
