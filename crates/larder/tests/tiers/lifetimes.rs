//! What is left of a time to live, and giving a value another one.

use crate::mutation::Mutation;
use crate::{begun, cached, fetched, in_memory, over, pair};
use larder::{Cache, CacheError, Clock, Invalidation, Policy, Source, View, WriteOptions};
use larder_engine::ManualClock;
use larder_testkit::{Deadline, RedisServer, eventually};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn by_hand(policy: Policy) -> (Cache, ManualClock) {
    let (clock, hand) = Clock::manual();
    (Cache::builder("test").policy(policy).clock(clock).build().expect("valid options"), hand)
}

/// Whether so much is left, but for the time that a test may take.
fn is_about(left: Option<Duration>, expected: Duration) -> bool {
    left.is_some_and(|left| left <= expected && left + 10 * SECOND > expected)
}

#[tokio::test]
async fn touched_value_has_its_new_time_in_memory() {
    let _deadline = Deadline::start();
    for grace in [Duration::ZERO, 30 * SECOND] {
        let (cache, hand) = by_hand(Policy::new().ttl(60 * SECOND).grace(grace));
        let view: View<str, u32, &str> = cache.view("n");
        for (ttl, when) in [(300 * SECOND, "longer"), (5 * SECOND, "shorter")] {
            view.write("k", 1).await.everywhere();
            hand.advance(40 * SECOND);
            assert_eq!(view.touch("k", Policy::new().ttl(ttl)).await.ok(), Some(true), "{when}");
            assert_eq!(view.ttl("k").await, Some(ttl), "{when}");
            hand.advance(ttl - SECOND);
            assert_eq!(view.read("k").await.as_deref(), Some(&1), "{when}");
            hand.advance(SECOND);
            assert!(view.read("k").await.is_none(), "{when}");
            assert_eq!(view.touch("k", Policy::new()).await.ok(), Some(false), "{when}: stale or gone");
            let stale = view.fetch("k").load(|_| async { Err("down") }).await.map(|found| *found).ok();
            assert_eq!(stale, (!grace.is_zero()).then_some(1), "{when}");
            hand.advance(100 * SECOND);
        }
    }
}

#[tokio::test]
async fn touch_without_a_time_restarts_that_of_the_view() {
    let _deadline = Deadline::start();
    let (cache, hand) = by_hand(Policy::new().ttl(60 * SECOND));
    let view: View<str, u32> = cache.view("n");
    let options = WriteOptions::new().ttl(500 * SECOND);
    view.write_with("k", 1, &options).await.everywhere();
    hand.advance(10 * SECOND);
    assert_eq!(cache.touch::<u32>("k", Policy::new()).await.ok(), Some(false), "of another view");
    assert_eq!(view.touch("k", Policy::new()).await.ok(), Some(true));
    assert_eq!(view.ttl("k").await, Some(60 * SECOND));
}

#[tokio::test]
async fn touched_value_has_its_new_time_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let left = || server.command("PTTL test:n:k").trim_matches([':', '\r', '\n']).parse().unwrap_or(0_u64);
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    for (ttl, grace) in [(5_000, 0), (300, 7_000), (20, 0)] {
        a.write_with("k", 1, &WriteOptions::new().ttl(100 * SECOND).tag("t")).await.everywhere();
        assert_eq!(cached(&b, "k").await, 1);
        let policy = Policy::new().ttl(SECOND * ttl).grace(SECOND * grace);
        assert_eq!(a.touch("k", policy).await.ok(), Some(true));
        assert!(is_about(a.ttl("k").await, SECOND * ttl), "{:?}", a.ttl("k").await);
        assert!(is_about(Some(Duration::from_millis(left())), SECOND * (ttl + grace)), "{}", left());
        eventually("the other node hears of it", async || is_about(b.ttl("k").await, SECOND * ttl)).await;
        let found = b.read("k").await.expect("found");
        assert_eq!((*found, found.tags().collect::<Vec<_>>()), (1, vec!["t"]));
        assert!(found.age() < 10 * SECOND, "{:?}", found.age());
        let new: View<str, u32> = over(server.url()).view("n");
        assert!(is_about(new.ttl("k").await, SECOND * ttl));
        assert!(is_about(new.inspect("k").entry.map(|entry| entry.grace), SECOND * grace));
        server.pass(SECOND * ttl);
        assert_eq!(over(server.url()).view::<str, u32, ()>("n").ttl("k").await, None, "it is stale");
    }
}

