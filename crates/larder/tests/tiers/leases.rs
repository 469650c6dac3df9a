//! Loads by the caller: one caller leads, others wait, and whoever leaves fails nobody.

use crate::mutation::Mutation;
use crate::{begun, cached, fetched, gated, in_memory, misses_reach, node_with, pair, poll_once};
use larder::{Cache, FetchError, Leased, LoadLease, Loaded, Policy, Source, View, WriteOptions};
use larder_engine::Clock;
use larder_testkit::{Deadline, Gate, PATIENCE, RedisServer, eventually};
use std::convert::Infallible;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use tokio::time::timeout;

const MINUTE: Duration = Duration::from_secs(60);
/// Much shorter than a lease that nobody releases or renews.
const SOON: Duration = Duration::from_secs(5);

/// The lease of the key "k".
async fn leased(view: &View<str, u32>) -> LoadLease<u32, Infallible> {
    match view.fetch("k").lease().await.expect("no load fails") {
        Leased::Lead(lease) => lease,
        Leased::Hit(value) => panic!("{} is there", *value),
    }
}

/// The value of the key "k", which this caller need not load.
async fn hit(view: &View<str, u32>) -> (u32, Source) {
    match view.fetch("k").lease().await.expect("no load fails") {
        Leased::Hit(value) => (*value, value.source()),
        Leased::Lead(_) => panic!("this caller leads"),
    }
}

#[tokio::test]
async fn leased_value_is_in_memory() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let value = leased(&view).await.complete(1).await.expect("a value");
    assert_eq!((*value, value.source()), (1, Source::Loader));
    assert_eq!((hit(&view).await, cached(&view, "k").await), ((1, Source::Memory), 1));
    let stats = cache.stats();
    assert_eq!((stats.loads, stats.memory.misses), (1, 1));
}

#[tokio::test]
async fn lease_and_loader_wait_for_each_other() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let lease = leased(&view).await;
    let gate = Gate::closed();
    let follower = gated(&view, &gate, 2);
    misses_reach(&cache, 2).await;
    assert_eq!(*lease.complete(1).await.expect("a value"), 1);
    assert_eq!((follower.await.expect("no panic"), gate.count()), (1, 0));

    view.delete("k").await.everywhere();
    let (gate, loading) = begun(&view, 3).await;
    let caller = view.clone();
    let waiting = tokio::spawn(async move { hit(&caller).await });
    misses_reach(&cache, 4).await;
    gate.open(1);
    assert_eq!((waiting.await.expect("no panic").0, loading.await.expect("no panic")), (3, 3));
}

#[tokio::test]
async fn next_caller_leads_when_a_lease_is_given_up() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let lease = leased(&view).await;
    let gate = Gate::closed();
    gate.open(1);
    let follower = gated(&view, &gate, 2);
    misses_reach(&cache, 2).await;
    drop(lease);
    assert_eq!((follower.await.expect("no panic"), gate.count()), (2, 1));
    assert_eq!(cache.stats().load_failures, 0);
}

#[tokio::test]
async fn failed_lease_fails_those_who_wait() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32, &'static str> = cache.view("n");
    let Ok(Leased::Lead(lease)) = view.fetch("k").lease().await else { panic!("it leads") };
    let caller = view.clone();
    let follower = tokio::spawn(async move { caller.fetch("k").lease().await });
    misses_reach(&cache, 2).await;
    let Err(FetchError::Load(own)) = lease.fail("down").await else { panic!("its error") };
    let Ok(Err(FetchError::Load(others))) = follower.await else { panic!("the same error") };
    assert_eq!((*own, *others), ("down", "down"));
    assert_eq!(cache.stats().load_failures, 1);
    assert!(matches!(view.fetch("k").lease().await, Ok(Leased::Lead(_))));
}

