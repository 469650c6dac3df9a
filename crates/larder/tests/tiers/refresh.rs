//! A refresh: its value comes from a loader that began after the call, and is the value that is stored.

use crate::mutation::Mutation;
use crate::{begun, cached, fetched, gated, gated_refresh, in_memory, node_with, over, poll_once};
use larder::{Builder, Cache, FetchError, Policy, Source, View};
use larder_testkit::{Deadline, Gate, PATIENCE, RedisServer, ScriptedProxy, eventually};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

/// A refresh with a loader that returns `value`.
async fn refreshed(view: View<str, u32>, value: u32) -> u32 {
    *view.fetch("k").refresh().load(move |_| async move { Ok(value) }).await.expect("loads")
}

/// The options of a node that waits for the loads of others for a short time.
fn impatient(options: Builder) -> Builder {
    options.lease_wait(Duration::from_millis(50)).redis_timeout(PATIENCE)
}

#[tokio::test]
async fn refresh_during_older_load_returns_and_stores_its_own_value() {
    let Some(server) = RedisServer::start() else { return };
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        let (gate, older) = begun(&view, 1).await;
        let mut refresh = Box::pin(refreshed(view.clone(), 2));
        assert!(poll_once(&mut refresh).await.is_none(), "the older load is running");
        gate.open(1);
        assert_eq!(older.await.expect("no panic"), 1);
        assert_eq!(refresh.await, 2);
        assert_eq!(cached(&view, "k").await, 2);
    }
}

#[tokio::test]
async fn refreshes_that_wait_for_an_older_load_share_one_load() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32> = cache.view("n");
    let (gate, older) = begun(&view, 1).await;
    let mut refreshes: Vec<_> = (2..102).map(|value| Box::pin(refreshed(view.clone(), value))).collect();
    for refresh in &mut refreshes {
        assert!(poll_once(refresh).await.is_none());
    }
    gate.open(1);
    assert_eq!(older.await.expect("no panic"), 1);
    let refreshes: Vec<_> = refreshes.into_iter().map(tokio::spawn).collect();
    for refresh in refreshes {
        assert!(refresh.await.expect("no panic") >= 2);
    }
    assert_eq!(cache.stats().loads, 2, "the older one, and one for all refreshes");
}

#[tokio::test]
async fn refresh_does_not_wait_for_ever_for_an_older_load() {
    let Some(server) = RedisServer::start() else { return };
    let local = Cache::builder("test").ttl(Duration::from_secs(60)).lease_wait(Duration::from_millis(50));
    for cache in [local.build().expect("valid options"), node_with(server.url(), impatient)] {
        let view: View<str, u32> = cache.view("n");
        let (gate, older) = begun(&view, 1).await;
        assert_eq!(refreshed(view.clone(), 2).await, 2);
        gate.open(1);
        assert_eq!(older.await.expect("no panic"), 1, "its caller asked before the refresh");
        assert_eq!(cached(&view, "k").await, 2);
    }
}

#[tokio::test]
async fn refresh_waits_once_for_a_load_here_and_in_redis() {
    let Some(server) = RedisServer::start() else { return };
    let wait = Duration::from_secs(2);
    let cache = node_with(server.url(), |options| options.lease_wait(wait).redis_timeout(PATIENCE));
    let view: View<str, u32> = cache.view("n");
    let (gate, older) = begun(&view, 1).await;
    let started = Instant::now();
    assert_eq!(refreshed(view.clone(), 2).await, 2);
    let waited = started.elapsed();
    assert!((wait..wait * 2).contains(&waited), "the lease of the overtaken load is its own: {waited:?}");
    gate.open(1);
    assert_eq!(older.await.expect("no panic"), 1);
    assert_eq!(cached(&view, "k").await, 2);
}

/// With a value to serve, a refresh returned that one as stale, and the next refresh voided its load.
#[tokio::test]
async fn refresh_has_no_soft_timeout() {
    let Some(server) = RedisServer::start() else { return };
    for soft in [Duration::ZERO, Duration::from_millis(20)] {
        let policy = Policy::new().grace(Duration::from_secs(60)).soft_timeout(soft);
        for cache in [in_memory(), over(server.url())] {
            let view: View<str, u32> = cache.view("n").with_policy(policy);
            view.write("k", 1).await.everywhere();
            let gate = Gate::closed();
            let refresh = gated_refresh(&view, &gate, 2);
            gate.arrival().await;
            sleep(2 * soft).await;
            gate.open(1);
            let found = refresh.await.expect("no panic");
            assert_eq!((*found, found.source()), (2, Source::Loader));
            assert_eq!(cached(&view, "k").await, 2);
        }
    }
}

