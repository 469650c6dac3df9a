//! Step 3: two nodes over one Redis. `cargo run --example step_3 -- redis://127.0.0.1:6379`

use larder::{Cache, FetchError, View};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;

/// How long a node may serve what another node has deleted.
const MAX_LAG: Duration = Duration::from_millis(200);

struct Node {
    name: &'static str,
    products: View<u64, Product, Down>,
    database: Arc<Database>,
}

impl Node {
    fn start(name: &'static str, redis: &str, database: &Arc<Database>) -> Result<Node, larder::BuildError> {
        let cache = Cache::builder("shop-step-3")
            .ttl(Duration::from_secs(60))
            .max_lag(MAX_LAG)
            .redis(redis)
            .build()?;
        Ok(Node { name, products: cache.view("product"), database: database.clone() })
    }

    async fn show(&self, id: u64) -> Result<(), FetchError<Down>> {
        let database = self.database.clone();
        let load = move |_| async move { database.product(id).await };
        let product = self.products.fetch(&id).load(load).await?;
        println!("node {}: {} cents, from {:?}", self.name, product.cents, product.source());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let redis = std::env::args().nth(1).unwrap_or("redis://127.0.0.1:6379".to_owned());
    let database = Arc::new(Database::open());
    let (one, two) = (Node::start("one", &redis, &database)?, Node::start("two", &redis, &database)?);
    // What an earlier run has left.
    if !one.products.delete(&1).await?.reach.is_everywhere() {
        return Err(format!("no Redis answers at {redis}").into());
    }

    one.show(1).await?;
    two.show(1).await?;
    two.show(1).await?;
    println!("the database was asked {} time", database.queries());

    database.set_price(1, 120);
    println!("node one deletes: {:?}", one.products.delete(&1).await?.reach);
    tokio::time::sleep(MAX_LAG).await;
    two.show(1).await?;
    one.show(1).await?;
    Ok(())
}
