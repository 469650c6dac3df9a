//! The smallest program: `cargo run -p larder-engine --example basics`

use larder_engine::Cache;
use std::time::Duration;

fn main() -> Result<(), larder_engine::BuildError> {
    let cache = Cache::<String, u32>::builder().entries(10_000).ttl(Duration::from_secs(60)).build()?;
    cache.insert("answer".to_owned(), 42);
    println!("{:?}", cache.get("answer"));
    println!("hit ratio {}", cache.stats().hit_ratio());
    Ok(())
}
