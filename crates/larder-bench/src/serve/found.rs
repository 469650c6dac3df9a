//! A handler that answers every slug with the same redirect: the least that a shortener with this framework costs.

use super::{listen, runtime};
use anyhow::Result;
use axum::Router;
use axum::http::{StatusCode, header};
use axum::routing::get;

const BACKLOG: u32 = 1_024;
/// As long as half of all real addresses are at most.
const LOCATION: &str = "https://www.example.com/path/of/a/page";

pub(super) fn serve() -> Result<()> {
    let found = async || (StatusCode::FOUND, [(header::LOCATION, LOCATION)]);
    runtime()?.block_on(async {
        let router = Router::new().route("/{slug}", get(found));
        Ok(axum::serve(listen(BACKLOG)?, router).await?)
    })
}
