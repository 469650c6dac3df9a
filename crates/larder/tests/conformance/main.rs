//! What every cache has to do, for each composition of tiers: memory alone, Redis with as good as no memory, and both.
//! `pairs` draws options and operations at random, and `languages` runs the same in other languages.

#[path = "../children/mod.rs"]
mod children;
mod languages;
#[path = "../mutation/mod.rs"]
mod mutation;
mod pairs;
#[path = "../promise/rng.rs"]
mod rng;
mod subject;

use larder_testkit::RedisServer;
use std::time::Duration;
use subject::Tiers;

/// Memory with room for everything.
const ROOM: u64 = 64 << 20;
/// Memory with room for nothing, so that Redis answers.
const NO_ROOM: u64 = 1 << 10;

async fn memory() -> Option<Tiers> {
    Some(Tiers::new(ROOM, None))
}

async fn redis() -> Option<Tiers> {
    Some(Tiers::new(NO_ROOM, Some(RedisServer::start()?)))
}

async fn both() -> Option<Tiers> {
    Some(Tiers::new(ROOM, Some(RedisServer::start()?)))
}

mod in_memory {
    use super::memory;
    larder_testkit::conformance!(memory);
}

mod in_redis {
    use super::redis;
    larder_testkit::conformance!(redis);
}

mod in_both {
    use super::both;
    larder_testkit::conformance!(both);
}

/// The times that tests let pass are those of the cache and of Redis alike.
#[tokio::test]
async fn time_passes_in_both_tiers() {
    use larder_testkit::conformance::{Subject, seconds, text};
    let Some(tiers) = redis().await else { return };
    tiers.write("k", text("v"), seconds(100)).await;
    tiers.pass(Duration::from_secs(40)).await;
    let left = tiers.command("PTTL c:v:k");
    let left: u64 = left.trim_matches([':', '\r', '\n']).parse().expect("it lives");
    assert!((55_000..=60_000).contains(&left), "{left}");
}
