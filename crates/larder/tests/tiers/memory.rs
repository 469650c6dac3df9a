//! What a cache without Redis does.

use crate::mutation::Mutation;
use crate::{cached, fetched, in_memory, over};
use larder::{
    BuildError, Cache, CacheError, Codec, CodecError, FetchError, Invalidation, Policy, Source, View,
    WriteOptions,
};
use larder_engine::Clock;
use larder_testkit::{Deadline, PATIENCE, RedisServer};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

#[tokio::test]
async fn value_is_fetched_read_written_and_deleted() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    assert!(view.read("a").await.is_none());
    let loaded = view.fetch("a").load(|_| async { Ok(1) }).await.expect("loads");
    assert_eq!((*loaded, loaded.source(), loaded.coalesced()), (1, Source::Loader, false));
    let hit = view.fetch("a").load(|_| async { Ok(2) }).await.expect("cached");
    assert_eq!((*hit, hit.source()), (1, Source::Memory));
    view.write("a", 3).await.everywhere();
    assert_eq!(view.read("a").await.as_deref(), Some(&3));
    assert!(view.delete("a").await.everywhere());
    assert!(!view.delete("a").await.everywhere());
    assert!(view.read("a").await.is_none());
}

#[tokio::test]
async fn none_false_value_and_miss_are_distinct() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let options: View<str, Option<bool>> = cache.view("o");
    for value in [None, Some(false), Some(true)] {
        options.write("k", value).await.everywhere();
        assert_eq!(options.read("k").await.map(|found| *found), Some(value));
    }
    assert!(options.read("other").await.is_none());
}

#[tokio::test]
async fn absence_has_its_own_ttl() {
    let _deadline = Deadline::start();
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build().expect("valid");
    let view: View<str, Option<u32>> = cache.view("n").with_negative_ttl(Duration::from_secs(5));
    let missing = view.fetch("a").ttl(Duration::from_secs(30)).load(|_| async { Ok(None) });
    assert_eq!(*missing.await.expect("loads"), None);
    view.write("b", Some(1)).await.everywhere();
    hand.advance(Duration::from_secs(5));
    assert!(view.read("a").await.is_none());
    assert_eq!(
        view.read("b").await.map(|found| (*found, found.age())),
        Some((Some(1), Duration::from_secs(5)))
    );
}

#[tokio::test]
async fn negative_ttl_of_policy_holds_for_none() {
    let _deadline = Deadline::start();
    let (clock, hand) = Clock::manual();
    let policy = Policy::new().ttl(Duration::from_secs(60)).negative_ttl(Duration::from_secs(5));
    let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid");
    let options: View<str, Option<u32>> = cache.view("n");
    let boxed: View<str, Box<Option<u32>>> = cache.view("boxed");
    let units: View<str, ()> = cache.view("units");
    let nested: View<str, (Option<u32>,)> = cache.view("nested");
    options.write("none", None).await.everywhere();
    options.write("some", Some(1)).await.everywhere();
    boxed.write("none", Box::new(None)).await.everywhere();
    units.write("k", ()).await.everywhere();
    nested.write("k", (None,)).await.everywhere();
    hand.advance(Duration::from_secs(5));
    assert!(options.read("none").await.is_none() && boxed.read("none").await.is_none());
    assert!(options.read("some").await.is_some(), "a value");
    assert!(units.read("k").await.is_some() && nested.read("k").await.is_some(), "values of other types");
}

#[tokio::test]
async fn none_stays_negative_beside_what_the_view_accepts() {
    let _deadline = Deadline::start();
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build().expect("valid");
    let short = Duration::from_secs(5);
    let view: View<str, Option<u32>> = cache.view("n");
    let one = view.clone().with_policy(Policy::new().negative_ttl(short)).with_negative(|n| *n == Some(0));
    let other = view.with_negative(|n| *n == Some(0)).with_negative_ttl(short);
    for view in [one, other] {
        view.write("none", None).await.everywhere();
        view.write("zero", Some(0)).await.everywhere();
        view.write("one", Some(1)).await.everywhere();
        assert!(view.inspect("none").entry.is_some_and(|entry| entry.is_absence));
        hand.advance(short);
        assert!(view.read("none").await.is_none() && view.read("zero").await.is_none());
        assert!(view.read("one").await.is_some(), "a value");
    }
}

