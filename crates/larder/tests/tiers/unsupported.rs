//! Servers without what coherent nodes require, and users who may not use it: nothing is cached there, no mutation is
//! confirmed, and a node is coherent again once a supported server answers.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with};
use larder::{
    Builder, Cache, CacheError, CoherenceMode, Committed, Event, Invalidation, Policy, Reach, Requirement,
    SharedFetch, Validity, View, WriteOptions,
};
use larder_testkit::{Gate, PATIENCE, RedisServer, eventually};
use std::net::TcpListener;
use std::time::Duration;

/// Lets a user run every command but these.
fn allow_all_but(server: &RedisServer, commands: &str) {
    let reply = server.command(&format!("ACL SETUSER limited reset on nopass ~* &* +@all {commands}"));
    assert_eq!(reply, "+OK\r\n", "{commands}");
}

/// A node of that user.
fn limited(server: &RedisServer, change: impl FnOnce(Builder) -> Builder) -> Cache {
    node_with(format!("{}?user=limited&pass=any", server.url()), |options| {
        change(options.max_lag(Duration::from_millis(100)).redis_timeout(PATIENCE))
    })
}

/// A server whose user may not run scripts, and a node of the user.
fn without_scripts(change: impl FnOnce(Builder) -> Builder) -> Option<(RedisServer, Cache)> {
    let server = RedisServer::start()?;
    allow_all_but(&server, "-@scripting");
    let cache = limited(&server, change);
    Some((server, cache))
}

/// The keys in Redis, but for those of the coherence task.
fn keys(server: &RedisServer) -> Vec<String> {
    let reply = server.command("KEYS *");
    let keys = reply.lines().skip(1).filter(|line| !line.starts_with('$'));
    keys.filter(|key| !key.starts_with("test::")).map(str::to_owned).collect()
}

#[track_caller]
fn is_refused<T: std::fmt::Debug>(result: Result<T, CacheError>, lacks: Requirement) {
    assert!(matches!(result, Err(CacheError::Unsupported(what)) if what == lacks), "{result:?}");
}

#[tokio::test]
async fn mode_and_one_event_name_what_the_server_lacks() {
    for (commands, lacks) in [
        ("-eval", Requirement::Scripts),
        ("-evalsha", Requirement::Scripts),
        ("-@scripting", Requirement::Scripts),
        ("-publish", Requirement::PublishSubscribe),
        ("-subscribe", Requirement::PublishSubscribe),
        ("resetchannels", Requirement::PublishSubscribe),
        ("-@sortedset", Requirement::SortedSets),
        ("-client|tracking", Requirement::Tracking),
    ] {
        let Some(server) = RedisServer::start() else { return };
        allow_all_but(&server, commands);
        let cache = limited(&server, |options| options.foreign_writers(true));
        let mut events = cache.events();
        let view: View<str, u32> = cache.view("n");
        assert_eq!(fetched(&view, "k", 1).await, 1, "{commands}");
        assert_eq!(cache.coherence().mode, CoherenceMode::Unsupported(lacks), "{commands}");
        assert!(!cache.coherence().memory_trusted);
        assert_eq!(events.recv().await, Ok(Event::Unsupported { lacks }), "{commands}");
        // Each attempt to connect sends some.
        let hellos = || {
            let stats = server.command("INFO commandstats");
            let calls = stats.split_once("cmdstat_hello:calls=").and_then(|(_, rest)| rest.split(',').next());
            calls.and_then(|calls| calls.parse::<u64>().ok()).expect("the node has connected")
        };
        let before = hellos();
        eventually("the node asks again", async || hellos() >= before + 5).await;
        let more = std::iter::from_fn(|| events.try_recv().ok()).find(|e| !matches!(e, Event::Loaded { .. }));
        assert_eq!(more, None, "{commands}");
    }
}

