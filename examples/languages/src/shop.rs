//! The shop in Rust: products are read through larder, and a change invalidates them in every process.

use crate::origin::{Origin, Product};
use anyhow::Result;
use axum::extract::{Path, State};
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use axum::{Json, Router};
use larder::{Cache, FetchError, Format, Invalidation, Policy, Source, View};
use serde::Deserialize;
use serde_json::json;
use std::time::Duration;

const MAX_PRICE: u32 = 1_000_000;

#[derive(Clone)]
pub(crate) struct Shop {
    cache: Cache,
    products: View<str, Option<Product>, anyhow::Error>,
    origin: Origin,
}

/// The body of a change. Programs send whole numbers of cents.
#[derive(Deserialize)]
struct Change {
    price: serde_json::Value,
}

impl Shop {
    pub(crate) fn open(redis: Option<&str>, origin: Origin) -> Result<Self> {
        let policy = Policy::new().ttl(Duration::from_secs(300)).grace(Duration::from_secs(3_600));
        let builder = Cache::builder("shop").policy(policy).format(Format::MessagePack);
        let cache = redis.into_iter().fold(builder, |builder, url| builder.redis(url)).build()?;
        // Programs in other languages have the same view: namespace, name and schema are all that they must agree on.
        let products = cache.view("product").with_shared_schema("product", 1);
        Ok(Shop { cache, products, origin })
    }

    pub(crate) fn routes(self) -> Router {
        Router::new().route("/products/{id}", get(show).put(change)).with_state(self)
    }

    async fn find(&self, id: &str) -> Result<(Option<Product>, Source), FetchError<anyhow::Error>> {
        let (origin, own) = (self.origin.clone(), id.to_owned());
        let fetched = self.products.fetch(id).load(move |load| async move {
            let product = origin.query(&own).await?;
            match &product {
                Some(_) => load.tag(format!("product-{own}")),
                // Nothing is kept of a name that somebody has made up.
                None => load.no_store(),
            }
            Ok(product)
        });
        let fetched = fetched.await?;
        Ok(((*fetched).clone(), fetched.source()))
    }
}

async fn show(State(shop): State<Shop>, Path(id): Path<String>) -> Response {
    match shop.find(&id).await {
        Ok((Some(product), source)) => {
            let outcome = if source == Source::Loader { "Rust; fwd=miss" } else { "Rust; hit" };
            let outcome = [(header::CACHE_CONTROL, "no-store"), (CACHE_STATUS, outcome)];
            (outcome, Json(product)).into_response()
        }
        Ok((None, _)) => refuse(StatusCode::NOT_FOUND, format!("there is no product {id:?}")),
        Err(error) => failed(&error),
    }
}

const CACHE_STATUS: header::HeaderName = header::HeaderName::from_static("cache-status");

async fn change(
    State(shop): State<Shop>,
    Path(id): Path<String>,
    Json(Change { price }): Json<Change>,
) -> Response {
    let Some(price) = price.as_u64().filter(|price| *price <= MAX_PRICE.into()) else {
        let said = format!("price is {price}; it must be a whole number of cents from 0 to {MAX_PRICE}");
        return refuse(StatusCode::BAD_REQUEST, said);
    };
    let product = match shop.origin.set_price(&id, price as u32) {
        Ok(Some(product)) => product,
        Ok(None) => return refuse(StatusCode::NOT_FOUND, format!("there is no product {id:?}")),
        Err(error) => return failed(&error),
    };
    // After the change: what is loaded from now on is the new product. A load that has begun before is not stored.
    match shop.cache.invalidate_tags([format!("product-{id}")], Invalidation::Hard).await {
        Ok(_) => Json(product).into_response(),
        Err(error) => failed(&error),
    }
}

fn failed(error: &impl std::fmt::Display) -> Response {
    eprintln!("{error:#}");
    refuse(StatusCode::INTERNAL_SERVER_ERROR, "something went wrong".to_owned())
}

pub(crate) fn refuse(status: StatusCode, error: String) -> Response {
    let mut response = (status, Json(json!({ "error": error }))).into_response();
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
