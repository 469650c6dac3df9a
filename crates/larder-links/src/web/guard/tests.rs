//! Routes that are added later, and streams.

use super::*;
use crate::config::Config;
use crate::service::{Deps, Links};
use axum::Router;
use axum::body::{Body, Bytes};
use axum::middleware::from_fn_with_state;
use axum::routing::{any, get};
use http::header::{AUTHORIZATION, HOST};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt;
use http_body_util::channel::Channel;
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

fn open() -> (tempfile::TempDir, Links) {
    let folder = tempfile::tempdir().unwrap();
    let config = Config {
        database: folder.path().join("links.db").display().to_string(),
        public_url: Some("https://s.example".into()),
        ..Config::default()
    };
    let links = Links::open(config.clone(), Deps::open(&config).unwrap()).unwrap();
    (folder, links)
}

async fn ask(router: &Router, path: &str, bearer: Option<&str>) -> Response<Body> {
    let mut request = Request::builder().uri(path).header(HOST, "s.example");
    if let Some(bearer) = bearer {
        request = request.header(AUTHORIZATION, bearer);
    }
    router.clone().oneshot(request.body(Body::empty()).unwrap()).await.unwrap()
}

#[tokio::test]
async fn route_is_closed_unless_it_is_listed_as_open() {
    let (_folder, links) = open();
    let text = || async { "text" };
    let inner = Router::new().route("/schema", get(text)).fallback(text);
    let router = Router::new()
        .route("/graphql", any(text))
        .route("/api/events", get(text))
        .route("/export.csv", get(text))
        .route("/{slug}/qr", get(text))
        .route("/{slug}", get(text))
        .nest("/nested", inner)
        .nest_service("/service", Router::new().fallback(text))
        .fallback(text)
        .layer(from_fn_with_state(links.clone(), guard));
    let (_, secret) = links.store().add_token("", Scope::Read).await.unwrap();
    let bearer = format!("Bearer {}", secret.as_str());
    for path in [
        "/graphql",
        "/api/events",
        "/export.csv",
        "/a/qr",
        "/nested/schema",
        "/nested/other",
        "/service/x",
        "/service",
        "/a/b/c",
    ] {
        assert_eq!(ask(&router, path, None).await.status(), StatusCode::UNAUTHORIZED, "{path}");
        assert_eq!(ask(&router, path, Some(&bearer)).await.status(), StatusCode::OK, "{path}");
    }
    assert_eq!(ask(&router, "/a", None).await.status(), StatusCode::OK);
}

#[tokio::test]
async fn stream_ends_when_its_token_is_removed() {
    let (_folder, links) = open();
    let (sender, body) = Channel::<Bytes>::new(1);
    let body = Arc::new(parking_lot::Mutex::new(Some(body)));
    let events = get(move || async move { Body::new(body.lock().take().unwrap()) });
    let router = Router::new().route("/events", events).layer(from_fn_with_state(links.clone(), guard));
    let (token, secret) = links.store().add_token("", Scope::Read).await.unwrap();
    let response = ask(&router, "/events", Some(&format!("Bearer {}", secret.as_str()))).await;
    let mut body = response.into_body();
    let mut sender = sender;
    sender.send_data("one".into()).await.unwrap();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "one");

    // The reader is waiting when the token is removed.
    let waiting = tokio::spawn(async move { (body.frame().await, body.frame().await.is_none()) });
    tokio::task::yield_now().await;
    assert!(links.remove_token(token.id).await.unwrap());
    let ended = tokio::time::timeout(Duration::from_secs(30), waiting).await.expect("the stream ends");
    let (last, is_over) = ended.unwrap();
    assert!(last.unwrap().unwrap_err().to_string().contains("was removed") && is_over);
    drop(sender);
}

#[tokio::test]
async fn stream_ends_when_another_process_removes_the_token() {
    let (_folder, links) = open();
    let (token, _) = links.store().add_token("", Scope::Read).await.unwrap();
    let hash = links.store().credentials().await.unwrap()[0].hash;
    let grant =
        links.access().grant(Some(hash), links.access().client(None, &HeaderMap::new())).await.unwrap();
    let revoked = links.access().revoked(grant.unwrap());
    // Past the instance, as a command of another process does.
    links.store().remove_token(token.id).await.unwrap();
    tokio::time::timeout(Duration::from_secs(30), revoked).await.expect("it is noticed");
}
