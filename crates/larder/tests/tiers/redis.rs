//! Two nodes over one real server.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over, pair};
use larder::{Format, Policy, Source, View, WriteOptions};
use larder_engine::Clock;
use larder_testkit::{RedisServer, eventually};
use std::time::Duration;

/// A run on another server than the selected one would prove nothing.
#[tokio::test]
async fn server_is_the_selected_one() {
    let Some(server) = RedisServer::start() else { return };
    let is_selected = std::env::var("LARDER_TEST_SERVER").is_ok_and(|path| path.ends_with("/larder"));
    assert_eq!(server.command("INFO server").contains("larder_version:"), is_selected);
    assert_eq!(server.is_redis(), !is_selected);
}

#[tokio::test]
async fn loaded_value_is_found_by_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let one: View<str, u32> = over(server.url()).view("n");
    let other: View<str, u32> = over(server.url()).view("n");
    one.write("a", 1).await.everywhere();
    let found = other.read("a").await.expect("found");
    assert_eq!((*found, found.source()), (1, Source::Redis));
    assert_eq!(other.read("a").await.map(|found| found.source()), Some(Source::Memory), "promoted");

    assert_eq!(*one.fetch("b").load(|_| async { Ok(2) }).await.expect("loads"), 2);
    // The fill of Redis follows the answer: it is there once the loader's node has nothing more to send.
    eventually("the other node finds it", async || other.read("b").await.is_some()).await;
    assert_eq!(cached(&other, "b").await, 2);
}

#[tokio::test]
async fn delete_removes_key_from_redis() {
    let Some(server) = RedisServer::start() else { return };
    let one: View<str, u32> = over(server.url()).view("n");
    one.write("a", 1).await.everywhere();
    assert!(one.delete("a").await.everywhere());
    assert_eq!(server.command("EXISTS test:n:a"), ":0\r\n");
}

#[tokio::test]
async fn redis_key_is_readable_and_expires() {
    let Some(server) = RedisServer::start() else { return };
    let view: View<(&str, u32), u32> = over(server.url()).view("n").with_ttl(Duration::from_secs(100));
    view.write(&("user", 7), 1).await.everywhere();
    let left: u64 = server
        .command("PTTL test:n:user:7")
        .trim_matches([':', '\r', '\n'])
        .parse()
        .expect("the key has a time to live");
    assert!((90_000..=100_000).contains(&left), "{left}");
}

/// As an older version of the library has left it: that had no deadline.
#[tokio::test]
async fn value_of_envelope_version_1_is_a_miss() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let [one, other]: [View<str, u32>; 2] = [one.view("n"), other.view("n")];
    one.write("a", 1).await.everywhere();
    server.command(r#"SETRANGE test:n:a 2 "\x01""#);
    assert!(other.read("a").await.is_none());
    assert_eq!(fetched(&other, "a", 2).await, 2);
    assert_eq!(server.command("GETRANGE test:n:a 2 2"), "$1\r\n\x02\r\n");
}

/// A touch moves the deadline in the value and that of the key in one step.
#[tokio::test]
async fn touched_value_has_new_deadline_for_every_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (one, other): (View<str, u32>, View<str, u32>) = (one.view("n").touch_on_read(), other.view("n"));
    one.write("k", 1).await.everywhere();
    server.pass(Duration::from_secs(55));
    assert!(one.read("k").await.is_some());
    let left = || server.command("PTTL test:n:k").trim_matches([':', '\r', '\n']).parse().unwrap_or(0_u64);
    eventually("the key lives on", async || left() > 50_000).await;
    let found = other.read("k").await.expect("found");
    assert!(found.remaining_ttl() > Duration::from_secs(50), "{:?}", found.remaining_ttl());
    server.command("FLUSHALL");
}

