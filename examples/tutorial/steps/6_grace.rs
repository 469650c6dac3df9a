//! Step 6: the database goes down.

use larder::{Cache, Clock, FetchError, Policy, View};
use shop::{Database, Down, Product};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

async fn show(products: &View<u64, Product, Down>, database: &Arc<Database>) -> Result<(), FetchError<Down>> {
    let database = database.clone();
    let product = products.fetch(&1).load(move |_| async move { database.product(1).await }).await?;
    println!("{} cents, from {:?}, {:?} old", product.cents, product.source(), product.age());
    Ok(())
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let database = Arc::new(Database::open());
    // A clock that the program moves by hand, so that nobody has to wait.
    let (clock, time) = Clock::manual();
    let policy = Policy::new().ttl(MINUTE).grace(60 * MINUTE);
    let cache = Cache::builder("shop").policy(policy).clock(clock).build()?;
    let products: View<u64, Product, Down> = cache.view("product");
    show(&products, &database).await?;

    database.stop();
    time.advance(2 * MINUTE);
    show(&products, &database).await?;
    time.advance(60 * MINUTE);
    println!("after the grace period: {}", show(&products, &database).await.expect_err("nothing is left"));
    Ok(())
}
