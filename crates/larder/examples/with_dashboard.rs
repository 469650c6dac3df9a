//! A service with a dashboard. `cargo run -p larder --example with_dashboard`, then open the address that it prints.

use larder::{Cache, View};
use larder_admin::Registry;
use std::convert::Infallible;
use std::time::Duration;

/// Fetches keys as a service would, some more often than others.
async fn work(cache: Cache) {
    let squares: View<u64, u64, Infallible> = cache.view("square");
    for n in 0_u64.. {
        let key = (n * n * 31 + n) % 1_000;
        let squared = squares.fetch(&key).load(move |_| async move {
            tokio::time::sleep(Duration::from_millis(2)).await;
            Ok(key * key)
        });
        squared.await.expect("the loader does not fail");
        if n % 20 == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder("example").ttl(Duration::from_secs(10)).build()?;
    let registry = Registry::new();
    registry.register_cache("squares", &cache);

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("dashboard: http://{}/", listener.local_addr()?);
    tokio::spawn(work(cache));
    axum::serve(listener, larder_admin::router(registry)).await?;
    Ok(())
}
