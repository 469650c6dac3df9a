//! What the dashboard, the shortener and the proxy share: files compiled into the binary, the rules for host names, networks
//! of trusted proxies, and the type of a body. A part of Larder; it has no use of its own.
//!
//! ```
//! use http::{HeaderMap, StatusCode, header::IF_NONE_MATCH};
//! use larder_web::Asset;
//!
//! static PAGE: Asset = Asset::new("text/html; charset=utf-8", b"<!doctype html><title>Hello</title>");
//!
//! let response = PAGE.respond(&HeaderMap::new());
//! assert_eq!(response.status(), StatusCode::OK);
//!
//! let etag = response.headers()["etag"].clone();
//! let response = PAGE.respond(&HeaderMap::from_iter([(IF_NONE_MATCH, etag)]));
//! assert_eq!(response.status(), StatusCode::NOT_MODIFIED);
//! ```

mod asset;
mod host;
mod network;

pub use asset::Asset;
pub use host::{host_header_is_unambiguous, is_loopback_ip, is_loopback_name};
pub use network::Network;

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// Whether the body is declared as `application/json`, with or without parameters (RFC 9110, section 8.3).
pub fn has_json_type(headers: &HeaderMap) -> bool {
    let given = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = given.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_type_is_recognised_in_any_case_and_with_parameters() {
        let has_json_type =
            |text: &str| has_json_type(&HeaderMap::from_iter([(CONTENT_TYPE, text.parse().unwrap())]));
        for text in
            ["application/json", "Application/JSON", "application/json; charset=utf-8", "application/json ;a"]
        {
            assert!(has_json_type(text), "{text}");
        }
        for text in
            ["", "text/plain", "application/jsonp", "text/plain; application/json", "application/x+json"]
        {
            assert!(!has_json_type(text), "{text}");
        }
        assert!(!super::has_json_type(&HeaderMap::new()));
    }
}
