//! The tiers, one file per promise. A new test goes into the file of the promise that it proves, or into a new one.

mod ahead;
mod bulk_leases;
mod cluster;
mod cluster_tls;
mod coherence;
mod commands;
mod connections;
mod credentials;
mod experiments;
mod failures;
mod fork;
mod grace;
mod hits;
mod inspection;
mod journal;
mod leases;
mod lifetimes;
mod loads;
mod local;
mod memory;
mod multi;
#[path = "../mutation/mod.rs"]
mod mutation;
mod observers;
mod permissions;
mod races;
mod raw;
mod redis;
mod redis_down;
mod refresh;
mod reloads;
mod replicas;
mod runtime;
mod sentinel;
mod shared;
mod shutdown;
mod single_flight;
mod spaces;
mod spans;
mod tags;
mod tls;
mod unpolled;
mod unsupported;
mod updates;
mod warm;

use larder::{Builder, Cache, FetchError, Fetched, View};
use larder_testkit::{Gate, RedisServer, eventually};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::task::JoinHandle;

/// A cache in memory only.
fn in_memory() -> Cache {
    Cache::builder("test").ttl(Duration::from_secs(60)).build().expect("valid options")
}

/// One node: a cache over the Redis at `url`, with some options of its own.
fn node_with(url: impl Into<String>, change: impl FnOnce(Builder) -> Builder) -> Cache {
    let options = Cache::builder("test").ttl(Duration::from_secs(60)).redis(url);
    change(options).build().expect("valid options")
}

/// One node whose timeout a busy machine does not reach.
fn over(url: String) -> Cache {
    node_with(url, |options| options.redis_timeout(Duration::from_secs(5)))
}

/// Two nodes over one Redis.
fn pair(server: &RedisServer) -> (Cache, Cache) {
    (over(server.url()), over(server.url()))
}

/// The key of the marker of a server that no other server preceded, once it is written.
fn marker_key(server: &RedisServer) -> Option<String> {
    server.command("KEYS test::marker:*").lines().nth(2).map(str::to_owned)
}

/// Polls a future once.
async fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
    poll_fn(|context| match Pin::new(&mut *future).poll(context) {
        Poll::Ready(output) => Poll::Ready(Some(output)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

/// Fetches with a loader that must not run.
async fn cached(view: &View<str, u32>, key: &str) -> u32 {
    *view.fetch(key).load(|_| async { panic!("loaded again") }).await.expect("cached")
}

/// Fetches a value whose loader returns `value`, and says which it got.
async fn fetched(view: &View<str, u32>, key: &str, value: u32) -> u32 {
    *view.fetch(key).load(move |_| async move { Ok(value) }).await.expect("loads")
}

/// Starts a fetch whose loader waits at the gate.
fn gated(view: &View<str, u32>, gate: &Gate, value: u32) -> JoinHandle<u32> {
    let (view, gate) = (view.clone(), gate.clone());
    tokio::spawn(async move {
        let loader = move |_| async move {
            gate.pass().await;
            Ok(value)
        };
        *view.fetch("k").load(loader).await.expect("loads")
    })
}

/// Starts a refresh whose loader waits at the gate.
fn gated_refresh(view: &View<str, u32>, gate: &Gate, value: u32) -> JoinHandle<Fetched<u32>> {
    let (view, gate) = (view.clone(), gate.clone());
    tokio::spawn(async move {
        let loader = move |_| async move {
            gate.pass().await;
            Ok(value)
        };
        view.fetch("k").refresh().load(loader).await.expect("loads")
    })
}

/// Starts a fetch and returns once its loader waits at the gate.
async fn begun(view: &View<str, u32>, value: u32) -> (Gate, JoinHandle<u32>) {
    let gate = Gate::closed();
    let loading = gated(view, &gate, value);
    gate.arrival().await;
    (gate, loading)
}

/// Starts a load, and a second caller who waits for it; returns when both wait at the gate.
async fn leader_and_follower(
    cache: &Cache,
    view: &View<str, u32>,
) -> (Gate, JoinHandle<u32>, JoinHandle<u32>) {
    let (gate, leader) = begun(view, 1).await;
    let follower = gated(view, &gate, 2);
    misses_reach(cache, 2).await;
    (gate, leader, follower)
}

/// Callers of one key, all there before the loader fails; and how often it ran.
async fn fail_together(
    cache: &Cache,
    view: &View<str, u32, &'static str>,
    callers: u64,
) -> (Vec<JoinHandle<Fetching>>, Arc<AtomicUsize>) {
    let (gate, loads) = (Gate::closed(), Arc::new(AtomicUsize::new(0)));
    let call = |_| {
        let (view, gate, loads) = (view.clone(), gate.clone(), loads.clone());
        tokio::spawn(async move {
            let loader = move |_| async move {
                loads.fetch_add(1, Ordering::SeqCst);
                gate.pass().await;
                Err("down")
            };
            view.fetch("k").load(loader).await
        })
    };
    let running = (0..callers).map(call).collect();
    gate.arrival().await;
    misses_reach(cache, callers).await;
    gate.open(1);
    (running, loads)
}

/// What a fetch comes to whose loader may fail.
type Fetching = Result<Fetched<u32>, FetchError<&'static str>>;

/// Waits until so many lookups in memory have missed: each caller that follows a load is one of them.
async fn misses_reach(cache: &Cache, misses: u64) {
    let what = format!("{misses} lookups in memory miss");
    eventually(&what, async || cache.stats().memory.misses >= misses).await;
}
