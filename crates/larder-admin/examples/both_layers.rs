//! A shop with both layers, a response cache over a cache of values, and a dashboard that shows them:
//! `cargo run -p larder-admin --features http,tiers --example both_layers`, then open the addresses that it prints.
//!
//! ```text
//! GET /products/7 ──► response cache ── miss ──► handler ──► cache of values ── miss ──► database
//! PUT /products/7 ──► database, then both layers forget the product by its tag
//! ```

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use axum::extract::{Path, State};
use axum::response::IntoResponse;
use axum::routing::get;
use axum::{Json, Router};
use http::StatusCode;
use larder::{Cache, FetchError, View};
use larder_admin::Registry;
use larder_http::{Cached, HttpCache};
use tokio::net::TcpListener;

/// How long a price may be old: its response is fresh no longer than the value.
const FRESH: Duration = Duration::from_secs(30);

type Prices = View<u32, u64, std::io::Error>;

#[derive(Clone)]
struct Shop {
    values: Cache,
    prices: Prices,
    responses: HttpCache,
    /// Stands for the database.
    price: Arc<AtomicU64>,
}

impl Shop {
    async fn price_of(&self, product: u32) -> Result<u64, FetchError<std::io::Error>> {
        let price = self.price.clone();
        let fetched = self.prices.fetch(&product).load(move |load| async move {
            load.tag(format!("product:{product}"));
            tokio::time::sleep(Duration::from_millis(5)).await;
            Ok(price.load(Relaxed))
        });
        Ok(*fetched.await?)
    }
}

async fn show(State(shop): State<Shop>, Path(product): Path<u32>) -> Result<impl IntoResponse, StatusCode> {
    let price = shop.price_of(product).await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    Ok((Cached::ttl(FRESH).tag(format!("product:{product}")), Json(price)))
}

async fn change(State(shop): State<Shop>, Path(product): Path<u32>, Json(price): Json<u64>) -> StatusCode {
    shop.price.store(price, Relaxed);
    // The value first: a handler that runs between the two stores the new price.
    let tag = format!("product:{product}");
    let values = shop.values.invalidate_tags([tag.as_str()], Default::default()).await;
    shop.responses.purge_tag(&tag);
    if values.is_ok_and(|reach| reach.is_everywhere()) {
        StatusCode::NO_CONTENT
    } else {
        StatusCode::ACCEPTED
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let values = Cache::builder("shop").ttl(FRESH).build()?;
    let responses = HttpCache::builder().max_bytes(64 << 20).build()?;
    let registry = Registry::new();
    registry.register_cache("values", &values);
    registry.register_http("responses", &responses);

    let shop =
        Shop { prices: values.view("price"), values, responses: responses.clone(), price: Arc::default() };
    let router = Router::new().route("/products/{product}", get(show).put(change)).with_state(shop);
    let (service, dashboard) =
        (TcpListener::bind("127.0.0.1:0").await?, TcpListener::bind("127.0.0.1:0").await?);
    println!("a product:  http://{}/products/7", service.local_addr()?);
    println!("dashboard:  http://{}/", dashboard.local_addr()?);
    tokio::spawn(async move { axum::serve(dashboard, larder_admin::router(registry)).await });
    axum::serve(service, responses.in_front_of(router)).await?;
    Ok(())
}