#[tokio::test]
async fn stale_value_outlives_a_failed_lease() {
    let (clock, hand) = Clock::manual();
    let policy = Policy::new().ttl(MINUTE).grace(MINUTE);
    let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid options");
    let view: View<str, u32, &'static str> = cache.view("n");
    view.write("k", 1).await.everywhere();
    hand.advance(MINUTE);
    let Ok(Leased::Lead(lease)) = view.fetch("k").lease().await else { panic!("it leads") };
    assert_eq!(lease.cx().stale().map(|stale| **stale), Some(1));
    let value = lease.fail("down").await.expect("the stale value");
    assert_eq!((*value, value.source()), (1, Source::Stale));
    hand.advance(MINUTE / 2);
    let Ok(Leased::Lead(lease)) = view.fetch("k").lease().await else { panic!("it leads again") };
    assert_eq!(lease.complete(Loaded::NotModified).await.as_deref().ok(), Some(&1));
    hand.advance(MINUTE / 2);
    assert_eq!(view.hit("k").as_deref(), Some(&1), "it is fresh for another minute");
}

#[tokio::test]
async fn lease_of_an_absent_value_cannot_keep_it() {
    let view: View<str, u32> = in_memory().view("n");
    let kept = leased(&view).await.complete(Loaded::NotModified).await;
    assert!(matches!(kept, Err(FetchError::NoStaleValue)));
}

#[tokio::test(start_paused = true)]
async fn hard_timeout_voids_a_lease() {
    let cache = in_memory();
    let view = cache.view("n").with_policy(Policy::new().hard_timeout(SOON));
    let lease = leased(&view).await;
    let follower = {
        let view = view.clone();
        tokio::spawn(async move { view.fetch("k").lease().await.map(drop) })
    };
    let failed = follower.await.expect("no panic");
    assert!(matches!(failed, Err(FetchError::Timeout)), "{failed:?}");
    assert_eq!(*lease.complete(1).await.expect("its own value"), 1);
    assert!(view.hit("k").is_none(), "nobody else gets it");
    assert_eq!(*leased(&view).await.complete(2).await.expect("a value"), 2);
    assert_eq!(hit(&view).await.0, 2);
}

#[tokio::test]
async fn value_that_was_deleted_during_its_lease_is_stored_nowhere() {
    let Some(server) = RedisServer::start() else { return };
    let (near, far) = pair(&server);
    let (near, far): (View<str, u32>, View<str, u32>) = (near.view("n"), far.view("n"));
    let lease = leased(&near).await;
    far.delete("k").await.everywhere();
    assert_eq!(*lease.complete(1).await.expect("its caller asked before"), 1);
    assert!(far.read("k").await.is_none() && near.read("k").await.is_none());
}

#[tokio::test]
async fn tag_of_a_lease_is_that_of_its_value() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let lease = leased(&view).await;
    cache.invalidate_tags(["t"], larder::Invalidation::Hard).await.everywhere();
    lease.cx().tag("t");
    assert_eq!(*lease.complete(1).await.expect("a value"), 1);
    assert!(view.hit("k").is_none(), "the tag was invalidated during the load");
    let lease = leased(&view).await;
    lease.cx().no_store();
    assert_eq!(*lease.complete(2).await.expect("a value"), 2);
    assert!(view.hit("k").is_none());
}

#[tokio::test]
async fn other_nodes_wait_for_a_lease() {
    let Some(server) = RedisServer::start() else { return };
    let nodes = [(); 2]
        .map(|()| node_with(server.url(), |options| options.lease_wait(PATIENCE).redis_timeout(PATIENCE)));
    let [near, far]: [View<str, u32>; 2] = nodes.each_ref().map(|cache| cache.view("n"));
    let lease = leased(&near).await;
    let waiting = {
        let far = far.clone();
        tokio::spawn(async move { hit(&far).await })
    };
    eventually("the other node has asked", async || nodes[1].stats().memory.misses == 1).await;
    lease.complete(1).await.expect("a value");
    assert_eq!(waiting.await.expect("no panic"), (1, Source::Redis));

    // One that is given up is released at once, and one that its caller did not wait for too.
    near.delete("k").await.everywhere();
    drop(leased(&near).await);
    let lease = timeout(SOON, leased(&far)).await.expect("it is released");
    lease.complete(2).await.expect("a value");
    far.delete("k").await.everywhere();
    {
        let fetch = near.fetch("k");
        let mut leasing = pin!(fetch.lease());
        assert!(poll_once(&mut leasing).await.is_none());
    }
    eventually("the lookup has ended", async || server.command("GET test:n:k").contains("$-1")).await;
    let lease = timeout(SOON, leased(&far)).await.expect("it is released");
    lease.complete(3).await.expect("a value");
    assert_eq!(hit(&near).await, (3, Source::Redis));
}