#[tokio::test]
async fn touch_of_what_is_no_valid_value_changes_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let policy = Policy::new().grace(60 * SECOND);
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n").with_policy(policy);
        assert_eq!(view.touch("k", policy).await.ok(), Some(false), "absent");
        let (gate, loading) = begun(&view, 1).await;
        assert_eq!(view.touch("k", policy).await.ok(), Some(false), "being loaded");
        gate.open(1);
        loading.await.expect("no panic");
        assert_eq!(cached(&view, "k").await, 1, "the load was stored");
        assert!(view.expire("k").await.everywhere());
        assert_eq!(view.touch("k", policy).await.ok(), Some(false), "stale");
        assert_eq!(fetched(&view, "k", 2).await, 2);
        let words: View<str, String> = cache.view("n");
        assert_eq!(words.touch("k", policy).await.ok(), Some(false), "of another type");
        view.write_with("k", 3, &WriteOptions::new().tag("t")).await.everywhere();
        assert_eq!(view.touch("k", policy.ttl(500 * SECOND)).await.ok(), Some(true));
        cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
        assert_eq!(view.touch("k", policy).await.ok(), Some(false), "invalidated");
    }
}

/// As `expire` does: the value is not served, and must not be served for longer afterwards.
#[tokio::test]
async fn touch_while_disabled_gives_the_new_time() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        view.write("k", 1).await.everywhere();
        cache.set_enabled(false);
        assert_eq!(view.touch("k", Policy::new().ttl(20 * SECOND)).await.ok(), Some(true));
        assert_eq!(view.ttl("k").await, None);
        cache.set_enabled(true);
        assert!(is_about(view.ttl("k").await, 20 * SECOND));
    }
}

#[tokio::test]
async fn ttl_is_that_of_either_tier_and_restarts_nothing() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n").touch_on_read(), other.view("n"));
    assert_eq!(a.ttl("k").await, None);
    b.write("k", 1).await.everywhere();
    server.pass(30 * SECOND);
    assert!(is_about(a.ttl("k").await, 30 * SECOND), "from redis");
    assert!(is_about(a.ttl("k").await, 30 * SECOND), "from memory");
    assert!(is_about(a.read_only().ttl("k").await, 30 * SECOND));
    assert!(is_about(one.ttl::<u32>("k").await.or(Some(Duration::ZERO)), Duration::ZERO), "of another view");
    assert_eq!(a.read("k").await.map(|found| found.source()), Some(Source::Memory));
    assert!(is_about(a.ttl("k").await, 60 * SECOND), "the read has restarted it");
    let graceful = b.clone().with_policy(Policy::new().grace(60 * SECOND));
    graceful.write("soft", 1).await.everywhere();
    assert!(graceful.expire("soft").await.everywhere());
    assert_eq!(graceful.ttl("soft").await, None, "a stale value has none");
}

#[tokio::test]
async fn touch_that_redis_does_not_confirm_is_queued_as_a_deletion() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    server.set_full(true);
    let refused = view.touch("k", Policy::new().ttl(SECOND)).await;
    assert!(matches!(refused, Err(CacheError::Refused(_))), "{refused:?}");
    assert!(view.read("k").await.is_none(), "on this node it is removed");
    server.set_full(false);
    eventually("no invalidation is pending", async || cache.coherence().pending_invalidations == 0).await;
    assert_eq!(over(server.url()).view::<str, u32, ()>("n").ttl("k").await, None);
}
