//! What a fetch does when its loader fails, is slow, or has nothing new.

use crate::mutation::Mutation;
use crate::{cached, fetched, in_memory, node_with, over};
use larder::{Cache, FetchError, Invalidation, Loaded, Policy, Prefer, Source, View, WriteOptions};
use larder_engine::Clock;
use larder_testkit::{Deadline, Gate, PATIENCE, RedisServer, ScriptedProxy, eventually};
use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const POLICY: Policy =
    Policy::new().ttl(SECOND).grace(Duration::from_secs(60)).retry_after(Duration::from_secs(5));

fn by_hand(policy: Policy) -> (Cache, larder_engine::ManualClock) {
    let (clock, hand) = Clock::manual();
    (Cache::builder("test").policy(policy).clock(clock).build().expect("valid options"), hand)
}

#[tokio::test]
async fn failed_load_serves_stale_and_pauses_loads() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(POLICY);
    let view: View<str, u32, &str> = cache.view("n");
    let loads = Arc::new(AtomicUsize::new(0));
    let fetch = |answer: Result<u32, &'static str>| {
        let (view, loads) = (view.clone(), loads.clone());
        async move {
            let loader = move |_| async move {
                loads.fetch_add(1, Ordering::SeqCst);
                answer
            };
            view.fetch("k").load(loader).await.map(|fetched| (*fetched, fetched.source()))
        }
    };
    assert_eq!(fetch(Ok(1)).await.ok(), Some((1, Source::Loader)));
    hand.advance(2 * SECOND);
    assert_eq!(fetch(Err("down")).await.ok(), Some((1, Source::Stale)));
    assert_eq!(fetch(Err("down")).await.ok(), Some((1, Source::Stale)));
    assert_eq!(loads.load(Ordering::SeqCst), 2, "not asked again so soon");
    hand.advance(6 * SECOND);
    assert_eq!(fetch(Ok(2)).await.ok(), Some((2, Source::Loader)));
    hand.advance(62 * SECOND);
    assert!(fetch(Err("down")).await.is_err(), "the grace period is over");
    assert_eq!(cache.stats().stale, 1);
}

#[tokio::test]
async fn stale_value_of_a_failed_load_is_served_to_fetches_alone() {
    let server = RedisServer::start();
    let urls = server.as_ref().map(RedisServer::url);
    for url in std::iter::once(None).chain(urls.map(Some)) {
        let options = Cache::builder("test").policy(POLICY.ttl(Duration::from_millis(50)));
        let options = if let Some(url) = &url { options.redis(url.clone()) } else { options };
        let view: View<str, u32, &str> = options.build().expect("valid options").view("n");
        for key in ["read", "add", "take"] {
            view.write(key, 1).await.everywhere();
            eventually("it is stale", async || view.read(key).await.is_none()).await;
            let failed = view.fetch(key).load(|_| async { Err("down") }).await.expect("stale");
            assert_eq!(failed.source(), Source::Stale);
        }
        assert!(view.read("read").await.is_none() && !view.exist("read").await, "{url:?}");
        assert!(view.read_multi(["read"]).await[0].is_none(), "{url:?}");
        assert!(view.take("take").await.expect("taken").is_none(), "{url:?}");
        assert!(view.add("add", 2).await.expect("added"), "{url:?}");
        let paused = view.fetch("read").load(|_| async { panic!("loaded within retry_after") }).await;
        assert_eq!(paused.map(|stale| (*stale, stale.source())).ok(), Some((1, Source::Stale)), "{url:?}");
    }
}

