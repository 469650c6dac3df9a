//! Many keys at once.

use crate::mutation::Mutation;
use crate::{cached, fetched, gated, in_memory, misses_reach, node_with, over};
use larder::{
    BulkCx, BulkOutcome, Cache, FetchError, Invalidation, Loaded, Policy, Source, View, WriteOptions,
};
use larder_engine::Clock;
use larder_testkit::{Deadline, Gate, PATIENCE, RedisServer, ScriptedProxy, eventually};
use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn caches(server: &RedisServer) -> [Cache; 2] {
    [in_memory(), over(server.url())]
}

/// The values that were found or loaded; `None` for an absence.
fn values<E: std::fmt::Debug>(outcomes: Vec<BulkOutcome<u32, E>>) -> Vec<Option<u32>> {
    let value = |outcome: BulkOutcome<u32, E>| outcome.expect("no error").map(|value| *value);
    outcomes.into_iter().map(value).collect()
}

#[tokio::test]
async fn fetch_multi_loads_all_missing_keys_at_once() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<u32, u32> = cache.view("n");
        view.write(&2, 20).await.everywhere();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = calls.clone();
        let loader = move |mut keys: Vec<u32>, _| {
            keys.sort_unstable();
            seen.lock().expect("no panic").push(keys.clone());
            // One less than asked for, and one that nobody asked for.
            async move { Ok(keys.into_iter().filter(|key| *key != 5).chain([77]).map(|key| (key, key * 10))) }
        };
        let found = view.fetch_multi(&[3, 2, 1, 3, 5]).load(loader).await;
        assert_eq!(values(found), [Some(30), Some(20), Some(10), Some(30), None]);
        assert_eq!(*calls.lock().expect("no panic"), [vec![1, 3, 5]]);
        assert!(view.read(&77).await.is_none(), "there was no lease for it");
        let again = view
            .fetch_multi(&[1, 2, 3])
            .load(|_, _| async { panic!("all are cached") as Result<Vec<(u32, u32)>, _> });
        assert!(again.await.iter().all(|found| matches!(found, Ok(Some(f)) if f.source() == Source::Memory)));
    }
}

#[tokio::test(start_paused = true)]
async fn fetch_multi_waits_for_all_loads_of_others_at_once() {
    let _deadline = Deadline::start();
    let view: View<u32, u32> = in_memory().view("n");
    let hung: Vec<_> = (0..20)
        .map(|key| {
            let view = view.clone();
            tokio::spawn(async move {
                view.fetch(&key).load(|_| std::future::pending::<Result<u32, Infallible>>()).await
            })
        })
        .collect();
    tokio::task::yield_now().await;
    let limit = Duration::from_secs(1);
    let limited = view.with_policy(Policy::new().hard_timeout(limit));
    let started = tokio::time::Instant::now();
    let keys: Vec<u32> = (0..20).collect();
    let outcomes = limited.fetch_multi(&keys).load(|_, _| async { Ok(Vec::<(u32, u32)>::new()) }).await;
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Err(FetchError::Timeout))));
    assert!(started.elapsed() < 2 * limit, "{:?}", started.elapsed());
    hung.iter().for_each(tokio::task::JoinHandle::abort);
}

#[tokio::test]
async fn fetch_multi_and_fetch_wait_for_each_other() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<str, u32> = cache.view("n");
        let gate = Gate::closed();
        let single = gated(&view, &gate, 1);
        gate.arrival().await;
        let bulk_gate = Gate::closed();
        let bulk = {
            let (view, gate) = (view.clone(), bulk_gate.clone());
            tokio::spawn(async move {
                let loader = move |keys: Vec<String>, _| {
                    let gate = gate.clone();
                    async move {
                        gate.pass().await;
                        assert_eq!(keys, ["b"]);
                        Ok(vec![("b".to_owned(), 2)])
                    }
                };
                let found = view.fetch_multi(["k", "b"]).load(loader).await;
                values(found)
            })
        };
        bulk_gate.arrival().await;
        let follower = {
            let view = view.clone();
            tokio::spawn(async move { fetched(&view, "b", 9).await })
        };
        misses_reach(&cache, 4).await;
        gate.open(1);
        bulk_gate.open(1);
        assert_eq!(single.await.expect("no panic"), 1);
        assert_eq!(bulk.await.expect("no panic"), [Some(1), Some(2)]);
        assert_eq!(follower.await.expect("no panic"), 2);
    }
}

