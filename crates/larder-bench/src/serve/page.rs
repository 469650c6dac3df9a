//! The server of document 4: one page, whose text comes from one of seven origins, or a stored response.

use super::{listen, runtime};
use crate::source::{Origin, Place, Source, page};
use anyhow::Result;
use axum::Router;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use larder_http::{Cached, HttpCache};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(3_600);
/// ab opens 800 connections at once.
const BACKLOG: u32 = 1_024;
const CACHE_BYTES: u64 = 64 << 20;

/// Serves the page at `/`; with `stored`, `larder-http` in front of the router answers after the first request.
pub(super) fn serve(origin: Origin, stored: bool, place: &Place) -> Result<()> {
    runtime()?.block_on(async {
        let source = Source::open(origin, place).await?;
        let router = Router::new().route("/", get(async move || respond(&source, stored).await));
        let router = match stored {
            true => HttpCache::builder().max_bytes(CACHE_BYTES).build()?.in_front_of(router),
            false => router,
        };
        Ok(axum::serve(listen(BACKLOG)?, router).await?)
    })
}

async fn respond(source: &Source, stored: bool) -> Response {
    match source.text().await {
        Ok(text) if stored => (Cached::ttl(TTL), Html(page(&text))).into_response(),
        Ok(text) => Html(page(&text)).into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
    }
}