/// A bulk fetch asks Redis for what memory has and cannot prove. Redis knows no pause, and the value was loaded at once.
#[tokio::test]
async fn bulk_fetch_keeps_pause_of_entry_that_is_not_proved() {
    let Some(server) = RedisServer::start() else { return };
    let (clock, hand) = Clock::manual();
    let policy = POLICY.retry_after(50 * SECOND);
    let view: View<str, u32, &str> =
        node_with(server.url(), |options| options.policy(policy).clock(clock)).view("n");
    view.write("k", 1).await.everywhere();
    hand.advance(2 * SECOND);
    server.pass(2 * SECOND);
    assert_eq!(failing(&view).await, Some((1, Source::Stale)));
    for _ in 0..2 {
        hand.advance(20 * SECOND);
        let fetch = view.fetch_multi(["k", "other"]).ttl(SECOND).load(|keys: Vec<String>, _| async move {
            assert_eq!(keys, ["other"], "the other one is paused");
            Ok(keys.into_iter().map(|key| (key, 2)))
        });
        let found = fetch.await.swap_remove(0).expect("served").expect("found");
        assert_eq!((*found, found.source()), (1, Source::Stale));
    }
    hand.advance(20 * SECOND);
    let fetch = view
        .fetch_multi(["k", "other"])
        .load(|keys: Vec<String>, _| async move { Ok(keys.into_iter().map(|key| (key, 3))) });
    assert_eq!(fetch.await[0].as_ref().expect("loaded").as_deref(), Some(&3), "the pause is over");
}

/// A fetch with a loader that fails.
async fn failing(view: &View<str, u32, &'static str>) -> Option<(u32, Source)> {
    let fetched = view.fetch("k").load(|_| async { Err("down") }).await;
    fetched.ok().map(|found| (*found, found.source()))
}

/// It began at the end of the time to live.
#[tokio::test]
async fn grace_of_a_softly_invalidated_value_begins_at_the_invalidation() {
    let _deadline = Deadline::start();
    let millis = Duration::from_millis;
    let (cache, hand) = by_hand(Policy::new().ttl(3 * SECOND).grace(millis(300)).retry_after(millis(50)));
    let view: View<str, u32, &str> = cache.view("n");
    let tagged = WriteOptions::new().tag("s").tag("t");
    for tags in [&["t"][..], &["s", "t"]] {
        view.write_with("k", 1, &tagged).await.everywhere();
        hand.advance(SECOND);
        for tag in tags {
            cache.invalidate_tags([*tag], Invalidation::Soft).await.everywhere();
            hand.advance(millis(100));
        }
        assert_eq!(failing(&view).await, Some((1, Source::Stale)));
        hand.advance(millis(300) - tags.len() as u32 * millis(100) - millis(1));
        assert_eq!(failing(&view).await, Some((1, Source::Stale)));
        hand.advance(millis(1));
        assert_eq!(failing(&view).await, None, "{tags:?}");
    }
    view.write_with("k", 1, &tagged).await.everywhere();
    hand.advance(3 * SECOND + millis(200));
    cache.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
    hand.advance(millis(100));
    assert_eq!(failing(&view).await, None, "it ends no later than without the invalidation");
}

#[tokio::test]
async fn grace_of_a_softly_invalidated_value_ends_on_every_node() {
    let Some(server) = RedisServer::start() else { return };
    let policy =
        POLICY.ttl(Duration::from_secs(600)).grace(2 * SECOND).retry_after(Duration::from_millis(20));
    let node = || {
        let options = |options: larder::Builder| options.policy(policy).redis_timeout(PATIENCE);
        node_with(server.url(), options)
    };
    let [one, other] = [node(), node()];
    let views = [&one, &other].map(|cache| cache.view::<str, u32, &str>("n"));
    views[0].write_with("k", 1, &WriteOptions::new().tag("t")).await.everywhere();
    assert_eq!(views[1].read("k").await.map(|found| *found), Some(1));
    let made = std::time::Instant::now();
    one.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
    for view in &views {
        eventually("the grace period is over", async || failing(view).await.is_none()).await;
    }
    // Redis still has the value, and a node that has just started learns of the invalidation now.
    let started = node().view("n");
    let found = failing(&started).await;
    assert!(found.is_none() || made.elapsed() < 2 * SECOND, "{found:?} after {:?}", made.elapsed());
    // A stamp of an older version has no time.
    views[0].write_with("k", 1, &WriteOptions::new().tag("t")).await.everywhere();
    one.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
    tokio::time::sleep(2 * SECOND).await;
    server.command("ZREM test::ledger @~t");
    let started = node().view("n");
    assert_eq!(failing(&started).await, Some((1, Source::Stale)), "it counts from now");
    eventually("the grace period is over there too", async || failing(&started).await.is_none()).await;
    views[0].delete("k").await.everywhere();
}

