//! Requests of an abandoned connection may still arrive, but not after requests of the next connection.

use crate::mutation::Mutation;
use crate::{Fixture, Versions, is_step_reply, is_step_request, node};
use larder::Cache;
use larder_testkit::{Gate, PATIENCE, RedisServer, ScriptedProxy, eventually, until, within};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// How many connections the server has.
fn connections_of(server: &RedisServer) -> usize {
    server.command("CLIENT LIST").lines().filter(|line| line.starts_with("id=")).count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn abandoned_request_does_not_run_after_later_one() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let cache = Cache::builder("s")
        .ttl(Duration::from_secs(600))
        .redis(proxy.url())
        .redis_timeout(Duration::from_millis(100))
        .build()
        .expect("the options are in range");
    let view: Versions = cache.view("v");
    view.write("k", 1).await.everywhere();
    let is_first = AtomicBool::new(true);
    let held = proxy.hold(move |frame| {
        frame.is_request("SET") && frame.contains("s:v:k") && is_first.swap(false, Ordering::SeqCst)
    });
    view.write("k", 2).await.queued();
    // The cache continues on the other thread of the runtime.
    until("the pending invalidation is replayed on another connection", || {
        (cache.coherence().pending_invalidations == 0).then_some(())
    });
    view.write("k", 3).await.everywhere();
    let given_up = held.arrival().await.connection;
    let replies = proxy.hold(move |frame| frame.connection == given_up && frame.is_reply("PUBLISH"));
    held.release();
    eventually("the request is answered, or its connection is closed", async || {
        replies.count() > 0 || !proxy.open().contains(&given_up)
    })
    .await;
    // The server closes a connection when it has executed what came on it. The question has a connection too.
    eventually("the server has closed it too", async || connections_of(&server) == proxy.open().len() + 1)
        .await;
    assert_eq!(node(server.url(), false).1.read("k").await.as_deref(), Some(&3));
}

/// Whether Redis has a key of the view.
fn has_keys(server: &RedisServer) -> bool {
    server.command("KEYS s:v:*").trim() != "*0"
}

/// Waits until there are no leases: long before they end by themselves.
async fn leases_are_released(server: &RedisServer) {
    let released = eventually("the leases are released", async || !has_keys(server));
    within(Duration::from_secs(5), "the release of leases, before they end", released).await;
}

#[tokio::test]
async fn lease_of_lookup_whose_reply_is_lost_is_released_at_once() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::with(&server, |options| options.lease_wait(PATIENCE)).await;
    let replies = fixture.proxy.hold(|frame| is_step_reply(frame, "s:v:k"));
    let (gate, far) = (Gate::closed(), fixture.far.clone());
    let passes = gate.clone();
    let loader = move |_| async move {
        passes.pass().await;
        Ok(1)
    };
    let load = tokio::spawn(async move { far.fetch("k").load(loader).await.map(|value| *value) });
    replies.arrival().await;
    assert!(has_keys(&server), "the lease");
    replies.lose_one();
    replies.release();
    leases_are_released(&server).await;
    let other = fixture.near.fetch("k").load(|_| async { Ok(2) }).await;
    assert_eq!(other.map(|value| *value).ok(), Some(2), "nobody has the lease");
    gate.open(1);
    assert_eq!(load.await.expect("no panic").ok(), Some(1));
}

#[tokio::test]
async fn leases_of_bulk_lookup_that_fails_in_the_middle_are_released_at_once() {
    let Some(server) = RedisServer::start() else { return };
    let fixture = Fixture::with(&server, |options| options.lease_wait(PATIENCE)).await;
    // The keys of one request at most, and one more.
    let keys: Vec<String> = (0..501).map(|n| format!("k{n}")).collect();
    let lookups = fixture.proxy.hold(|frame| is_step_request(frame, "s:v:k"));
    let (gate, far) = (Gate::closed(), fixture.far.clone());
    let passes = gate.clone();
    let load = tokio::spawn(async move {
        let loader = move |keys: Vec<String>, _| {
            let passes = passes.clone();
            async move {
                passes.pass().await;
                Ok(keys.into_iter().map(|key| (key, 1)).collect::<Vec<_>>())
            }
        };
        far.fetch_multi(keys.iter().map(String::as_str)).load(loader).await
    });
    lookups.arrival().await;
    lookups.release_one();
    eventually("the first part has its leases", async || has_keys(&server)).await;
    lookups.arrival().await;
    lookups.lose_one();
    lookups.release();
    leases_are_released(&server).await;
    gate.open(1);
    let loaded = load.await.expect("no panic");
    assert!(loaded.iter().all(|outcome| matches!(outcome, Ok(Some(value)) if **value == 1)));
}
