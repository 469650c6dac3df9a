//! How often a loader runs: once, for 1, 50 and 10,000 callers, however the load ends.

use crate::{begun, cached, in_memory, misses_reach, over};
use larder::{Cache, FetchError, Policy, View};
use larder_testkit::{Deadline, Gate, RedisServer, eventually};
use std::time::Duration;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Success,
    Error,
    Panic,
    LeaderCancelled,
    AllCancelled,
    Timeout,
}

const ENDINGS: [Ending; 6] = [
    Ending::Success,
    Ending::Error,
    Ending::Panic,
    Ending::LeaderCancelled,
    Ending::AllCancelled,
    Ending::Timeout,
];

/// Lets so many callers ask for one key at the same time, and ends their load.
async fn crowd(cache: &Cache, key: &str, callers: u64, ending: Ending) {
    let view: View<str, u32, &str> = cache.view("n");
    let limit = if ending == Ending::Timeout { Duration::from_millis(500) } else { Duration::from_secs(600) };
    let view = view.with_policy(Policy::new().hard_timeout(limit));
    let gate = Gate::closed();
    let (missed, loads) = (cache.stats().memory.misses, cache.stats().loads);
    let mut running: Vec<_> = (0..callers)
        .map(|_| {
            let (view, gate, key) = (view.clone(), gate.clone(), key.to_owned());
            tokio::spawn(async move {
                let loader = move |_| async move {
                    gate.pass().await;
                    match ending {
                        Ending::Error => Err("down"),
                        Ending::Panic => panic!("on purpose"),
                        _ => Ok(1),
                    }
                };
                view.fetch(&key).load(loader).await.map(|fetched| *fetched)
            })
        })
        .collect();
    gate.arrival().await;
    if ending != Ending::Timeout {
        misses_reach(cache, missed + callers).await;
    }
    match ending {
        Ending::LeaderCancelled => running.remove(0).abort(),
        Ending::AllCancelled => running.drain(..).for_each(|caller| caller.abort()),
        _ => {}
    }
    if ending != Ending::Timeout {
        gate.open(1);
    }
    for caller in running {
        let outcome = caller.await.expect("no panic reaches a caller");
        let as_expected = match ending {
            Ending::Success | Ending::LeaderCancelled | Ending::AllCancelled => matches!(outcome, Ok(1)),
            Ending::Error => matches!(outcome, Err(FetchError::Load(_))),
            Ending::Panic => matches!(outcome, Err(FetchError::LoaderPanicked)),
            Ending::Timeout => matches!(outcome, Err(FetchError::Timeout)),
        };
        assert!(as_expected, "{callers} callers, {ending:?}: {outcome:?}");
    }
    if ending == Ending::AllCancelled {
        // Nobody is left to wait for it, and it ends all the same.
        eventually("the load ends", async || cache.stats().loads > loads).await;
    }
    assert_eq!(gate.count(), 1, "{callers} callers, {ending:?}");
}

#[tokio::test]
async fn crowd_loads_once_in_memory() {
    let _deadline = Deadline::start();
    let cache = in_memory();
    for callers in [1, 50, 10_000] {
        for ending in ENDINGS {
            crowd(&cache, &format!("{callers}-{ending:?}"), callers, ending).await;
        }
    }
}

#[tokio::test]
async fn crowd_loads_once_over_redis() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    for callers in [1, 50, 10_000] {
        for ending in ENDINGS {
            crowd(&cache, &format!("{callers}-{ending:?}"), callers, ending).await;
        }
    }
    let redis = cache.stats().redis.expect("a redis tier");
    assert_eq!((redis.hits, redis.misses), (0, 18), "one look for each crowd");
}

/// Panics when it is dropped, as a loader may whose guard fails.
struct PanicsOnDrop;

impl Drop for PanicsOnDrop {
    fn drop(&mut self) {
        panic!("on purpose");
    }
}

#[tokio::test(start_paused = true)]
async fn panic_of_dropped_loader_is_a_panic_of_the_loader() {
    let view: View<str, u32> = in_memory().view("n");
    let view = view.with_policy(Policy::new().hard_timeout(Duration::from_millis(50)));
    let timed_out = view.fetch("slow").load(|_| async {
        let _guard = PanicsOnDrop;
        std::future::pending().await
    });
    let timed_out = timed_out.await.map(|fetched| *fetched);
    assert!(matches!(timed_out, Err(FetchError::LoaderPanicked)), "{timed_out:?}");
    let panicked = view.fetch_multi(["a", "b"]).load(|_, _| async {
        let _guard = PanicsOnDrop;
        std::future::pending::<Result<Vec<(String, u32)>, _>>().await
    });
    for outcome in panicked.await {
        let outcome = outcome.map(|fetched| fetched.is_some());
        assert!(matches!(outcome, Err(FetchError::LoaderPanicked)), "{outcome:?}");
    }
}

#[tokio::test]
async fn add_during_a_load_is_stored_and_voids_it() {
    let Some(server) = RedisServer::start() else { return };
    for (kind, cache) in [in_memory(), over(server.url())].into_iter().enumerate() {
        let view: View<str, u32> = cache.view(&format!("n{kind}")).with_tag("t");
        let (gate, loading) = begun(&view, 1).await;
        assert!(view.add("k", 2).await.expect("asked"), "nothing is stored yet, cache {kind}");
        assert!(!view.add("k", 3).await.expect("asked"), "cache {kind}");
        gate.open(1);
        assert_eq!(loading.await.expect("no panic"), 1, "its caller asked before");
        assert_eq!(cached(&view, "k").await, 2, "cache {kind}");
    }
}

#[tokio::test]
async fn one_of_many_adds_during_a_load_stores() {
    let _deadline = Deadline::start();
    let view: View<str, u32> = in_memory().view("n");
    let (gate, loading) = begun(&view, 0).await;
    let adds: Vec<_> = (1..=20)
        .map(|value| {
            let view = view.clone();
            tokio::spawn(async move { view.add("k", value).await.expect("asked").then_some(value) })
        })
        .collect();
    let mut added = Vec::new();
    for add in adds {
        added.extend(add.await.expect("no panic"));
    }
    gate.open(1);
    loading.await.expect("no panic");
    assert_eq!(added.len(), 1);
    assert_eq!(cached(&view, "k").await, added[0]);
}