#[tokio::test]
async fn fetch_multi_error_reaches_missing_keys_only() {
    let _deadline = Deadline::start();
    let view: View<u32, u32, &str> = in_memory().view("n");
    view.write(&1, 10).await.everywhere();
    let loader = |_: Vec<u32>, _: BulkCx<u32, u32>| async { Err::<Vec<(u32, u32)>, _>("down") };
    let found = view.fetch_multi(&[1, 2, 3]).load(loader).await;
    assert!(matches!(&found[0], Ok(Some(value)) if **value == 10));
    for failed in &found[1..] {
        assert!(matches!(failed, Err(FetchError::Load(error)) if **error == "down"));
    }
}

/// A bulk loader that returns an iterator which panics.
async fn panicking_iterator(
    keys: Vec<String>,
    _: BulkCx<str, u32>,
) -> Result<impl Iterator<Item = (String, u32)>, &'static str> {
    Ok(keys.into_iter().map(|_| -> (String, u32) { panic!("on purpose") }))
}

#[tokio::test]
async fn panic_in_iterator_of_bulk_loader_is_panic_of_loader() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let policy = Policy::new().ttl(Duration::from_millis(20)).grace(Duration::from_secs(60));
        let view: View<str, u32, &str> = cache.view("n").with_policy(policy);
        view.write("stale", 1).await.everywhere();
        eventually("it is stale", async || view.read("stale").await.is_none()).await;
        let found = view.fetch_multi(["absent", "stale"]).load(panicking_iterator).await;
        assert!(matches!(found[0], Err(FetchError::LoaderPanicked)));
        assert!(matches!(&found[1], Ok(Some(stale)) if stale.source() == Source::Stale));
        assert_eq!(cache.stats().load_failures, 1);
        let next = tokio::time::timeout(Duration::from_secs(1), async {
            view.fetch("absent").load(|_| async { Ok(2) }).await
        });
        assert_eq!(next.await.expect("nobody has the lease").map(|f| *f).ok(), Some(2));
    }
}

#[tokio::test]
async fn bulk_loader_of_disabled_cache_that_panics_is_caught() {
    let _deadline = Deadline::start();
    let view: View<str, u32, &str> = Cache::null().view("n");
    let found = view.fetch_multi(["k"]).load(panicking_iterator).await;
    assert!(matches!(found[0], Err(FetchError::LoaderPanicked)));
    let at_once = |_, _| -> std::future::Ready<Result<Vec<(String, u32)>, _>> { panic!("on purpose") };
    let found = view.fetch_multi(["k"]).load(at_once).await;
    assert!(matches!(found[0], Err(FetchError::LoaderPanicked)));
}

#[tokio::test]
async fn bulk_loader_is_not_called_without_keys() {
    let _deadline = Deadline::start();
    for cache in [in_memory(), Cache::null()] {
        let view: View<str, u32, &str> = cache.view("n");
        let calls = Arc::new(AtomicUsize::new(0));
        let counting = calls.clone();
        let loader = move |_, _| {
            counting.fetch_add(1, Ordering::SeqCst);
            async { Ok::<Vec<(String, u32)>, _>(Vec::new()) }
        };
        assert!(view.fetch_multi([] as [&str; 0]).load(loader).await.is_empty());
        assert_eq!(calls.load(Ordering::SeqCst), 0);
    }
}

#[tokio::test]
async fn bulk_load_without_values_counts_as_no_load() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    let view: View<str, u32, &str> = cache.view("n");
    _ = view.fetch_multi(["a", "b"]).load(|_, _| async { Ok(Vec::new()) }).await;
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (0, 0));
    let kept = view.fetch("k").load_or_keep(|_| async { Ok(Loaded::NotModified) }).await;
    assert!(matches!(kept, Err(FetchError::NoStaleValue)));
    assert_eq!((cache.stats().loads, cache.stats().load_failures), (0, 1));
}

