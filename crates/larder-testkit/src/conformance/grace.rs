//! Stale values and slow loaders.

use super::{Failure, How, Loaded, Loading, Subject, fails, loads, never, text};
use crate::loader::Gate;
use crate::wait::eventually;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// Fresh for 10 s, a grace period of 100 s, and a pause of 5 s after a failed load.
fn graceful() -> How {
    How { ttl: Some(10 * SECOND), grace: Some(100 * SECOND), retry_after: Some(5 * SECOND), ..How::default() }
}

/// A stale value in the cache.
async fn stale(cache: &impl Subject) {
    cache.write("k", text("old"), graceful()).await;
    cache.pass(11 * SECOND).await;
}

/// A loader that waits at a gate.
fn gated(gate: &Gate) -> Loading {
    let gate = gate.clone();
    Box::pin(async move {
        gate.pass().await;
        Ok(Loaded { value: text("new"), ..Loaded::default() })
    })
}

/// Better old than none.
pub async fn failed_load_serves_stale(cache: impl Subject) {
    stale(&cache).await;
    assert_eq!(cache.fetch("k", graceful(), fails()).await, Ok(text("old")));
}

/// Then the failure is one.
pub async fn grace_period_ends(cache: impl Subject) {
    stale(&cache).await;
    cache.pass(100 * SECOND).await;
    assert!(matches!(cache.fetch("k", graceful(), fails()).await, Err(Failure::Loader(_))));
}

/// It is decided when the value is stored.
pub async fn failed_load_without_grace_is_an_error(cache: impl Subject) {
    cache.write("k", text("old"), super::seconds(10)).await;
    cache.pass(11 * SECOND).await;
    assert!(cache.fetch("k", graceful(), fails()).await.is_err());
}

/// One failure is enough for a while.
pub async fn failed_load_pauses_loads(cache: impl Subject) {
    stale(&cache).await;
    assert_eq!(cache.fetch("k", graceful(), fails()).await, Ok(text("old")));
    assert_eq!(cache.fetch("k", graceful(), never()).await, Ok(text("old")));
    cache.pass(4 * SECOND).await;
    assert_eq!(cache.fetch("k", graceful(), never()).await, Ok(text("old")));
}

/// Once the pause is over.
pub async fn loads_resume_after_pause(cache: impl Subject) {
    stale(&cache).await;
    assert_eq!(cache.fetch("k", graceful(), fails()).await, Ok(text("old")));
    cache.pass(6 * SECOND).await;
    assert_eq!(cache.fetch("k", graceful(), loads("new")).await, Ok(text("new")));
    assert_eq!(cache.read("k").await, Some(text("new")));
}

/// Only a failure makes it a value.
pub async fn read_ignores_stale_value(cache: impl Subject) {
    stale(&cache).await;
    assert_eq!(cache.read("k").await, None);
}

/// It is loaded first.
pub async fn successful_load_replaces_stale_value(cache: impl Subject) {
    stale(&cache).await;
    assert_eq!(cache.fetch("k", graceful(), loads("new")).await, Ok(text("new")));
}

/// Removed is removed.
pub async fn deleted_value_is_not_served_stale(cache: impl Subject) {
    stale(&cache).await;
    cache.delete("k").await;
    assert!(cache.fetch("k", graceful(), fails()).await.is_err());
}

/// Expired is stale, and no more than that.
pub async fn expired_value_is_served_stale_or_loaded_again(cache: impl Subject) {
    cache.write("k", text("old"), graceful()).await;
    cache.expire("k").await;
    assert_eq!(cache.fetch("k", graceful(), fails()).await, Ok(text("old")));
    cache.pass(6 * SECOND).await;
    assert_eq!(cache.fetch("k", graceful(), loads("new")).await, Ok(text("new")));
}

/// Nor what a clear took.
pub async fn cleared_value_is_not_served_stale(cache: impl Subject) {
    stale(&cache).await;
    cache.clear().await;
    assert!(cache.fetch("k", graceful(), fails()).await.is_err());
}

/// The load continues, and stores.
pub async fn soft_timeout_serves_stale(cache: impl Subject) {
    stale(&cache).await;
    let gate = Gate::closed();
    let how = How { soft_timeout: Some(Duration::from_millis(1)), ..graceful() };
    assert_eq!(cache.fetch("k", how, gated(&gate)).await, Ok(text("old")));
    gate.arrival().await;
    gate.open(1);
    eventually("the load stores", async || cache.read("k").await == Some(text("new"))).await;
}

/// There is nothing else to give.
pub async fn soft_timeout_without_stale_value_waits(cache: impl Subject) {
    let gate = Gate::closed();
    let how = How { soft_timeout: Some(Duration::from_millis(1)), ..graceful() };
    let waiting = {
        let (cache, loading) = (cache.clone(), gated(&gate));
        tokio::spawn(async move { cache.fetch("k", how, loading).await })
    };
    gate.arrival().await;
    tokio::time::sleep(Duration::from_millis(5)).await;
    assert!(!waiting.is_finished());
    gate.open(1);
    assert_eq!(waiting.await.expect("a caller"), Ok(text("new")));
}

/// And no caller waits longer.
pub async fn hard_timeout_is_an_error(cache: impl Subject) {
    let how = How { hard_timeout: Some(Duration::from_millis(5)), ..How::default() };
    let answer = cache.fetch("k", how, gated(&Gate::closed())).await;
    assert_eq!(answer, Err(Failure::Timeout));
    assert_eq!(cache.fetch("k", How::default(), loads("v")).await, Ok(text("v")));
}

/// Late is as good as failed.
pub async fn hard_timeout_serves_stale(cache: impl Subject) {
    stale(&cache).await;
    let how = How { hard_timeout: Some(Duration::from_millis(5)), ..graceful() };
    assert_eq!(cache.fetch("k", how, gated(&Gate::closed())).await, Ok(text("old")));
}

/// Without the value being sent again.
pub async fn not_modified_restarts_ttl(cache: impl Subject) {
    stale(&cache).await;
    let loading: Loading = Box::pin(async { Ok(Loaded { not_modified: true, ..Loaded::default() }) });
    assert_eq!(cache.fetch("k", graceful(), loading).await, Ok(text("old")));
    cache.pass(9 * SECOND).await;
    assert_eq!(cache.fetch("k", graceful(), never()).await, Ok(text("old")));
    cache.pass(2 * SECOND).await;
    assert_eq!(cache.fetch("k", graceful(), loads("new")).await, Ok(text("new")));
}
