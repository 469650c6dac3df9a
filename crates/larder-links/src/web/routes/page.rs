//! The page and its files.

use crate::service::Links;
use axum::extract::{Path, State};
use axum::response::{IntoResponse, Response};
use http::HeaderMap;
use http::header::CONTENT_TYPE;
use larder_web::Asset;

static INDEX: Asset = Asset::new("text/html; charset=utf-8", include_bytes!("../../../static/index.html"));
static SCRIPT: Asset = Asset::new("text/javascript; charset=utf-8", include_bytes!("../../../static/app.js"));
static OPTIONS: Asset =
    Asset::new("text/javascript; charset=utf-8", include_bytes!("../../../static/options.js"));
static VISITS: Asset =
    Asset::new("text/javascript; charset=utf-8", include_bytes!("../../../static/visits.js"));
static STYLE: Asset = Asset::new("text/css; charset=utf-8", include_bytes!("../../../static/style.css"));
static ICON: Asset = Asset::new("image/svg+xml", include_bytes!("../../../static/icon.svg"));

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    INDEX.respond(&headers)
}

/// `GET /static/{name}`
pub(crate) async fn asset(
    State(links): State<Links>,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    match name.as_str() {
        "app.js" => SCRIPT.respond(&headers),
        "options.js" => OPTIONS.respond(&headers),
        "visits.js" => VISITS.respond(&headers),
        "style.css" => STYLE.respond(&headers),
        "icon.svg" => ICON.respond(&headers),
        _ => links.pages().unknown(&name),
    }
}

/// The most links in `robots.txt`: crawlers read the first 500 KiB of it (RFC 9309, section 2.5).
const MAX_CRAWLABLE: usize = 1_000;

/// `GET /robots.txt`: which links crawlers may follow. No crawler needs the API.
pub(crate) async fn robots(State(links): State<Links>) -> Response {
    let mut text = String::from("User-agent: *\n");
    if links.are_crawlable() {
        text += "Disallow: /api/\n";
    } else {
        // Without an answer of the store all are refused.
        for slug in links.store().crawlable_slugs(MAX_CRAWLABLE).await.unwrap_or_default() {
            text += &format!("Allow: /{slug}$\n");
        }
        text += "Disallow: /\n";
    }
    ([(CONTENT_TYPE, "text/plain; charset=utf-8")], text).into_response()
}