/// After a soft invalidation each fetch loaded, or the stale value was lost, if it was served for longer than it is kept.
#[tokio::test]
async fn softly_invalidated_value_is_served_until_the_next_attempt_to_load() {
    for grace in [3 * SECOND, 60 * SECOND] {
        let (cache, hand) = by_hand(POLICY.grace(grace));
        let view: View<str, u32, &str> = cache.view("n");
        view.fetch("k").tag("t").load(|_| async { Ok(1) }).await.expect("loaded");
        cache.invalidate_tags(["t"], Invalidation::Soft).await.everywhere();
        let loads = Arc::new(AtomicUsize::new(0));
        for other in 0..20 {
            let counted = loads.clone();
            let load = view.fetch("k").load(move |_| async move {
                counted.fetch_add(1, Ordering::SeqCst);
                Err("down")
            });
            assert_eq!(load.await.map(|stale| *stale).ok(), Some(1), "{grace:?}, {other}");
            cache.invalidate_tags([format!("other {other}")], Invalidation::Soft).await.everywhere();
        }
        assert_eq!(loads.load(Ordering::SeqCst), 1, "{grace:?}");
        cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        hand.advance(Duration::from_millis(1));
        let failed = view.fetch("k").load(|_| async { Err("down") }).await;
        assert!(failed.is_err(), "{grace:?}: a hard invalidation counts");
    }
}

#[tokio::test]
async fn take_ignores_stale_entries() {
    let Some(server) = RedisServer::start() else { return };
    let node = || {
        let policy = Policy::new().ttl(Duration::from_millis(50)).grace(Duration::from_secs(60));
        Cache::builder("test").policy(policy).redis(server.url()).build().expect("valid options")
    };
    let (view, other): (View<str, u32>, View<str, u32>) = (node().view("n"), node().view("n"));
    view.write_with("k", 1, &WriteOptions::new().ttl(60 * SECOND)).await.everywhere();
    assert_eq!(other.take("k").await.expect("taken").as_deref(), Some(&1));
    view.write("k", 2).await.everywhere();
    eventually("it is stale", async || view.read("k").await.is_none()).await;
    assert!(other.take("k").await.expect("taken").is_none());
    assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n", "it is gone all the same");
}

/// Not that of the policy of the node that reads it.
#[tokio::test]
async fn ttl_of_a_loader_or_a_write_holds_on_every_node() {
    let Some(server) = RedisServer::start() else { return };
    let node = || {
        let policy = Policy::new().ttl(Duration::from_millis(500));
        Cache::builder("test").policy(policy).redis(server.url()).build().expect("valid options")
    };
    let (view, other): (View<str, u32>, View<str, u32>) = (node().view("n"), node().view("n"));
    let load = view.fetch("loaded").load(|load| async move {
        load.ttl(60 * SECOND);
        Ok(1)
    });
    load.await.expect("loads");
    view.write_with("written", 2, &WriteOptions::new().ttl(60 * SECOND)).await.everywhere();
    for (key, value) in [("loaded", 1), ("written", 2)] {
        let found = other.read(key).await.expect("it is in redis");
        assert_eq!(*found, value);
        assert!(found.remaining_ttl() > 50 * SECOND, "{key}: {:?}", found.remaining_ttl());
    }
}

#[tokio::test]
async fn age_of_expired_value_counts_from_its_store() {
    let Some(server) = RedisServer::start() else { return };
    let day = Duration::from_secs(86_400);
    let over_redis = || node_with(server.url(), |options| options.redis_timeout(PATIENCE));
    for cache in [in_memory(), over_redis()] {
        let view: View<str, u32, &str> = cache.view("n");
        let view = view.with_policy(Policy::new().ttl(day).grace(day));
        view.write("k", 1).await.everywhere();
        for _ in 0..2 {
            assert!(view.expire("k").await.everywhere());
            let stale = view.fetch("k").load(|_| async { Err("down") }).await.expect("serves stale");
            assert_eq!((*stale, stale.source()), (1, Source::Stale));
            assert!(stale.age() < day / 24, "{:?}", stale.age());
            let inspected = view.inspect("k").entry.expect("in memory");
            assert!(inspected.age < day / 24, "{:?}", inspected.age);
            assert!(inspected.grace > day / 2, "the grace period stays: {:?}", inspected.grace);
        }
    }
}

