//! Several callers and one key.

use super::{BulkLoader, Failure, How, Loaded, Loading, Subject, Value, loads, text};
use crate::loader::Gate;
use crate::wait::eventually;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const CALLERS: usize = 50;

/// A loader that waits at a gate.
fn gated(gate: &Gate, outcome: Result<&'static str, &'static str>) -> Loading {
    let gate = gate.clone();
    Box::pin(async move {
        gate.pass().await;
        match outcome {
            Ok(value) => Ok(Loaded { value: text(value), ..Loaded::default() }),
            Err(error) => Err(error.to_owned()),
        }
    })
}

/// Starts many callers of one key, and opens the gate when the loader has arrived.
async fn all_at_once(
    cache: &impl Subject,
    outcome: Result<&'static str, &'static str>,
) -> (usize, Vec<Result<Value, Failure>>) {
    let gate = Gate::closed();
    let started = Arc::new(AtomicUsize::new(0));
    let callers: Vec<_> = (0..CALLERS)
        .map(|_| {
            let (cache, loading, started) = (cache.clone(), gated(&gate, outcome), started.clone());
            tokio::spawn(async move {
                started.fetch_add(1, Ordering::SeqCst);
                cache.fetch("k", How::default(), loading).await
            })
        })
        .collect();
    gate.arrival().await;
    eventually("every caller starts", async || started.load(Ordering::SeqCst) == CALLERS).await;
    gate.open(CALLERS);
    let mut answers = Vec::new();
    for caller in callers {
        answers.push(caller.await.expect("a caller"));
    }
    (gate.count(), answers)
}

/// And all have the value.
pub async fn many_callers_load_once(cache: impl Subject) {
    let (loads, answers) = all_at_once(&cache, Ok("v")).await;
    assert_eq!(loads, 1);
    assert!(answers.iter().all(|answer| *answer == Ok(text("v"))));
}

/// They do not try one after the other.
pub async fn many_callers_share_a_failure(cache: impl Subject) {
    let (loads, answers) = all_at_once(&cache, Err("no")).await;
    assert_eq!(loads, 1);
    assert!(answers.iter().all(|answer| *answer == Err(Failure::Loader("no".into()))));
    assert_eq!(cache.fetch("k", How::default(), super::loads("v")).await, Ok(text("v")));
}

/// The load continues, and other callers get its value.
pub async fn leaving_caller_does_not_cancel_load(cache: impl Subject) {
    let gate = Gate::closed();
    let caller = {
        let (cache, loading) = (cache.clone(), gated(&gate, Ok("v")));
        tokio::spawn(async move { cache.fetch("k", How::default(), loading).await })
    };
    gate.arrival().await;
    let follower = {
        let cache = cache.clone();
        tokio::spawn(async move { cache.fetch("k", How::default(), loads("w")).await })
    };
    caller.abort();
    assert!(caller.await.is_err_and(|error| error.is_cancelled()));
    gate.open(1);
    let answer = follower.await.expect("a follower").expect("a value");
    assert!(answer == text("v") || answer == text("w"));
    assert_eq!(cache.fetch("k", How::default(), super::never()).await, Ok(answer));
}

/// What happens while a loader has already read the old value: its value goes to its caller and into no tier.
async fn during_a_load<S: Subject, F: Future<Output = ()>>(cache: &S, happens: impl FnOnce(S) -> F) {
    let gate = Gate::closed();
    let caller = {
        let (cache, gate) = (cache.clone(), gate.clone());
        let loading: Loading = Box::pin(async move {
            gate.pass().await;
            Ok(Loaded { value: text("old"), tags: vec!["t"], ..Loaded::default() })
        });
        let how = How { tags: vec!["t"], ..How::default() };
        tokio::spawn(async move { cache.fetch("k", how, loading).await })
    };
    gate.arrival().await;
    happens(cache.clone()).await;
    gate.open(1);
    // A caller from before the invalidation may get either.
    _ = caller.await.expect("a caller");
}

/// The oldest wound of caches.
pub async fn delete_during_load_wins(cache: impl Subject) {
    during_a_load(&cache, |cache| async move { _ = cache.delete("k").await }).await;
    assert_eq!(cache.read("k").await, None);
    assert_eq!(cache.fetch("k", How::default(), loads("new")).await, Ok(text("new")));
}

/// The value that was written stays.
pub async fn write_during_load_wins(cache: impl Subject) {
    during_a_load(&cache, |cache| async move { cache.write("k", text("new"), How::default()).await }).await;
    assert_eq!(cache.read("k").await, Some(text("new")));
}

/// Although the loader names the tag only afterwards.
pub async fn tag_invalidation_during_load_wins(cache: impl Subject) {
    during_a_load(&cache, |cache| async move { cache.invalidate_tags(&["t"]).await }).await;
    assert_eq!(cache.read("k").await, None);
}

/// Everything is gone, also what was not there yet.
pub async fn clear_during_load_wins(cache: impl Subject) {
    during_a_load(&cache, |cache| async move { cache.clear().await }).await;
    assert_eq!(cache.read("k").await, None);
}

/// It does not join the load that started before.
pub async fn fetch_after_delete_loads_again(cache: impl Subject) {
    let gate = Gate::closed();
    let early = {
        let (cache, loading) = (cache.clone(), gated(&gate, Ok("old")));
        tokio::spawn(async move { cache.fetch("k", How::default(), loading).await })
    };
    gate.arrival().await;
    cache.delete("k").await;
    assert_eq!(cache.fetch("k", How::default(), loads("new")).await, Ok(text("new")));
    gate.open(1);
    _ = early.await.expect("a caller");
    assert_eq!(cache.read("k").await, Some(text("new")));
}

/// A bulk load waits for a single one of the same key, and does not load it again.
pub async fn fetch_and_fetch_multi_share_a_load(cache: impl Subject) {
    let gate = Gate::closed();
    let single = {
        let (cache, loading) = (cache.clone(), gated(&gate, Ok("single")));
        tokio::spawn(async move { cache.fetch("k", How::default(), loading).await })
    };
    gate.arrival().await;
    let bulk = {
        let cache = cache.clone();
        tokio::spawn(async move {
            let loader: BulkLoader = Box::new(|keys| {
                Box::pin(async move { Ok(keys.into_iter().map(|key| (key, text("bulk"))).collect()) })
            });
            cache.fetch_multi(&["k", "l"], loader).await
        })
    };
    gate.open(1);
    assert_eq!(single.await.expect("a caller"), Ok(text("single")));
    assert_eq!(bulk.await.expect("a caller"), Ok(vec![Some(text("single")), Some(text("bulk"))]));
}
