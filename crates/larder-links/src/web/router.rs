//! The table of routes and the middleware in front of them.
//!
//! Order, from the outside: security headers, the guard (one host, token, origin, rate limits), the response cache (API
//! only), the routes.

use crate::service::Links;
use crate::service::api_error::ApiError;
use crate::web::graphql::GRAPHQL_PATH;
use crate::web::graphql::schema;
use crate::web::guard::guard;
use crate::web::headers::add_common_headers;
use crate::web::routes::graphql;
use crate::web::routes::{api, events, export, page, qr, redirect, session};
use axum::Router;
use axum::body::Body;
use axum::middleware::{Next, from_fn, from_fn_with_state};
use axum::routing::{any, delete, get, post};
use http::Request;

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

async fn wrong_method() -> ApiError {
    ApiError::wrong_method()
}
