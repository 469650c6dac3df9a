//! The page and its files, compiled in: the binary needs no other files and no network.

use axum::extract::Path;
use axum::response::{IntoResponse, Response};
use http::header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, HeaderValue, IF_NONE_MATCH};
use http::{HeaderMap, StatusCode};
use std::sync::LazyLock;
use xxhash_rust::xxh3::xxh3_64;

struct Asset {
    name: &'static str,
    content_type: &'static str,
    bytes: &'static [u8],
    etag: String,
}

static ASSETS: LazyLock<[Asset; 4]> = LazyLock::new(|| {
    [
        ("index.html", "text/html; charset=utf-8", include_bytes!("../../static/index.html").as_slice()),
        ("app.js", "text/javascript; charset=utf-8", include_bytes!("../../static/app.js")),
        ("style.css", "text/css; charset=utf-8", include_bytes!("../../static/style.css")),
        ("icon.svg", "image/svg+xml", include_bytes!("../../static/icon.svg")),
    ]
    .map(|(name, content_type, bytes)| Asset {
        name,
        content_type,
        bytes,
        etag: format!("\"{:016x}\"", xxh3_64(bytes)),
    })
});

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    respond(&ASSETS[0], &headers)
}

/// `GET /static/{name}`
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match ASSETS.iter().skip(1).find(|asset| asset.name == name) {
        Some(asset) => respond(asset, &headers),
        None => super::redirect::unknown().await,
    }
}

fn respond(asset: &'static Asset, headers: &HeaderMap) -> Response {
    let etag = HeaderValue::from_str(&asset.etag).unwrap_or(HeaderValue::from_static("\"0\""));
    // Revalidated on each use, so that browsers get a new version of the program at once; a 304 is cheap.
    let no_cache = HeaderValue::from_static("no-cache");
    if is_match(headers, &asset.etag) {
        return (StatusCode::NOT_MODIFIED, [(ETAG, etag), (CACHE_CONTROL, no_cache)]).into_response();
    }
    let content_type = HeaderValue::from_static(asset.content_type);
    ([(CONTENT_TYPE, content_type), (ETAG, etag), (CACHE_CONTROL, no_cache)], asset.bytes).into_response()
}

/// RFC 9110, section 13.1.2: weak comparison, a list of tags, or `*`.
fn is_match(headers: &HeaderMap, etag: &str) -> bool {
    headers
        .get_all(IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .map(|tag| tag.trim().trim_start_matches("W/"))
        .any(|tag| tag == etag || tag == "*")
}
