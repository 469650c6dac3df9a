//! A stale value is loaded again, and a value refreshed, by one node at a time.

use crate::mutation::Mutation;
use crate::{begun, cached, fetched, gated, gated_refresh, node_with};
use larder::{Builder, Cache, Invalidation, Policy, Reach, Source, View, WriteOptions};
use larder_testkit::{Gate, PATIENCE, RedisServer, eventually};
use std::time::Duration;

/// As long as the lease of a load that does not renew it.
const LEASE: Duration = Duration::from_secs(10);
const MINUTE: Duration = Duration::from_secs(60);

fn patient(options: Builder) -> Builder {
    let policy = Policy::new().ttl(10 * MINUTE).grace(60 * MINUTE);
    options.policy(policy).redis_timeout(PATIENCE).lease_wait(PATIENCE)
}

/// Nodes with the value 0 in Redis, which is stale.
async fn nodes_with_stale_value<const N: usize>(server: &RedisServer) -> [(Cache, View<str, u32>); N] {
    let nodes = std::array::from_fn(|_| {
        let cache = node_with(server.url(), patient);
        let view = cache.view("n");
        (cache, view)
    });
    write_stale(&nodes[0].1).await;
    for (_, view) in &nodes {
        assert!(view.read("k").await.is_none());
    }
    nodes
}

async fn write_stale(view: &View<str, u32>) {
    let soon = WriteOptions::new().ttl(Duration::from_millis(20)).tag("t");
    view.write_with("k", 0, &soon).await.everywhere();
    eventually("it is stale", async || view.read("k").await.is_none()).await;
}

/// The requests that a node has sent.
fn sent(cache: &Cache) -> u64 {
    cache.stats().redis.expect("a redis tier").latency.count()
}

/// Waits until a node has sent so many more requests.
async fn requests(cache: &Cache, more: u64) {
    let before = sent(cache);
    eventually("the node asks redis", async || sent(cache) >= before + more).await;
}

/// Fetches with a loader that passes the gate and returns 2. Returns the value and its source.
async fn fetched_from(view: &View<str, u32>, gate: &Gate) -> (u32, Source) {
    let gate = gate.clone();
    let loader = move |_| async move {
        gate.pass().await;
        Ok(2)
    };
    let found = view.fetch("k").load(loader).await.expect("loads");
    (*found, found.source())
}

#[tokio::test]
async fn stale_value_is_loaded_again_by_one_node() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (other, b)] = nodes_with_stale_value(&server).await;
    let (gate, loading) = begun(&a, 1).await;
    let waiting = {
        let b = b.clone();
        tokio::spawn(async move { cached(&b, "k").await })
    };
    requests(&other, 3).await;
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(waiting.await.expect("no panic"), 1);
}

#[tokio::test]
async fn stale_value_is_served_while_another_node_loads_it_again() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (_, b)] = nodes_with_stale_value(&server).await;
    let (gate, loading) = begun(&a, 1).await;
    let at_once = b.clone().with_policy(Policy::new().soft_timeout(Duration::ZERO));
    let own = Gate::closed();
    own.open(1);
    assert_eq!(fetched_from(&at_once, &own).await, (0, Source::Stale));
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    let arrives = async || b.read("k").await.is_some_and(|found| *found == 1);
    eventually("the other node gets the new value", arrives).await;
    assert_eq!(own.count(), 0, "it did not load");
}

#[tokio::test]
async fn stale_value_is_served_if_another_node_takes_too_long() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), _] = nodes_with_stale_value(&server).await;
    let impatient = |options| patient(options).lease_wait(Duration::from_millis(20));
    let b: View<str, u32> = node_with(server.url(), impatient).view("n");
    let (gate, loading) = begun(&a, 1).await;
    let own = Gate::closed();
    own.open(1);
    assert_eq!(fetched_from(&b, &own).await, (0, Source::Stale));
    assert_eq!(own.count(), 0, "it did not load");
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
}

#[tokio::test]
async fn stale_values_are_loaded_again_by_one_node_each() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (other, b)] = nodes_with_stale_value(&server).await;
    let (gate, loading) = begun(&a, 1).await;
    let own = Gate::closed();
    own.open(1);
    let waiting = {
        let (b, own) = (b.clone(), own.clone());
        tokio::spawn(async move {
            let loader = move |keys: Vec<String>, _| {
                let own = own.clone();
                async move {
                    own.pass().await;
                    Ok(keys.into_iter().map(|key| (key, 2)))
                }
            };
            let found = b.fetch_multi(["k", "other"]).load(loader).await;
            found.into_iter().map(|found| *found.expect("loads").expect("a value")).collect::<Vec<_>>()
        })
    };
    own.arrival().await;
    requests(&other, 3).await;
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(waiting.await.expect("no panic"), [1, 2]);
    assert_eq!(own.count(), 1, "one load, of the other key");
    b.delete("other").await.everywhere();
}