#[tokio::test]
async fn touch_restarts_ttl_and_grace_period_of_the_value() {
    let (cache, hand) = by_hand(POLICY);
    let view: View<str, u32, &str> = cache.view("n").touch_on_read();
    view.write_with("long", 1, &WriteOptions::new().ttl(10 * SECOND)).await.everywhere();
    let without_grace = WriteOptions::new().policy(Policy::new().grace(Duration::ZERO));
    view.write_with("short", 2, &without_grace).await.everywhere();
    hand.advance(SECOND / 2);
    assert_eq!(view.read_multi(["long", "short"]).await.iter().flatten().count(), 2);
    hand.advance(SECOND);
    assert!(view.read("short").await.is_none(), "its TTL is over, and it has no grace period");
    hand.advance(8 * SECOND);
    assert_eq!(view.read("long").await.as_deref(), Some(&1));
}

#[tokio::test]
async fn touch_keeps_the_ttl_that_another_node_chose() {
    let Some(server) = RedisServer::start() else { return };
    let node = |ttl| {
        let policy = Policy::new().ttl(ttl);
        Cache::builder("test").policy(policy).redis(server.url()).build().expect("valid options")
    };
    let view: View<str, u32> = node(60 * SECOND).view("n");
    let other: View<str, u32> = node(SECOND).view("n").touch_on_read();
    view.write("k", 1).await.everywhere();
    for _ in 0..3 {
        let remaining = other.read("k").await.expect("a value").remaining_ttl();
        assert!(remaining > 30 * SECOND, "{remaining:?}");
    }
}

#[tokio::test]
async fn touch_leaves_stale_value_stale() {
    let (cache, hand) = by_hand(POLICY);
    let view: View<str, u32, &str> = cache.view("n").touch_on_read();
    view.write("k", 1).await.everywhere();
    hand.advance(2 * SECOND);
    let stale = view.fetch("k").load(|_| async { Err("down") }).await.expect("serves stale");
    assert_eq!(stale.source(), Source::Stale);
    hand.advance(4 * SECOND);
    let paused = || view.fetch("k").load(|_| async { panic!("loaded within retry_after") });
    assert!(view.read("k").await.is_none() && paused().await.is_ok());
    hand.advance(2 * SECOND);
    assert_eq!(
        view.fetch("k").load(|_| async { Ok(2) }).await.as_deref().ok(),
        Some(&2),
        "it was not renewed"
    );
    hand.advance(2 * SECOND);
    view.fetch("k").load(|_| async { Err("down") }).await.expect("serves stale");
    hand.advance(60 * SECOND);
    assert!(view.fetch("k").load(|_| async { Err("down") }).await.is_err(), "its grace period is over");
}

#[tokio::test]
async fn redis_keeps_stale_value_for_new_node() {
    let Some(server) = RedisServer::start() else { return };
    let node = || {
        let policy = Policy::new().ttl(Duration::from_millis(50)).grace(Duration::from_secs(60));
        let options = Cache::builder("test").policy(policy).redis(server.url());
        // On a busy machine a reply may take longer than the default.
        options.redis_timeout(PATIENCE).build().expect("valid options")
    };
    let view: View<str, u32, &str> = node().view("n");
    view.write("k", 1).await.everywhere();
    let other: View<str, u32, &str> = node().view("n");
    eventually("it is stale", async || other.read("k").await.is_none()).await;
    let stale = other.fetch("k").load(|_| async { Err("down") }).await.expect("serves stale");
    assert_eq!((*stale, stale.source()), (1, Source::Stale));
    // Its writer has it for a moment longer: its time to live begins with the reply of Redis.
    eventually("it is stale here too", async || view.read("k").await.is_none()).await;
    let fresh = view.fetch("k").load(|_| async { Ok(2) }).await.expect("loads");
    assert_eq!((*fresh, fresh.source()), (2, Source::Loader));
}

