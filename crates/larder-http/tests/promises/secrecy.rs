//! No body, key or credential is written to a log: not by the layer, and not by a program that logs its values.

use std::convert::Infallible;
use std::fmt::Debug;
use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use axum::body::Body;
use http::{Request, StatusCode};
use http_body_util::BodyExt;
use larder_http::{BodyRule, BodyRules, Cached, HttpCache};
use tower::{Layer, ServiceExt, service_fn};
use tracing::level_filters::LevelFilter;

use crate::support::*;

const SECRET: &str = "S3CRET";

/// Everything that was logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(text)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn log_value(what: &str, value: &dyn Debug) {
    tracing::info!(?value, "{what}");
}

/// The reply to a path. Every body, and the query of every request, has the secret.
async fn reply_to(request: Request<Body>) -> Reply {
    tracing::info!(path = request.uri().path(), "the handler runs");
    let path = request.uri().path().to_owned();
    // A body rule passes the bytes on.
    let input = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let body = format!("{SECRET} {}", String::from_utf8_lossy(&input));
    match path.as_str() {
        "/plain" => plain(body),
        "/large" => cached(SECRET.repeat(100)),
        "/failing" => {
            let frames = reply(vec![data(SECRET), Err(io::Error::other("cut"))]);
            cached("").map(|_| Streamed(frames).boxed())
        }
        "/missing" => {
            let mut reply =
                with_cached(plain(body), Cached::ttl(MINUTE).cached_errors([StatusCode::NOT_FOUND]));
            *reply.status_mut() = StatusCode::NOT_FOUND;
            reply
        }
        _ => with_cached(plain(body), Cached::ttl(SECOND).swr(MINUTE).tag("tag")),
    }
}

#[tokio::test]
async fn no_secret_is_logged_on_any_path() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(LevelFilter::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    let guard = tracing::subscriber::set_default(subscriber);

    let (clock, manual_clock) = larder_http::Clock::manual();
    let cache = HttpCache::builder().clock(clock).max_body_bytes(100).build().unwrap();
    let rules = BodyRules::new().route("/search", BodyRule::post().max_bytes(20));
    let handler = service_fn(async |request| Ok::<_, Infallible>(reply_to(request).await));
    let layer = cache.layer().body_rules(rules.clone());
    let service = layer.layer(handler);
    log_value("rules", &rules);
    log_value("layer", &layer);

    let requests = [
        ("GET", "/page", ("accept", "*/*")),
        ("GET", "/page", ("accept", "*/*")),
        ("GET", "/page", ("range", "bytes=0-3")),
        ("HEAD", "/page", ("accept", "*/*")),
        ("GET", "/page", ("authorization", SECRET)),
        ("GET", "/page", ("host", SECRET)),
        ("GET", "/plain", ("cookie", SECRET)),
        ("GET", "/large", ("accept", "*/*")),
        ("GET", "/failing", ("accept", "*/*")),
        ("GET", "/missing", ("accept", "*/*")),
        ("GET", "/missing", ("accept", "*/*")),
        ("POST", "/search", ("accept", "*/*")),
        ("POST", "/search", ("accept", "*/*")),
        ("POST", "/search", ("content-length", "1000")),
    ];
    for round in ["fresh", "stale"] {
        for (method, path, (name, value)) in requests {
            let mut request = Request::builder().method(method).uri(format!("{path}?token={SECRET}"));
            request = request.header(name, value);
            let body = if method == "POST" { Body::from(SECRET) } else { Body::empty() };
            let response = service.clone().oneshot(request.body(body).unwrap()).await.unwrap();
            log_value(round, &response);
            log_value("outcome", &response.body().outcome());
            if let Err(error) = response.into_body().collect().await {
                log_value("error", &error);
                tracing::info!(%error, "the body failed");
            }
        }
        manual_clock.advance(SECOND);
        settle().await;
    }
    for value in [&cache as &dyn Debug, &service, &cache.stats(), &cache.view("view")] {
        log_value("value", value);
    }

    drop(guard);
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("the handler runs") && log.contains("cut"), "the log is captured");
    assert!(cache.stats().hits > 3 && cache.stats().stale_hits > 1, "{:?}", cache.stats());
    let lines: Vec<_> = log.lines().filter(|line| line.contains(SECRET)).collect();
    assert!(lines.is_empty(), "{lines:#?}");
}
