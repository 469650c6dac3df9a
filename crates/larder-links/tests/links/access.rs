//! Beyond loopback nothing is listed or changed without a token, and a removed token ends its sessions.

use crate::support::{Answer, Fixture, open, open_with, peer, request};
use axum::body::Body;
use http::{Method, StatusCode};
use larder_links::{Scope, Store};
use larder_testkit::eventually;
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::net::TcpListener;

/// A shortener behind a proxy that ends TLS, with one link.
async fn behind_proxy() -> Fixture {
    let fixture = open_with(|config| {
        config.public_url = Some("https://s.example".into());
        config.wrong_tokens_per_minute = 1_000;
    });
    fixture.link_with_token("kept", "https://kept.example/").await;
    fixture
}

async fn get(fixture: &Fixture, path: &str, headers: &[(&str, &str)]) -> Answer {
    fixture.ask(Method::GET, path, headers, None).await
}

fn assert_closed(answer: &Answer, what: &str) {
    assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}: {}", answer.text());
    assert!(answer.header("www-authenticate").starts_with("Bearer"), "{what}");
    assert_eq!(answer.header("cache-control"), "no-store", "{what}");
    assert!(answer.json()["error"]["message"].is_string(), "{what}");
}

#[tokio::test]
async fn stranger_follows_links_and_reads_nothing_else() {
    let fixture = open();
    fixture.link(Some("kept"), "https://kept.example/").await;
    // On every address of the machine: no longer local, for a client of this machine as well.
    let listener = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let links = fixture.links.clone();
    let serving = tokio::spawn(async move { links.serve(listener, std::future::pending()).await });
    let is_closed = async || fixture.get("/api/links").await.status != StatusCode::OK;
    eventually("the service knows that it listens on every address", is_closed).await;
    let link = || Some(json!({"url": "https://new.example/"}));
    for (method, path, body) in [
        (Method::GET, "/api/links", None),
        (Method::HEAD, "/api/links", None),
        (Method::OPTIONS, "/api/links", None),
        (Method::GET, "/api/links?q=kept", None),
        (Method::GET, "/api/links/kept", None),
        (Method::GET, "/api/links/nowhere", None),
        (Method::GET, "/api/nothing", None),
        (Method::POST, "/api/links", link()),
        (Method::POST, "/api/links/batch", Some(json!([{"url": "https://new.example/"}]))),
        (Method::PATCH, "/api/links/kept", link()),
        (Method::DELETE, "/api/links/kept", Some(json!({}))),
        (Method::PUT, "/api/links/kept", link()),
    ] {
        for headers in [
            &[][..],
            &[("authorization", "Bearer larder_0000000000000000000000000000000000000000000")],
            &[("authorization", "Basic bWU6cHc=")],
            &[("cookie", "larder_session=0000000000000000000000000000000000000000000")],
            &[("x-forwarded-for", "127.0.0.1")],
        ] {
            let answer = fixture.ask(method.clone(), path, headers, body.clone()).await;
            let what = format!("{method} {path} {headers:?}");
            if method == Method::HEAD {
                assert_eq!(answer.status, StatusCode::UNAUTHORIZED, "{what}");
            } else if answer.status != StatusCode::TOO_MANY_REQUESTS {
                assert_closed(&answer, &what);
            }
        }
    }
    for (path, status) in [
        ("/kept", 302),
        ("/nowhere", 404),
        ("/a/b", 404),
        ("/", 200),
        ("/static/app.js", 200),
        ("/healthz", 200),
    ] {
        assert_eq!(get(&fixture, path, &[]).await.status, status, "{path}");
    }
    let stored =
        fixture.links.store().list(larder_links::store::ListQuery { limit: 9, ..Default::default() });
    let stored = stored.await.unwrap().links;
    assert_eq!(stored.iter().map(|link| &*link.url).collect::<Vec<_>>(), ["https://kept.example/"]);
    serving.abort();
}