#[tokio::test]
async fn loader_sets_ttl_and_no_store() {
    let _deadline = Deadline::start();
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build().expect("valid");
    let view: View<str, u32> = cache.view("n");
    let short = view.fetch("short").load(|cx| async move {
        cx.ttl(Duration::from_secs(1));
        Ok(1)
    });
    short.await.expect("loads");
    let unstored = view.fetch("unstored").load(|cx| async move {
        cx.no_store();
        Ok(2)
    });
    assert_eq!(*unstored.await.expect("loads"), 2);
    assert!(view.read("unstored").await.is_none());
    assert!(view.read("short").await.is_some());
    hand.advance(Duration::from_secs(1));
    assert!(view.read("short").await.is_none());
}

#[tokio::test]
async fn views_are_separate() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let (a, b): (View<str, u32>, View<str, u32>) = (cache.view("a"), cache.view("b"));
    a.write("k", 1).await.everywhere();
    assert!(b.read("k").await.is_none());
    let again: View<str, u32> = cache.view("a");
    assert_eq!(again.read("k").await.as_deref(), Some(&1));
    let other_type: View<str, String> = cache.view("a");
    assert!(other_type.read("k").await.is_none(), "a value of another type is a miss");
    assert!(!other_type.exist("k").await && other_type.read_multi(["k"]).await[0].is_none());
    assert_eq!(a.read("k").await.as_deref(), Some(&1), "and stays");
    assert_eq!(
        other_type.fetch("k").load(|_| async { Ok("text".to_owned()) }).await.expect("loads").len(),
        4
    );
    assert!(a.read("k").await.is_none(), "a load replaces it");
}

#[tokio::test]
async fn read_multi_keeps_order_of_keys() {
    let _deadline = Deadline::start();
    let view: View<u32, u32> = in_memory().view("n");
    view.write(&1, 10).await.everywhere();
    view.write(&3, 30).await.everywhere();
    let found = view.read_multi(&[3, 2, 1, 3]).await;
    let values: Vec<Option<u32>> = found.iter().map(|found| found.as_deref().copied()).collect();
    assert_eq!(values, [Some(30), None, Some(10), Some(30)]);
}

#[tokio::test]
async fn failing_or_panicking_loader_stores_nothing() {
    let _deadline = Deadline::start();
    let view: View<str, u32, String> = in_memory().view("n");
    let failed = view.fetch("a").load(|_| async { Err("no row".to_owned()) }).await;
    assert_eq!(failed.expect_err("fails").to_string(), "the loader failed: no row");
    let panicked = view.fetch("a").load(|_| async { panic!("on purpose") }).await;
    assert!(matches!(panicked, Err(FetchError::LoaderPanicked)));
    assert_eq!(*view.fetch("a").load(|_| async { Ok(1) }).await.expect("loads"), 1);
}

#[tokio::test]
async fn unencodable_value_is_refused_by_write_and_served_by_fetch() {
    let _deadline = Deadline::start();
    /// Encodes never.
    #[derive(Debug)]
    struct Stubborn;
    impl serde::Serialize for Stubborn {
        fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
            Err(serde::ser::Error::custom("stubborn"))
        }
    }
    impl<'de> serde::Deserialize<'de> for Stubborn {
        fn deserialize<D: serde::Deserializer<'de>>(_: D) -> Result<Self, D::Error> {
            Ok(Stubborn)
        }
    }
    let view: View<str, Stubborn> = in_memory().view("s");
    assert!(matches!(view.write("a", Stubborn).await, Err(CacheError::Encode(_))));
    assert!(view.fetch("a").load(|_| async { Ok::<_, Infallible>(Stubborn) }).await.is_ok());
}

/// Panics for 13 when it encodes, and for 14 when it decodes.
struct PanickingCodec;

