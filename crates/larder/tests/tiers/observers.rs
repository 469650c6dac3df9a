//! What people see of a cache: errors, events and counters.

use crate::mutation::Mutation;
use crate::{begun, in_memory, over};
use larder::{Cache, Event, FetchError, Policy, View};
use larder_testkit::{Deadline, RedisServer};
use std::error::Error;
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

#[test]
fn no_error_shows_the_password_of_redis() {
    for url in
        ["redis://ada:secret@localhost:port", "redis://:secret@[::1", "http://ada:secret@host", "secret@"]
    {
        let error =
            Cache::builder("test").ttl(Duration::from_secs(1)).redis(url).build().expect_err("no address");
        let shown = format!("{error} {error:?} {error:#?}");
        assert!(!shown.contains("secret"), "{shown}");
    }
    let error = Cache::builder("test").ttl(Duration::from_secs(1)).redis("redis://host:port").build();
    assert!(error.expect_err("no port").to_string().contains("redis://host:port"), "the rest is shown");
}

#[tokio::test]
async fn error_of_loader_is_source_of_fetch_error() {
    let _deadline = Deadline::start();
    let view: View<str, u32, std::io::Error> = in_memory().view("n");
    let error =
        view.fetch("k").load(|_| async { Err(std::io::Error::other("disk")) }).await.expect_err("fails");
    assert!(matches!(error, FetchError::Load(_)));
    let source = error.source().expect("the error of the loader");
    assert_eq!(source.downcast_ref::<std::io::Error>().map(ToString::to_string).as_deref(), Some("disk"));
}

#[tokio::test]
async fn events_print_keys_as_text() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let mut events = cache.events();
    let view: View<str, u32> = cache.view("n");
    view.fetch("apple\n").load(|_| async { Ok(1) }).await.expect("loads");
    let event = events.recv().await.expect("an event");
    assert!(matches!(&event, Event::Loaded { ok: true, .. }));
    assert!(format!("{event:?}").contains(r#""test:n:apple\n""#), "{event:?}");
}

#[tokio::test]
async fn stats_print_on_a_few_lines() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    view.fetch("k").load(|_| async { Ok(1) }).await.expect("loads");
    let shown = format!("{:?}", cache.stats());
    assert!(shown.len() < 1_000, "{} bytes: {shown}", shown.len());
    assert!(shown.contains("misses: 1"), "{shown}");
}

#[tokio::test]
async fn queued_and_replayed_invalidations_are_events() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    let mut events = cache.events();
    server.kill();
    view.delete_multi(["k", "l"]).await.queued();
    cache.invalidate_tags(["t"], larder::Invalidation::Hard).await.queued();
    server.restart();
    let (mut queued, mut replayed) = (0, 0);
    while replayed < 3 {
        match events.recv().await.expect("events") {
            Event::Queued { invalidations } => queued += invalidations,
            Event::Replayed { invalidations } => replayed += invalidations,
            _ => {}
        }
    }
    assert_eq!((queued, replayed), (3, 3));
}

#[tokio::test]
async fn fetched_value_has_age_and_remaining_ttl() {
    let _deadline = Deadline::start();
    let (clock, hand) = larder::Clock::manual();
    let policy = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(60));
    let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid options");
    let view: View<str, u32, &str> = cache.view("n");
    view.write("k", 1).await.everywhere();
    hand.advance(Duration::from_secs(20));
    let found = view.read("k").await.expect("fresh");
    assert_eq!((found.age(), found.remaining_ttl()), (Duration::from_secs(20), Duration::from_secs(40)));
    hand.advance(Duration::from_secs(50));
    assert_eq!(found.remaining_ttl(), Duration::ZERO);
    let stale = view.fetch("k").load(|_| async { Err("down") }).await.expect("serves stale");
    assert_eq!((stale.age(), stale.remaining_ttl()), (Duration::from_secs(70), Duration::ZERO));
    let unstored = view.fetch("other").load(|cx| async move {
        cx.no_store();
        Ok(1)
    });
    assert!(unstored.await.expect("loads").remaining_ttl() <= Duration::from_secs(60));
}