#[tokio::test]
async fn scope_decides_what_a_token_allows() {
    let fixture = behind_proxy().await;
    let (_, read) = fixture.bearer(Scope::Read).await;
    let read = [("authorization", &*read)];
    assert_eq!(get(&fixture, "/api/links", &read).await.status, StatusCode::OK);
    assert_eq!(get(&fixture, "/api/links/kept", &read).await.status, StatusCode::OK);
    for (method, path, body) in [
        (Method::POST, "/api/links", json!({"url": "https://new.example/"})),
        (Method::POST, "/api/links/batch", json!([{"url": "https://new.example/"}])),
        (Method::PATCH, "/api/links/kept", json!({"title": "x"})),
        (Method::DELETE, "/api/links/kept", json!({})),
    ] {
        let answer = fixture.ask(method.clone(), path, &read, Some(body.clone())).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{method} {path}");
        assert_eq!(answer.header("www-authenticate"), "Bearer error=\"insufficient_scope\", scope=\"write\"");

        let (_, write) = fixture.bearer(Scope::Write).await;
        // The scheme in any case of letters.
        let write = write.replace("Bearer", "bEARER");
        let answer = fixture.ask(method.clone(), path, &[("authorization", &write)], Some(body)).await;
        assert!(answer.status.is_success(), "{method} {path}: {}", answer.text());
    }
    let two = [read[0], read[0]];
    assert_closed(&get(&fixture, "/api/links", &two).await, "two Authorization lines");
}

#[tokio::test]
async fn token_is_checked_before_stored_responses() {
    let fixture = behind_proxy().await;
    let (id, bearer) = fixture.bearer(Scope::Read).await;
    let session = sign_in(&fixture, &bearer).await;
    let cookie = [("cookie", &*session)];
    // The second answer comes out of the response cache.
    let before = fixture.links.responses().stats().hits;
    for _ in 0..2 {
        let answer = get(&fixture, "/api/links", &cookie).await;
        assert_eq!(answer.status, StatusCode::OK);
        assert_eq!(answer.header("cache-control"), "private, no-store");
    }
    assert_eq!(fixture.links.responses().stats().hits, before + 1);
    assert_closed(&get(&fixture, "/api/links", &[]).await, "no session");
    assert!(fixture.links.remove_token(id).await.unwrap());
    assert_closed(&get(&fixture, "/api/links", &cookie).await, "a session whose token is removed");
}

#[tokio::test]
async fn removed_token_ends_at_once_here_and_within_a_second_elsewhere() {
    let fixture = behind_proxy().await;
    let other_process = Store::open(&fixture.config.store_config().unwrap()).unwrap();
    let (token, secret) = other_process.add_token("", Scope::Read).await.unwrap();
    let bearer = format!("Bearer {}", secret.as_str());
    let headers = [("authorization", &*bearer)];
    assert_eq!(get(&fixture, "/api/links", &headers).await.status, StatusCode::OK, "new tokens work at once");

    assert!(other_process.remove_token(token.id).await.unwrap());
    let removed = Instant::now();
    eventually("the token is refused", async || {
        get(&fixture, "/api/links", &headers).await.status != StatusCode::OK
    })
    .await;
    // The promise is one second; the rest is for a busy machine.
    assert!(removed.elapsed() < Duration::from_secs(3), "{:?}", removed.elapsed());

    let (id, bearer) = fixture.bearer(Scope::Write).await;
    let session = sign_in(&fixture, &bearer).await;
    assert!(fixture.links.remove_token(id).await.unwrap());
    for headers in [("authorization", &*bearer), ("cookie", &*session)] {
        assert_closed(&get(&fixture, "/api/links", &[headers]).await, "removed here");
    }
    assert!(!fixture.links.remove_token(id).await.unwrap());
}

/// Exchanges a token for a session; gives the value of the `Cookie` header.
async fn sign_in(fixture: &Fixture, bearer: &str) -> String {
    let answer = exchange(fixture, bearer, &[]).await;
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.text());
    answer.header("set-cookie").split(';').next().unwrap().to_owned()
}

async fn exchange(fixture: &Fixture, bearer: &str, headers: &[(&str, &str)]) -> Answer {
    let token = bearer.trim_start_matches("Bearer ");
    fixture.ask(Method::POST, "/api/session", headers, Some(json!({ "token": token }))).await
}

