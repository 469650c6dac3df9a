//! Step 4: a page with many products.

use larder::{Cache, View};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Arc::new(Database::open());
    let cache = Cache::builder("shop").ttl(Duration::from_secs(60)).build()?;
    let products: View<u64, Product, Down> = cache.view("product");

    for page in [[1, 2, 3], [2, 3, 4], [4, 5, 7]] {
        let database = database.clone();
        let load = move |missing: Vec<u64>, _| {
            let database = database.clone();
            async move {
                println!("one query for {missing:?}");
                let loaded = database.products(&missing).await?;
                Ok(loaded.into_iter().map(|product| (product.id, product)).collect::<Vec<_>>())
            }
        };
        let found = products.fetch_multi(&page).load(load).await;
        for (id, product) in page.into_iter().zip(found) {
            match product?.as_deref() {
                Some(product) => print!("{} ", product.name),
                None => print!("(no product {id}) "),
            }
        }
        println!();
    }
    Ok(())
}
