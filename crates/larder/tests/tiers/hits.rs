//! Hits without a future: what memory may serve at once, and nothing else.

use crate::mutation::Mutation;
use crate::{fetched, in_memory, over, pair};
use larder::{Cache, Invalidation, Policy, Source, View, WriteOptions};
use larder_engine::Clock;
use larder_testkit::{RedisServer, eventually};
use std::time::Duration;

#[test]
fn hit_needs_no_runtime() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async { view.write("a", 1).await.everywhere() });
    drop(runtime);
    let hit = view.hit("a").expect("memory has it");
    assert_eq!((*hit, hit.source()), (1, Source::Memory));
    assert!(view.hit("b").is_none());
    assert_eq!(view.read_only().hit("a").as_deref(), Some(&1));
}

#[tokio::test]
async fn hit_leads_no_load_and_its_miss_is_not_counted() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    assert!(view.hit("a").is_none());
    assert_eq!(fetched(&view, "a", 1).await, 1);
    assert_eq!((view.hit("a").as_deref(), view.hit("a").as_deref()), (Some(&1), Some(&1)));
    let memory = cache.stats().memory;
    assert_eq!((memory.hits, memory.misses), (2, 1), "the fetch missed");
}

#[tokio::test]
async fn hit_serves_what_a_fetch_would_serve() {
    let (clock, hand) = Clock::manual();
    let policy = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(60));
    let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid options");
    let view: View<str, u32> = cache.view("n");
    view.write_with("red", 1, &WriteOptions::new().tag("colour")).await.everywhere();
    view.write("seven", 7).await.everywhere();
    cache.invalidate_tags(["another"], Invalidation::Hard).await.everywhere();
    assert_eq!(view.hit("red").as_deref(), Some(&1), "the ledger has changed, and not for its tag");
    cache.invalidate_tags(["colour"], Invalidation::Soft).await.everywhere();
    assert_eq!((view.hit("red").as_deref(), view.hit("seven").as_deref()), (None, Some(&7)));
    let before = cache.stats().memory;
    assert!(view.hit("red").is_none());
    let after = cache.stats().memory;
    assert_eq!((after.hits, after.misses, after.unservable), (before.hits, before.misses, before.unservable));
    hand.advance(Duration::from_secs(60));
    assert!(view.hit("seven").is_none(), "within its grace period only a load may serve it");
    cache.set_enabled(false);
    view.write("seven", 8).await.everywhere();
    assert!(view.hit("seven").is_none());
    let other: View<str, String> = cache.view("n");
    assert!(other.hit("seven").is_none(), "a value of another type");
}

#[tokio::test]
async fn invalidation_elsewhere_ends_hits() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (here, there): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    here.write("k", 1).await.everywhere();
    assert!(here.hit("k").is_some() && there.hit("k").is_none(), "it asks no Redis");
    assert_eq!(there.read("k").await.as_deref(), Some(&1));
    assert_eq!(there.hit("k").as_deref(), Some(&1));
    here.delete("k").await.everywhere();
    assert!(here.hit("k").is_none());
    eventually("the other node hears of it", async || there.hit("k").is_none()).await;
}

#[tokio::test]
async fn nothing_is_hit_while_nothing_proves_it() {
    let Some(server) = RedisServer::start() else { return };
    let view: View<str, u32> = over(server.url()).view("n");
    view.write("k", 1).await.everywhere();
    eventually("memory is trusted", async || view.hit("k").is_some()).await;
    server.pause();
    eventually("its trust has ended", async || view.hit("k").is_none()).await;
    server.resume();
}
