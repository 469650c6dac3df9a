//! Step 7: whole responses, in front of the router.

use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router, body::Body};
use larder::{Cache, View};
use larder_http::{Cached, HttpCache};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt;

const FRESH: Duration = Duration::from_secs(60);

#[derive(Clone)]
struct Shop {
    database: Arc<Database>,
    products: View<u64, Product, Down>,
}

async fn product(State(shop): State<Shop>, Path(id): Path<u64>) -> Result<impl IntoResponse, StatusCode> {
    let Shop { database, products } = shop;
    let found = products.fetch(&id).load(move |_| async move { database.product(id).await }).await;
    let found = found.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok((Cached::ttl(FRESH).tag(format!("product:{id}")), Json(Product::clone(&found))))
}

async fn request(app: &Router, path: &str) -> Result<(), Box<dyn std::error::Error>> {
    let response = app.clone().oneshot(Request::get(path).body(Body::empty())?).await?;
    let status = response.headers()["cache-status"].to_str()?.to_owned();
    let body = axum::body::to_bytes(response.into_body(), 1 << 20).await?;
    println!("{status}\n  {}", String::from_utf8_lossy(&body));
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Arc::new(Database::open());
    // A response is fresh no longer than the value that its handler has fetched.
    let cache = Cache::builder("shop").ttl(2 * FRESH).build()?;
    let shop = Shop { database: database.clone(), products: cache.view("product") };
    let responses = HttpCache::builder().max_bytes(64 << 20).build()?;
    let routes = Router::new().route("/products/{id}", get(product)).with_state(shop.clone());
    let app = responses.in_front_of(routes);
    request(&app, "/products/1").await?;
    request(&app, "/products/1").await?;

    // The value first, then the response that was made of it.
    database.set_price(1, 120);
    assert!(shop.products.delete(&1).await?.reach.is_everywhere());
    responses.purge_tag("product:1");
    request(&app, "/products/1").await?;
    Ok(())
}
