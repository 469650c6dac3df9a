//! The routes, their headers, and the options of the admin pages.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{Request, State};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use axum::{Json, Router};
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};

use crate::history::History;
use crate::moment::{Moment, since_1970};
use crate::parts::registry::Registry;
use crate::routes::api::StatsView;
use crate::routes::history_api::{HistoryQuery, HistoryView};
use crate::routes::query::{self, ApiQuery};
use crate::routes::state::{self, AppState, Inner};
use crate::routes::{assets, explain, guard, health, metrics, purge_route};
use crate::token::Token;

/// Only our own files, no inline script or style, no frames.
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

/// For the users of the program and of the crate.
const HOST_NOT_ALLOWED: &str = "this host is not allowed
on the same machine: use localhost or a loopback address
to allow another name: --admin-hosts of larder, or admin_hosts in its configuration file
in a program of your own: Admin::allow_host of larder-admin
";

/// The admin pages of a registry, for loopback hosts only and without purging. See [`Admin`] for options.
pub fn router(registry: Registry) -> Router {
    Admin::new(registry).router()
}

/// The admin pages and their options.
#[derive(Debug)]
#[must_use = "the router serves the pages"]
pub struct Admin {
    registry: Registry,
    hosts: Vec<String>,
    token: Option<Token>,
}

impl Admin {
    /// The pages of a registry.
    pub fn new(registry: Registry) -> Admin {
        Admin { registry, hosts: Vec::new(), token: None }
    }

    /// Allows requests whose `Host` is this name or address, without a port. Loopback names are always allowed from this
    /// machine; requests without `ConnectInfo<SocketAddr>` count as being from here.
    pub fn allow_host(mut self, host: impl Into<String>) -> Admin {
        self.hosts.push(host.into());
        self
    }

    /// Enables purging with this token. Default: disabled.
    pub fn token(mut self, token: Token) -> Admin {
        self.token = Some(token);
        self
    }

    /// The router. The uptime starts here, and a thread that samples the parts every second until the router is
    /// dropped.
    pub fn router(self) -> Router {
        let inner = Arc::new(Inner {
            registry: self.registry,
            hosts: self.hosts,
            token: self.token,
            started: Instant::now(),
            started_at: since_1970(),
            history: History::default(),
        });
        state::start_sampling(Arc::downgrade(&inner));
        let state = AppState(inner);
        let files = assets::ASSETS.iter().fold(Router::new(), |router, (path, asset)| {
            router.route(path, get(async |headers: HeaderMap| asset.respond(&headers)))
        });
        files
            .route("/api/stats", get(stats))
            .route("/api/history", get(recent))
            .route("/api/explain", get(explain::answer))
            .route("/api/purge", post(purge_route::purge))
            .route("/api/{*rest}", any(async || query::error(StatusCode::NOT_FOUND, "there is no such path")))
            .route("/metrics", get(exposition))
            .route("/healthz", get(health::live))
            .route("/readyz", get(health::ready))
            .method_not_allowed_fallback(async || {
                query::error(StatusCode::METHOD_NOT_ALLOWED, "this path does not support this method")
            })
            .fallback(async || (StatusCode::NOT_FOUND, "not found\n"))
            .layer(middleware::from_fn_with_state(state.clone(), protect))
            .with_state(state)
    }
}

/// Refuses requests with a foreign host, and adds the security headers to every response.
async fn protect(State(state): State<AppState>, request: Request, next: Next) -> Response {
    let mut response = if guard::allows(request.uri(), request.headers(), request.extensions(), &state.hosts)
    {
        next.run(request).await
    } else {
        (StatusCode::MISDIRECTED_REQUEST, HOST_NOT_ALLOWED).into_response()
    };
    let headers = response.headers_mut();
    for (name, value) in SECURITY_HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
    headers.entry(CACHE_CONTROL).or_insert(HeaderValue::from_static("no-store"));
    response
}

async fn stats(State(state): State<AppState>) -> Response {
    let parts = state.registry.sample();
    let purges = state.token.is_some();
    Json(StatsView::new(&parts, purges, state.started_at, state.started.elapsed())).into_response()
}

async fn recent(State(state): State<AppState>, ApiQuery(query): ApiQuery<HistoryQuery>) -> Response {
    let records = state.history.records();
    let view = HistoryView::new(&records, query.after.unwrap_or_default(), Moment::now());
    Json(view).into_response()
}

async fn exposition(State(state): State<AppState>) -> Response {
    let page = metrics::exposition(&state.registry.sample(), state.started_at);
    ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], page).into_response()
}
