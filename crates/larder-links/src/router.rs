//! The table of routes, and what stands in front of all of them.
//!
//! Order, from the outside: one host, security headers, the guard for changes, stored answers (API only), the routes.

use crate::hosts::check_single_host;
use crate::input::check_json_type;
use crate::links::Links;
use crate::reply::ApiError;
use crate::routes::{api, page, redirect};
use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{any, get, post};
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{Method, Request, StatusCode};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
];

pub(crate) fn build(links: Links) -> Router {
    let api = Router::new()
        .route("/api/links", get(api::list).post(api::create))
        .route("/api/links/batch", post(api::create_batch))
        .route("/api/links/{slug}", get(api::show).patch(api::update).delete(api::delete))
        .route("/api/{*rest}", any(api::unknown))
        .method_not_allowed_fallback(wrong_method)
        .with_state(links.clone());
    Router::new()
        .route("/", get(page::index))
        .route("/static/{name}", get(page::asset))
        .route("/healthz", get(api::health))
        .route("/{slug}", get(redirect::follow))
        .fallback(redirect::unknown)
        .method_not_allowed_fallback(wrong_method)
        .with_state(links.clone())
        .merge(links.answers().around(api))
        .layer(from_fn_with_state(links, guard))
        .layer(from_fn(add_security_headers))
}

async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this address does not answer to this method")
}

/// Lets reads pass, and changes only from this service's own pages and from programs.
async fn guard(State(links): State<Links>, request: Request<Body>, next: Next) -> Response {
    let checked = check_single_host(request.uri(), request.headers()).and_then(|()| {
        if matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
            return Ok(());
        }
        links.hosts().check_write(request.headers())?;
        // A form of a foreign page cannot send this type without asking first, and is never allowed to.
        check_json_type(request.headers())
    });
    match checked {
        Ok(()) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

async fn add_security_headers(request: Request<Body>, next: Next) -> Response {
    let mut response = next.run(request).await;
    // A redirect has nothing to protect, and its bytes are most of what this service sends.
    if !response.status().is_redirection() {
        for (name, value) in SECURITY_HEADERS {
            response.headers_mut().insert(name, HeaderValue::from_static(value));
        }
    }
    response
}