#[tokio::test]
async fn session_cookie_is_strict_and_ends_by_sign_out() {
    let fixture = behind_proxy().await;
    let (_, bearer) = fixture.bearer(Scope::Write).await;
    let show =
        async |headers: &[(&str, &str)]| -> Value { get(&fixture, "/api/session", headers).await.json() };
    assert_eq!(show(&[]).await, json!({"required": true, "scope": null}));

    let answer = exchange(&fixture, &bearer, &[]).await;
    assert_eq!(answer.json(), json!({"required": true, "scope": "write"}));
    assert_eq!(answer.header("cache-control"), "no-store");
    let cookie = answer.header("set-cookie").to_owned();
    let (pair, attributes) = cookie.split_once("; ").unwrap();
    assert_eq!(attributes, "Path=/; Max-Age=86400; HttpOnly; SameSite=Strict; Secure");
    assert!(pair.starts_with("__Host-larder_session="), "{pair}");
    assert!(!cookie.contains(&bearer["Bearer ".len()..]), "the cookie is not the token");

    let session = [("cookie", &*format!("theirs=1; {pair}; other=2"))];
    assert_eq!(show(&session).await["scope"], "write");
    let body = Some(json!({"title": "mine"}));
    assert_eq!(
        fixture.ask(Method::PATCH, "/api/links/kept", &session, body.clone()).await.status,
        StatusCode::OK
    );
    // A page of another site cannot use the session even if the browser sent the cookie.
    for foreign in
        [("origin", "https://evil.example"), ("sec-fetch-site", "cross-site"), ("origin", "http://s.example")]
    {
        let answer =
            fixture.ask(Method::PATCH, "/api/links/kept", &[session[0], foreign], body.clone()).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{foreign:?}");
        assert_eq!(
            exchange(&fixture, &bearer, &[foreign]).await.status,
            StatusCode::FORBIDDEN,
            "{foreign:?}"
        );
    }

    let gone = fixture.ask(Method::DELETE, "/api/session", &session, Some(json!({}))).await;
    assert_eq!(gone.status, StatusCode::NO_CONTENT);
    assert!(gone.header("set-cookie").starts_with("__Host-larder_session=; Path=/; Max-Age=0; "));
    assert_closed(&get(&fixture, "/api/links", &session).await, "after sign-out");
    assert_eq!(get(&fixture, "/api/links", &[("authorization", &bearer)]).await.status, StatusCode::OK);
}

#[tokio::test]
async fn plain_http_session_has_no_secure_attribute() {
    let fixture = open_with(|config| config.allow_hosts = vec!["links.internal".into()]);
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    let cookie = exchange(&fixture, &bearer, &[]).await.header("set-cookie").to_owned();
    assert!(cookie.starts_with("larder_session=") && !cookie.contains("Secure"), "{cookie}");
}

#[tokio::test]
async fn expired_session_is_refused() {
    let fixture = behind_proxy().await;
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    let session = sign_in(&fixture, &bearer).await;
    assert_eq!(get(&fixture, "/api/links", &[("cookie", &session)]).await.status, StatusCode::OK);
    fixture.execute("UPDATE sessions SET expires_at = 1");
    eventually("the session is refused", async || {
        get(&fixture, "/api/links", &[("cookie", &session)]).await.status != StatusCode::OK
    })
    .await;
    assert_closed(&get(&fixture, "/api/links", &[("cookie", &session)]).await, "expired");
}

#[tokio::test]
async fn wrong_sign_in_shows_nothing_of_the_token() {
    let fixture = behind_proxy().await;
    let secret = "larder_secretsecretsecretsecretsecretsecretsecretse";
    for body in
        [json!({"token": secret}), json!({"tokn": secret}), json!({"token": secret, "x": 1}), json!([secret])]
    {
        let answer = fixture.ask(Method::POST, "/api/session", &[], Some(body.clone())).await;
        assert!(answer.status.is_client_error(), "{body}");
        assert!(!answer.text().contains("secretsecret"), "{}", answer.text());
        assert_eq!(answer.header("set-cookie"), "");
    }
}

#[tokio::test]
async fn forwarded_request_is_not_local() {
    let fixture = open();
    assert_eq!(fixture.get("/api/links").await.status, StatusCode::OK);
    for name in ["x-forwarded-for", "forwarded", "x-real-ip"] {
        assert_closed(&get(&fixture, "/api/links", &[(name, "127.0.0.1")]).await, name);
    }
    let mut foreign = request(Method::GET, "/api/links").body(Body::empty()).unwrap();
    foreign.extensions_mut().insert(peer("192.0.2.9"));
    assert_closed(&fixture.send(foreign).await, "a peer that is not on this machine");
    let show = get(&fixture, "/api/session", &[]).await.json();
    assert_eq!(show, json!({"required": false, "scope": null}));
}

#[tokio::test]
async fn closed_database_opens_nothing() {
    let fixture = behind_proxy().await;
    let (_, bearer) = fixture.bearer(Scope::Read).await;
    fixture.links.store().close().await;
    let answer = get(&fixture, "/api/links", &[("authorization", &bearer)]).await;
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_closed(&get(&fixture, "/api/links", &[]).await, "no token");
}