#[tokio::test]
async fn server_whose_commands_are_renamed_is_unsupported() {
    for (command, lacks) in [
        ("EVAL", Requirement::Scripts),
        ("EVALSHA", Requirement::Scripts),
        ("PUBLISH", Requirement::PublishSubscribe),
        ("ZMSCORE", Requirement::SortedSets),
    ] {
        let renamed = ["--rename-command", command, ""];
        let Some(server) = RedisServer::start_with(&renamed) else { return };
        let cache = node_with(server.url(), |options| options.redis_timeout(PATIENCE));
        let view: View<str, u32> = cache.view("n");
        is_refused(view.write("k", 1).await, lacks);
        assert_eq!(cache.coherence().mode, CoherenceMode::Unsupported(lacks));
        assert_eq!(keys(&server), [""; 0], "{command}");
    }
}

/// The first attempt to connect fails, and the next one comes late: requests are not faster than it.
#[tokio::test]
async fn server_that_was_not_checked_gets_no_request() {
    let renamed = ["--rename-command", "EVALSHA", ""];
    let Some(mut server) = RedisServer::start_with(&renamed) else { return };
    server.kill();
    let cache = node_with(server.url(), |options| options.redis_timeout(PATIENCE));
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.queued();
    // The pauses between attempts get longer.
    tokio::time::sleep(Duration::from_millis(800)).await;
    server.restart();
    eventually("it is checked", async || match view.write("k", 2).await {
        Ok(reach) => {
            assert_eq!(reach, Reach::HereAndQueued);
            false
        }
        Err(error) => {
            is_refused::<()>(Err(error), Requirement::Scripts);
            true
        }
    })
    .await;
    assert_eq!(keys(&server), [""; 0]);
}

#[tokio::test]
async fn node_of_cluster_is_unsupported() {
    // The cluster bus needs ports.
    let port =
        || TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a port");
    let (port, bus) = (port().port().to_string(), port().port().to_string());
    let options = ["--cluster-enabled", "yes", "--port", &port, "--cluster-port", &bus];
    let Some(server) = RedisServer::start_with(&options) else { return };
    let cache = node_with(server.url(), |options| options);
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "the cache works without it");
    is_refused(view.delete("k").await, Requirement::OneServer);
    assert_eq!(cache.coherence().mode, CoherenceMode::Unsupported(Requirement::OneServer));
}

#[tokio::test]
async fn each_fetch_loads_and_nothing_is_read_or_written() {
    let Some((server, cache)) = without_scripts(|options| options) else { return };
    let supported: View<str, u32> = node_with(server.url(), |options| options).view("n");
    assert!(supported.write("old", 1).await.is_ok());
    let view: View<str, u32> = cache.view("n");
    for round in 0..3 {
        assert_eq!(fetched(&view, "k", round).await, round);
        assert_eq!(fetched(&view, "old", 10 + round).await, 10 + round, "old keys stay unread");
        let many = view.fetch_multi(["a", "old"]).load(move |names, _| async move {
            Ok(names.into_iter().map(|name| (name, round)).collect::<Vec<_>>())
        });
        let many = many.await.into_iter().map(|found| found.ok().flatten().map(|found| *found));
        assert_eq!(many.collect::<Vec<_>>(), [Some(round), Some(round)]);
        assert!(view.read("k").await.is_none() && view.read("old").await.is_none());
        assert!(view.read_multi(["a", "old"]).await.iter().all(Option::is_none));
    }
    assert_eq!(keys(&server), ["test:n:old"]);
}