#[tokio::test]
async fn caller_with_a_stale_value_does_not_wait_for_another_node() {
    let Some(server) = RedisServer::start() else { return };
    let policy = Policy::new().ttl(MINUTE).grace(MINUTE).soft_timeout(Duration::from_millis(1));
    let nodes = [(); 2].map(|()| {
        node_with(server.url(), |options| options.policy(policy).lease_wait(PATIENCE).redis_timeout(PATIENCE))
    });
    let [near, far]: [View<str, u32>; 2] = nodes.each_ref().map(|cache| cache.view("n"));
    let soon = WriteOptions::new().ttl(Duration::from_millis(20));
    far.write_with("k", 0, &soon).await.everywhere();
    near.read("k").await;
    for view in [&near, &far] {
        eventually("it is stale", async || view.read("k").await.is_none()).await;
    }
    // The first one leads at once, although its soft timeout is over: no other load would end.
    let lease = leased(&far).await;
    assert_eq!(lease.cx().stale().map(|stale| **stale), Some(0));
    assert_eq!(timeout(SOON, hit(&near)).await.expect("it does not wait"), (0, Source::Stale));
    lease.complete(1).await.expect("a value");
    eventually("the new value is there", async || fetched(&near, "k", 1).await == 1).await;
}

#[tokio::test]
async fn lease_of_a_refresh_replaces_the_value() {
    let Some(server) = RedisServer::start() else { return };
    let (near, far) = pair(&server);
    let (near, far): (View<str, u32>, View<str, u32>) = (near.view("n"), far.view("n"));
    near.write("k", 1).await.everywhere();
    let Ok(Leased::Lead(lease)) = near.fetch("k").refresh().lease().await else { panic!("a refresh leads") };
    assert_eq!(hit(&near).await.0, 1, "others have the old value meanwhile");
    lease.complete(2).await.expect("a value");
    assert_eq!((hit(&near).await.0, far.read("k").await.as_deref()), (2, Some(&2)));
}

#[tokio::test]
async fn lease_of_a_cache_that_is_off_stores_nothing() {
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    cache.set_enabled(false);
    let leases = [leased(&view).await, leased(&view).await];
    for lease in leases {
        assert_eq!(*lease.complete(1).await.expect("a value"), 1);
    }
    cache.set_enabled(true);
    assert!(view.hit("k").is_none());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousand_leases_make_one_load() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    let loads = Arc::new(AtomicUsize::new(0));
    let call = |n: u32| {
        let (view, loads) = (view.clone(), loads.clone());
        tokio::spawn(async move {
            match view.fetch("k").lease().await.expect("no load fails") {
                Leased::Hit(value) => *value,
                // Every third caller leaves before it has loaded.
                Leased::Lead(_) if n.is_multiple_of(3) => 7,
                Leased::Lead(lease) => {
                    loads.fetch_add(1, Ordering::SeqCst);
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    *lease.complete(7).await.expect("a value")
                }
            }
        })
    };
    let callers: Vec<_> = (0..1_000).map(call).collect();
    for caller in callers {
        assert_eq!(caller.await.expect("no panic"), 7);
    }
    assert_eq!(loads.load(Ordering::SeqCst), 1);
}
