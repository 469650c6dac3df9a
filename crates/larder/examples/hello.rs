//! The smallest program: one load, then a hit. `cargo run -p larder --example hello`

use larder::{Cache, View};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let cache = Cache::builder("shop").ttl(Duration::from_secs(300)).build()?;
    let prices: View<str, u32, std::io::Error> = cache.view("price");

    for _ in 0..2 {
        let price = prices
            .fetch("apple")
            .load(|_| async {
                println!("the loader asks the database");
                Ok(42)
            })
            .await?;
        println!("an apple costs {} (from {:?})", *price, price.source());
    }
    Ok(())
}