#[tokio::test]
async fn uncoordinated_memory_answers_where_it_is_allowed() {
    let Some((server, cache)) = without_scripts(|options| options.allow_uncoordinated(true)) else { return };
    let supported: View<str, u32> = node_with(server.url(), |options| options).view("n");
    assert!(supported.write("old", 1).await.is_ok());
    let view: View<str, u32> = cache.view("n").with_tag("t");
    let gate = Gate::closed();
    let loading = crate::gated(&view, &gate, 1);
    gate.arrival().await;
    let following = crate::gated(&view, &gate, 2);
    crate::misses_reach(&cache, 2).await;
    gate.open(1);
    assert_eq!((loading.await.expect("no panic"), following.await.expect("no panic")), (1, 1), "one load");
    assert_eq!(fetched(&view, "old", 2).await, 2, "redis is not read");
    // Longer than a liveness proof would cover.
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_eq!((cached(&view, "k").await, cached(&view, "old").await), (1, 2));
    assert_eq!(view.read("k").await.as_deref(), Some(&1));
    assert!(cache.coherence().memory_trusted);
    for changed in ["delete", "write", "take", "expire", "update", "touch", "tag", "clear", "pattern"] {
        assert_eq!(fetched(&view, "k", 1).await, 1);
        let lacks = Requirement::Scripts;
        match changed {
            "delete" => is_refused(view.delete("k").await, lacks),
            "write" => is_refused(view.write("k", 3).await, lacks),
            "take" => is_refused(view.take("k").await.map(|taken| taken.is_some()), lacks),
            "expire" => is_refused(view.expire("k").await, lacks),
            "update" => is_refused(view.update("k", |_| panic!("it has no redis")).await, lacks),
            "touch" => is_refused(view.touch("k", Policy::new()).await, lacks),
            "tag" => is_refused(cache.invalidate_tags(["t"], Invalidation::Hard).await, lacks),
            "clear" => is_refused(cache.clear().await, lacks),
            _ => is_refused(cache.delete_matched("n:k").await, lacks),
        }
        assert!(view.read("k").await.is_none(), "{changed} removes it from memory");
        assert_eq!(cache.coherence().pending_invalidations, 0, "{changed} is not queued");
    }
    assert_eq!(keys(&server), ["test:n:old"]);
}

#[tokio::test]
async fn mutations_counters_and_raw_values_are_errors() {
    let Some((server, cache)) = without_scripts(|options| options) else { return };
    let lacks = Requirement::Scripts;
    // The first call of a cache that has not connected yet.
    is_refused(cache.increment("c", 1).await, lacks);
    let raw = cache.raw::<str>("raw");
    is_refused(raw.write("k", "bytes", Duration::from_secs(60)).await, lacks);
    is_refused(raw.read("k").await, lacks);
    is_refused(raw.delete("k").await, lacks);
    let counters = cache.counters::<str>("c");
    is_refused(counters.read("k").await, lacks);
    is_refused(counters.delete("k").await, lacks);
    let view: View<str, u32> = cache.view("n");
    is_refused(view.write_multi([("a", 1), ("b", 2)]).await, lacks);
    is_refused(view.add("k", 1).await, lacks);
    is_refused(view.take("k").await.map(|taken| taken.is_some()), lacks);
    is_refused(view.expire("k").await, lacks);
    is_refused(view.update("k", |_| panic!("it has no redis")).await, lacks);
    is_refused(view.touch("k", Policy::new()).await, lacks);
    is_refused(view.delete_multi(["a", "b"]).await, lacks);
    is_refused(cache.space("eu").clear().await, lacks);
    cache.set_enabled(false);
    is_refused(view.write("k", 1).await, lacks);
    assert_eq!(view.add("k", 1).await.ok(), Some(false), "it is turned off");
    cache.set_enabled(true);
    assert_eq!(fetched(&view, "k", 1).await, 1);
    assert!(view.read("k").await.is_none(), "turning it on makes no server supported");
    assert_eq!(keys(&server), [""; 0]);
    assert_eq!(cache.close(PATIENCE).await, 0);
}

