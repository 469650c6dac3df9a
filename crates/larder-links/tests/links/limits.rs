//! A client that asks too often waits, and redirects never do.

use crate::support::{Answer, Fixture, open_with, peer, request};
use axum::body::Body;
use http::{Method, StatusCode};
use larder_links::Scope;
use serde_json::json;

pub(crate) fn open() -> Fixture {
    open_with(|config| {
        config.public_url = Some("https://s.example".into());
        config.trusted_proxies = vec!["10.0.0.0/8".into()];
        config.changes_per_minute = 3;
        config.listings_per_minute = 4;
        config.wrong_tokens_per_minute = 2;
    })
}

async fn ask(fixture: &Fixture, from: &str, hop: &str, method: Method, path: &str, bearer: &str) -> Answer {
    let request = request(method, path)
        .header("content-type", "application/json")
        .header("x-forwarded-for", hop)
        .header("authorization", bearer);
    let body = Body::from(json!({"url": "https://example.com/"}).to_string());
    let mut request = request.body(body).unwrap();
    request.extensions_mut().insert(peer(from));
    fixture.send(request).await
}

/// How many requests pass before the first 429, which must say when to try again.
async fn passed(fixture: &Fixture, from: &str, hop: &str, method: Method, path: &str, bearer: &str) -> usize {
    for count in 0..50 {
        let answer = ask(fixture, from, hop, method.clone(), path, bearer).await;
        if answer.status == StatusCode::TOO_MANY_REQUESTS {
            let wait: u64 = answer.header("retry-after").parse().unwrap();
            assert!((1..=60).contains(&wait), "{wait}");
            assert!(answer.json()["error"]["message"].as_str().unwrap().starts_with("too many"));
            return count;
        }
    }
    50
}

const WRONG: &str = "Bearer larder_0000000000000000000000000000000000000000000";

#[tokio::test]
async fn changes_listings_and_wrong_tokens_are_limited_apart() {
    let fixture = open();
    let (_, bearer) = fixture.bearer(Scope::Write).await;
    let from = "192.0.2.1";
    assert_eq!(passed(&fixture, from, "", Method::POST, "/api/links", &bearer).await, 3);
    assert_eq!(passed(&fixture, from, "", Method::GET, "/api/links", &bearer).await, 4);
    assert_eq!(passed(&fixture, from, "", Method::GET, "/api/links", WRONG).await, 2);
    // Whoever guessed is not locked out with the right token, and another client has its own bucket.
    assert_eq!(passed(&fixture, from, "", Method::POST, "/api/links", WRONG).await, 0);
    let (_, other) = fixture.bearer(Scope::Write).await;
    let answer = ask(&fixture, from, "", Method::GET, "/api/session", &other).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert_eq!(passed(&fixture, "192.0.2.2", "", Method::GET, "/api/links", &bearer).await, 4);
}

#[tokio::test]
async fn wrong_sign_ins_are_limited_like_wrong_tokens() {
    let fixture = open();
    let mut statuses = Vec::new();
    for _ in 0..3 {
        let body = json!({"token": &WRONG["Bearer ".len()..]});
        statuses.push(fixture.ask(Method::POST, "/api/session", &[], Some(body)).await.status.as_u16());
    }
    assert_eq!(statuses, [401, 401, 429]);
}

#[tokio::test]
async fn redirects_are_not_limited() {
    let fixture = open();
    fixture.link_with_token("a", "https://a.example/").await;
    for _ in 0..100 {
        assert_eq!(fixture.get("/a").await.status, StatusCode::FOUND);
    }
}

#[tokio::test]
async fn client_is_the_peer_unless_a_trusted_proxy_names_another() {
    let fixture = open();
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    let count =
        async |from: &str, hop: &str| passed(&fixture, from, hop, Method::GET, "/api/links", &bearer).await;
    assert_eq!(count("192.0.2.1", "198.51.100.1").await, 4);
    assert_eq!(count("192.0.2.1", "198.51.100.2").await, 0, "a stranger's header makes no new client");
    assert_eq!(count("10.0.0.1", "198.51.100.1").await, 4);
    assert_eq!(count("10.0.0.2", "203.0.113.5, 198.51.100.1").await, 0, "two proxies, one client");
    assert_eq!(count("10.0.0.2", "198.51.100.2").await, 4);
    assert_eq!(count("2001:db8:1:2::1", "").await, 4);
    assert_eq!(count("2001:db8:1:2:ffff::9", "").await, 0, "one network of 64 bits, one client");
}

/// The limit of wrong tokens is two, and nobody has sent one.
#[tokio::test]
async fn new_session_does_not_count_as_a_wrong_token() {
    let fixture = open();
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    let token = bearer.trim_start_matches("Bearer ");
    for _ in 0..3 {
        let answer = fixture.ask(Method::POST, "/api/session", &[], Some(json!({ "token": token }))).await;
        assert_eq!(answer.status, StatusCode::OK);
        let cookie = answer.header("set-cookie").split_once(';').unwrap().0.to_owned();
        let shown = fixture.ask(Method::GET, "/api/session", &[("cookie", &cookie)], None).await;
        assert_eq!((shown.status, &shown.json()["scope"]), (StatusCode::OK, &json!("read")));
    }
}
