//! Many keys at once.

use crate::{cached, fetched, gated, in_memory, misses_reach, over};
use larder::{Cache, FetchError, LoadCx, Source, View};
use larder_testkit::{Deadline, Gate, RedisServer, eventually};
use std::sync::{Arc, Mutex};

fn caches(server: &RedisServer) -> [Cache; 2] {
    [in_memory(), over(server.url())]
}

#[tokio::test]
async fn fetch_multi_loads_all_missing_keys_at_once() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<u32, u32> = cache.view("n");
        view.write(&2, 20).await.expect("written");
        let calls = Arc::new(Mutex::new(Vec::new()));
        let seen = calls.clone();
        let loader = move |mut keys: Vec<u32>, _| {
            keys.sort_unstable();
            seen.lock().expect("no panic").push(keys.clone());
            // One less than asked for, and one that nobody asked for.
            async move { Ok(keys.into_iter().filter(|key| *key != 5).chain([77]).map(|key| (key, key * 10))) }
        };
        let found = view.fetch_multi(&[3, 2, 1, 3, 5]).load(loader).await;
        let values: Vec<Option<u32>> = found.iter().map(|found| found.as_deref().ok().copied()).collect();
        assert_eq!(values, [Some(30), Some(20), Some(10), Some(30), None]);
        assert!(matches!(found[4], Err(FetchError::NotLoaded)));
        assert_eq!(*calls.lock().expect("no panic"), [vec![1, 3, 5]]);
        assert!(view.read(&77).await.is_none(), "there was no lease for it");
        let again = view
            .fetch_multi(&[1, 2, 3])
            .load(|_, _| async { panic!("all are cached") as Result<Vec<(u32, u32)>, _> });
        assert!(again.await.iter().all(|found| found.as_ref().is_ok_and(|f| f.source() == Source::Memory)));
    }
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
                found.into_iter().map(|found| found.map(|f| *f).ok()).collect::<Vec<_>>()
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
    view.write(&1, 10).await.expect("written");
    let loader = |_: Vec<u32>, _: LoadCx<u32>| async { Err::<Vec<(u32, u32)>, _>("down") };
    let found = view.fetch_multi(&[1, 2, 3]).load(loader).await;
    assert_eq!(found[0].as_deref().ok(), Some(&10));
    for failed in &found[1..] {
        assert!(matches!(failed, Err(FetchError::Load(error)) if **error == "down"));
    }
}

#[tokio::test]
async fn multi_operations_write_and_delete() {
    let Some(server) = RedisServer::start() else { return };
    for cache in caches(&server) {
        let view: View<str, u32> = cache.view("n");
        let other: View<str, u32> = cache.view("other");
        view.write_multi([("a1", 1), ("a2", 2), ("b1", 3)]).await.expect("written");
        other.write("a1", 9).await.expect("written");
        assert_eq!(view.delete_multi(["a1", "none"]).await.ok(), Some(vec![true, false]));
        assert!(!view.exist("a1").await && view.exist("a2").await);
        assert_eq!(cache.delete_matched("n:a*").await.ok(), Some(1));
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
        view.delete("k").await.expect("deleted");
        assert_eq!(view.add("k", 3).await.ok(), Some(true));
        assert_eq!(view.read("k").await.as_deref(), Some(&3));
    }
}

#[tokio::test]
async fn fetch_multi_waits_for_load_of_other_node() {
    let Some(server) = RedisServer::start() else { return };
    for (one, other) in crate::pairs(&server) {
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
            found.into_iter().map(|found| found.map(|f| *f).ok()).collect::<Vec<_>>()
        });
        own_gate.arrival().await;
        own_gate.open(2);
        gate.open(1);
        assert_eq!(loading.await.expect("no panic"), 1);
        assert_eq!(bulk.await.expect("no panic"), [Some(1), Some(9)]);
        assert_eq!(*calls.lock().expect("no panic"), [["b"]], "the other node loads the other key");
        one.clear().await.expect("cleared");
    }
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
        found.into_iter().map(|found| found.map(|f| *f).ok()).collect::<Vec<_>>()
    });
    let own: View<str, u32> = other.view("n");
    eventually("the other key is stored", async || own.read("b").await.is_some()).await;
    gate.open(1);
    assert!(failing.await.expect("no panic").is_err());
    assert_eq!(bulk.await.expect("no panic"), [Some(9), Some(9)]);
    assert_eq!(cached(&other.view("n"), "k").await, 9);
}
