//! `GET /{slug}`: the redirect, and the error pages for an unknown slug and a failed store.

use crate::model::slug;
use crate::service::dimensions::Visitor;
use crate::service::{Followed, Links, Peer};
use crate::web::error_pages::error_page;
use crate::web::guard::peer_of;
use crate::web::headers::X_ROBOTS_TAG;
use axum::body::Body;
use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::header::{CACHE_CONTROL, HeaderValue, LOCATION, RETRY_AFTER};
use http::request::Parts;
use http::{Method, Request, StatusCode, Uri};

/// The route. HEAD does not count as a visit.
pub(crate) async fn follow(
    State(links): State<Links>,
    slug: Result<Path<String>, PathRejection>,
    request: Request<Body>,
) -> Response {
    let Some(Path(slug)) = slug.ok().filter(|slug| slug::can_be_slug(slug)) else {
        links.record_invalid_slug();
        return links.pages().unknown(request.uri().path());
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
        Ok(Followed::Redirect { location, is_crawlable }) => {
            let mut response = redirect(links.redirect_status(), location);
            if is_crawlable {
                response.headers_mut().insert(X_ROBOTS_TAG, HeaderValue::from_static("all"));
            }
            response
        }
        Ok(Followed::Unknown) => links.pages().unknown(slug),
        Ok(Followed::Expired) => links.pages().expired(slug),
        Ok(Followed::Deleted) => links.pages().deleted(slug),
        Err(error) => {
            tracing::warn!(%error, slug, "a slug could not be followed");
            unavailable()
        }
    }
}

/// Any other path.
pub(crate) async fn unknown(State(links): State<Links>, uri: Uri) -> Response {
    links.pages().unknown(uri.path())
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

fn unavailable() -> Response {
    let text = "The link cannot be looked up right now. Please try again in a moment.";
    let mut response = error_page(StatusCode::SERVICE_UNAVAILABLE, "Back in a moment", text);
    response.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    response
}
