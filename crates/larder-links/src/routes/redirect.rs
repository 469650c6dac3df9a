//! `GET /{slug}`: the redirect, and the error pages for an unknown slug and a failed store.

use crate::dimensions::Visitor;
use crate::guard::peer_of;
use crate::links::{Followed, Links, Peer};
use crate::slug;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, StatusCode};

const TEMPLATE: &str = include_str!("../../static/error.html");

/// The route. HEAD does not count as a visit.
pub(crate) async fn follow(
    State(links): State<Links>,
    slug: Result<Path<String>, PathRejection>,
    request: Request<Body>,
) -> Response {
    let Some(Path(slug)) = slug.ok().filter(|slug| slug::can_be_slug(slug)) else {
        links.record_invalid_slug();
        return not_found();
    };
    let (Parts { method, uri, headers, extensions, .. }, _) = request.into_parts();
    let visitor = links.visitor(&headers, Peer { address: peer_of(&extensions), country: None });
    let visitor = Some(&visitor).filter(|_| method == Method::GET);
    answer(&links, &slug, uri.query(), visitor).await
}

/// The redirect to the target; 404 without a target; 410 if the link has expired or was deleted; 503 if the load from the
/// store fails. A redirect counts as a visit of `visitor`.
pub(crate) async fn answer(
    links: &Links,
    slug: &str,
    query: Option<&str>,
    visitor: Option<&Visitor<'_>>,
) -> Response {
    match links.follow(slug, query, visitor).await {
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

/// Any other path.
pub(crate) async fn unknown() -> Response {
    not_found()
}

fn redirect(status: StatusCode, location: HeaderValue) -> Response {
    // A browser that stores the redirect sends no further requests: visits are lost, and changes have no effect there.
    let no_store = HeaderValue::from_static("private, no-store");
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert(LOCATION, location);
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
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
