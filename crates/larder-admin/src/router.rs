//! The routes, their headers, and the options of the admin pages.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::api::StatsView;
use crate::registry::Registry;
use crate::sample;
use crate::token::Token;
use crate::{assets, guard, metrics, purge};

/// Nothing but our own files, no inline script or style, no frame around us.
const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (
        HeaderName::from_static("content-security-policy"),
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (HeaderName::from_static("x-content-type-options"), "nosniff"),
    (HeaderName::from_static("referrer-policy"), "no-referrer"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// The admin pages of a registry, for this machine only and without purging. See [`Admin`] for more.
pub fn router(registry: Registry) -> Router {
    Admin::new(registry).router()
}

/// The admin pages, and who may use them.
#[derive(Debug)]
#[must_use = "the pages are served by the router that is made of this"]
pub struct Admin {
    registry: Registry,
    hosts: Vec<String>,
    token: Option<Token>,
}

impl Admin {
    /// Pages of this registry.
    pub fn new(registry: Registry) -> Admin {
        Admin { registry, hosts: Vec::new(), token: None }
    }

    /// Lets requests in whose `Host` is this name or address, without a port; loopback ones always are.
    pub fn allow_host(mut self, host: impl Into<String>) -> Admin {
        self.hosts.push(host.into());
        self
    }

    /// Allows purging with this token. Default: nobody may purge.
    pub fn token(mut self, token: Token) -> Admin {
        self.token = Some(token);
        self
    }

    /// The router. The time up counts from here.
    pub fn router(self) -> Router {
        let shared = Shared(Arc::new(Inner {
            registry: self.registry,
            hosts: self.hosts,
            token: self.token,
            started: Instant::now(),
        }));
        Router::new()
            .route("/", get(async |headers: HeaderMap| assets::INDEX.answer(&headers)))
            .route("/app.js", get(async |headers: HeaderMap| assets::SCRIPT.answer(&headers)))
            .route("/style.css", get(async |headers: HeaderMap| assets::STYLE.answer(&headers)))
            .route("/api/stats", get(stats))
            .route("/api/purge", post(purge::purge))
            .route("/metrics", get(exposition))
            .route("/healthz", get(health))
            .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
            .layer(middleware::from_fn_with_state(shared.clone(), protect))
            .with_state(shared)
    }
}

#[derive(Clone)]
pub(crate) struct Shared(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) registry: Registry,
    pub(crate) hosts: Vec<String>,
    pub(crate) token: Option<Token>,
    started: Instant,
}

impl std::ops::Deref for Shared {
    type Target = Inner;

    fn deref(&self) -> &Inner {
        &self.0
    }
}

/// Refuses requests under foreign names, and gives every answer its security headers.
async fn protect(State(shared): State<Shared>, request: Request, next: Next) -> Response {
    let mut response = if guard::allows(request.uri(), request.headers(), &shared.hosts) {
        next.run(request).await
    } else {
        let why = "this host is not served here; name it in the admin configuration to allow it\n";
        (StatusCode::MISDIRECTED_REQUEST, why).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn stats(State(shared): State<Shared>) -> Response {
    let parts = shared.registry.sample();
    Json(StatsView::new(&parts, shared.started.elapsed())).into_response()
}

async fn exposition(State(shared): State<Shared>) -> Response {
    let page = metrics::exposition(&shared.registry.sample(), shared.started.elapsed());
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response()
}

async fn health(State(shared): State<Shared>) -> Response {
    let down: Vec<String> = shared
        .registry
        .sample()
        .iter()
        .filter(|part| part.sample.state != sample::State::Running)
        .map(|part| format!("{} {}\n", part.name, part.sample.state.as_str()))
        .collect();
    match down.is_empty() {
        true => "ok\n".into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, down.concat()).into_response(),
    }
}
