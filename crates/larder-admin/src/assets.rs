//! The three files of the dashboard, compiled in, each with an `ETag`.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use xxhash_rust::xxh3::xxh3_64;

/// A file of the dashboard.
pub(crate) struct Asset {
    content_type: &'static str,
    content: &'static [u8],
}

pub(crate) const INDEX: Asset =
    Asset { content_type: "text/html; charset=utf-8", content: include_bytes!("../static/index.html") };
pub(crate) const SCRIPT: Asset =
    Asset { content_type: "text/javascript; charset=utf-8", content: include_bytes!("../static/app.js") };
pub(crate) const STYLE: Asset =
    Asset { content_type: "text/css; charset=utf-8", content: include_bytes!("../static/style.css") };

impl Asset {
    /// The file, or 304 if the browser has the current version.
    pub(crate) fn respond(&self, request: &HeaderMap) -> Response {
        let etag = format!("\"{:016x}\"", xxh3_64(self.content));
        let is_current = |line: &HeaderValue| {
            line.to_str()
                .is_ok_and(|tags| tags.split(',').any(|tag| tag.trim().trim_start_matches("W/") == etag))
        };
        // The browser must revalidate each time, so that a new version of the program never runs with an old script.
        let head = [(ETAG, etag.clone()), (CACHE_CONTROL, "no-cache".to_owned())];
        if request.get_all(IF_NONE_MATCH).iter().any(is_current) {
            return (StatusCode::NOT_MODIFIED, head).into_response();
        }
        (head, [(CONTENT_TYPE, self.content_type)], Bytes::from_static(self.content)).into_response()
    }
}
