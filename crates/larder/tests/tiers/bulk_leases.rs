//! Loads of many keys by the caller: it loads what nobody else does, and waits for the rest afterwards.

use crate::mutation::Mutation;
use crate::{begun, in_memory, misses_reach, node_with};
use larder::{BulkLease, BulkLeased, BulkOutcome, Cache, FetchError, Leased, View};
use larder_testkit::{Deadline, PATIENCE, RedisServer, eventually};
use std::convert::Infallible;
use std::time::Duration;

type Numbers = View<str, u32>;

async fn lease(view: &Numbers, keys: &[&'static str]) -> BulkLeased<str, u32, Infallible> {
    view.fetch_multi(keys.iter().copied()).lease().await
}

/// The lease of these keys, of which it must load `open`.
async fn leased(view: &Numbers, keys: &[&'static str], open: &[&str]) -> BulkLease<str, u32, Infallible> {
    led(lease(view, keys).await, open)
}

fn led(leased: BulkLeased<str, u32, Infallible>, open: &[&str]) -> BulkLease<str, u32, Infallible> {
    match leased {
        BulkLeased::Lead(lease) => {
            assert_eq!(lease.keys(), open);
            lease
        }
        BulkLeased::Done(_) => panic!("there is something to load"),
    }
}

fn values<E: std::fmt::Debug>(leased: Vec<BulkOutcome<u32, E>>) -> Vec<Option<u32>> {
    leased.into_iter().map(|outcome| outcome.expect("no load fails").map(|value| *value)).collect()
}

fn done(leased: BulkLeased<str, u32, Infallible>) -> Vec<Option<u32>> {
    match leased {
        BulkLeased::Done(outcomes) => values(outcomes),
        BulkLeased::Lead(lease) => panic!("{:?} must be loaded", lease.keys()),
    }
}

fn pairs<const N: usize>(pairs: [(&str, u32); N]) -> [(String, u32); N] {
    pairs.map(|(key, value)| (key.to_owned(), value))
}

#[tokio::test]
async fn bulk_lease_is_for_the_keys_that_no_tier_has() {
    let cache = in_memory();
    let view: Numbers = cache.view("n");
    view.write("b", 2).await.everywhere();
    let lease = leased(&view, &["c", "a", "b", "a"], &["a", "c"]).await;
    lease.cx().of("c").tag("t");
    let outcomes = done(lease.complete(pairs([("a", 1), ("c", 3), ("other", 9)])).await);
    assert_eq!(outcomes, [Some(3), Some(1), Some(2), Some(1)]);
    assert_eq!(done(self::lease(&view, &["a", "b", "c"]).await), [Some(1), Some(2), Some(3)]);
    assert!(view.hit("other").is_none());
    cache.invalidate_tags(["t"], larder::Invalidation::Hard).await.everywhere();
    assert_eq!((view.hit("a").as_deref(), view.hit("c").as_deref()), (Some(&1), None));
    assert!(done(self::lease(&view, &[]).await).is_empty());
}

#[tokio::test]
async fn key_that_is_left_out_has_no_value() {
    let view: View<str, Option<u32>> = in_memory().view("n");
    let BulkLeased::Lead(lease) = view.fetch_multi(["a", "b"]).lease().await else { panic!("it leads") };
    let BulkLeased::Done(outcomes) = lease.complete([("a".to_owned(), Some(1))]).await else {
        panic!("all loaded")
    };
    assert_eq!(outcomes[0].as_ref().ok().cloned().flatten().as_deref(), Some(&Some(1)));
    assert!(matches!(outcomes[1], Ok(None)) && view.hit("b").is_none());
    let fetch = view.fetch_multi(["a", "b"]).absent(None);
    let BulkLeased::Lead(lease) = fetch.lease().await else { panic!("it leads") };
    assert_eq!(lease.keys(), ["b"]);
    let BulkLeased::Done(_) = lease.complete([]).await else { panic!("all loaded") };
    assert_eq!(view.hit("b").as_deref(), Some(&None), "a remembered absence");
}

/// Each leads a key that the other wants: whoever waited first would wait for ever.
#[tokio::test]
async fn bulk_leases_that_cross_wait_after_their_loads() {
    let _deadline = Deadline::start();
    let view: Numbers = in_memory().view("n");
    let first = leased(&view, &["a", "b"], &["a", "b"]).await;
    let second = leased(&view, &["b", "c"], &["c"]).await;
    let third = leased(&view, &["c", "d", "a"], &["d"]).await;
    let (third, second, first) = tokio::join!(
        third.complete(pairs([("d", 4)])),
        second.complete(pairs([("c", 3)])),
        first.complete(pairs([("a", 1), ("b", 2)])),
    );
    assert_eq!(done(first), [Some(1), Some(2)]);
    assert_eq!(done(second), [Some(2), Some(3)]);
    assert_eq!(done(third), [Some(3), Some(4), Some(1)]);
}

#[tokio::test]
async fn keys_that_others_give_up_are_leased_again() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: Numbers = cache.view("n");
    let first = leased(&view, &["a", "b"], &["a", "b"]).await;
    let second = leased(&view, &["b", "c"], &["c"]).await;
    drop(first);
    let again = led(second.complete(pairs([("c", 3)])).await, &["b"]);
    assert_eq!(done(again.complete(pairs([("b", 2)])).await), [Some(2), Some(3)]);
    assert_eq!(cache.stats().load_failures, 0);
}

#[tokio::test]
async fn failed_bulk_lease_fails_its_own_keys() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32, &'static str> = cache.view("n");
    let Ok(Leased::Lead(single)) = view.fetch("a").lease().await else { panic!("it leads") };
    let BulkLeased::Lead(lease) = view.fetch_multi(["a", "b"]).lease().await else { panic!("it leads") };
    single.complete(1).await.expect("a value");
    let BulkLeased::Done(outcomes) = lease.fail("down").await else { panic!("nothing is left") };
    assert_eq!(outcomes[0].as_ref().ok().cloned().flatten().as_deref(), Some(&1));
    let Err(FetchError::Load(error)) = &outcomes[1] else { panic!("its error") };
    assert_eq!(**error, "down");
}

