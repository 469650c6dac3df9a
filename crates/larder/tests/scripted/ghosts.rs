//! A connection that is given up may still bring what was sent on it: not behind what was sent on the next one.

use crate::{Versions, node};
use larder::Cache;
use larder_testkit::{Director, RedisServer, until};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::time::sleep;

/// How long held requests take to arrive once they are let go; much longer than they need.
const ARRIVAL: Duration = Duration::from_millis(200);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_given_up_is_not_done_behind_what_came_later() {
    let Some(server) = RedisServer::start() else { return };
    let director = Director::before(&server);
    let cache = Cache::builder("s")
        .ttl(Duration::from_secs(600))
        .redis(director.url())
        .redis_timeout(Duration::from_millis(100))
        .build()
        .expect("the options are in range");
    let view: Versions = cache.view("v");
    view.write("k", 1).await.expect("written");
    let is_first = AtomicBool::new(true);
    let held =
        director.hold(move |frame| frame.is_request("MULTI") && is_first.swap(false, Ordering::SeqCst));
    view.write("k", 2).await.expect_err("no answer comes");
    // On the runtime's other thread the cache goes on.
    until("what is owed is done on another connection", || {
        (cache.coherence().pending_invalidations == 0).then_some(())
    });
    view.write("k", 3).await.expect("written");
    held.release();
    sleep(ARRIVAL).await;
    assert_eq!(node(server.url(), false).1.read("k").await.as_deref(), Some(&3));
}
