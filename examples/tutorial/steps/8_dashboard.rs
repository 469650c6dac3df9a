//! Step 8: the dashboard. `cargo run --example step_8`, then open the addresses that it prints.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use larder::{Cache, View};
use larder_admin::Registry;
use larder_http::{Cached, HttpCache};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long a value is fresh, and how long a response that was made of it.
const VALUE_TTL: Duration = Duration::from_secs(60);
const RESPONSE_TTL: Duration = Duration::from_secs(5);

#[derive(Clone)]
struct Shop {
    database: Arc<Database>,
    products: View<u64, Product, Down>,
}

async fn product(State(shop): State<Shop>, Path(id): Path<u64>) -> Result<impl IntoResponse, StatusCode> {
    let Shop { database, products } = shop;
    let found = products.fetch(&id).load(move |_| async move { database.product(id).await }).await;
    let found = found.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok((Cached::ttl(RESPONSE_TTL).tag(format!("product:{id}")), Json(Product::clone(&found))))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder("shop").ttl(VALUE_TTL).build()?;
    let responses = HttpCache::builder().max_bytes(64 << 20).build()?;
    let registry = Registry::new();
    registry.register_cache("products", &cache);
    registry.register_http("responses", &responses);

    let shop = Shop { database: Arc::new(Database::open()), products: cache.view("product") };
    let routes = Router::new().route("/products/{id}", get(product)).with_state(shop);
    let dashboard = TcpListener::bind("127.0.0.1:0").await?;
    let service = TcpListener::bind("127.0.0.1:0").await?;
    println!("a product: http://{}/products/1", service.local_addr()?);
    println!("dashboard: http://{}/", dashboard.local_addr()?);
    tokio::spawn(async move { axum::serve(dashboard, larder_admin::router(registry)).await });
    axum::serve(service, responses.in_front_of(routes)).await?;
    Ok(())
}