#[tokio::test(start_paused = true)]
async fn soft_timeout_serves_stale_and_load_continues() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(POLICY.soft_timeout(SECOND));
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    hand.advance(2 * SECOND);
    let gate = Gate::closed();
    let passing = gate.clone();
    let loader = move |_| async move {
        passing.pass().await;
        Ok(2)
    };
    let leader = {
        let view = view.clone();
        tokio::spawn(async move { view.fetch("k").load(loader).await.map(|f| (*f, f.source())) })
    };
    gate.arrival().await;
    let follower = view.fetch("k").load(|_| async { Ok(9) }).await.map(|f| (*f, f.source(), f.coalesced()));
    assert_eq!(follower.ok(), Some((1, Source::Stale, true)));
    assert_eq!(leader.await.expect("no panic").ok(), Some((1, Source::Stale)));
    gate.open(1);
    eventually("the load is stored", async || view.read("k").await.as_deref() == Some(&2)).await;
}

#[tokio::test(start_paused = true)]
async fn stale_value_that_one_fetch_got_counts_once() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(POLICY.soft_timeout(SECOND));
    let view: View<str, u32, &str> = cache.view("n");
    view.write("k", 1).await.everywhere();
    hand.advance(2 * SECOND);
    let failing = view.fetch("k").load(|_| async {
        tokio::time::sleep(2 * SECOND).await;
        Err("down")
    });
    assert_eq!(failing.await.expect("serves stale").source(), Source::Stale);
    let is_served_again =
        || view.inspect("k").entry.is_some_and(|entry| entry.validity == larder::Validity::Valid);
    eventually("the load fails", async || is_served_again()).await;
    assert_eq!(cache.stats().stale, 1);
}

#[tokio::test(start_paused = true)]
async fn hard_timeout_ends_load() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(POLICY.hard_timeout(SECOND));
    let view: View<str, u32> = cache.view("n");
    let never = || view.fetch("k").load(|_| std::future::pending::<Result<u32, Infallible>>());
    let (leader, follower) = tokio::join!(never(), never());
    assert!(matches!(leader, Err(FetchError::Timeout)) && matches!(follower, Err(FetchError::Timeout)));
    assert_eq!(fetched(&view, "k", 1).await, 1, "the key is free again");
    hand.advance(2 * SECOND);
    let stale = never().await.expect("serves stale");
    assert_eq!((*stale, stale.source()), (1, Source::Stale));
}

#[tokio::test]
async fn loader_can_keep_stale_value() {
    let Some(server) = RedisServer::start() else { return };
    let (local, hand) = by_hand(POLICY);
    let policy = Policy::new().ttl(Duration::from_millis(50)).grace(Duration::from_secs(60));
    let both = Cache::builder("test").policy(policy).redis(server.url()).build().expect("valid options");
    for cache in [local, both] {
        let view: View<str, u32> = cache.view("n");
        let keep = || {
            view.fetch("k").load_or_keep(|cx| async move {
                Ok(if cx.stale().is_some() { Loaded::NotModified } else { Loaded::New(1) })
            })
        };
        assert_eq!(keep().await.map(|f| *f).ok(), Some(1));
        hand.advance(2 * SECOND);
        eventually("it is stale", async || view.read("k").await.is_none()).await;
        let kept = keep().await.expect("kept");
        assert_eq!((*kept, kept.source()), (1, Source::Loader));
    }
    let view: View<str, u32> = in_memory().view("n");
    let nothing = view.fetch("k").load_or_keep(|_| async { Ok(Loaded::NotModified) }).await;
    assert!(matches!(nothing, Err(FetchError::NoStaleValue)));
}