impl Codec<u32> for PanickingCodec {
    fn id(&self) -> u8 {
        200
    }
    fn encode(&self, value: &u32, out: &mut Vec<u8>) -> Result<(), CodecError> {
        assert_ne!(*value, 13, "on purpose");
        out.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }
    fn decode(&self, _: u8, bytes: &[u8]) -> Result<u32, CodecError> {
        let value = u32::from_le_bytes(bytes.try_into()?);
        assert_ne!(value, 14, "on purpose");
        Ok(value)
    }
}

#[tokio::test]
async fn panic_of_codec_is_error_of_codec() {
    let Some(server) = RedisServer::start() else { return };
    for (one, other) in [(over(server.url()), over(server.url())), (in_memory(), in_memory())] {
        let view: View<str, u32> = one.view_with_codec("n", PanickingCodec);
        let other: View<str, u32> = other.view_with_codec("n", PanickingCodec);
        assert_eq!(fetched(&view, "a", 13).await, 13, "it is returned and not stored");
        let next = tokio::time::timeout(Duration::from_secs(1), fetched(&other, "a", 1));
        assert_eq!(next.await.expect("nobody has the lease"), 1);
        assert!(matches!(view.write("a", 13).await, Err(CacheError::Encode(_))));
        view.write("b", 14).await.everywhere();
        assert_eq!(fetched(&other, "b", 2).await, 2, "what is not readable is a miss");
    }
}

#[tokio::test]
async fn panic_of_weigher_or_negative_test_ends_no_load() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    let policy = Policy::new().negative_ttl(Duration::from_secs(1));
    let negative = view.clone().with_policy(policy).with_negative(|_| panic!("on purpose"));
    assert_eq!(fetched(&negative, "a", 1).await, 1);
    assert_eq!(cached(&negative, "a").await, 1);
    let weighed = view.with_weigher(|_| panic!("on purpose"));
    assert_eq!(fetched(&weighed, "b", 2).await, 2);
    assert_eq!(cached(&weighed, "b").await, 2);
}

#[tokio::test]
async fn unencodable_write_keeps_old_value() {
    let _deadline = Deadline::start();
    /// Encodes only what is even.
    #[derive(Debug, serde::Deserialize)]
    struct Even(u32);
    impl serde::Serialize for Even {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            match self.0 % 2 {
                0 => serializer.serialize_newtype_struct("Even", &self.0),
                _ => Err(serde::ser::Error::custom("odd")),
            }
        }
    }
    let view: View<str, Even> = in_memory().view("e");
    view.write("a", Even(2)).await.everywhere();
    assert!(matches!(view.write("a", Even(3)).await, Err(CacheError::Encode(_))));
    let written = view.write_multi([("a", Even(4)), ("b", Even(5))]).await;
    assert!(matches!(written, Err(CacheError::Encode(_))));
    assert_eq!(view.read("a").await.map(|found| found.0), Some(2));
}

#[tokio::test]
async fn memory_stays_within_its_bytes() {
    let _deadline = Deadline::start();
    let cache = Cache::builder("test")
        .memory_bytes(100_000)
        .ttl(Duration::from_secs(60))
        .build()
        .expect("valid options");
    let view: View<u32, Vec<u8>> = cache.view("v");
    for n in 0..200 {
        view.write(&n, vec![0; 1_000]).await.everywhere();
        assert!(view.read(&n).await.is_some(), "what was just stored can be read");
    }
    let memory = cache.stats().memory;
    assert!(memory.bytes <= Some(100_000) && memory.bytes > Some(90_000), "{memory:?}");
    assert!(memory.evicted > 100);
}

/// Those of memory counted for one lookup in 256, and all others for themselves.
#[tokio::test]
async fn latencies_of_memory_stand_for_all_lookups() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    view.write("a", 1).await.everywhere();
    for _ in 0..10_000 {
        assert!(view.read("a").await.is_some());
    }
    let measured = cache.stats().memory.latency.count();
    assert!(measured.abs_diff(10_000) <= 256, "{measured} of 10000 lookups");
}

