//! The tiers, one file per promise. A new test goes into the file of the promise that it proves, or into a new one.

mod memory;
mod redis;
mod redis_down;
mod single_flight;

use larder::{Cache, View};
use std::time::Duration;

/// A cache in memory only.
fn in_memory() -> Cache {
    Cache::builder("test").ttl(Duration::from_secs(60)).build().expect("valid options")
}

/// A cache over the Redis at `url`: one node.
fn over(url: String) -> Cache {
    Cache::builder("test")
        .ttl(Duration::from_secs(60))
        .redis(url)
        .redis_timeout(Duration::from_secs(5))
        .build()
        .expect("valid options")
}

/// Fetches with a loader that must not run.
async fn cached(view: &View<str, u32>, key: &str) -> u32 {
    *view.fetch(key).load(|_| async { panic!("loaded again") }).await.expect("cached")
}