/// Refreshes that come faster than their loader ends voided each other's loads, and nothing was ever stored.
#[tokio::test(start_paused = true)]
async fn value_that_is_refreshed_all_the_time_changes() {
    const INTERVAL: Duration = Duration::from_millis(20);
    const TIME: Duration = Duration::from_secs(30);
    let options = Cache::builder("test").ttl(Duration::from_secs(60)).lease_wait(Duration::from_millis(500));
    let soft = Policy::new().grace(Duration::from_secs(60)).soft_timeout(Duration::ZERO);
    let view: View<str, u32> = options.policy(soft).build().expect("valid options").view("n");
    // Also longer than a refresh waits for another one.
    for (key, loader_ms) in [("fast", 200), ("slow", 1_900)] {
        let loader_time = Duration::from_millis(loader_ms);
        let (begun, running, most) = (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0));
        let counts = Arc::new((begun, running, most));
        view.write(key, 0).await.everywhere();
        let (started, mut last, mut last_change) = (Instant::now(), 0, Instant::now());
        while started.elapsed() < TIME {
            let (caller, counts) = (view.clone(), counts.clone());
            let refresh = async move {
                let loader = move |_| async move {
                    let (begun, running, most) = &*counts;
                    let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                    most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(loader_time).await;
                    running.fetch_sub(1, Ordering::SeqCst);
                    Ok(number)
                };
                caller.fetch(key).refresh().load(loader).await.expect("loads")
            };
            tokio::spawn(refresh);
            sleep(INTERVAL).await;
            let value = view.read(key).await.map(|found| *found).expect("it is never gone");
            if value != last {
                assert!(value > last, "{value} after {last}: an older load has replaced a newer value");
                (last, last_change) = (value, Instant::now());
            }
            assert!(last_change.elapsed() < 2 * loader_time, "no change since {:?}", last_change.elapsed());
        }
        let most = counts.2.load(Ordering::SeqCst);
        let at_once = loader_ms.div_ceil(500) as u32;
        assert!(most <= at_once, "{most} loads at once, of {loader_time:?}");
    }
}

/// The overtaken load is of another node, and takes longer than a refresh waits.
#[tokio::test]
async fn load_of_other_node_that_a_refresh_overtakes_is_stored_until_the_refresh_is() {
    let Some(server) = RedisServer::start() else { return };
    for has_value in [false, true] {
        let [one, other, third] = [(); 3].map(|()| node_with(server.url(), impatient));
        let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
        if has_value {
            a.write("k", 0).await.everywhere();
        }
        let gates = [Gate::closed(), Gate::closed()];
        let older = gated_refresh(&a, &gates[0], 1);
        gates[0].arrival().await;
        let newer = gated_refresh(&b, &gates[1], 2);
        gates[1].arrival().await;
        gates[0].open(1);
        assert_eq!(*older.await.expect("no panic"), 1);
        let in_redis = third.view::<str, u32, ()>("n").read("k").await.map(|found| *found);
        assert_eq!(in_redis, Some(1), "it is stored, although a refresh loads beside it");
        gates[1].open(1);
        assert_eq!(*newer.await.expect("no panic"), 2);
        let fourth = over(server.url());
        let in_redis = fourth.view::<str, u32, ()>("n").read("k").await.map(|found| *found);
        assert_eq!(in_redis, Some(2), "its loader began later");
        a.delete("k").await.everywhere();
    }
}

/// A load that fails when the gate opens.
fn failing(view: &View<str, u32, &'static str>, gate: &Gate, refresh: bool) -> JoinHandle<bool> {
    let (view, passes) = (view.clone(), gate.clone());
    tokio::spawn(async move {
        let loader = move |_| async move {
            passes.pass().await;
            Err("down")
        };
        let fetch = view.fetch("k");
        let fetch = if refresh { fetch.refresh() } else { fetch };
        fetch.load(loader).await.is_err()
    })
}

/// The lease that protects both was gone with the failure, as after an invalidation, and the refresh was stored nowhere.
#[tokio::test]
async fn refresh_is_stored_although_the_load_that_it_overtakes_fails_first() {
    let Some(server) = RedisServer::start() else { return };
    let [one, other] = [(); 2].map(|()| node_with(server.url(), impatient));
    for refreshing in [&one, &other] {
        let (gate, own) = (Gate::closed(), Gate::closed());
        let older = failing(&one.view("n"), &gate, false);
        gate.arrival().await;
        let refresh = gated_refresh(&refreshing.view("n"), &own, 2);
        own.arrival().await;
        gate.open(1);
        assert!(older.await.expect("no panic"));
        own.open(1);
        assert_eq!(*refresh.await.expect("no panic"), 2);
        assert_eq!(refreshing.stats().refused, 0);
        let third: View<str, u32> = node_with(server.url(), impatient).view("n");
        assert_eq!(fetched(&third, "k", 3).await, 2, "redis has it");
        one.view::<str, u32, ()>("n").delete("k").await.everywhere();
    }
}

