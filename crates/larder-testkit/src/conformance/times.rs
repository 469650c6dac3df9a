//! How long things live.

use super::{How, Loaded, Subject, loads, never, seconds, text};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

/// A little less, and a little more.
pub async fn value_lives_for_its_ttl(cache: impl Subject) {
    cache.write("k", text("v"), seconds(30)).await;
    cache.pass(29 * SECOND).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
    cache.pass(2 * SECOND).await;
    assert_eq!(cache.read("k").await, None);
    assert!(!cache.exist("k").await);
}

/// The cache says 60 s.
pub async fn ttl_of_call_overrides_cache(cache: impl Subject) {
    cache.write("short", text("v"), seconds(10)).await;
    cache.write("usual", text("v"), How::default()).await;
    cache.write("long", text("v"), seconds(100)).await;
    cache.pass(59 * SECOND).await;
    let found = cache.read_multi(&["short", "usual", "long"]).await;
    assert_eq!(found, [None, Some(text("v")), Some(text("v"))]);
    cache.pass(2 * SECOND).await;
    assert_eq!(cache.read_multi(&["usual", "long"]).await, [None, Some(text("v"))]);
}

/// Whatever was left of the old one.
pub async fn write_restarts_ttl(cache: impl Subject) {
    cache.write("k", text("one"), seconds(10)).await;
    cache.pass(8 * SECOND).await;
    cache.write("k", text("other"), seconds(10)).await;
    cache.pass(8 * SECOND).await;
    assert_eq!(cache.read("k").await, Some(text("other")));
}

/// A hundred years.
pub async fn very_long_ttl_is_allowed(cache: impl Subject) {
    cache.write("k", text("v"), seconds(100 * 365 * 86_400)).await;
    cache.pass(1_000 * 86_400 * SECOND).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
}

/// A millisecond.
pub async fn shortest_ttl_is_allowed(cache: impl Subject) {
    let how = How { ttl: Some(Duration::from_millis(1)), ..How::default() };
    cache.write("k", text("v"), how).await;
    cache.pass(Duration::from_millis(2)).await;
    assert_eq!(cache.read("k").await, None);
}

/// As values do.
pub async fn absence_expires(cache: impl Subject) {
    cache.write("k", None, seconds(10)).await;
    cache.pass(11 * SECOND).await;
    assert_eq!(cache.read("k").await, None);
}

/// And loads again when it is over.
pub async fn fetch_sets_ttl(cache: impl Subject) {
    assert_eq!(cache.fetch("k", seconds(10), loads("one")).await, Ok(text("one")));
    cache.pass(9 * SECOND).await;
    assert_eq!(cache.fetch("k", seconds(10), never()).await, Ok(text("one")));
    cache.pass(2 * SECOND).await;
    assert_eq!(cache.fetch("k", seconds(10), loads("other")).await, Ok(text("other")));
}

/// It alone has seen the value.
pub async fn ttl_of_loader_overrides_call(cache: impl Subject) {
    let loading =
        Box::pin(async { Ok(Loaded { value: text("v"), ttl: Some(5 * SECOND), ..Loaded::default() }) });
    assert_eq!(cache.fetch("k", seconds(30), loading).await, Ok(text("v")));
    cache.pass(4 * SECOND).await;
    assert_eq!(cache.read("k").await, Some(text("v")));
    cache.pass(2 * SECOND).await;
    assert_eq!(cache.read("k").await, None);
}
