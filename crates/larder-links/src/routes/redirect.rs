//! `GET /{slug}`: the redirect, and the error pages for an unknown slug and a failed store.

use crate::dimensions::Visitor;
use crate::guard::peer_of;
use crate::links::{Followed, Links};
use crate::slug;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRequestParts, Path, RawQuery, State};
use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, RETRY_AFTER};
use http::request::Parts;
use http::{Method, StatusCode};
use std::convert::Infallible;

const TEMPLATE: &str = include_str!("../../static/error.html");

/// The redirect to the target; 404 without a target; 410 if the link has expired or was deleted; 503 if the load from the store fails. HEAD does not count as a visit.
pub(crate) async fn follow(
    State(links): State<Links>,
    method: Method,
    RawQuery(query): RawQuery,
    slug: Result<Path<String>, PathRejection>,
    visitor: Visitor,
) -> Response {
    let Some(Path(slug)) = slug.ok().filter(|slug| slug::can_be_slug(slug)) else {
        links.record_invalid_slug();
        return not_found();
    };
    let visitor = Some(&visitor).filter(|_| method == Method::GET);
    match links.follow(&slug, query.as_deref(), visitor).await {
        Ok(Followed::Redirect(location)) => redirect(links.redirect_status(), location),
        Ok(Followed::Unknown) => not_found(),
        Ok(Followed::Expired) => {
            gone("This link has expired", "Its owner gave it an end, which it has reached.")
        }
        Ok(Followed::Deleted) => gone("This link was deleted", "Its owner removed it."),
        Err(error) => {
            tracing::warn!(%error, slug, "a slug could not be followed");
            unavailable()
        }
    }
}

impl FromRequestParts<Links> for Visitor {
    type Rejection = Infallible;

    async fn from_request_parts(request: &mut Parts, links: &Links) -> Result<Visitor, Infallible> {
        Ok(links.visitor(&request.headers, peer_of(&request.extensions)))
    }
}

/// Any other path.
pub(crate) async fn unknown() -> Response {
    not_found()
}

fn redirect(status: StatusCode, location: HeaderValue) -> Response {
    // A browser that stores the redirect sends no further requests: visits are lost, and changes have no effect there.
    let no_store = HeaderValue::from_static("private, no-store");
    (status, [(LOCATION, location), (CACHE_CONTROL, no_store)]).into_response()
}

fn not_found() -> Response {
    let text = "The link may have been mistyped, or it was deleted.";
    error_page(StatusCode::NOT_FOUND, "404", "There is no link here", text)
}

fn gone(title: &str, text: &str) -> Response {
    error_page(StatusCode::GONE, "410", title, text)
}

fn unavailable() -> Response {
    let text = "The link cannot be looked up right now. Please try again in a moment.";
    let mut response = error_page(StatusCode::SERVICE_UNAVAILABLE, "503", "Back in a moment", text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The page contains fixed texts only, nothing of the request.
fn error_page(status: StatusCode, code: &str, title: &str, text: &str) -> Response {
    let page = TEMPLATE.replace("{code}", code).replace("{title}", title).replace("{text}", text);
    let no_store = HeaderValue::from_static("no-store");
    (status, [(CACHE_CONTROL, no_store)], Html(page)).into_response()
}