#[tokio::test]
async fn multi_operations_write_and_delete() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<str, u32> = cache.view("n");
        let other: View<str, u32> = cache.view("other");
        view.write_multi([("a1", 1), ("a2", 2), ("b1", 3)]).await.everywhere();
        other.write("a1", 9).await.everywhere();
        assert_eq!(view.delete_multi(["a1", "none"]).await.everywhere(), [true, false]);
        assert!(!view.exist("a1").await && view.exist("a2").await);
        assert_eq!(cache.delete_matched("n:a*").await.everywhere(), 1);
        assert!(!view.exist("a2").await && view.exist("b1").await && other.exist("a1").await);
        assert_eq!(view.read_only().read("b1").await.as_deref(), Some(&3));
        assert_eq!(view.take("b1").await.ok().flatten().as_deref(), Some(&3));
        assert!(view.take("b1").await.expect("answered").is_none());
    }
}

#[tokio::test]
async fn add_stores_only_absent_keys() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<str, u32> = cache.view("n");
        assert_eq!(view.add("k", 1).await.ok(), Some(true));
        assert_eq!(view.add("k", 2).await.ok(), Some(false));
        assert_eq!(view.read("k").await.as_deref(), Some(&1));
        view.delete("k").await.everywhere();
        assert_eq!(view.add("k", 3).await.ok(), Some(true));
        assert_eq!(view.read("k").await.as_deref(), Some(&3));
    }
}

#[tokio::test]
async fn fetch_multi_waits_for_load_of_other_node() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = crate::pair(&server);
    let (a, b): (View<str, u32>, View<str, u32>) = (one.view("n"), other.view("n"));
    let (gate, loading) = crate::begun(&a, 1).await;
    let (calls, own_gate) = (Arc::new(Mutex::new(Vec::new())), Gate::closed());
    let (seen, passes) = (calls.clone(), own_gate.clone());
    let bulk = tokio::spawn(async move {
        let loader = move |keys: Vec<String>, _| {
            seen.lock().expect("no panic").push(keys.clone());
            let passes = passes.clone();
            async move {
                passes.pass().await;
                Ok(keys.into_iter().map(|key| (key, 9)).collect::<Vec<_>>())
            }
        };
        let found = b.fetch_multi(["k", "b"]).load(loader).await;
        values(found)
    });
    own_gate.arrival().await;
    own_gate.open(2);
    gate.open(1);
    assert_eq!(loading.await.expect("no panic"), 1);
    assert_eq!(bulk.await.expect("no panic"), [Some(1), Some(9)]);
    assert_eq!(*calls.lock().expect("no panic"), [["b"]], "the other node loads the other key");
    one.clear().await.everywhere();
}

#[tokio::test]
async fn fetch_multi_loads_what_other_node_fails_to_load() {
    let Some(server) = RedisServer::start() else { return };
    let (one, other) = (over(server.url()), over(server.url()));
    let (a, b): (View<str, u32, &str>, View<str, u32, &str>) = (one.view("n"), other.view("n"));
    let gate = Gate::closed();
    let passes = gate.clone();
    let failing = tokio::spawn(async move {
        let loader = move |_| async move {
            passes.pass().await;
            Err("down")
        };
        a.fetch("k").load(loader).await.map(|f| *f)
    });
    gate.arrival().await;
    let bulk = tokio::spawn(async move {
        let loader =
            |keys: Vec<String>, _| async { Ok(keys.into_iter().map(|key| (key, 9)).collect::<Vec<_>>()) };
        let found = b.fetch_multi(["k", "b"]).load(loader).await;
        values(found)
    });
    let own: View<str, u32> = other.view("n");
    eventually("the other key is stored", async || own.read("b").await.is_some()).await;
    gate.open(1);
    assert!(failing.await.expect("no panic").is_err());
    assert_eq!(bulk.await.expect("no panic"), [Some(9), Some(9)]);
    assert_eq!(cached(&other.view("n"), "k").await, 9);
}