#[tokio::test]
async fn expire_makes_value_stale_and_voids_loads() {
    let Some(server) = RedisServer::start() else { return };
    let builder = || Cache::builder("test").policy(POLICY.ttl(60 * SECOND));
    for cache in [builder().build(), builder().redis(server.url()).build()] {
        let view: View<str, u32, &str> = cache.expect("valid options").view("n");
        view.write("k", 1).await.everywhere();
        assert!(view.expire("k").await.everywhere());
        assert!(view.read("k").await.is_none());
        let stale = view.fetch("k").load(|_| async { Err("down") }).await.expect("serves stale");
        assert_eq!((*stale, stale.source()), (1, Source::Stale));
        assert!(!view.expire("nothing").await.everywhere());
    }
    let cache = over(server.url());
    let without: View<str, u32> = cache.view("without");
    without.write("k", 1).await.everywhere();
    assert!(without.expire("k").await.everywhere());
    assert!(without.read("k").await.is_none(), "no grace: gone");
}

/// The rest of its time to live is not added to the grace period, and a second expiry does not extend it.
#[tokio::test]
async fn expired_value_is_served_for_its_grace_period_only() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(POLICY.ttl(3_600 * SECOND));
    let view: View<str, u32, &str> = cache.view("n");
    let served = async || view.fetch("k").load(|_| async { Err("down") }).await.map(|value| *value).ok();
    view.write("k", 1).await.everywhere();
    assert!(view.expire("k").await.everywhere());
    hand.advance(30 * SECOND);
    assert_eq!(served().await, Some(1));
    assert!(view.expire("k").await.everywhere());
    hand.advance(29 * SECOND);
    assert_eq!(served().await, Some(1));
    hand.advance(SECOND);
    assert_eq!(served().await, None);
}

#[tokio::test]
async fn value_with_longest_grace_is_fresh_on_other_nodes() {
    let Some(server) = RedisServer::start() else { return };
    let node =
        || node_with(server.url(), |options| options.policy(POLICY.ttl(60 * SECOND).grace(Duration::MAX)));
    let (view, other): (View<str, u32>, View<str, u32>) = (node().view("n"), node().view("n"));
    view.write("k", 1).await.everywhere();
    assert_eq!(other.read("k").await.as_deref(), Some(&1));
}

#[tokio::test]
async fn refresh_loads_over_fresh_value() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        assert_eq!(fetched(&view, "k", 1).await, 1);
        let fresh = view.fetch("k").refresh().load(|_| async { Ok(2) }).await.expect("loads");
        assert_eq!((*fresh, fresh.source()), (2, Source::Loader));
        assert_eq!(cached(&view, "k").await, 2);
    }
}

#[tokio::test]
async fn disabled_cache_loads_each_time_and_stores_nothing() {
    let _deadline = Deadline::start();
    let null = Cache::null();
    let view: View<str, u32> = null.view("n");
    assert_eq!((fetched(&view, "k", 1).await, fetched(&view, "k", 2).await), (1, 2));
    assert!(view.read("k").await.is_none());
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    cache.set_enabled(false);
    assert_eq!(fetched(&view, "k", 2).await, 2);
    view.write("k", 3).await.everywhere();
    cache.set_enabled(true);
    assert!(view.read("k").await.is_none(), "neither the old value nor the new one");
}

#[tokio::test]
async fn take_while_disabled_removes_value_and_returns_none() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        view.write("k", 1).await.everywhere();
        cache.set_enabled(false);
        assert!(view.take("k").await.expect("taken").is_none());
        cache.set_enabled(true);
        assert!(view.read("k").await.is_none(), "it was removed");
    }
}

#[tokio::test]
async fn stale_value_is_not_served_after_its_grace_ended_during_the_load() {
    for (load_time, expected) in [(30 * SECOND, Some((1, Source::Stale))), (60 * SECOND, None)] {
        let (cache, hand) = by_hand(POLICY);
        let view: View<str, u32, &str> = cache.view("n");
        view.write("k", 1).await.everywhere();
        hand.advance(2 * SECOND);
        let slow = move |_| async move {
            hand.advance(load_time);
            Err("down")
        };
        let served = view.fetch("k").load(slow).await.ok().map(|fetched| (*fetched, fetched.source()));
        assert_eq!(served, expected, "a load of {load_time:?}");
    }
}

