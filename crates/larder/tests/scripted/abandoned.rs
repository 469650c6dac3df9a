//! Requests of an abandoned connection may still arrive, but not after requests of the next connection.

use crate::mutation::Mutation;
use crate::{Versions, node};
use larder::Cache;
use larder_testkit::{RedisServer, ScriptedProxy, eventually, until};
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
    let held = proxy.hold(move |frame| frame.is_request("MULTI") && is_first.swap(false, Ordering::SeqCst));
    view.write("k", 2).await.queued();
    // The cache continues on the other thread of the runtime.
    until("the pending invalidation is replayed on another connection", || {
        (cache.coherence().pending_invalidations == 0).then_some(())
    });
    view.write("k", 3).await.everywhere();
    let given_up = held.arrival().await.connection;
    let replies = proxy.hold(move |frame| frame.connection == given_up && frame.is_reply("EXEC"));
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
