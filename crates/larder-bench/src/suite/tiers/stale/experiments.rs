//! The experiments, written once for all caches. A gate stops a load or a read until the other event has occurred;
//! only the allowed lag of a node depends on time.

use super::super::subject::{FetchThrough, Gate, InMemory, LoadFailed, OverRedis};
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

pub(super) const OLD: u64 = 1;
const NEW: u64 = 2;

/// The experiments without Redis.
pub(super) const IN_MEMORY: [&str; 3] =
    ["invalidated during a load", "overwritten during a load", "invalidated, then a load fails"];

/// The experiments with two tiers, most of them with two nodes.
pub(super) const OVER_REDIS: [&str; 5] = [
    "two tiers: invalidated during a load",
    "two tiers: invalidated during promotion",
    "two nodes: the other invalidates during a load",
    "two nodes: the other invalidated 1 s ago",
    "two nodes: the other overwrote 1 s ago",
];

/// The age at which an invalidation must have reached the other node.
pub(super) const LAG: Duration = Duration::from_secs(1);
const POLL: Duration = Duration::from_millis(5);

/// Whether the old value was served, for each of [`IN_MEMORY`].
pub(super) async fn in_memory<C: InMemory>() -> Vec<(&'static str, bool)> {
    let stale = [
        invalidated_during_a_load(&C::in_memory()).await,
        overwritten_during_a_load(&C::in_memory()).await,
        load_fails_after_invalidation(&C::in_memory()).await,
    ];
    IN_MEMORY.into_iter().zip(stale).collect()
}

/// Whether the old value was served, for each of [`OVER_REDIS`].
pub(super) async fn over_redis<C: OverRedis>(url: &str) -> Vec<(&'static str, bool)> {
    let node = || C::node(url, &Gate::open());
    let stale = [
        invalidated_during_a_load_in_either_tier(&node(), &node()).await,
        invalidated_during_promotion::<C>(url).await,
        other_node_invalidates_during_a_load(&node(), &node()).await,
        other_node_invalidated(&node(), &node()).await,
        other_node_overwrote(&node(), &node()).await,
    ];
    OVER_REDIS.into_iter().zip(stale).collect()
}

/// A key that no other experiment uses: all share one Redis.
pub(super) fn unused_key() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

pub(super) async fn serves_old(cache: &impl FetchThrough, key: u64) -> bool {
    cache.read(key).await == Some(OLD)
}

/// A loader reads the old value, the event occurs, and then the loader returns.
async fn load_during(cache: &impl FetchThrough, key: u64, event: impl Future<Output = ()>) {
    let gate = Gate::closed();
    let loading = {
        let (cache, gate) = (cache.clone(), gate.clone());
        let load = move || async move {
            gate.pass().await;
            Ok(OLD)
        };
        tokio::spawn(async move { cache.fetch(key, load).await })
    };
    gate.stopped().await;
    event.await;
    gate.release();
    // A fetch that started before the event may return the old value; only later reads count.
    _ = loading.await.expect("no cache panics");
}

async fn invalidated_during_a_load(cache: &impl FetchThrough) -> bool {
    let key = unused_key();
    load_during(cache, key, cache.invalidate(key)).await;
    serves_old(cache, key).await
}

async fn overwritten_during_a_load(cache: &impl FetchThrough) -> bool {
    let key = unused_key();
    load_during(cache, key, cache.write(key, NEW)).await;
    serves_old(cache, key).await
}

async fn load_fails_after_invalidation(cache: &impl FetchThrough) -> bool {
    let key = unused_key();
    cache.write(key, OLD).await;
    cache.invalidate(key).await;
    let fetched = cache.fetch(key, || async { Err(LoadFailed) }).await;
    fetched.is_ok() || serves_old(cache, key).await
}

/// The read of the other node shows what Redis has afterwards.
async fn invalidated_during_a_load_in_either_tier<C: OverRedis>(node: &C, other: &C) -> bool {
    let key = unused_key();
    load_during(node, key, node.invalidate(key)).await;
    serves_old(node, key).await || serves_old(other, key).await
}

/// A node invalidates a value while it copies that value from Redis to memory.
async fn invalidated_during_promotion<C: OverRedis>(url: &str) -> bool {
    let (key, gate) = (unused_key(), Gate::closed());
    C::node(url, &Gate::open()).write(key, OLD).await;
    let node = C::node(url, &gate);
    let reading = {
        let node = node.clone();
        tokio::spawn(async move { node.read(key).await })
    };
    gate.stopped().await;
    node.invalidate(key).await;
    gate.release();
    reading.await.expect("no cache panics");
    serves_old(&node, key).await
}

async fn other_node_invalidates_during_a_load<C: OverRedis>(node: &C, other: &C) -> bool {
    let key = unused_key();
    load_during(node, key, other.invalidate(key)).await;
    serves_old(node, key).await || serves_old(other, key).await
}

async fn other_node_invalidated<C: OverRedis>(node: &C, other: &C) -> bool {
    let key = unused_key();
    fill_both_memories(node, other, key).await;
    other.invalidate(key).await;
    serves_old_after_lag(node, key).await
}

async fn other_node_overwrote<C: OverRedis>(node: &C, other: &C) -> bool {
    let key = unused_key();
    fill_both_memories(node, other, key).await;
    other.write(key, NEW).await;
    serves_old_after_lag(node, key).await
}

async fn fill_both_memories<C: OverRedis>(node: &C, other: &C, key: u64) {
    other.write(key, OLD).await;
    assert_eq!(node.read(key).await, Some(OLD), "{} has two tiers", C::NAME);
}

/// Whether a read that starts after [`LAG`] serves the old value. Returns early once a read does not.
async fn serves_old_after_lag(cache: &impl FetchThrough, key: u64) -> bool {
    let invalidated = Instant::now();
    loop {
        let age = invalidated.elapsed();
        if !serves_old(cache, key).await {
            return false;
        }
        if age > LAG {
            return true;
        }
        tokio::time::sleep(POLL).await;
    }
}