#[tokio::test]
async fn value_heavier_than_memory_is_counted() {
    let Some(server) = RedisServer::start() else { return };
    let options = || Cache::builder("test").memory_bytes(10_000).ttl(Duration::from_secs(60));
    let over_redis = options().redis(server.url()).redis_timeout(PATIENCE);
    for (cache, is_stored) in [(options().build(), false), (over_redis.build(), true)] {
        let cache = cache.expect("valid options");
        let view: View<str, Vec<u8>> = cache.view("v");
        view.write("small", vec![0; 1_000]).await.everywhere();
        assert_eq!(cache.stats().memory.too_heavy, 0);
        view.write("large", vec![0; 20_000]).await.everywhere();
        assert_eq!(cache.stats().memory.too_heavy, 1);
        assert_eq!(view.read("large").await.is_some(), is_stored, "in redis alone");
        assert!(view.inspect("large").entry.is_none());
    }
}

#[tokio::test]
async fn tags_are_checked_alike_by_write_invalidation_and_a_cache_that_is_off() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let with = |tags: usize| {
        let tags = (0..tags).map(|n| format!("t{}", n.min(64)));
        tags.fold(WriteOptions::new(), |options, tag| options.tag(tag))
    };
    for enabled in [true, false] {
        cache.set_enabled(enabled);
        view.write_with("k", 1, &with(64).tag("t0")).await.everywhere();
        assert!(matches!(view.write_with("k", 1, &with(65)).await, Err(CacheError::Encode(_))), "{enabled}");
        assert!(matches!(view.add_with("new", 1, &with(65)).await, Err(CacheError::Encode(_))), "{enabled}");
    }
    let twice = (0..128).map(|n| format!("t{}", n / 2));
    cache.invalidate_tags(twice, Invalidation::Hard).await.everywhere();
    let many = (0..65).map(|n| format!("t{n}"));
    assert!(matches!(cache.invalidate_tags(many, Invalidation::Hard).await, Err(CacheError::Encode(_))));
}

#[test]
fn option_out_of_range_is_refused_with_value_and_range() {
    let _deadline = Deadline::start();
    let builder = || Cache::builder("test").ttl(Duration::from_secs(1));
    let message = |result: Result<Cache, BuildError>| result.expect_err("refused").to_string();
    assert_eq!(
        message(Cache::builder("a:b").build()),
        r#"namespace is "a:b"; it must be a name without ':'"#
    );
    assert_eq!(message(Cache::builder("a").build()), "a cache needs a time to live: call ttl()");
    assert_eq!(
        message(builder().ttl(Duration::ZERO).build()),
        "ttl is 0ns; it must be from 1 ms to 8,900 years"
    );
    assert_eq!(
        message(builder().memory_bytes(1).build()),
        "memory_bytes is 1; it must be from 1 KiB to 2^62"
    );
    let redis = || builder().redis("redis://localhost");
    assert_eq!(
        message(redis().redis_timeout(Duration::ZERO).build()),
        "redis_timeout is 0ns; it must be from 1 ms to 1 min"
    );
    assert_eq!(
        message(redis().redis_connect_timeout(Duration::from_secs(61)).build()),
        "redis_connect_timeout is 61s; it must be from 1 ms to 1 min"
    );
    assert_eq!(
        message(redis().redis_keepalive(Duration::from_millis(999)).build()),
        "redis_keepalive is 999ms; it must be from 1 s to 1 h"
    );
    for connections in [0, 65] {
        assert_eq!(
            message(redis().redis_connections(connections).build()),
            format!("redis_connections is {connections}; it must be from 1 to 64")
        );
    }
    let forms = "expected redis://HOST:PORT, rediss://HOST:PORT for TLS, redis+unix:///PATH, \
                 redis+sentinel://HOST:PORT,…/NAME, or redis+cluster://HOST:PORT,…";
    for (url, shown) in
        [("x", "x"), ("gopher://x", "gopher://x"), ("redis://ada:secret@h:99999", "redis://ada:***@h:99999")]
    {
        assert_eq!(message(builder().redis(url).build()), format!("redis address {shown:?}: {forms}"));
    }
    for (url, reason) in [
        ("redis://", "missing hostname"),
        ("redis://h/x", "invalid database number"),
        ("redis+unix://host/path", "missing path"),
    ] {
        assert_eq!(
            message(builder().redis(url).build()),
            format!("redis address {url:?}: {reason}; {forms}")
        );
    }
    assert_eq!(
        message(builder().redis("redis://h/-1").build()),
        "redis address \"redis://h/-1\": the database is -1; its number must not be negative"
    );
}

