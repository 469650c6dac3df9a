//! Only complete responses without errors are stored.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use http::StatusCode;
use larder_http::{BodyRule, Builder, CacheCtx, Cached, Clock, Reason};
use tokio::sync::mpsc;

use crate::api::{Reply, Shop, Site, Streamed};

#[tokio::test]
async fn response_with_errors_is_never_stored() {
    let site = Site::new();
    let first = site.query("{broken}").await;
    assert!(first.body.contains("\"errors\""), "{first:?}");
    assert_eq!(first.cache_status, "fwd=uri-miss; detail=graphql-errors");
    for _ in 0..3 {
        let next = site.query("{broken}").await;
        assert_eq!(next.cache_status, "fwd=uri-miss; detail=hit-for-miss");
    }
    assert_eq!((site.resolved(), site.cache.stats().entries), (4, 0));
}

#[tokio::test]
async fn errors_inside_of_data_do_not_matter() {
    let site = Site::new();
    let query = r#"{errors: echo(text: "\"errors\":[]")}"#;
    assert!(site.query(query).await.is_stored());
    assert!(site.query(query).await.is_hit());
}

/// A site whose handler opts in, with this response to everything.
fn site(response: impl Fn() -> Response + Clone + Send + Sync + 'static) -> Site {
    let handler = move |cache: CacheCtx| {
        cache.ttl(Duration::from_secs(60));
        let response = response();
        async move { response }
    };
    around(handler, |builder| builder)
}

fn around<T: 'static>(
    handler: impl axum::handler::Handler<T, ()>,
    options: impl FnOnce(Builder) -> Builder,
) -> Site {
    let router = Router::new().route("/graphql", post(handler));
    Site::around(router, Arc::new(Shop::default()), BodyRule::graphql(), options)
}

fn typed(content_type: &'static str, body: impl Into<Body>) -> Response {
    ([("content-type", content_type)], body.into()).into_response()
}

fn slow(chunks: &'static [&'static str]) -> Response {
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        for chunk in chunks {
            settle().await;
            _ = sender.send(*chunk);
        }
    });
    typed("application/json", Body::new(Streamed(receiver)))
}

/// Yields until every other task waits for something.
async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn response_that_is_not_json_with_data_is_not_stored() {
    let responses: [fn() -> Response; 6] = [
        || typed("text/html", "{\"data\":1}"),
        || typed("multipart/mixed; boundary=-", "{\"data\":1}"),
        || typed("application/json", "{\"message\":\"too many requests\"}"),
        || typed("application/json", "{\"data\":1"),
        || typed("application/json", "[{\"data\":1}]"),
        || ([("content-encoding", "gzip")], typed("application/json", "{\"data\":1}")).into_response(),
    ];
    for response in responses {
        let site = site(response);
        let reply = site.query("{stock}").await;
        assert_eq!(reply.cache_status, "fwd=uri-miss; detail=graphql-response", "{reply:?}");
        assert_eq!(site.cache.stats().entries, 0);
    }
}

#[tokio::test]
async fn errors_are_found_across_chunks_of_a_slow_body() {
    const CHUNKS: &[&str] = &["{\"da", "ta\":null,\"er", "ro", "rs\":[]}"];
    let site = site(|| slow(CHUNKS));
    let reply = site.query("{stock}").await;
    assert_eq!(
        (reply.cache_status.as_str(), reply.body),
        ("fwd=uri-miss; detail=streaming", CHUNKS.concat())
    );
    assert_eq!(site.cache.stats().entries, 0);
    assert_eq!(site.cache.stats().unstored, [(Reason::GraphqlErrors, 1)]);
}

/// Five concurrent queries for the same slow response.
async fn send_five(site: &Arc<Site>) -> Vec<Reply> {
    let send = || {
        let site = site.clone();
        tokio::spawn(async move { site.query("{stock}").await })
    };
    let queries: Vec<_> = (0..5).map(|_| send()).collect();
    let mut replies = Vec::new();
    for query in queries {
        replies.push(query.await.unwrap());
    }
    replies
}

#[tokio::test]
async fn slow_response_is_shared_when_it_is_complete() {
    let site = Arc::new(site(|| slow(&["{\"data\"", ":1}"])));
    let replies = send_five(&site).await;
    assert!(replies.iter().all(|reply| reply.body == "{\"data\":1}"));
    assert_eq!(replies.iter().filter(|reply| reply.cache_status.ends_with("collapsed")).count(), 4);
    assert_eq!(site.cache.stats().stores, 1);
}

/// Nobody reads the response of another request before its end shows that it has no errors.
#[tokio::test]
async fn slow_response_with_errors_is_not_shared() {
    let site = Arc::new(site(|| slow(&["{\"data\":null,", "\"errors\":[]}"])));
    let replies = send_five(&site).await;
    assert!(replies.iter().all(|reply| reply.body == "{\"data\":null,\"errors\":[]}"));
    assert!(!replies.iter().any(|reply| reply.cache_status.ends_with("collapsed")), "{replies:?}");
}

#[tokio::test]
async fn status_other_than_200_is_not_stored_even_if_asked_for() {
    let site = site(|| {
        let settings = Cached::ttl(Duration::from_secs(60)).cached_errors([StatusCode::NOT_FOUND]);
        (StatusCode::NOT_FOUND, settings, typed("application/json", "{\"data\":1}")).into_response()
    });
    assert_eq!(site.query("{stock}").await.cache_status, "fwd=uri-miss; detail=status");
}

/// What is refreshed in the background is checked as well.
#[tokio::test]
async fn refresh_with_errors_replaces_nothing() {
    let (clock, time) = Clock::manual();
    let calls = Arc::new(AtomicUsize::new(0));
    let counter = calls.clone();
    let handler = move |cache: CacheCtx| {
        cache.ttl(Duration::from_secs(60));
        cache.swr(Duration::from_secs(60));
        let body = match counter.fetch_add(1, Ordering::SeqCst) {
            0 => "{\"data\":1}",
            _ => "{\"data\":null,\"errors\":[]}",
        };
        async move { typed("application/json", body) }
    };
    let site = around(handler, |builder| builder.clock(clock));
    assert!(site.query("{stock}").await.is_stored());
    time.advance(Duration::from_secs(61));
    assert_eq!(site.query("{stock}").await.body, "{\"data\":1}");
    settle().await;
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    assert_eq!(site.cache.stats().unstored, [(Reason::GraphqlErrors, 1)]);
    assert_eq!(site.cache.stats().stores, 1);
}
