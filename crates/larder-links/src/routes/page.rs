//! The page and its files.

use axum::extract::Path;
use axum::response::Response;
use http::HeaderMap;
use larder_web::Asset;

static INDEX: Asset = Asset::new("text/html; charset=utf-8", include_bytes!("../../static/index.html"));
static SCRIPT: Asset = Asset::new("text/javascript; charset=utf-8", include_bytes!("../../static/app.js"));
static OPTIONS: Asset =
    Asset::new("text/javascript; charset=utf-8", include_bytes!("../../static/options.js"));
static VISITS: Asset = Asset::new("text/javascript; charset=utf-8", include_bytes!("../../static/visits.js"));
static STYLE: Asset = Asset::new("text/css; charset=utf-8", include_bytes!("../../static/style.css"));
static ICON: Asset = Asset::new("image/svg+xml", include_bytes!("../../static/icon.svg"));

/// `GET /`
pub(crate) async fn index(headers: HeaderMap) -> Response {
    INDEX.respond(&headers)
}

/// `GET /static/{name}`
pub(crate) async fn asset(Path(name): Path<String>, headers: HeaderMap) -> Response {
    match name.as_str() {
        "app.js" => SCRIPT.respond(&headers),
        "options.js" => OPTIONS.respond(&headers),
        "visits.js" => VISITS.respond(&headers),
        "style.css" => STYLE.respond(&headers),
        "icon.svg" => ICON.respond(&headers),
        _ => super::redirect::unknown().await,
    }
}