#[tokio::test]
async fn touched_value_keeps_its_grace_period_and_ttl_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let left = || server.command("PTTL test:n:k").trim_matches([':', '\r', '\n']).parse().unwrap_or(0_u64);
    let (one, other) = pair(&server);
    let (one, other): (View<str, u32>, View<str, u32>) =
        (one.view("n"), other.view("n").with_ttl(Duration::from_secs(1)).touch_on_read());
    let policy = Policy::new().ttl(Duration::from_secs(60)).grace(Duration::from_secs(3_600));
    one.write_with("k", 1, &WriteOptions::new().policy(policy)).await.everywhere();
    server.pass(Duration::from_secs(30));
    let found = other.read_multi(["k", "absent"]).await;
    assert_eq!(found[0].as_deref(), Some(&1), "from redis");
    eventually("the key lives on", async || left() > 3_650_000).await;
    let new: View<str, u32> = over(server.url()).view("n");
    let found = new.read("k").await.expect("fresh");
    assert!(found.remaining_ttl() > Duration::from_secs(50), "{:?}", found.remaining_ttl());
    server.command("FLUSHALL");
}

#[tokio::test]
async fn promoted_value_expires_with_redis_key() {
    let Some(server) = RedisServer::start() else { return };
    let writer: View<str, u32> = over(server.url()).view("n").with_ttl(Duration::from_secs(5));
    writer.write("a", 1).await.everywhere();
    let (clock, hand) = Clock::manual();
    let reading = node_with(server.url(), |options| options.ttl(Duration::from_secs(3_600)).clock(clock));
    let reader: View<str, u32> = reading.view("n");
    assert_eq!(reader.read("a").await.map(|found| found.source()), Some(Source::Redis));
    hand.advance(Duration::from_secs(6));
    assert_ne!(reader.read("a").await.map(|found| found.source()), Some(Source::Memory));
}

#[tokio::test]
async fn read_multi_costs_one_round_trip() {
    let Some(server) = RedisServer::start() else { return };
    let writer: View<u32, u32> = over(server.url()).view("n");
    for n in 0..20 {
        writer.write(&n, n * 10).await.everywhere();
    }
    let cache = over(server.url());
    let reader: View<u32, u32> = cache.view("n");
    let keys: Vec<u32> = (0..26).chain([3, 3]).collect();
    let found = reader.read_multi(&keys).await;
    for (key, found) in keys.iter().zip(&found) {
        assert_eq!(found.as_deref().copied(), (*key < 20).then_some(key * 10), "key {key}");
    }
    assert_eq!(cache.stats().redis.expect("a redis tier").latency.count(), 1);
    assert_eq!(reader.read(&0).await.map(|found| found.source()), Some(Source::Memory), "promoted");
}

#[tokio::test]
async fn shared_schema_is_that_of_name_and_number_and_of_no_type() {
    let Some(server) = RedisServer::start() else { return };
    let node = || node_with(server.url(), |options| options.format(Format::Json));
    let view = || node().view::<str, u32, ()>("n");
    view().with_shared_schema("count", 1).write("k", 7).await.everywhere();
    let of_another_type: View<str, f64> = node().view("n").with_shared_schema("count", 1);
    assert_eq!(of_another_type.read("k").await.as_deref(), Some(&7.0));
    let last = view().with_derived_schema().with_shared_schema("count", 1);
    assert_eq!(last.read("k").await.as_deref(), Some(&7), "the last call counts");
    for other in [
        view(),
        view().with_derived_schema(),
        view().with_shared_schema("count", 2),
        view().with_shared_schema("Count", 1),
        view().with_shared_schema("count", 1).with_derived_schema(),
    ] {
        assert!(other.read("k").await.is_none());
    }
}

#[tokio::test]
async fn unreadable_bytes_are_counted_misses() {
    let Some(server) = RedisServer::start() else { return };
    server.command("SET test:n:a hello");
    server.command("SET test:n:b \"\"");
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    assert!(view.read("a").await.is_none());
    assert_eq!(*view.fetch("b").load(|_| async { Ok(3) }).await.expect("loads"), 3);

    let written: View<str, (u32, String)> = over(server.url()).view("typed");
    written.write("k", (1, "one".into())).await.everywhere();
    let other_schema: View<str, (u32, String)> = cache.view("typed").with_shared_schema("typed", 2);
    assert!(other_schema.read("k").await.is_none());
    assert_eq!(cache.stats().redis.expect("a redis tier").unreadable, 3);
    server.command("ZADD test:n:list 1 x");
    assert!(view.read("list").await.is_none(), "a key of another kind is an error of Redis, and a miss");
}
