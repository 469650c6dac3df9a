//! What a visitor gets for a link that does not redirect: our page, or a page or an address of the operator.

use crate::config::own_pages::{OwnAnswer, Pages, SLUG};
use axum::body::Body;
use axum::response::{Html, IntoResponse, Response};
use http::StatusCode;
use http::header::{CACHE_CONTROL, CONTENT_SECURITY_POLICY, HeaderValue, LOCATION};

/// How much of a path that is no slug a page contains, in characters.
const MAX_PATH_CHARS: usize = 200;

/// For pages of the operator: styles and pictures of their own, no scripts.
const POLICY: &str = "default-src 'none'; style-src 'self' 'unsafe-inline' https:; img-src 'self' data: https:; \
                      font-src 'self' data: https:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

const TEMPLATE: &str = include_str!("../../static/error.html");

impl Pages {
    /// 404: there is no link of this slug, or no link can have this path.
    pub(crate) fn unknown(&self, path: &str) -> Response {
        let text = "The link may have been mistyped, or it was deleted.";
        let ours = || error_page(StatusCode::NOT_FOUND, "There is no link here", text);
        self.unknown.as_ref().map_or_else(ours, |own| own.answer(StatusCode::NOT_FOUND, path))
    }

    /// 410: the link has reached its date or its limit of visits.
    pub(crate) fn expired(&self, slug: &str) -> Response {
        let text = "Its owner gave it an end, which it has reached.";
        self.gone(slug, "This link has expired", text)
    }

    /// 410: the link was deleted, and can be restored.
    pub(crate) fn deleted(&self, slug: &str) -> Response {
        self.gone(slug, "This link was deleted", "Its owner removed it.")
    }

    fn gone(&self, slug: &str, title: &str, text: &str) -> Response {
        let ours = || error_page(StatusCode::GONE, title, text);
        self.expired.as_ref().map_or_else(ours, |own| own.answer(StatusCode::GONE, slug))
    }
}

impl OwnAnswer {
    fn answer(&self, status: StatusCode, path: &str) -> Response {
        let slug: String = path.trim_start_matches('/').chars().take(MAX_PATH_CHARS).collect();
        let mut response = match self {
            OwnAnswer::Page(text) => {
                let policy = [(CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY))];
                (status, policy, Html(text.replace(SLUG, &escaped(&slug)))).into_response()
            }
            OwnAnswer::Redirect(address) => {
                let slug = url::form_urlencoded::byte_serialize(slug.as_bytes()).collect::<String>();
                let location = HeaderValue::try_from(address.replace(SLUG, &slug));
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::FOUND;
                // The address was checked, and the slug has no other characters than letters, digits and `%+-._`.
                response.headers_mut().extend(location.ok().map(|location| (LOCATION, location)));
                response
            }
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }
}

/// A page of ours. It contains fixed texts only, nothing of the request.
pub(crate) fn error_page(status: StatusCode, title: &str, text: &str) -> Response {
    let page = TEMPLATE.replace("{code}", status.as_str()).replace("{title}", title).replace("{text}", text);
    let no_store = HeaderValue::from_static("no-store");
    (status, [(CACHE_CONTROL, no_store)], Html(page)).into_response()
}

/// A text for HTML, between tags and in attributes.
fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            '\'' => safe += "&#39;",
            _ => safe.push(character),
        }
    }
    safe
}