#[tokio::test]
async fn soft_timeout_counts_from_start_of_fetch() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let policy = Policy::new().ttl(Duration::from_millis(50)).grace(60 * SECOND);
    let cache = node_with(proxy.url(), |options| {
        options.policy(policy.soft_timeout(Duration::from_millis(20))).redis_timeout(3 * SECOND)
    });
    let view: View<str, u32> = cache.view("n");
    view.write_multi([("one", 1), ("k", 1)]).await.everywhere();
    eventually("it is stale", async || view.read("k").await.is_none()).await;
    let held = proxy.hold(|frame| frame.is_request("EVALSHA"));
    let one = view.fetch("one").load(|_| async { Ok(2) }).await.expect("serves stale");
    assert_eq!((*one, one.source()), (1, Source::Stale), "redis has not answered");
    let many = view.fetch_multi(["k"]).load(|_, _| async { Ok([("k".to_owned(), 2)]) }).await;
    let many = many[0].as_ref().ok().and_then(Option::as_ref).expect("serves stale");
    assert_eq!((**many, many.source()), (1, Source::Stale), "redis has not answered");
    assert_eq!(cache.stats().stale, 2);
    held.release();
    for key in ["one", "k"] {
        eventually("the load continues", async || view.read(key).await.as_deref() == Some(&2)).await;
    }
}

#[tokio::test]
async fn hard_timeout_of_follower_does_not_run_while_its_leader_waits_for_lease() {
    let Some(server) = RedisServer::start() else { return };
    let node = || node_with(server.url(), |options| options.lease_wait(PATIENCE).redis_timeout(PATIENCE));
    let (one, other) = (node(), node());
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let (gate, loading) = crate::begun(&a, 1).await;
    let limited = b.with_policy(Policy::new().hard_timeout(Duration::from_millis(100)));
    let fetches: Vec<_> = (0..2)
        .map(|_| {
            let limited = limited.clone();
            tokio::spawn(async move { limited.fetch("k").load(|_| async { Ok(9) }).await.map(|f| *f) })
        })
        .collect();
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert!(
        fetches.iter().all(|fetch| !fetch.is_finished()),
        "no loader has run for longer than its timeout"
    );
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    for fetch in fetches {
        assert_eq!(fetch.await.expect("no panic").ok(), Some(1));
    }
}

#[tokio::test]
async fn beyond_disconnected_preference_decides_whether_stale_is_served() {
    for (prefer, expected) in [(Prefer::Coherence, None), (Prefer::Availability, Some((1, Source::Stale)))] {
        let Some(mut server) = RedisServer::start() else { return };
        let cache = node_with(server.url(), |options| {
            let policy = Policy::new().ttl(60 * SECOND).soft_timeout(Duration::from_millis(20));
            options.policy(policy).disconnected(Duration::ZERO).prefer(prefer).redis_timeout(SECOND / 2)
        });
        let view: View<str, u32, &str> = cache.view("n");
        view.write_multi([("k", 1), ("slow", 1), ("gone", 1)]).await.everywhere();
        server.kill();
        view.delete("gone").await.queued();
        eventually("memory is not trusted", async || view.read("k").await.is_none()).await;
        let failing = || async { view.fetch("k").load(|_| async { Err("down") }).await.ok() };
        let served = failing().await.map(|fetched| (*fetched, fetched.source()));
        assert_eq!(served, expected, "{prefer:?}");
        assert!(
            view.read("k").await.is_none() && !view.exist("k").await,
            "{prefer:?}: it may be invalidated"
        );
        let paused = view.fetch("k").load(|_| async { panic!("loaded within retry_after") }).await;
        assert_eq!(paused.ok().map(|fetched| *fetched), expected.map(|(value, _)| value), "{prefer:?}");
        let gone = view.fetch("gone").load(|_| async { Err("down") }).await;
        assert!(gone.is_err(), "{prefer:?}: this node knows that it was deleted");
        let gate = Gate::closed();
        let slow = || {
            let passes = gate.clone();
            view.fetch("slow").load(move |_| async move {
                passes.pass().await;
                Ok(2)
            })
        };
        let (mut leader, mut follower) = (Box::pin(slow()), Box::pin(slow()));
        assert!(
            crate::poll_once(&mut leader).await.is_none() && crate::poll_once(&mut follower).await.is_none()
        );
        if expected.is_none() {
            gate.open(1);
        }
        for fetch in [leader, follower] {
            let fetched = fetch.await.expect("loads or serves stale");
            let value = (*fetched, fetched.source() == Source::Stale);
            assert_eq!(value, if expected.is_some() { (1, true) } else { (2, false) }, "{prefer:?}");
        }
    }
}

