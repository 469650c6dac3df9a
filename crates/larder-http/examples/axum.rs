//! A small shop behind the cache: `cargo run -p larder-http --features axum --example axum`, then
//! `curl -i http://127.0.0.1:3000/products` twice, and `curl -X POST http://127.0.0.1:3000/products`.

use std::error::Error;
use std::time::Duration;

use axum::extract::State;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use larder_http::{CacheCtx, Cached, HttpCache};

async fn products(ctx: CacheCtx) -> impl IntoResponse {
    let names = load_products(&ctx).await;
    (Cached::ttl(Duration::from_secs(60)).swr(Duration::from_secs(30)), Json(names))
}

/// Nested code knows what the response depends on, so it adds the tag.
async fn load_products(ctx: &CacheCtx) -> Vec<&'static str> {
    ctx.tag("products");
    vec!["jam", "honey", "pickles"]
}

async fn add_product(State(cache): State<HttpCache>) -> &'static str {
    cache.purge_tag("products");
    "added\n"
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let cache = HttpCache::builder().max_bytes(64 << 20).build()?;
    let router = Router::new().route("/products", get(products).post(add_product)).with_state(cache.clone());
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3000".to_owned());
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("listening on http://{}", listener.local_addr()?);
    axum::serve(listener, cache.in_front_of(router)).await?;
    Ok(())
}