#[tokio::test]
async fn dynamic_handle_does_what_a_view_does() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let loaded = cache.fetch::<u32, Infallible>("a").load(|_| async { Ok(1) }).await.expect("loads");
    assert_eq!(*loaded, 1);
    cache.write("b", "text".to_owned()).await.everywhere();
    cache.write_multi([("c", 3u32), ("d", 4)]).await.everywhere();
    assert_eq!(cache.read::<String>("b").await.as_deref().map(String::as_str), Some("text"));
    assert!(cache.read::<u32>("b").await.is_none(), "a value of another type is a miss");
    let found = cache.read_multi::<u32>(["d", "none", "c"]).await;
    assert_eq!(
        found.iter().map(|found| found.as_deref().copied()).collect::<Vec<_>>(),
        [Some(4), None, Some(3)]
    );
    assert_eq!(cache.add("a", 9u32).await.ok(), Some(false));
    assert_eq!(cache.take::<u32>("a").await.ok().flatten().as_deref(), Some(&1));
    assert_eq!(cache.delete_multi(["c", "a"]).await.everywhere(), [true, false]);
    assert!(cache.expire("d").await.everywhere());
    assert!(!cache.exist::<u32>("d").await);
    assert_eq!((cache.increment("n", 2).await.ok(), cache.decrement("n", 3).await.ok()), (Some(2), Some(-1)));
}

/// Each voids the ticket of the other. The last one to store must not take that for a deletion.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_overlapping_writes_one_stays() {
    let view: View<u32, u32> = in_memory().view("n");
    for key in 0..20_000 {
        let (first, second) = (view.clone(), view.clone());
        let first = tokio::spawn(async move { first.write(&key, 1).await });
        let second = tokio::spawn(async move { second.write(&key, 2).await });
        first.await.expect("no panic").everywhere();
        second.await.expect("no panic").everywhere();
        assert!(view.read(&key).await.is_some(), "key {key} is empty");
    }
}

/// A value that is added while another one is taken is neither lost nor taken in its place.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_takes_return_each_added_value_once() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    let all_added = Arc::new(AtomicBool::new(false));
    let takers = [(); 2].map(|()| {
        let (view, all_added) = (view.clone(), all_added.clone());
        tokio::spawn(async move {
            let mut taken = Vec::new();
            loop {
                let is_last = all_added.load(Ordering::SeqCst);
                match view.take("k").await.expect("taken") {
                    Some(value) => taken.push(*value),
                    None if is_last => return taken,
                    None => {}
                }
            }
        })
    });
    let mut added = Vec::new();
    for value in 0..2_000 {
        if view.add("k", value).await.expect("encodes") {
            added.push(value);
        }
    }
    all_added.store(true, Ordering::SeqCst);
    let mut taken = Vec::new();
    for taker in takers {
        taken.extend(taker.await.expect("no panic"));
    }
    taken.sort_unstable();
    assert!(taken == added, "{} added, {} taken", added.len(), taken.len());
}

/// An expiry that overlaps a write or a deletion must not restore the value from before.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn expire_restores_no_replaced_or_deleted_value() {
    let _deadline = Deadline::start();
    let minute = Duration::from_secs(60);
    let policy = Policy::new().ttl(minute).grace(minute);
    let view: View<str, u32, &str> =
        Cache::builder("test").policy(policy).build().expect("valid options").view("n");
    let has_ended = Arc::new(AtomicBool::new(false));
    let expiring = {
        let (view, has_ended) = (view.clone(), has_ended.clone());
        tokio::spawn(async move {
            while !has_ended.load(Ordering::SeqCst) {
                view.expire("k").await.everywhere();
            }
        })
    };
    let served = async || view.fetch("k").load(|_| async { Err("down") }).await.map(|value| *value).ok();
    for value in 0..5_000 {
        view.write("k", value).await.everywhere();
        assert_eq!(served().await, Some(value), "a value from before the write");
        view.delete("k").await.everywhere();
        assert_eq!(served().await, None, "a deleted value");
    }
    has_ended.store(true, Ordering::SeqCst);
    expiring.await.expect("no panic");
}