/// Its stale value replaced the newer one in memory, or voided the load that was to store that. Memory alone returned the error.
#[tokio::test]
async fn refresh_that_fails_serves_stale_and_leaves_what_the_load_that_it_overtakes_stores() {
    let Some(server) = RedisServer::start() else { return };
    let options = |options| impatient(options).policy(Policy::new().grace(Duration::from_secs(60)));
    let local = options(Cache::builder("test").ttl(Duration::from_secs(60))).build().expect("valid options");
    let [one, other] = [(); 2].map(|()| node_with(server.url(), options));
    for [loading, refreshing] in [[&local, &local], [&one, &one], [&one, &other]] {
        for refresh_fails_first in [false, true] {
            let view: View<str, u32> = loading.view("n");
            view.write("k", 0).await.everywhere();
            assert!(view.expire("k").await.everywhere());
            let (gate, older) = begun(&view, 1).await;
            let own = Gate::closed();
            let refresh = failing(&refreshing.view("n"), &own, true);
            own.arrival().await;
            let fails = async || {
                own.open(1);
                assert!(!refresh.await.expect("no panic"), "it serves the stale value");
            };
            let stores = async || {
                gate.open(1);
                assert_eq!(older.await.expect("no panic"), 1);
            };
            if refresh_fails_first {
                fails().await;
                stores().await;
            } else {
                stores().await;
                fails().await;
            }
            for cache in [loading, refreshing] {
                assert_eq!(
                    fetched(&cache.view("n"), "k", 3).await,
                    1,
                    "refresh first: {refresh_fails_first}"
                );
            }
        }
    }
}

#[tokio::test]
async fn invalidation_voids_refresh_whose_lease_is_behind_another_one() {
    let Some(server) = RedisServer::start() else { return };
    let [one, other] = [(); 2].map(|()| node_with(server.url(), impatient));
    for fails_first in [false, true] {
        let (gate, own) = (Gate::closed(), Gate::closed());
        let older = failing(&one.view("n"), &gate, false);
        gate.arrival().await;
        let refresh = gated_refresh(&other.view("n"), &own, 2);
        own.arrival().await;
        let before = other.stats().refused;
        if fails_first {
            gate.open(1);
            eventually("the successor has the key", async || server.command("STRLEN test:n:k") == ":20\r\n")
                .await;
        }
        one.view::<str, u32, ()>("n").delete("k").await.everywhere();
        own.open(1);
        assert_eq!(*refresh.await.expect("no panic"), 2, "its caller asked before");
        assert_eq!(other.stats().refused, before + 1);
        if !fails_first {
            gate.open(1);
        }
        assert!(older.await.expect("no panic"));
        assert_eq!(server.command("EXISTS test:n:k"), ":0\r\n");
    }
}

#[tokio::test]
async fn no_lease_stays_if_refresh_and_the_load_that_it_overtakes_fail() {
    let Some(server) = RedisServer::start() else { return };
    let [one, other] = [(); 2].map(|()| node_with(server.url(), impatient));
    for refresh_fails_first in [false, true] {
        let (gate, own) = (Gate::closed(), Gate::closed());
        let older = failing(&one.view("n"), &gate, false);
        gate.arrival().await;
        let refresh = failing(&other.view("n"), &own, true);
        own.arrival().await;
        assert_eq!(server.command("STRLEN test:n:k"), ":40\r\n", "both leases");
        let mut ends = [(gate, older, ":20\r\n"), (own, refresh, ":20\r\n")];
        if refresh_fails_first {
            ends.reverse();
        }
        ends[1].2 = ":0\r\n";
        for (gate, load, left) in ends {
            gate.open(1);
            assert!(load.await.expect("no panic"));
            eventually("its lease is gone", async || server.command("STRLEN test:n:k") == left).await;
        }
    }
}

#[tokio::test]
async fn refresh_takes_lease_from_older_load_of_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let node = || node_with(server.url(), impatient);
    let (one, other) = (node(), node());
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let (gate, older) = begun(&a, 1).await;
    assert_eq!(refreshed(b.clone(), 2).await, 2);
    gate.open(1);
    assert_eq!(older.await.expect("no panic"), 1, "its caller asked before the refresh");
    assert_eq!(cached(&b, "k").await, 2);
    let third: View<str, u32> = node().view("n");
    assert_eq!(fetched(&third, "k", 3).await, 2, "redis has the value of the refresh");
}

