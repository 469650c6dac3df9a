//! Two nodes over one Redis: what one of them invalidates, the other does not serve.
//! `cargo run -p larder --example two_nodes -- redis://127.0.0.1:6379`

use larder::{Cache, CoherenceMode, Reach, View};
use std::convert::Infallible;
use std::time::Duration;

const MAX_LAG: Duration = Duration::from_millis(200);

fn node(redis: &str) -> Result<Cache, larder::BuildError> {
    Cache::builder("two-nodes").ttl(Duration::from_secs(60)).max_lag(MAX_LAG).redis(redis).build()
}

async fn price(node: &Cache, in_the_database: u32) -> Result<u32, larder::FetchError<Infallible>> {
    let prices: View<str, u32, Infallible> = node.view("price");
    Ok(*prices.fetch("apple").load(move |_| async move { Ok(in_the_database) }).await?)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let Some(redis) = std::env::args().nth(1) else {
        return Err("usage: two_nodes redis://HOST:PORT".into());
    };
    let (one, other) = (node(&redis)?, node(&redis)?);
    println!("both nodes: {} and {}", price(&one, 42).await?, price(&other, 42).await?);
    match one.coherence().mode {
        CoherenceMode::Full => {}
        CoherenceMode::Unknown => return Err(format!("{redis} does not answer").into()),
        mode => return Err(format!("{mode:?}: the nodes need Redis 6.2 or later").into()),
    }

    println!("the first node changes the price and deletes the key");
    let prices: View<str, u32, Infallible> = one.view("price");
    assert_eq!(prices.delete("apple").await?.reach, Reach::Everywhere);
    assert_eq!(price(&one, 43).await?, 43);
    // The promise allows the other node this long; it usually hears within a millisecond.
    tokio::time::sleep(MAX_LAG).await;
    assert_eq!(price(&other, 43).await?, 43);
    println!("both nodes: 43 and 43");
    Ok(())
}
