//! A purge on one replica reaches the others: at once here, within the lag there.

use std::sync::Arc;
use std::time::{Duration, Instant};

use http::StatusCode;
use larder::{Invalidation, Reach, View};
use larder_http::Cached;
use larder_testkit::{Gate, RedisServer, eventually};

use crate::support::{LAG, MINUTE, Replica, cached, plain, tagged};

/// Expects the entry of `target` on both replicas to be purged by `purge` on the first one, and `other` not to be.
async fn purges<F: Future<Output = Reach>>(
    target: &str,
    other: &str,
    purge: impl FnOnce(larder_http::SharedHttpCache) -> F,
) {
    let Some(server) = RedisServer::start() else { return };
    let [first, second] = Replica::site(&server);
    for uri in [target, other] {
        assert_eq!(
            (first.body(uri).await, second.body(uri).await),
            (first.body(uri).await, first.body(uri).await)
        );
    }
    let (old, kept) = (first.body(target).await, first.body(other).await);
    let purged_at = Instant::now();
    assert_eq!(purge(first.cache.clone()).await, Reach::Everywhere);
    let new = first.body(target).await;
    assert_ne!(new, old, "at once on this replica");
    eventually("the other replica forgets", async || second.body(target).await == new).await;
    // Generous on a busy machine; the checker of crate `larder` proves the lag.
    assert!(purged_at.elapsed() < 25 * LAG, "{:?}", purged_at.elapsed());
    assert_eq!((first.body(other).await, second.body(other).await), (kept.clone(), kept));
    assert_eq!(first.calls() + second.calls(), 3, "one handler for each entry, and one after the purge");
}

#[tokio::test]
async fn purge_of_uri_reaches_other_replicas() {
    purges("/a?b", "/a", async |cache| cache.purge_uri("http://site.example/a?b").await.unwrap()).await;
}

#[tokio::test]
async fn purge_of_prefix_reaches_other_replicas() {
    purges("/shop/1/2", "/shopping", async |cache| {
        cache.purge_prefix("http://site.example/shop/").await.unwrap()
    })
    .await;
}

#[tokio::test]
async fn purge_of_tag_reaches_other_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let [first, second] = Replica::site(&server);
    assert_eq!((first.body("/a").await, second.body("/a").await), ("0:1".into(), "0:1".into()));
    assert!(first.cache.purge_tag("other").await.is_everywhere());
    assert_eq!((first.body("/a").await, second.body("/a").await), ("0:1".into(), "0:1".into()));
    assert!(second.cache.purge_tag("t").await.is_everywhere());
    assert_eq!(second.body("/a").await, "1:1");
    eventually("the other replica forgets", async || first.body("/a").await == "1:1").await;
    let long = "long".repeat(100);
    assert!(second.cache.purge_tag(&long).await.is_everywhere());
}

#[tokio::test]
async fn purge_of_all_reaches_other_replicas_and_frees_their_memory() {
    let Some(server) = RedisServer::start() else { return };
    let [first, second] = Replica::site(&server);
    let view: View<str, u32> = first.redis.view("n");
    assert!(view.write("k", 1).await.unwrap().is_everywhere());
    assert_eq!((first.body("/a").await, second.body("/a").await), ("0:1".into(), "0:1".into()));
    assert!(first.cache.purge_all().await.is_everywhere());
    assert_eq!(first.cache.stats().entries, 0);
    eventually("the other store is empty", async || second.cache.stats().entries == 0).await;
    assert_eq!(second.body("/a").await, "1:1");
    assert_eq!(view.read("k").await.as_deref(), Some(&1), "other values of the namespace stay");
}

/// One ledger: what invalidates values purges the responses that were made of them.
#[tokio::test]
async fn tag_of_values_purges_responses() {
    let Some(server) = RedisServer::start() else { return };
    let [first, second] = Replica::site(&server);
    assert_eq!(first.body("/a").await, "0:1");
    let reach = second.redis.invalidate_tags(["t"], Invalidation::Hard).await.unwrap();
    assert_eq!(reach, Reach::Everywhere);
    eventually("the response is purged", async || first.body("/a").await == "0:2").await;
}

#[tokio::test]
async fn softly_invalidated_response_is_served_stale_and_refreshed() {
    let Some(server) = RedisServer::start() else { return };
    let handler = |_, call| async move {
        let settings = larder_http::Cached::ttl(crate::support::MINUTE).swr(crate::support::MINUTE).tag("t");
        crate::support::cached(format!("{call}"), settings)
    };
    let first = Replica::new(server.url(), handler);
    assert_eq!(first.body("/a").await, "1");
    assert!(first.redis.invalidate_tags(["t"], Invalidation::Soft).await.unwrap().is_everywhere());
    let stale = first.get("/a").await;
    assert_eq!((&*stale.body, stale.outcome.as_str()), ("1", "stale"));
    eventually("it is refreshed", async || first.body("/a").await == "2").await;
}

/// It began at the end of the time to live.
#[tokio::test]
async fn grace_of_softly_purged_responses_begins_at_the_purge() {
    let Some(server) = RedisServer::start() else { return };
    let replicas = [true, false].map(|may_fill| {
        Replica::new(server.url(), move |_, call| async move {
            match may_fill && call == 1 {
                true => cached("old", Cached::ttl(MINUTE).swr(Duration::from_secs(1)).tag("t")),
                false => {
                    let mut reply = plain("down");
                    *reply.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
                    reply
                }
            }
        })
    });
    for replica in &replicas {
        assert_eq!(replica.body("/a").await, "old");
    }
    assert!(replicas[0].redis.invalidate_tags(["t"], Invalidation::Soft).await.unwrap().is_everywhere());
    for replica in &replicas {
        eventually("the grace period is over", async || replica.body("/a").await == "down").await;
    }
}

