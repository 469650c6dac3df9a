//! A value that is still fresh is loaded again in the background, by one node.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with};
use larder::{Builder, Cache, Policy, RefreshAhead, Source, View};
use larder_engine::Clock;
use larder_testkit::{Deadline, Gate, PATIENCE, RedisServer, eventually};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);
const LATE: Policy = Policy::new().ttl(Duration::from_secs(10)).refresh_ahead(RefreshAhead::After(0.8));
/// Each hit begins a load.
const AT_ONCE: Policy = Policy::new()
    .ttl(Duration::from_secs(600))
    .refresh_ahead(RefreshAhead::After(0.0))
    .retry_after(Duration::ZERO);

fn by_hand(policy: Policy) -> (Cache, View<str, u32, &'static str>, larder_engine::ManualClock) {
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid options");
    let view = cache.view("n");
    (cache, view, hand)
}

/// A loader that counts its runs.
async fn counted(
    view: &View<str, u32, &'static str>,
    loads: &Arc<AtomicUsize>,
    answer: Result<u32, &'static str>,
) -> u32 {
    let loads = loads.clone();
    let loader = move |_| async move {
        loads.fetch_add(1, Ordering::SeqCst);
        answer
    };
    *view.fetch("k").load(loader).await.expect("a value")
}

#[tokio::test]
async fn value_that_is_due_is_loaded_again_while_it_is_served() {
    let _deadline = Deadline::start();
    let (_cache, view, hand) = by_hand(LATE);
    let loads = Arc::default();
    assert_eq!(counted(&view, &loads, Ok(1)).await, 1);
    hand.advance(8 * SECOND - Duration::from_millis(1));
    assert_eq!(counted(&view, &loads, Ok(2)).await, 1);
    assert_eq!(loads.load(Ordering::SeqCst), 1, "it is not due");
    hand.advance(Duration::from_millis(2));
    assert_eq!(counted(&view, &loads, Ok(3)).await, 1, "nobody waits");
    eventually("the new value is stored", async || view.read("k").await.is_some_and(|found| *found == 3))
        .await;
    hand.advance(7 * SECOND);
    let hit =
        view.fetch("k").load(|_| async { panic!("its time to live has begun anew") }).await.expect("hit");
    assert_eq!((*hit, hit.source()), (3, Source::Memory));
}

#[tokio::test]
async fn failed_load_ahead_leaves_the_value_and_pauses() {
    let _deadline = Deadline::start();
    let (_cache, view, hand) = by_hand(LATE.retry_after(SECOND / 2));
    let loads = Arc::default();
    counted(&view, &loads, Ok(1)).await;
    hand.advance(9 * SECOND);
    assert_eq!(counted(&view, &loads, Err("down")).await, 1);
    eventually("the load has ended", async || loads.load(Ordering::SeqCst) == 2).await;
    assert_eq!(counted(&view, &loads, Err("down")).await, 1);
    tokio::task::yield_now().await;
    assert_eq!(loads.load(Ordering::SeqCst), 2, "not asked again so soon");
    hand.advance(SECOND / 2);
    let again = async || counted(&view, &loads, Ok(2)).await == 2;
    eventually("it is loaded after the pause", again).await;
}

#[tokio::test]
async fn value_that_was_deleted_is_not_brought_back_by_a_load_ahead() {
    let _deadline = Deadline::start();
    let (cache, view, hand) = by_hand(LATE);
    let gate = Gate::closed();
    view.write("k", 1).await.everywhere();
    hand.advance(9 * SECOND);
    let loader = {
        let gate = gate.clone();
        move |_| async move {
            gate.pass().await;
            Ok(2)
        }
    };
    assert_eq!(*view.fetch("k").load(loader).await.expect("hit"), 1);
    gate.arrival().await;
    view.delete("k").await.everywhere();
    gate.open(1);
    eventually("the load has ended", async || cache.stats().load_latency.count() == 1).await;
    for _ in 0..100 {
        tokio::task::yield_now().await;
        assert!(view.read("k").await.is_none());
    }
}

