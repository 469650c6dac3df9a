//! Values and the responses made from them, each in its own cache: `cargo run -p larder-http --features axum,shared --example
//! layers`. Without Redis; with `.redis("redis://127.0.0.1:6379")` both are shared with other replicas.
//!
//! ```text
//! request ─► larder-http: stored response ─► handler ─► larder: stored value ─► loader
//! ```

use std::convert::Infallible;
use std::error::Error;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::{Request, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt;
use larder::{Cache, Invalidation, LoadCx, View};
use larder_http::{CacheCtx, Cached, HttpCache};
use tower::ServiceExt;

type Prices = View<str, u32, Infallible>;

/// The response has the TTL of ten minutes, but is fresh no longer than the price, and is purged with it.
async fn page(
    ctx: CacheCtx,
    Path(product): Path<String>,
    State(prices): State<Prices>,
) -> Result<(Cached, String), StatusCode> {
    let tag = format!("product:{product}");
    let price = prices.fetch(&*product).load(move |cx| look_up_price(tag, cx)).await;
    let price = price.map_err(|_| StatusCode::BAD_GATEWAY)?;
    ctx.uses(&price);
    Ok((Cached::ttl(Duration::from_secs(600)), format!("{product}: {} cents", *price)))
}

async fn look_up_price(tag: String, cx: LoadCx<u32>) -> Result<u32, Infallible> {
    static PRICE: AtomicU32 = AtomicU32::new(100);
    cx.tag(tag);
    Ok(PRICE.fetch_add(1, Ordering::Relaxed))
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let values = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    let responses = HttpCache::builder().shared(values.shared("http")).build()?;
    let router = Router::new().route("/products/{product}", get(page)).with_state(values.view("price"));
    let router = responses.in_front_of(router);

    let show = async || -> Result<(), Box<dyn Error>> {
        let request = Request::get("http://shop.example/products/jam").body(Body::empty())?;
        let response = router.clone().oneshot(request).await?;
        let status = response.headers()["cache-status"].to_str()?.to_owned();
        let body = response.into_body().collect().await.map_err(|error| error.to_string())?.to_bytes();
        println!("{:<18} {status}", String::from_utf8_lossy(&body));
        Ok(())
    };
    show().await?;
    show().await?;
    assert!(values.invalidate_tags(["product:jam"], Invalidation::Hard).await?.is_everywhere());
    show().await?;
    Ok(())
}