/// The refresh took it for the value of the load that it followed, because it was stored after the call.
#[tokio::test]
async fn refresh_takes_no_value_of_older_load_that_a_later_one_finds_in_memory() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let cache = node_with(proxy.url(), |options| options.max_lag(Duration::from_millis(10)));
    let view: View<str, u32> = cache.view("n");
    let (gate, older) = begun(&view, 1).await;
    let mut refresh = Box::pin(refreshed(view.clone(), 2));
    assert!(poll_once(&mut refresh).await.is_none(), "the older load is running");
    // What memory has must be compared with Redis from now on.
    let _subscriptions = proxy.hold(|frame| frame.is_request("SUBSCRIBE"));
    server.command("CLIENT KILL TYPE pubsub");
    eventually("memory alone is not served any more", async || !cache.coherence().memory_trusted).await;
    gate.open(1);
    assert_eq!(older.await.expect("no panic"), 1);
    let mut fetch = Box::pin(fetched(&view, "k", 3));
    assert!(poll_once(&mut fetch).await.is_none(), "it compares");
    assert!(poll_once(&mut refresh).await.is_none());
    assert_eq!((fetch.await, refresh.await), (1, 2));
}

#[tokio::test]
async fn refresh_by_ticket_of_failed_load_loads() {
    let _deadline = Deadline::start();
    let view: View<str, u32, &str> = in_memory().view("n");
    let gate = Gate::closed();
    let failing = {
        let (view, gate) = (view.clone(), gate.clone());
        tokio::spawn(async move {
            let loader = move |_| async move {
                gate.pass().await;
                Err("down")
            };
            view.fetch("k").load(loader).await.map(|fetched| *fetched)
        })
    };
    gate.arrival().await;
    let mut refresh = Box::pin(view.fetch("k").refresh().load(|_| async { Ok(2) }));
    assert!(poll_once(&mut refresh).await.is_none());
    gate.open(1);
    assert!(failing.await.expect("no panic").is_err());
    assert_eq!(refresh.await.map(|fetched| *fetched).ok(), Some(2), "an older error is no outcome either");
}

#[tokio::test]
async fn fetch_during_refresh_joins_it_only_without_a_value() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    view.write("k", 1).await.everywhere();
    let gate = Gate::closed();
    let refresh = gated_refresh(&view, &gate, 2);
    gate.arrival().await;
    assert_eq!(cached(&view, "k").await, 1, "the old value until the new one is stored");
    view.delete("k").await.everywhere();
    let later = gated(&view, &gate, 3);
    gate.arrival().await;
    gate.open(2);
    assert_eq!((*refresh.await.expect("no panic"), later.await.expect("no panic")), (2, 3));
    assert_eq!(cached(&view, "k").await, 3);
}

#[tokio::test]
async fn refresh_is_stored_although_older_load_of_other_node_ends_first() {
    let Some(server) = RedisServer::start() else { return };
    let node = || {
        let policy = Policy::new().ttl(Duration::from_millis(100)).grace(Duration::from_secs(60));
        node_with(server.url(), |options| options.policy(policy).redis_timeout(PATIENCE))
    };
    let (one, other, third) = (node(), node(), node());
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    a.write("k", 0).await.everywhere();
    eventually("it is stale", async || a.read("k").await.is_none()).await;
    let (gate, older) = begun(&a, 1).await;
    let b = b.with_policy(Policy::new().ttl(Duration::from_secs(60)));
    let own = Gate::closed();
    let refresh = gated_refresh(&b, &own, 2);
    own.arrival().await;
    gate.open(1);
    assert_eq!(older.await.expect("no panic"), 1, "its caller asked before the refresh");
    own.open(1);
    assert_eq!(*refresh.await.expect("no panic"), 2);
    assert_eq!(cached(&b, "k").await, 2);
    let found = third.view::<str, u32, ()>("n").read("k").await.map(|found| *found);
    assert_eq!(found, Some(2), "redis has the value of the refresh");
}

#[tokio::test]
async fn failed_refresh_leaves_fresh_value_as_it_was() {
    let Some(server) = RedisServer::start() else { return };
    let minute = Duration::from_secs(60);
    for cache in [in_memory(), over(server.url())] {
        let view: View<str, u32, &str> = cache.view("n");
        view.write("k", 1).await.everywhere();
        let refresh = async |key: &str, view: &View<str, u32, &'static str>| {
            let refreshed = view.fetch(key).refresh().load(|_| async { Err("down") }).await;
            refreshed.map(|found| (*found, found.source()))
        };
        assert!(matches!(refresh("k", &view).await, Err(FetchError::Load(_))), "there is no grace period");
        let grace = view.clone().with_policy(Policy::new().grace(minute));
        grace.write("kept", 2).await.everywhere();
        assert_eq!(refresh("kept", &grace).await.ok(), Some((2, Source::Stale)));
        for (key, value) in [("k", 1), ("kept", 2)] {
            let found = view.read(key).await.expect("fresh");
            assert_eq!((*found, found.source()), (value, Source::Memory));
            assert!(found.remaining_ttl() > minute / 2, "{:?}", found.remaining_ttl());
        }
    }
}