#[tokio::test]
async fn value_is_loaded_ahead_by_chance_if_its_load_took_long() {
    let _deadline = Deadline::start();
    let (_cache, view, hand) =
        by_hand(LATE.refresh_ahead(RefreshAhead::ByCost(1.0)).retry_after(Duration::ZERO));
    let slow = |value| {
        let hand = hand.clone();
        move |_| async move {
            hand.advance(SECOND);
            tokio::time::sleep(Duration::from_millis(50)).await;
            Ok(value)
        }
    };
    view.fetch("k").load(slow(1)).await.expect("loads");
    hand.advance(10 * SECOND - Duration::from_millis(30));
    let loaded = async || *view.fetch("k").load(slow(2)).await.expect("a value") == 2;
    eventually("one of the callers loads it", loaded).await;
}

#[test]
fn value_that_is_due_is_served_without_a_runtime() {
    let runtime = tokio::runtime::Runtime::new().expect("starts");
    let cache = Cache::builder("test").policy(AT_ONCE).build().expect("valid options");
    let view: View<str, u32> = cache.view("n");
    runtime.block_on(fetched(&view, "k", 1));
    drop(runtime);
    let mut hit = view.fetch("k").load(|_| async { panic!("nothing can run it") });
    let polled =
        std::pin::Pin::new(&mut hit).poll(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(matches!(polled, std::task::Poll::Ready(Ok(hit)) if *hit == 1));
}

/// Fetches `a`, `b` and `c` with a bulk loader that notes its keys and returns `value` for all of them but `left_out`.
async fn fetched_in_bulk(
    view: &View<str, u32, &'static str>,
    loads: &Arc<Mutex<Vec<Vec<String>>>>,
    value: u32,
    left_out: &'static str,
) -> Vec<u32> {
    let loads = loads.clone();
    let load = move |keys: Vec<String>, _| {
        loads.lock().expect("no panic").push(keys.clone());
        async move {
            Ok(keys.into_iter().filter(|key| key != left_out).map(|key| (key, value)).collect::<Vec<_>>())
        }
    };
    let outcomes = view.fetch_multi(["a", "b", "c"]).load(load).await;
    outcomes.into_iter().map(|outcome| *outcome.expect("loads").expect("a value")).collect()
}

#[tokio::test]
async fn values_of_many_keys_that_are_due_are_loaded_again_by_one_call() {
    let _deadline = Deadline::start();
    let (_cache, view, hand) = by_hand(LATE);
    let loads = Arc::default();
    assert_eq!(fetched_in_bulk(&view, &loads, 1, "").await, [1, 1, 1]);
    hand.advance(7 * SECOND);
    view.delete("b").await.everywhere();
    assert_eq!(fetched_in_bulk(&view, &loads, 2, "").await, [1, 2, 1], "nothing else is due");
    hand.advance(SECOND + Duration::from_millis(1));
    assert_eq!(fetched_in_bulk(&view, &loads, 3, "c").await, [1, 2, 1], "nobody waits");
    eventually("the new value is stored", async || view.read("a").await.as_deref() == Some(&3)).await;
    assert_eq!(fetched_in_bulk(&view, &loads, 4, "").await, [3, 2, 1], "what is left out stays, and pauses");
    let expected: [&[&str]; 3] = [&["a", "b", "c"], &["b"], &["a", "c"]];
    assert_eq!(*loads.lock().expect("no panic"), expected);
}

fn eager(options: Builder) -> Builder {
    options.policy(AT_ONCE).redis_timeout(PATIENCE)
}

/// Fetches with a loader that passes the gate and returns 1.
async fn gated_fetch(view: &View<str, u32>, gate: &Gate) -> u32 {
    let gate = gate.clone();
    let loader = move |_| async move {
        gate.pass().await;
        Ok(1)
    };
    *view.fetch("k").load(loader).await.expect("a value")
}

#[tokio::test]
async fn one_node_loads_ahead_and_the_others_take_its_value() {
    let Some(server) = RedisServer::start() else { return };
    let [(_cache_a, a), (other, b)] = std::array::from_fn(|_| {
        let cache = node_with(server.url(), eager);
        let view: View<str, u32> = cache.view("n");
        (cache, view)
    });
    a.write("k", 0).await.everywhere();
    assert_eq!(b.read("k").await.as_deref(), Some(&0));
    let (gate, own) = (Gate::closed(), Gate::closed());
    assert_eq!(gated_fetch(&a, &gate).await, 0);
    gate.arrival().await;
    let asked = |cache: &Cache| cache.stats().redis.expect("a redis tier").latency.count();
    let before = asked(&other);
    assert_eq!(gated_fetch(&b, &own).await, 0);
    eventually("the other node has looked, and asked for the lease", async || asked(&other) >= before + 2)
        .await;
    gate.open(1);
    eventually("it is stored", async || a.read("k").await.as_deref() == Some(&1)).await;
    let arrives = async || {
        gated_fetch(&b, &own).await;
        b.read("k").await.as_deref() == Some(&1)
    };
    own.open(0);
    eventually("the other node takes it", arrives).await;
    assert_eq!(cached(&a, "k").await, 1);
}

#[tokio::test]
async fn one_node_loads_many_keys_ahead() {
    let Some(server) = RedisServer::start() else { return };
    let [(cache_a, a), (cache_b, b)] = std::array::from_fn(|_| {
        let cache = node_with(server.url(), eager);
        let view: View<str, u32> = cache.view("n");
        (cache, view)
    });
    // What a node reads before it trusts its memory is compared with Redis at its next use, and not loaded ahead then.
    b.read("none").await;
    eventually("memory is trusted", async || cache_b.coherence().memory_trusted).await;
    let keys = ["a", "b"];
    for key in [keys[0], keys[1], "last"] {
        a.write(key, 0).await.everywhere();
    }
    // Announcements come in their order, and maybe after a value that was read in Redis: that is read once more then.
    assert_eq!(b.read("last").await.as_deref(), Some(&0));
    a.delete("last").await.everywhere();
    eventually("the other node has heard of all", async || b.read("last").await.is_none()).await;
    for key in keys {
        assert_eq!(b.read(key).await.as_deref(), Some(&0));
    }
    let gate = Gate::closed();
    let fetch = async |view: &View<str, u32>| {
        let gate = gate.clone();
        let load = move |keys: Vec<String>, _| {
            let gate = gate.clone();
            async move {
                gate.pass().await;
                Ok(keys.into_iter().map(|key| (key, 1)).collect::<Vec<_>>())
            }
        };
        let outcomes = view.fetch_multi(keys).load(load).await;
        outcomes.into_iter().map(|outcome| *outcome.expect("a value").expect("a value")).collect::<Vec<_>>()
    };
    assert_eq!(fetch(&a).await, [0, 0]);
    gate.arrival().await;
    let asked = || cache_b.stats().redis.expect("a redis tier").latency.count();
    let before = asked();
    assert_eq!(fetch(&b).await, [0, 0]);
    eventually("the other node has looked, and asked for the leases", async || asked() >= before + 4).await;
    assert_eq!(gate.count(), 1, "the other node loads nothing");
    gate.open(1);
    for key in keys {
        eventually("it is stored", async || a.read(key).await.as_deref() == Some(&1)).await;
    }
    drop(cache_a);
}

#[tokio::test]
async fn load_ahead_ends_where_redis_does_not_reply() {
    let Some(mut server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| eager(options).redis_timeout(Duration::from_millis(200)));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 0).await.everywhere();
    server.kill();
    let own = Gate::closed();
    assert_eq!(gated_fetch(&view, &own).await, 0);
    let lost = async || cache.stats().redis.expect("a redis tier").errors > 0;
    eventually("redis does not reply", lost).await;
    assert_eq!((own.count(), gated_fetch(&view, &own).await), (0, 0));
}
