//! What a replica has on disk may have been changed or purged by others meanwhile: it is only offered to the origin.

use std::path::Path;

use http::{Request, StatusCode};
use larder_http::{Cached, Outcome, Profile};
use larder_testkit::{RedisServer, eventually};
use tempfile::tempdir;

use crate::support::{MINUTE, Replica, Reply, cached, field, plain};

/// An origin with one version of its response, which it validates.
fn origin(version: u32) -> impl Fn(Request<String>, usize) -> std::future::Ready<Reply> + Send + Sync {
    move |request, _| {
        let etag = format!("\"{version}\"");
        let is_current = request.headers().get("if-none-match").is_some_and(|known| *known == *etag);
        let mut reply = cached(
            if is_current { String::new() } else { version.to_string() },
            Cached::ttl(MINUTE).tag("t"),
        );
        *reply.status_mut() = if is_current { StatusCode::NOT_MODIFIED } else { StatusCode::OK };
        std::future::ready(field(
            field(reply, "cache-control", "max-age=1000, stale-if-error=1000"),
            "etag",
            &etag,
        ))
    }
}

fn replica<F>(
    server: &RedisServer,
    folder: &Path,
    handler: impl Fn(Request<String>, usize) -> F + Send + Sync + 'static,
) -> Replica
where
    F: Future<Output = Reply> + Send + 'static,
{
    let with_disk = |shared: larder_http::SharedBuilder| {
        shared.options(|builder| builder.profile(Profile::Rfc).disk(folder, 64 << 20))
    };
    Replica::with(server.url(), |redis| redis, with_disk, handler)
}

async fn writes(replica: &Replica, count: u64) {
    eventually("entries are on disk", async || replica.cache.stats().disk.unwrap().writes >= count).await;
}

/// A replica that has stored the first version, and has ended.
async fn stored(server: &RedisServer, folder: &Path) {
    let first = replica(server, folder, origin(1));
    assert_eq!(first.body("/a").await, "1");
    writes(&first, 1).await;
}

#[tokio::test]
async fn response_on_disk_is_validated_by_its_origin() {
    let (Some(server), Some(empty)) = (RedisServer::start(), RedisServer::start()) else { return };
    let folder = tempdir().unwrap();
    stored(&server, folder.path()).await;
    let second = replica(&empty, folder.path(), origin(1));
    let found = second.get("/a").await;
    assert_eq!((&*found.body, found.outcome, second.calls()), ("1", Outcome::Validated, 1));
    assert!(matches!(second.get("/a").await.outcome, Outcome::Hit { .. }));
}

#[tokio::test]
async fn response_in_redis_is_not_read_from_disk() {
    let Some(server) = RedisServer::start() else { return };
    let folder = tempdir().unwrap();
    stored(&server, folder.path()).await;
    let second = replica(&server, folder.path(), origin(1));
    let found = second.get("/a").await;
    assert!(matches!(found.outcome, Outcome::Shared { .. }), "{:?}", found.outcome);
    assert_eq!(second.calls(), 0);
}

#[tokio::test]
async fn purge_by_another_replica_covers_what_is_on_disk() {
    let Some(server) = RedisServer::start() else { return };
    let folder = tempdir().unwrap();
    stored(&server, folder.path()).await;
    let other = Replica::new(server.url(), origin(2));
    assert!(other.cache.purge_tag("t").await.is_everywhere());
    let second = replica(&server, folder.path(), origin(2));
    assert_eq!(second.body("/a").await, "2");
}

#[tokio::test]
async fn response_on_disk_is_not_served_if_its_origin_fails() {
    let (Some(server), Some(empty)) = (RedisServer::start(), RedisServer::start()) else { return };
    let folder = tempdir().unwrap();
    stored(&server, folder.path()).await;
    let second = replica(&empty, folder.path(), |_, _| async {
        let mut reply = plain("down");
        *reply.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
        reply
    });
    for fields in
        [&[][..], &[("cache-control", "max-stale=10000")], &[("cache-control", "stale-if-error=10000")]]
    {
        assert_eq!(second.send("GET", "/a", fields).await.body, "down", "{fields:?}");
    }
    for (method, fields) in [("HEAD", &[][..]), ("GET", &[("range", "bytes=0-0")])] {
        let found = second.send(method, "/a", fields).await;
        assert_eq!(found.status, StatusCode::SERVICE_UNAVAILABLE, "{method}");
    }
    let found = second.send("GET", "/a", &[("cache-control", "only-if-cached")]).await;
    assert_eq!(found.status, StatusCode::GATEWAY_TIMEOUT);
}

/// Nobody could validate them.
#[tokio::test]
async fn responses_without_an_origin_that_validates_are_not_written() {
    let Some(server) = RedisServer::start() else { return };
    let folder = tempdir().unwrap();
    let first = replica(&server, folder.path(), |request, _| async move {
        let reply = field(plain("x"), "cache-control", "max-age=1000");
        match request.uri().path() {
            "/varies" => field(field(reply, "etag", "\"1\""), "vary", "accept"),
            "/validated" => field(reply, "etag", "\"1\""),
            _ => reply,
        }
    });
    for target in ["/varies", "/plain", "/validated"] {
        first.get(target).await;
    }
    writes(&first, 1).await;
    drop(first);
    let next = replica(&server, folder.path(), origin(1));
    assert_eq!(next.cache.stats().disk.unwrap().entries, 1);
}
