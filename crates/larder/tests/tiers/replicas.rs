//! Replicas that must acknowledge what a primary executes: one that was replaced has lost its replica.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with};
use larder::{Builder, Cache, Invalidation, View};
use larder_testkit::{Cluster, RedisServer, eventually};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::{TcpListener, UnixStream};

const MAX_LAG: Duration = Duration::from_millis(400);

/// A primary and its replica.
fn servers() -> Option<(RedisServer, RedisServer)> {
    let (primary, port) = RedisServer::start_with_port("--port", &[])?;
    let (replica, _) = replica_of(port)?;
    Some((primary, replica))
}

/// A replica of the server at this port, and its own port.
fn replica_of(port: u16) -> Option<(RedisServer, u16)> {
    let of = format!("127.0.0.1 {port}");
    let options = ["--replicaof", &of, "--repl-diskless-sync-delay", "0"];
    let (replica, port) = RedisServer::start_with_port("--port", &options)?;
    larder_testkit::until("the replica has copied the other server", || {
        replica.command("INFO replication").contains("master_link_status:up").then_some(())
    });
    Some((replica, port))
}

/// A node that serves nothing from memory without a proof.
fn node(url: String, change: impl FnOnce(Builder) -> Builder) -> Cache {
    node_with(url, |options| {
        let options = options.max_lag(MAX_LAG).disconnected(Duration::ZERO).ttl(Duration::from_secs(600));
        // A replica on a busy machine acknowledges later.
        change(options.redis_timeout(Duration::from_secs(2)))
    })
}

#[tokio::test]
async fn primary_whose_replica_was_promoted_misleads_no_node_with_the_fence() {
    let Some((former, promoted)) = servers() else { return };
    let fenced = node(former.url(), |options| options.replica_fence(1));
    let open = node(former.url(), |options| options);
    let next = node(promoted.url(), |options| options);
    let views: [View<str, u32>; 2] = [&fenced, &open].map(|cache| cache.view("n"));
    views[0].write("k", 1).await.everywhere();
    assert_eq!(cached(&views[1], "k").await, 1);
    eventually("the replica acknowledges", async || fenced.coherence().memory_trusted).await;

    assert_eq!(promoted.command("REPLICAOF NO ONE"), "+OK\r\n");
    let view: View<str, u32> = next.view("n");
    assert_eq!(cached(&view, "k").await, 1, "it was copied");
    view.delete("k").await.everywhere();
    tokio::time::sleep(MAX_LAG).await;
    assert_eq!(views[0].read("k").await.as_deref(), None, "the former primary still has the value");
    assert_eq!(fetched(&views[0], "k", 2).await, 2, "loaded");
    assert_eq!(views[1].read("k").await.as_deref(), Some(&1), "nobody tells this node");
    views[0].delete("other").await.queued();
}

/// A service that gives its name to the promoted server, and leaves the connections to the former one open.
#[tokio::test]
async fn node_follows_an_address_that_leads_to_the_promoted_server() {
    let Some((former, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let (promoted, port) = replica_of(port).expect("as above");
    // The fence needs a replica of the next primary too.
    let _last = replica_of(port).expect("as above");
    let leads_to = Arc::new(Mutex::new(former.socket()));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    let place = leads_to.clone();
    tokio::spawn(async move {
        while let Ok((mut client, _)) = listener.accept().await {
            let socket = place.lock().expect("no panic").clone();
            tokio::spawn(async move {
                let mut server = UnixStream::connect(socket).await?;
                tokio::io::copy_bidirectional(&mut client, &mut server).await
            });
        }
    });
    let cache = node(url, |options| options.replica_fence(1));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();

    assert_eq!(promoted.command("REPLICAOF NO ONE"), "+OK\r\n");
    *leads_to.lock().expect("no panic") = promoted.socket();
    eventually("it writes to the promoted server", async || {
        view.write("k", 2).await.is_ok_and(|reach| reach.is_everywhere())
    })
    .await;
    assert!(promoted.command("GET test:n:k") != former.command("GET test:n:k"));
    eventually("its memory is trusted", async || cache.coherence().memory_trusted).await;
}

#[tokio::test]
async fn mutation_that_no_replica_acknowledges_is_repeated() {
    let Some((primary, replica)) = servers() else { return };
    let cache = node(primary.url(), |options| options.replica_fence(1));
    let view: View<str, u32> = cache.view("n");
    for (key, value) in [("a", 1), ("b", 2)] {
        view.write(key, value).await.everywhere();
    }
    eventually("the replica acknowledges", async || cache.coherence().memory_trusted).await;
    assert_eq!(
        replica.command("EXISTS test:n:a test:n:b"),
        ":2\r\n",
        "a write is everywhere once it is there"
    );

    replica.pause();
    view.delete("a").await.queued();
    cache.invalidate_tags(["t"], Invalidation::Hard).await.queued();
    eventually("nothing is proved", async || !cache.coherence().memory_trusted).await;
    let problem = cache.coherence().problem.expect("there is no proof").to_string();
    assert_eq!(problem, "replicas that acknowledge a write: 0; the fence needs 1");
    assert_eq!(fetched(&view, "b", 3).await, 3, "the server may be a former primary: it is not read");

    replica.resume();
    eventually("the invalidations are repeated", async || cache.coherence().pending_invalidations == 0).await;
    eventually("the replica acknowledges again", async || cache.coherence().memory_trusted).await;
    assert_eq!(primary.command("EXISTS test:n:a"), ":0\r\n");
    view.delete("b").await.everywhere();
}

#[tokio::test]
async fn each_primary_of_a_cluster_needs_its_replica() {
    let Some(mut cluster) = Cluster::start() else { return };
    let cache = node(cluster.url(), |options| options.replica_fence(1));
    let view: View<u32, u32> = cache.view("n");
    let owner = |key: u32| cluster.owner_of(&format!("test:n:{key}"));
    let lost = owner(0);
    let elsewhere = (1..).find(|key| owner(*key) != lost).expect("there are three primaries");
    let replica = cluster.replica_of(lost);
    eventually("a write is confirmed", async || {
        view.write(&0, 1).await.is_ok_and(|reach| reach.is_everywhere())
    })
    .await;
    let all: Vec<u32> = (0..100).collect();
    view.delete_multi(&all).await.everywhere();
    eventually("all replicas acknowledge", async || cache.coherence().memory_trusted).await;

    cluster.pause(replica);
    view.delete(&0).await.queued();
    view.delete(&elsewhere).await.everywhere();
    eventually("one primary proves nothing", async || !cache.coherence().memory_trusted).await;
    cluster.resume(replica);
    eventually("the deletion is repeated", async || cache.coherence().pending_invalidations == 0).await;
    eventually("all replicas acknowledge again", async || cache.coherence().memory_trusted).await;
}