#[tokio::test]
async fn bulk_loader_sets_options_of_each_key() {
    let Some(server) = RedisServer::start() else { return };
    let (clock, hand) = Clock::manual();
    let local = Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build();
    for cache in [local.expect("valid options"), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        let loader = |keys: Vec<String>, cx: BulkCx<str, u32>| async move {
            cx.tag("all");
            cx.of("red").tag("colour");
            cx.of("short").ttl(Duration::from_millis(50));
            cx.of("secret").no_store();
            cx.of("another key").no_store();
            Ok(keys.into_iter().zip(1..).collect::<Vec<_>>())
        };
        let found = view.fetch_multi(["plain", "red", "secret", "short"]).load(loader).await;
        assert_eq!(values(found), [Some(1), Some(2), Some(3), Some(4)]);
        assert!(view.read("secret").await.is_none(), "stored nowhere");
        hand.advance(Duration::from_millis(50));
        eventually("the short one expires", async || view.read("short").await.is_none()).await;
        cache.invalidate_tags(["colour"], Invalidation::Hard).await.everywhere();
        assert!(view.read("red").await.is_none());
        assert_eq!(cached(&view, "plain").await, 1, "the tag of another key");
        cache.invalidate_tags(["all"], Invalidation::Hard).await.everywhere();
        assert!(view.read("plain").await.is_none());
    }
}

#[tokio::test]
async fn bulk_loader_gets_stale_value_of_each_key() {
    let _deadline = Deadline::start();
    let (clock, hand) = Clock::manual();
    let policy = larder::Policy::new().ttl(Duration::from_secs(1)).grace(Duration::from_secs(60));
    let cache = Cache::builder("test").policy(policy).clock(clock).build().expect("valid options");
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    hand.advance(Duration::from_secs(1));
    let loader = |keys: Vec<String>, cx: BulkCx<str, u32>| async move {
        Ok(keys.into_iter().map(move |key| (key.clone(), cx.of(&key).stale().map_or(0, |stale| **stale + 1))))
    };
    let found = view.fetch_multi(["k", "new"]).load(loader).await;
    let found: Vec<_> = found.into_iter().map(|found| *found.expect("loads").expect("a value")).collect();
    assert_eq!(found, [2, 0]);
}