#[tokio::test]
async fn prefix_without_a_tag_is_refused() {
    let Some(server) = RedisServer::start() else { return };
    let [replica] = Replica::site(&server);
    for (prefix, reason) in [
        ("http://site.example/shop", "ends with a slash"),
        ("http://site.example/1/2/3/4/5/6/7/8/", "at most 8 slashes"),
        ("http://site.example/?q", "no query"),
        ("/shop/", "absolute"),
    ] {
        let error = replica.cache.purge_prefix(prefix).await.unwrap_err().to_string();
        assert!(error.contains(reason), "{error}");
    }
    let deepest = replica.cache.purge_prefix("http://site.example/1/2/3/4/5/6/7/").await;
    assert_eq!(deepest, Ok(Reach::Everywhere));
    assert!(replica.cache.purge_uri("/a").await.is_err());
}

#[tokio::test]
async fn fill_that_was_running_during_a_purge_elsewhere_is_stored_nowhere() {
    let Some(server) = RedisServer::start() else { return };
    let gate = Gate::closed();
    let passing = gate.clone();
    let slow = Arc::new(Replica::new(server.url(), move |_, call| {
        let gate = passing.clone();
        async move {
            gate.pass().await;
            tagged(format!("slow {call}"))
        }
    }));
    let [other] = Replica::site(&server);
    let filling = tokio::spawn({
        let slow = slow.clone();
        async move { slow.body("/a").await }
    });
    gate.arrival().await;
    assert!(other.cache.purge_tag("t").await.is_everywhere());
    gate.open(1);
    assert_eq!(filling.await.unwrap(), "slow 1", "its client asked before");
    assert_eq!(other.body("/a").await, "0:1", "not in redis");
    eventually("nor on its replica", async || {
        gate.open(1);
        slow.body("/a").await == "0:1"
    })
    .await;
}

#[tokio::test]
async fn unsafe_method_invalidates_its_uri_on_other_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let [first, second] = Replica::site(&server);
    assert_eq!((first.body("/a").await, second.body("/a").await), ("0:1".into(), "0:1".into()));
    first.send("POST", "/a", &[]).await;
    let new = first.body("/a").await;
    assert_ne!(new, "0:1", "at once on this replica");
    eventually("the other replica forgets", async || second.body("/a").await != "0:1").await;
}

/// The client has left, and what is left of its request is dropped by a thread that knows of no runtime.
#[tokio::test]
async fn unsafe_request_that_is_dropped_elsewhere_invalidates_its_uri_on_other_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let [other] = Replica::site(&server);
    let first = Replica::new(server.url(), |request, call| async move {
        if request.method() == http::Method::POST {
            std::future::pending::<()>().await;
        }
        tagged(format!("first {call}"))
    });
    assert_eq!((other.body("/a").await, first.body("/a").await), ("0:1".into(), "0:1".into()));
    let request = http::Request::post("/a").header("host", "site.example").body(String::new()).unwrap();
    let mut posted = Box::pin(tower::ServiceExt::oneshot(first.service.clone(), request));
    let is_pending =
        std::future::poll_fn(|cx| std::task::Poll::Ready(posted.as_mut().poll(cx).is_pending())).await;
    assert!(is_pending && first.calls() == 1, "its handler runs");
    std::thread::spawn(move || drop(posted)).join().unwrap();
    assert_eq!(first.body("/a").await, "first 2", "at once on this replica");
    eventually("the other replica forgets", async || other.body("/a").await != "0:1").await;
}

#[tokio::test]
async fn purge_by_a_handler_reaches_other_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let [other] = Replica::site(&server);
    let first = Replica::new(server.url(), |request, call| {
        if request.method() == http::Method::POST {
            let ctx = request.extensions().get::<larder_http::CacheCtx>().expect("behind the cache");
            ctx.purge_tag("t");
        }
        async move { tagged(format!("first {call}")) }
    });
    assert_eq!((other.body("/a").await, first.body("/a").await), ("0:1".into(), "0:1".into()));
    first.send("POST", "/orders", &[]).await;
    assert_eq!(first.body("/a").await, "first 2", "at once on this replica");
    // Not always "first 2": what is filled before Redis confirms the purge is purged too.
    eventually("the other replica forgets", async || other.body("/a").await != "0:1").await;
}

/// The request has left its context to a thread of the application, which knows of no runtime.
#[tokio::test]
async fn purge_by_a_thread_of_a_handler_reaches_other_replicas() {
    let Some(server) = RedisServer::start() else { return };
    let [other] = Replica::site(&server);
    let (contexts, received) = std::sync::mpsc::channel();
    let first = Replica::new(server.url(), move |request, call| {
        let ctx = request.extensions().get::<larder_http::CacheCtx>().expect("behind the cache");
        contexts.send(ctx.clone()).unwrap();
        async move { tagged(format!("first {call}")) }
    });
    first.send("POST", "/orders", &[]).await;
    let ctx = received.recv().unwrap();
    assert_eq!((other.body("/a").await, first.body("/a").await), ("0:1".into(), "0:1".into()));
    std::thread::spawn(move || ctx.purge_tag("t")).join().unwrap();
    assert_eq!(first.body("/a").await, "first 2", "at once on this replica");
    eventually("the other replica forgets", async || other.body("/a").await != "0:1").await;
}
