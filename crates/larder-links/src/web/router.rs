//! The table of routes and the middleware in front of them.
//!
//! Order, from the outside: security headers, the guard (one host, token, origin, rate limits), the response cache (API
//! only), the routes.

use crate::service::Links;
use crate::web::graphql::schema;
use crate::web::guard::guard;
use crate::web::reply::ApiError;
use crate::web::routes::graphql::{self, GRAPHQL_PATH};
use crate::web::routes::{api, events, export, page, qr, redirect, session};
use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::response::Response;
use axum::routing::{any, delete, get, post};
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};
use http::{Request, StatusCode};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub(crate) const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
];

pub(crate) fn build(links: Links) -> Router {
    let of_link = || get(api::show).patch(api::update).delete(api::delete);
    let api = Router::new()
        .route("/api/links", get(api::list).post(api::create))
        .route(api::BATCH_PATH, of_link().post(api::create_batch))
        .route("/api/links/{slug}", of_link())
        .route("/api/links/{slug}/restore", post(api::restore))
        .route("/api/links/{slug}/visits", delete(api::forget_visits))
        .route("/api/links/{slug}/{file}", get(qr::show))
        .route("/api/export", get(export::show))
        .route("/api/{*rest}", any(api::unknown))
        .method_not_allowed_fallback(wrong_method)
        .with_state(links.clone());
    let graphql = Router::new()
        // axum has no route for QUERY: the fallback serves it.
        .route(GRAPHQL_PATH, get(graphql::answer).post(graphql::answer).fallback(graphql::answer))
        .with_state((links.clone(), schema()));
    let graphql = links.stored_responses().wrap_graphql(GRAPHQL_PATH, graphql);
    let routes = Router::new()
        .route("/", get(page::index))
        .route("/static/{name}", get(page::asset))
        .route("/healthz", get(api::health))
        .route("/robots.txt", get(page::robots))
        .route("/api/session", get(session::show).post(session::open).delete(session::end))
        .route("/api/events", get(events::show))
        .route("/{slug}", get(redirect::follow))
        .method_not_allowed_fallback(wrong_method)
        .with_state(links.clone())
        .merge(links.stored_responses().wrap(api))
        .merge(graphql.layer(from_fn(graphql::buffer_body)));
    guarded(links, routes)
}

/// Puts the guard in front of routes. Every other path gets the 404 page.
fn guarded(links: Links, routes: Router) -> Router {
    let is_crawlable = links.are_crawlable();
    let fallback = any(redirect::unknown).with_state(links.clone());
    let routes = routes.layer(from_fn_with_state(links, guard));
    let secured = move |request: Request<Body>, next: Next| async move {
        let mut response = next.run(request).await;
        add_common_headers(&mut response, is_crawlable);
        response
    };
    routes.fallback_service(fallback).layer(from_fn(secured))
}

pub(crate) async fn wrong_method() -> ApiError {
    ApiError::new(StatusCode::METHOD_NOT_ALLOWED, "this path does not support this method")
}

/// The headers of every response: for browsers, and for crawlers, unless they may follow the links.
pub(crate) fn add_common_headers(response: &mut Response, is_crawlable: bool) {
    if !is_crawlable {
        // A link that is crawlable has said so.
        let refusal = HeaderValue::from_static("noindex, nofollow");
        response.headers_mut().entry(X_ROBOTS_TAG).or_insert(refusal);
    }
    // A redirect has no content to protect, and redirects are most of the bytes that this service sends.
    if !response.status().is_redirection() {
        for (name, value) in SECURITY_HEADERS {
            // A page of the operator has its own policy.
            response.headers_mut().entry(name).or_insert(HeaderValue::from_static(value));
        }
    }
}