/// They loaded one after the other.
#[tokio::test]
async fn bulk_callers_share_the_absence_of_a_key_that_the_loader_leaves_out() {
    let Some(server) = RedisServer::start() else { return };
    const CALLERS: u64 = 40;
    for cache in caches(&server) {
        let view: View<str, u32> = cache.view("n");
        let (gate, loads) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
        let call = |_| {
            let (view, gate, loads) = (view.clone(), gate.clone(), loads.clone());
            tokio::spawn(async move {
                let loader = move |_: Vec<String>, _| {
                    let (gate, loads) = (gate.clone(), loads.clone());
                    async move {
                        loads.fetch_add(1, Ordering::SeqCst);
                        gate.pass().await;
                        Ok(Vec::new())
                    }
                };
                values(view.fetch_multi(["k"]).load(loader).await)
            })
        };
        let callers: Vec<_> = (0..CALLERS).map(call).collect();
        gate.arrival().await;
        misses_reach(&cache, CALLERS).await;
        gate.open(1);
        for caller in callers {
            assert_eq!(caller.await.expect("no panic"), [None]);
        }
        assert_eq!(loads.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn absent_value_is_stored_for_keys_that_the_bulk_loader_leaves_out() {
    let _deadline = Deadline::start();
    let (clock, hand) = Clock::manual();
    let cache = Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build().expect("valid");
    let view: View<str, Option<u32>> = cache.view("n").with_negative_ttl(Duration::from_secs(5));
    let fetch = async |loaded: Option<u32>| {
        let loader = move |keys: Vec<String>, _| async move {
            let loaded = loaded.expect("only what is not remembered is loaded");
            Ok(keys
                .into_iter()
                .filter(|key| key == "known")
                .map(|key| (key, Some(loaded)))
                .collect::<Vec<_>>())
        };
        let found = view.fetch_multi(["known", "unknown"]).absent(None).load(loader).await;
        found.into_iter().map(|found| *found.expect("no error").expect("a value")).collect::<Vec<_>>()
    };
    assert_eq!(fetch(Some(1)).await, [Some(1), None]);
    assert_eq!(fetch(None).await, [Some(1), None]);
    hand.advance(Duration::from_secs(6));
    assert_eq!(fetch(Some(2)).await, [Some(1), None], "the absence has the negative time to live");
    cache.set_enabled(false);
    assert_eq!(fetch(Some(3)).await, [Some(3), None]);
}

#[tokio::test]
async fn key_that_bulk_loader_leaves_out_is_loaded_by_its_followers() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<str, u32> = cache.view("n");
        let gate = Gate::closed();
        let (bulk_view, passes) = (view.clone(), gate.clone());
        let bulk = tokio::spawn(async move {
            let loader = move |_: Vec<String>, _| {
                let passes = passes.clone();
                async move {
                    passes.pass().await;
                    Ok(Vec::new())
                }
            };
            values(bulk_view.fetch_multi(["k"]).load(loader).await)
        });
        gate.arrival().await;
        let follower = {
            let view = view.clone();
            tokio::spawn(async move { fetched(&view, "k", 7).await })
        };
        misses_reach(&cache, 2).await;
        gate.open(1);
        assert_eq!(bulk.await.expect("no panic"), [None]);
        assert_eq!(follower.await.expect("no panic"), 7);
        assert_eq!(cached(&view, "k").await, 7);
    }
}

#[tokio::test]
async fn writes_and_adds_have_options_of_their_own() {
    let Some(server) = RedisServer::start() else { return };
    let (clock, hand) = Clock::manual();
    let local = Cache::builder("test").ttl(Duration::from_secs(60)).clock(clock).build();
    for cache in [local.expect("valid options"), over(server.url())] {
        let view: View<str, u32> = cache.view("n");
        let options = WriteOptions::new;
        let written = [
            ("red", 1, options().tag("colour")),
            ("short", 2, options().ttl(Duration::from_millis(50))),
            ("plain", 3, options()),
        ];
        view.write_multi_with(written).await.everywhere();
        assert_eq!(view.add_with("added", 4, &options().tag("colour")).await.ok(), Some(true));
        assert_eq!(
            view.add_with("brief", 5, &options().ttl(Duration::from_millis(50))).await.ok(),
            Some(true)
        );
        let ttl = |key| {
            let view = view.clone();
            async move { view.read(key).await.map(|found| found.remaining_ttl()) }
        };
        assert!(ttl("short").await.is_none_or(|left| left <= Duration::from_millis(50)));
        assert!(ttl("plain").await.is_some_and(|left| left > Duration::from_secs(30)));
        hand.advance(Duration::from_millis(50));
        for key in ["short", "brief"] {
            eventually("it expires", async || view.read(key).await.is_none()).await;
        }
        cache.invalidate_tags(["colour"], Invalidation::Hard).await.everywhere();
        assert!(view.read("red").await.is_none() && view.read("added").await.is_none());
        assert_eq!(cached(&view, "plain").await, 3);
    }
}

#[tokio::test]
async fn no_command_has_more_than_500_keys() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let node = || node_with(proxy.url(), |options| options.redis_timeout(PATIENCE));
    let longest = Arc::new(AtomicUsize::new(0));
    let seen = longest.clone();
    let _none = proxy.hold(move |frame| {
        // A command begins with the number of its arguments.
        let count = frame.bytes.strip_prefix(b"*").and_then(|rest| rest.split(|byte| *byte == b'\r').next());
        let count = count.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok()).unwrap_or(0);
        seen.fetch_max(count, Ordering::SeqCst);
        false
    });
    let keys: Vec<u32> = (0..3_000).collect();
    let load = |keys: Vec<u32>, _| async { Ok(keys.into_iter().map(|key| (key, key))) };
    let view: View<u32, u32> = node().view("n");
    let found = view.fetch_multi(&keys).load(load).await;
    assert!(found.iter().zip(0..).all(|(found, key)| matches!(found, Ok(Some(value)) if **value == key)));
    view.write_multi(keys.iter().map(|key| (key, key + 1))).await.everywhere();
    let other: View<u32, u32> = node().view("n");
    let found = other.read_multi(&keys).await;
    assert!(found.iter().zip(1..).all(|(found, value)| found.as_deref() == Some(&value)));
    assert!(view.delete_multi(&keys).await.everywhere().iter().all(|existed| *existed));
    let longest = longest.load(Ordering::SeqCst);
    assert!((500..=500 * 5 + 10).contains(&longest), "{longest} arguments");
}
