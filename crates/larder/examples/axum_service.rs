//! A cache in an axum service. `cargo run -p larder --example axum_service`, then open the address that it prints.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::get;
use axum::{Json, Router};
use larder::{Cache, Reach, View};
use std::time::Duration;

#[derive(Clone, serde::Serialize, serde::Deserialize)]
struct Product {
    name: String,
    cents: u32,
}

#[derive(Debug, Clone, thiserror::Error)]
#[error("the database is down")]
struct DatabaseError;

type Products = View<u64, Option<Product>, DatabaseError>;

/// A query that takes a while.
async fn query(id: u64) -> Result<Option<Product>, DatabaseError> {
    tokio::time::sleep(Duration::from_millis(200)).await;
    Ok((id < 100).then(|| Product { name: format!("product {id}"), cents: 995 }))
}

async fn product(State(products): State<Products>, Path(id): Path<u64>) -> Result<Json<Product>, StatusCode> {
    let found = products.fetch(&id).load(move |_| query(id)).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    (*found).clone().map(Json).ok_or(StatusCode::NOT_FOUND)
}

async fn delete(State(products): State<Products>, Path(id): Path<u64>) -> Result<StatusCode, StatusCode> {
    // First the database, then the cache: a load that has read the old row can no longer store it.
    match products.delete(&id).await.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?.reach {
        Reach::Everywhere => Ok(StatusCode::NO_CONTENT),
        // Other nodes follow as soon as Redis replies.
        Reach::HereAndQueued => Ok(StatusCode::ACCEPTED),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    let products: Products = cache.view("product").with_negative_ttl(Duration::from_secs(5));
    let router = Router::new().route("/products/{id}", get(product).delete(delete)).with_state(products);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("http://{}/products/7: 200 ms at first, then from memory", listener.local_addr()?);
    axum::serve(listener, router).await?;
    Ok(())
}
