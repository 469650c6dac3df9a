//! Step 2: a cache in memory.

use larder::{Cache, View};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Arc::new(Database::open());
    let cache = Cache::builder("shop").memory_bytes(64 << 20).ttl(Duration::from_secs(60)).build()?;
    let products: View<u64, Product, Down> = cache.view("product");

    // A hundred requests at once for one product that is not in the cache.
    let mut requests = JoinSet::new();
    for _ in 0..100 {
        let (database, products) = (database.clone(), products.clone());
        requests.spawn(async move {
            products.fetch(&1).load(move |_| async move { database.product(1).await }).await
        });
    }
    for product in requests.join_all().await {
        assert_eq!(product?.cents, 100);
    }
    println!("100 requests, the database was asked {} time", database.queries());

    // Change the database first, then delete what the cache has.
    database.set_price(1, 120);
    assert!(products.delete(&1).await?.reach.is_everywhere());
    let loader = database.clone();
    let product = products.fetch(&1).load(move |_| async move { loader.product(1).await }).await?;
    println!("the price is {} now, from {:?}", product.cents, product.source());
    let product = products.read(&1).await.expect("it was stored");
    println!("and again {}, from {:?}", product.cents, product.source());
    Ok(())
}
