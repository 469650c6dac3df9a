//! `GET /{slug}`: the redirect, and the pages for a slug that leads nowhere or cannot be looked up now.

use crate::links::Links;
use crate::slug;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{Html, IntoResponse, Response};
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, RETRY_AFTER};
use http::{Method, StatusCode};

const TEMPLATE: &str = include_str!("../../static/error.html");

/// The redirect to the target, 404 if there is none, 503 if the store is needed and fails. HEAD is answered and not counted.
pub(crate) async fn follow(
    State(links): State<Links>,
    method: Method,
    slug: Result<Path<String>, PathRejection>,
) -> Response {
    let Some(Path(slug)) = slug.ok().filter(|slug| slug::is_possible(slug)) else {
        links.note_impossible();
        return not_found();
    };
    let target = links.follow(&slug, method == Method::GET).await;
    match target.as_deref() {
        Ok(Some(target)) => redirect(links.redirect_status(), &target.location),
        Ok(None) => not_found(),
        Err(error) => {
            tracing::warn!(%error, slug, "a redirect needed the database");
            unavailable()
        }
    }
}

/// Any other path.
pub(crate) async fn unknown() -> Response {
    not_found()
}

fn redirect(status: StatusCode, location: &str) -> Response {
    let Ok(location) = HeaderValue::from_str(location) else { return not_found() };
    // A browser that remembered the redirect would not come back: visits were lost and changes not seen.
    let no_store = HeaderValue::from_static("private, no-store");
    (status, [(LOCATION, location), (CACHE_CONTROL, no_store)]).into_response()
}

fn not_found() -> Response {
    let text = "The link may have been mistyped, or it was deleted.";
    error_page(StatusCode::NOT_FOUND, "404", "There is no link here", text)
}

fn unavailable() -> Response {
    let text = "The link cannot be looked up right now. Please try again in a moment.";
    let mut response = error_page(StatusCode::SERVICE_UNAVAILABLE, "503", "Back in a moment", text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}

/// The texts are ours alone: nothing of the request comes into the page.
fn error_page(status: StatusCode, code: &str, title: &str, text: &str) -> Response {
    let page = TEMPLATE.replace("{code}", code).replace("{title}", title).replace("{text}", text);
    let no_store = HeaderValue::from_static("no-store");
    (status, [(CACHE_CONTROL, no_store)], Html(page)).into_response()
}