#[tokio::test]
async fn reload_of_dead_node_is_taken_over_after_its_lease() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (other, b)] = nodes_with_stale_value(&server).await;
    let (gate, dead) = begun(&a, 1).await;
    let own = Gate::closed();
    let waiting = gated(&b, &own, 2);
    requests(&other, 3).await;
    assert_eq!(own.count(), 0, "another node has the lease");
    server.pass(LEASE);
    own.arrival().await;
    own.open(1);
    assert_eq!(waiting.await.expect("no panic"), 2);
    gate.open(1);
    assert_eq!(dead.await.expect("no panic"), 1, "its own callers get it");
    assert_eq!(cached(&a, "k").await, 2, "it is stored nowhere");
}

#[tokio::test]
async fn failed_reload_passes_to_waiting_node() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (other, b)] = nodes_with_stale_value(&server).await;
    let gate = Gate::closed();
    let failing = {
        let (a, gate) = (a.clone(), gate.clone());
        tokio::spawn(async move {
            let loader = move |_| async move {
                gate.pass().await;
                panic!("the origin is down")
            };
            a.fetch("k").load(loader).await.expect("stale").source()
        })
    };
    gate.arrival().await;
    let waiting = {
        let b = b.clone();
        tokio::spawn(async move { fetched(&b, "k", 2).await })
    };
    requests(&other, 3).await;
    assert!(!waiting.is_finished());
    gate.open(1);
    assert_eq!(failing.await.expect("no panic"), Source::Stale);
    assert_eq!(waiting.await.expect("no panic"), 2);
}

#[tokio::test]
async fn reload_that_stores_nothing_releases_its_lease() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (_, b)] = nodes_with_stale_value(&server).await;
    let small = node_with(server.url(), |options| patient(options).max_value_bytes(1));
    let small: View<str, u32> = small.view("n");
    let unstored = a.fetch("k").load(|cx| async move {
        cx.no_store();
        Ok(1)
    });
    assert_eq!(*unstored.await.expect("loads"), 1);
    assert_eq!(fetched(&small, "k", 1_000).await, 1_000, "it is too large to be stored");
    let next = tokio::time::timeout(LEASE / 2, fetched(&b, "k", 2));
    assert_eq!(next.await.expect("nobody has the lease"), 2);
}

#[tokio::test]
async fn mutation_voids_reload_and_its_lease() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (other, b)] = nodes_with_stale_value(&server).await;
    for mutation in 0..5 {
        let (gate, loading) = begun(&a, 1).await;
        match mutation {
            0 => assert_eq!(b.write("k", 2).await.expect("done"), Reach::Everywhere),
            1 => assert!(b.delete("k").await.everywhere()),
            2 => other.clear().await.everywhere(),
            3 => _ = other.delete_matched("n:*").await.everywhere(),
            _ => other.invalidate_tags(["t"], Invalidation::Hard).await.everywhere(),
        }
        let next = tokio::time::timeout(LEASE / 2, fetched(&b, "k", 2));
        assert_eq!(next.await.expect("nobody waits for the old lease"), 2, "mutation {mutation}");
        gate.open(1);
        assert_eq!(loading.await.expect("no panic"), 1, "its caller asked before");
        assert_eq!((cached(&a, "k").await, cached(&b, "k").await), (2, 2), "mutation {mutation}");
        write_stale(&a).await;
        eventually("the other node hears of it", async || b.read("k").await.is_none()).await;
    }
}

#[tokio::test]
async fn refreshes_of_nodes_that_wait_for_a_refresh_share_one_load() {
    let Some(server) = RedisServer::start() else { return };
    let [(_, a), (one, b), (two, c), (three, d)] = nodes_with_stale_value(&server).await;
    let counts = || [&one, &two, &three].map(sent);
    let (first, second) = (Gate::closed(), Gate::closed());
    let leader = gated_refresh(&a, &first, 1);
    first.arrival().await;
    let waiting = [&b, &c, &d].map(|view| gated_refresh(view, &second, 2));
    for cache in [&one, &two, &three] {
        requests(cache, 3).await;
    }
    assert_eq!(second.count(), 0, "a load is running");
    first.open(1);
    assert_eq!(*leader.await.expect("no panic"), 1);
    let before = counts();
    second.arrival().await;
    let ask = async || counts().iter().zip(&before).filter(|(now, before)| *now - *before >= 6).count() >= 2;
    eventually("the other two wait for the third", ask).await;
    second.open(3);
    for refreshed in waiting {
        assert_eq!(*refreshed.await.expect("no panic"), 2);
    }
    assert_eq!(second.count(), 1, "one load for all that waited");
    let last: View<str, u32> = node_with(server.url(), patient).view("n");
    assert_eq!(cached(&last, "k").await, 2);
}