#[tokio::test]
async fn bulk_loader_and_bulk_lease_wait_for_each_other() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: Numbers = cache.view("n");
    let (gate, loading) = begun(&view, 7).await;
    let lease = leased(&view, &["k", "l"], &["l"]).await;
    let caller = view.clone();
    let bulk = tokio::spawn(async move {
        let loader = |keys: Vec<String>, _| async move {
            assert!(keys.is_empty(), "both are loaded already");
            Ok(Vec::new())
        };
        values(caller.fetch_multi(["l", "k"]).load(loader).await)
    });
    misses_reach(&cache, 5).await;
    gate.open(1);
    assert_eq!(done(lease.complete(pairs([("l", 8)])).await), [Some(7), Some(8)]);
    assert_eq!(bulk.await.expect("no panic"), [Some(8), Some(7)]);
    assert_eq!(loading.await.expect("no panic"), 7);
}

#[tokio::test(start_paused = true)]
async fn hard_timeout_voids_a_bulk_lease() {
    let policy = larder::Policy::new().hard_timeout(Duration::from_secs(1));
    let view: Numbers = in_memory().view("n").with_policy(policy);
    let lease = leased(&view, &["a", "b"], &["a", "b"]).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert_eq!(done(lease.complete(pairs([("a", 1)])).await), [Some(1), None]);
    assert!(view.hit("a").is_none());
}

#[tokio::test]
async fn bulk_lease_waits_for_other_nodes_after_its_load() {
    let Some(server) = RedisServer::start() else { return };
    let nodes = [(); 2]
        .map(|()| node_with(server.url(), |options| options.lease_wait(PATIENCE).redis_timeout(PATIENCE)));
    let [near, far]: [Numbers; 2] = nodes.each_ref().map(|cache: &Cache| cache.view("n"));
    let theirs = leased(&far, &["b", "d"], &["b", "d"]).await;
    let ours = leased(&near, &["a", "b"], &["a"]).await;
    let waiting = tokio::spawn(async move { done(ours.complete(pairs([("a", 1)])).await) });
    eventually("the first value is there", async || far.read("a").await.is_some()).await;
    assert!(!waiting.is_finished());
    assert_eq!(done(theirs.complete(pairs([("b", 2), ("d", 4)])).await), [Some(2), Some(4)]);
    assert_eq!(waiting.await.expect("no panic"), [Some(1), Some(2)]);

    // What the other node gives up is leased to this one, long before the lease would end by itself.
    let theirs = leased(&far, &["e", "f"], &["e", "f"]).await;
    let near_only = near.clone();
    let waiting = tokio::spawn(async move { lease(&near_only, &["e", "f"]).await });
    eventually("it has asked", async || nodes[0].stats().memory.misses >= 5).await;
    drop(theirs);
    let ours = tokio::time::timeout(Duration::from_secs(5), waiting).await.expect("the leases are released");
    let ours = ours.expect("no panic");
    let BulkLeased::Lead(ours) = ours else { panic!("nobody has loaded them") };
    let loaded: Vec<_> = ours.keys().iter().map(|key| (key.clone(), 5)).collect();
    let mut next = ours.complete(loaded).await;
    while let BulkLeased::Lead(rest) = next {
        let loaded: Vec<_> = rest.keys().iter().map(|key| (key.clone(), 5)).collect();
        next = rest.complete(loaded).await;
    }
    assert_eq!(done(next), [Some(5), Some(5)]);
}

/// The race: the caller leaves while Redis is asked, so the leases are put for nobody.
#[tokio::test]
async fn leases_that_are_put_for_a_caller_that_left_are_released() {
    let Some(server) = RedisServer::start() else { return };
    let nodes = [(); 2]
        .map(|()| node_with(server.url(), |options| options.lease_wait(PATIENCE).redis_timeout(PATIENCE)));
    let [near, far]: [Numbers; 2] = nodes.each_ref().map(|cache: &Cache| cache.view("n"));
    assert!(near.read("connects").await.is_none() && far.read("connects").await.is_none());
    server.pause();
    let left = {
        let near = near.clone();
        tokio::spawn(async move { lease(&near, &["a", "b"]).await })
    };
    eventually("it asks", async || nodes[0].stats().memory.misses >= 3).await;
    left.abort();
    assert!(left.await.is_err(), "Redis has not answered");
    server.resume();
    let ours = tokio::time::timeout(Duration::from_secs(5), leased(&far, &["a", "b"], &["a", "b"]));
    let ours = ours.await.expect("the leases are released");
    assert_eq!(done(ours.complete(pairs([("a", 1), ("b", 2)])).await), [Some(1), Some(2)]);
}
