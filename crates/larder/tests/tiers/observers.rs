//! What people see of a cache: errors, events and counters.

use crate::{begun, over};
use larder::View;
use larder_testkit::RedisServer;
use std::time::Duration;

#[tokio::test]
async fn wait_for_lease_counts_as_one_lookup() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let (gate, loading) = begun(&a, 1).await;
    let waiting = tokio::spawn(async move { *b.fetch("k").load(|_| async { Ok(9) }).await.expect("loads") });
    tokio::time::sleep(Duration::from_millis(200)).await;
    gate.open(1);
    assert_eq!((loading.await.expect("no panic"), waiting.await.expect("no panic")), (1, 1));
    let redis = other.stats().redis.expect("a redis tier");
    assert_eq!((redis.hits, redis.misses), (1, 0));
}
