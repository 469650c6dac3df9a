//! Step 5: invalidate a category.

use larder::{Cache, FetchError, Invalidation, View};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;

async fn show(
    products: &View<u64, Product, Down>,
    database: &Arc<Database>,
    id: u64,
) -> Result<(), FetchError<Down>> {
    let database = database.clone();
    let product = products.fetch(&id).load(move |load| async move {
        let product = database.product(id).await?;
        load.tag(product.category.as_str());
        Ok(product)
    });
    let product = product.await?;
    println!("{}: {} cents, from {:?}", product.name, product.cents, product.source());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Arc::new(Database::open());
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    let products: View<u64, Product, Down> = cache.view("product");
    for id in [1, 2, 4] {
        show(&products, &database, id).await?;
    }

    println!("all fruit costs 50 cents now");
    for id in 1..=3 {
        database.set_price(id, 50);
    }
    let reach = cache.invalidate_tags(["fruit"], Invalidation::Hard).await?;
    println!("invalidated: {reach:?}");
    for id in [1, 2, 4] {
        show(&products, &database, id).await?;
    }
    Ok(())
}
