//! The headers of every response.

use axum::response::Response;
use http::header::{
    CONTENT_SECURITY_POLICY, HeaderName, HeaderValue, REFERRER_POLICY, X_CONTENT_TYPE_OPTIONS,
    X_FRAME_OPTIONS,
};

const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; \
                      base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub(crate) const X_ROBOTS_TAG: HeaderName = HeaderName::from_static("x-robots-tag");

const SECURITY_HEADERS: [(HeaderName, &str); 4] = [
    (CONTENT_SECURITY_POLICY, POLICY),
    (X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (X_FRAME_OPTIONS, "DENY"),
    (REFERRER_POLICY, "same-origin"),
];

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
