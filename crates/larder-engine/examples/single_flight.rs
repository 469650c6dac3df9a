//! Eight threads want one key; one of them loads it: `cargo run -p larder-engine --example single_flight`

use larder_engine::Cache;
use std::convert::Infallible;
use std::thread;
use std::time::Duration;

fn main() -> Result<(), larder_engine::BuildError> {
    let cache = Cache::<&str, u32>::builder().entries(100).build()?;
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                let loader = || {
                    println!("loading");
                    thread::sleep(Duration::from_millis(50));
                    Ok::<_, Infallible>(42)
                };
                assert_eq!(cache.get_or_load(&"answer", loader), Ok(42));
            });
        }
    });
    println!("{} load, {} misses", cache.stats().loads, cache.stats().misses);
    Ok(())
}
