//! Counters and raw values.

use crate::mutation::Mutation;
use crate::{in_memory, over};
use larder::{CacheError, Counters, RawView, View};
use larder_testkit::{RedisServer, eventually};
use std::time::Duration;

#[tokio::test]
async fn counters_add_up_across_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let counters = || [one.counters("hits"), other.counters("hits")];
    let [a, b]: [Counters<str>; 2] = counters();
    assert_eq!(a.read("k").await.ok(), Some(None));
    assert_eq!(a.increment("k", 5).await.ok(), Some(5));
    assert_eq!(b.decrement("k", 2).await.ok(), Some(3));
    assert_eq!(a.read("k").await.ok(), Some(Some(3)));
    assert_eq!(server.command("GET test:hits:k"), "$1\r\n3\r\n", "as any program would store it");
    assert!(server.command("PTTL test:hits:k").trim_matches([':', '\r', '\n']).parse::<u64>().is_ok());
    assert!(a.delete("k").await.expect("deleted"));
    server.command("SET test:hits:k text");
    assert!(a.increment("k", 1).await.is_err());
    let local: Counters<str> = in_memory().counters("hits");
    assert_eq!((local.increment("k", 2).await.ok(), local.decrement("k", 5).await.ok()), (Some(2), Some(-3)));
    assert!(local.increment("k", i64::MIN).await.is_err(), "an overflow changes nothing");
    let refused = local.decrement("k", i64::MIN).await.expect_err("it has no opposite").to_string();
    assert_eq!(refused, "refused: -9223372036854775808 cannot be negated", "there is no redis");
    assert_eq!(local.read("k").await.ok(), Some(Some(-3)));
}

#[tokio::test]
async fn counter_and_value_of_one_name_are_refused_and_kept() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let (view, counters): (View<str, u32>, Counters<str>) = (cache.view("x"), cache.counters("x"));
        view.write("k", 5).await.everywhere();
        assert!(matches!(counters.increment("k", 1).await, Err(CacheError::Refused(_))));
        assert!(matches!(counters.read("k").await, Err(CacheError::Refused(_))));
        assert_eq!(view.read("k").await.as_deref(), Some(&5), "the value stays");
        assert_eq!(counters.increment("c", 7).await.ok(), Some(7));
        view.write("c", 5).await.everywhere();
        assert!(
            matches!(counters.increment("c", 1).await, Err(CacheError::Refused(_))),
            "a write overwrites"
        );
        assert_eq!(view.read("c").await.as_deref(), Some(&5));
        assert!(counters.delete("c").await.expect("deleted"), "a deletion asks for no type");
        assert_eq!(counters.increment("c", 1).await.ok(), Some(1));
    }
}

#[tokio::test]
async fn deletion_of_key_of_another_type_is_confirmed() {
    let Some(server) = RedisServer::start() else { return };
    // So that the script that deletes on a full server runs too.
    let cache = over(server.url());
    let counters: Counters<str> = cache.counters("hits");
    let (view, raw): (View<str, u32>, RawView<str>) = (cache.view("n"), cache.raw("session"));
    for full in [false, true] {
        for key in ["hits:l", "n:l", "n:matched", "session:l"] {
            assert_eq!(server.command(&format!("ZADD test:{key} 1 m")), ":1\r\n");
        }
        view.write("text", 1).await.everywhere();
        server.set_full(full);
        assert!(counters.delete("l").await.expect("deleted"));
        assert!(raw.delete("l").await.expect("deleted"));
        assert_eq!(view.delete_multi(["l", "text", "none"]).await.everywhere(), [true, true, false]);
        assert_eq!(cache.delete_matched("n:*").await.everywhere(), 1);
        server.set_full(false);
        assert_eq!(server.command("EXISTS test:hits:l test:n:l test:n:matched test:session:l"), ":0\r\n");
        assert_eq!(cache.coherence().pending_invalidations, 0);
    }
}

#[tokio::test]
async fn raw_view_exchanges_values_with_other_programs() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let raw: RawView<str> = cache.raw("session");
    server.command("SET test:session:a hello");
    assert_eq!(raw.read("a").await.ok(), Some(Some(b"hello".to_vec())));
    raw.write("b", "world", Duration::from_secs(60)).await.expect("written");
    assert_eq!(server.command("GET test:session:b"), "$5\r\nworld\r\n");
    assert!(raw.delete("b").await.expect("deleted"));
    assert_eq!(raw.read("b").await.ok(), Some(None));
    let none: RawView<str> = in_memory().raw("session");
    assert!(none.read("a").await.is_err());
}

#[tokio::test]
async fn touch_on_read_extends_session() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("session").touch_on_read();
    view.write("k", 1).await.everywhere();
    server.pass(Duration::from_secs(55));
    assert!(view.read("k").await.is_some());
    let left =
        || server.command("PTTL test:session:k").trim_matches([':', '\r', '\n']).parse::<u64>().unwrap_or(0);
    eventually("redis has a new time to live", async || left() > 50_000).await;
}

#[tokio::test]
async fn clear_keeps_counters_and_raw_values() {
    let Some(server) = RedisServer::start() else { return };
    for cache in crate::spaces::every_kind(&server) {
        let view: View<str, u32> = cache.view("n");
        let counters: Counters<str> = cache.counters("hits");
        let raw: RawView<str> = cache.raw("session");
        let has_redis = raw.write("a", "text", Duration::from_secs(60)).await.is_ok();
        view.write("k", 1).await.everywhere();
        counters.increment("k", 5).await.expect("added");
        cache.space("eu").clear().await.everywhere();
        cache.clear().await.everywhere();
        assert!(view.read("k").await.is_none());
        assert_eq!(counters.read("k").await.ok(), Some(Some(5)), "redis: {has_redis}");
        assert_eq!(raw.read("a").await.is_ok_and(|bytes| bytes.is_some()), has_redis);
        counters.delete("k").await.expect("deleted");
    }
}