/// Stale-while-revalidate: no caller waits for a load as long as there is a stale value.
#[tokio::test]
async fn zero_soft_timeout_serves_stale_and_loads_in_the_background() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(POLICY.soft_timeout(Duration::ZERO));
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "there is nothing stale, so the first caller waits");
    hand.advance(2 * SECOND);
    let gate = Gate::closed();
    for _ in 0..3 {
        let passes = gate.clone();
        let loader = move |_| async move {
            passes.pass().await;
            Ok(2)
        };
        let stale = view.fetch("k").load(loader).await.expect("serves stale");
        assert_eq!((*stale, stale.source()), (1, Source::Stale));
    }
    gate.open(1);
    eventually("the load has stored its value", async || view.read("k").await.as_deref() == Some(&2)).await;
    assert_eq!(cached(&view, "k").await, 2);
    assert_eq!(cache.stats().loads, 2, "one load for three callers");
    hand.advance(62 * SECOND);
    assert_eq!(fetched(&view, "k", 3).await, 3, "the grace period is over");
}

/// The reads of a session restart its TTL. A fetch does not, because its loader is what renews a value.
#[tokio::test]
async fn touch_on_read_ignores_fetches_and_inspections() {
    let (cache, hand) = by_hand(Policy::new().ttl(60 * SECOND));
    let view: View<str, u32> = cache.view("n").touch_on_read();
    let keys = ["read", "read_multi", "exist", "read_only", "fetch", "fetch_multi", "inspect"];
    for key in keys {
        view.write(key, 1).await.everywhere();
    }
    hand.advance(40 * SECOND);
    assert!(view.read("read").await.is_some());
    assert!(view.read_multi(["read_multi"]).await[0].is_some());
    assert!(view.exist("exist").await);
    assert!(view.read_only().read("read_only").await.is_some());
    assert_eq!(cached(&view, "fetch").await, 1);
    let many = view.fetch_multi(["fetch_multi"]).load(|_, _| async { Ok(Vec::new()) }).await;
    assert_eq!(many.len(), 1);
    assert!(view.inspect("inspect").entry.is_some());
    hand.advance(40 * SECOND);
    let mut alive = Vec::new();
    for key in keys {
        alive.push((key, view.exist(key).await));
    }
    let restarts = |key| ["read", "read_multi", "exist", "read_only"].contains(&key);
    assert_eq!(alive, keys.map(|key| (key, restarts(key))));
}

#[tokio::test]
async fn stale_entry_counts_as_a_miss_until_it_is_served() {
    let (cache, hand) = by_hand(POLICY);
    let view: View<str, u32, &str> = cache.view("n");
    assert!(view.write("k", 1).await.expect("a value").is_everywhere());
    hand.advance(2 * SECOND);
    let fails =
        async || view.fetch("k").load(|_| async { Err("down") }).await.map(|fetched| fetched.source());
    assert_eq!(fails().await.ok(), Some(Source::Stale));
    let memory = cache.stats().memory;
    assert_eq!((memory.hits, memory.misses, memory.unservable), (0, 1, 1));
    assert_eq!(fails().await.ok(), Some(Source::Stale), "until the next attempt");
    let memory = cache.stats().memory;
    assert_eq!((memory.hits, memory.misses, memory.unservable), (1, 1, 1));
}