#[tokio::test]
async fn shared_bytes_stay_with_their_caller() {
    for is_allowed in [false, true] {
        let change = |options: Builder| options.allow_uncoordinated(is_allowed);
        let Some((server, cache)) = without_scripts(change) else { return };
        let view = cache.shared("s");
        let SharedFetch::Lease(lease) = view.fetch(b"k").await else { panic!("redis has nothing") };
        let Committed::Here(copy) = lease.commit(b"bytes".to_vec(), &WriteOptions::new()).await else {
            panic!("redis may not have them")
        };
        let validity = if is_allowed { Validity::Valid } else { Validity::Unknown };
        assert_eq!((view.validity(&copy), view.revalidate(b"k", &copy).await), (validity, validity));
        assert_eq!(view.serves_copies(), is_allowed);
        is_refused(view.delete(b"k").await, Requirement::Scripts);
        assert_ne!(view.validity(&copy), Validity::Valid);
        assert_eq!(keys(&server), [""; 0]);
    }
}

/// What memory answered meanwhile is compared with Redis, and the tag that could not be invalidated serves again.
#[tokio::test]
async fn node_is_coherent_again_once_the_user_may_use_all() {
    for is_allowed in [false, true] {
        let change = |options: Builder| options.allow_uncoordinated(is_allowed);
        let Some((server, cache)) = without_scripts(change) else { return };
        let view: View<str, u32> = cache.view("n").with_tag("t");
        assert_eq!(fetched(&view, "k", 1).await, 1);
        is_refused(cache.invalidate_tags(["t"], Invalidation::Hard).await, Requirement::Scripts);
        assert_eq!(fetched(&view, "k", 1).await, 1);
        let other: View<str, u32> = node_with(server.url(), |options| options).view("n").with_tag("t");
        assert!(other.write("k", 2).await.is_ok());
        let mut events = cache.events();
        allow_all_but(&server, "");
        eventually("it is coherent", async || cache.coherence().mode == CoherenceMode::Full).await;
        assert_eq!(events.recv().await, Ok(Event::Connected));
        assert_eq!(cached(&view, "k").await, 2, "not what memory has");
        assert!(view.write("k", 3).await.is_ok_and(|reach| reach.is_everywhere()));
        eventually("it reaches the other node", async || other.read("k").await.as_deref() == Some(&3)).await;
    }
}

/// A coherent node meets an unsupported server at the same address, and later a supported one.
#[tokio::test]
async fn replaced_server_is_asked_for_what_it_has() {
    let Some(mut server) = RedisServer::start() else { return };
    allow_all_but(&server, "");
    let cache = limited(&server, |options| options);
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1);
    assert!(view.write("k", 1).await.is_ok_and(|reach| reach.is_everywhere()));
    server.pause();
    let waiting = {
        let view = view.clone();
        tokio::spawn(async move { view.delete("pending").await })
    };
    eventually("the request is on its way", async || !waiting.is_finished()).await;
    server.kill();
    assert!(waiting.await.expect("no panic").is_ok_and(|removal| !removal.reach.is_everywhere()));
    assert_eq!(cache.coherence().pending_invalidations, 1);
    server.restart();
    allow_all_but(&server, "-publish");
    let lacks = Requirement::PublishSubscribe;
    let is_unsupported = async || cache.coherence().mode == CoherenceMode::Unsupported(lacks);
    eventually("the other server is unsupported", is_unsupported).await;
    assert_eq!((fetched(&view, "k", 2).await, fetched(&view, "k", 3).await), (2, 3));
    is_refused(view.delete("k").await, lacks);
    assert_eq!(cache.coherence().pending_invalidations, 1, "it waits for a supported server");
    assert_eq!(keys(&server), [""; 0]);
    server.restart();
    allow_all_but(&server, "");
    eventually("it is coherent", async || cache.coherence().mode == CoherenceMode::Full).await;
    eventually("it is replayed", async || cache.coherence().pending_invalidations == 0).await;
    assert!(view.write("k", 4).await.is_ok_and(|reach| reach.is_everywhere()));
    assert_eq!(cached(&view, "k").await, 4);
}
