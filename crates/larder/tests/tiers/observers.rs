//! What people see of a cache: errors, events and counters.

use crate::{begun, in_memory, over};
use larder::{Cache, Event, FetchError, View};
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
