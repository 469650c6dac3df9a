//! A stale value is served while the origin is down. `cargo run -p larder --example grace`

use larder::{Cache, Policy, Source, View};
use larder_engine::Clock;
use std::io::{Error, ErrorKind};
use std::time::Duration;

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A clock that the example advances by hand, so that it does not have to wait.
    let (clock, time) = Clock::manual();
    let policy = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(3_600));
    let cache = Cache::builder("shop").policy(policy).clock(clock).build()?;
    let prices: View<str, u32, Error> = cache.view("price");

    let price = prices.fetch("apple").load(|_| async { Ok(42) }).await?;
    println!("loaded: {}", *price);

    time.advance(Duration::from_secs(90));
    let down = || async { Err(Error::new(ErrorKind::TimedOut, "the database is down")) };
    let price = prices.fetch("apple").load(move |_| down()).await?;
    assert_eq!(price.source(), Source::Stale);
    println!("the load failed; serving {}, {:?} old", *price, price.age());

    time.advance(Duration::from_secs(3_600));
    let error = prices.fetch("apple").load(move |_| down()).await.expect_err("the grace period is over");
    println!("after the grace period: {error}");
    Ok(())
}
