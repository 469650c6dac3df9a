//! A file compiled into the binary, sent with an `ETag`.

use axum::body::Bytes;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH};
use http::{HeaderMap, HeaderValue, StatusCode};
use std::sync::OnceLock;
use twox_hash::XxHash3_64;

/// A file compiled into the binary. The pages need no other files and no network.
#[derive(Debug)]
pub struct Asset {
    content_type: &'static str,
    content: &'static [u8],
    etag: OnceLock<String>,
}

impl Asset {
    /// A file with its media type. The type must be valid in a header, otherwise [`respond`](Self::respond) fails with
    /// status 500.
    pub const fn new(content_type: &'static str, content: &'static [u8]) -> Self {
        Self { content_type, content, etag: OnceLock::new() }
    }

    /// The file, or 304 if the browser has the current version.
    pub fn respond(&self, request: &HeaderMap) -> Response {
        let etag = self.etag.get_or_init(|| format!("\"{:016x}\"", XxHash3_64::oneshot(self.content)));
        // The browser must revalidate each time, so that a new version of the program never runs with an old script.
        let head = [(ETAG, etag.as_str()), (CACHE_CONTROL, "no-cache")];
        if is_match(request, etag) {
            return (StatusCode::NOT_MODIFIED, head).into_response();
        }
        (head, [(CONTENT_TYPE, self.content_type)], Bytes::from_static(self.content)).into_response()
    }
}

/// RFC 9110, section 13.1.2: weak comparison, a list of tags, or `*`.
fn is_match(request: &HeaderMap, etag: &str) -> bool {
    let lines = request.get_all(IF_NONE_MATCH).iter().map(HeaderValue::to_str).filter_map(Result::ok);
    lines
        .flat_map(|line| line.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == etag || tag == "*")
}

#[cfg(test)]
mod tests {
    use super::*;

    static STYLE: Asset = Asset::new("text/css", b"body { margin: 0 }");

    fn status_if_none_match(lines: &[&str]) -> StatusCode {
        let lines = lines.iter().map(|line| (IF_NONE_MATCH, line.parse().unwrap()));
        STYLE.respond(&lines.collect()).status()
    }

    #[test]
    fn current_version_is_not_sent_again() {
        let full = STYLE.respond(&HeaderMap::new());
        assert_eq!(full.headers()[CONTENT_TYPE], "text/css");
        let etag = full.headers()[ETAG].to_str().unwrap().to_owned();
        for lines in [
            &[etag.as_str()][..],
            &[&format!("W/{etag}")],
            &[&format!("\"other\", {etag}")],
            &["\"other\"", &etag],
            &["*"],
        ] {
            assert_eq!(status_if_none_match(lines), StatusCode::NOT_MODIFIED, "{lines:?}");
        }
    }

    #[test]
    fn another_version_is_replaced() {
        for lines in [&[][..], &["\"other\""], &["0"], &[""]] {
            assert_eq!(status_if_none_match(lines), StatusCode::OK, "{lines:?}");
        }
        let other = Asset::new("text/css", b"body { margin: 1px }").respond(&HeaderMap::new());
        assert_ne!(STYLE.respond(&HeaderMap::new()).headers()[ETAG], other.headers()[ETAG]);
        assert_eq!(other.headers()[CACHE_CONTROL], "no-cache");
    }
}
