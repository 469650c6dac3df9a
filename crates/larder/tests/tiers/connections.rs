//! What a connection that is closed, slow or unusable costs.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over};
use larder::{Cache, Invalidation, View};
use larder_testkit::{RedisServer, eventually, within};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::task::JoinSet;

/// Closes every connection but those that subscribe.
fn close_connections(server: &RedisServer) {
    assert_ne!(server.command("CLIENT KILL TYPE normal"), ":0\r\n");
}

/// Operations of a node that Redis and the breaker let through.
async fn works(cache: &Cache, view: &View<str, u32>) {
    view.write("k", 1).await.everywhere();
    view.delete("k").await.everywhere();
    cache.invalidate_tags(["t"], Invalidation::Hard).await.everywhere();
    assert_eq!(cache.stats().redis.map(|redis| redis.skipped), Some(0), "the breaker stays closed");
}

#[tokio::test]
async fn connection_that_redis_closed_is_replaced_before_its_next_use() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, writer) = (over(server.url()), over(server.url()));
    let (view, elsewhere): (View<str, u32>, View<str, u32>) = (cache.view("n"), writer.view("n"));
    works(&cache, &view).await;
    for round in 0..20 {
        elsewhere.write("there", round).await.everywhere();
        close_connections(&server);
        // The node gets to know of it.
        tokio::time::sleep(Duration::from_millis(20)).await;
        assert_eq!(cached(&view, "there").await, round, "it does not load what redis has");
        works(&cache, &view).await;
        view.delete("there").await.everywhere();
        assert_eq!(fetched(&view, "there", 1_000 + round).await, 1_000 + round);
    }
    assert_eq!(cache.stats().redis.map(|redis| redis.errors), Some(0));
}

/// `CLIENT KILL` runs while no task of the node does, so the node sends on a closed connection.
#[tokio::test]
async fn read_and_deletion_on_closed_connection_are_repeated() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, writer) = (over(server.url()), over(server.url()));
    let (view, elsewhere): (View<str, u32>, View<str, u32>) = (cache.view("n"), writer.view("n"));
    works(&cache, &view).await;
    for round in 0..20 {
        elsewhere.write("there", round).await.everywhere();
        close_connections(&server);
        assert_eq!(view.read("there").await.as_deref(), Some(&round));
        close_connections(&server);
        view.delete("there").await.everywhere();
        assert_eq!(server.command("EXISTS test:n:there"), ":0\r\n");
    }
    assert_eq!(cache.stats().redis.map(|redis| redis.skipped), Some(0), "the breaker stays closed");
}

#[tokio::test]
async fn connection_that_was_idle_for_too_long_costs_nothing() {
    let Some(server) = RedisServer::start() else { return };
    server.command("CONFIG SET timeout 1");
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    works(&cache, &view).await;
    let clients =
        || server.command("CLIENT LIST TYPE normal").lines().filter(|line| line.contains("id=")).count();
    // The server looks for idle connections now and then.
    eventually("the connections are closed", async || clients() <= 1).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    works(&cache, &view).await;
    assert_eq!(cache.stats().redis.map(|redis| redis.errors), Some(0));
}

#[tokio::test]
async fn one_slow_reply_opens_no_breaker() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| options.redis_timeout(Duration::from_millis(100)));
    let view: View<str, u32> = cache.view("n");
    works(&cache, &view).await;
    server.pause();
    view.delete("k").await.queued();
    server.resume();
    eventually("the deletion is repeated", async || cache.coherence().pending_invalidations == 0).await;
    works(&cache, &view).await;
}

#[tokio::test]
async fn number_of_connections_is_an_option() {
    let Some(server) = RedisServer::start() else { return };
    for connections in [1, 9] {
        let cache = node_with(server.url(), |options| {
            options.redis_timeout(Duration::from_secs(5)).redis_connections(connections)
        });
        let view: View<u32, u32> = cache.view("n");
        view.write(&0, 0).await.everywhere();
        for key in 1..=200 {
            assert!(view.read(&key).await.is_none());
        }
        let clients = server.command("CLIENT LIST TYPE normal");
        let open = clients.lines().filter(|line| line.contains("id=")).count();
        assert_eq!(open, connections + 2, "one for mutations, one of the test: {clients}");
        drop((cache, view));
        let is_alone =
            || server.command("CLIENT LIST").lines().filter(|line| line.contains("id=")).count() == 1;
        eventually("the connections are closed", async || is_alone()).await;
    }
}

#[tokio::test]
async fn opening_a_connection_has_its_own_timeout() {
    let Some(server) = RedisServer::start() else { return };
    let errors: Arc<Mutex<Vec<String>>> = Arc::default();
    let log = errors.clone();
    let cache = node_with(server.url(), |options| {
        options
            .redis_timeout(Duration::from_secs(60))
            .redis_connect_timeout(Duration::from_millis(50))
            .on_error(move |error| log.lock().expect("no panic").push(error.to_string()))
    });
    // The system accepts connections for it.
    server.pause();
    let view: View<str, u32> = cache.view("n");
    let fetch = within(Duration::from_secs(20), "the fetch ends", fetched(&view, "k", 1));
    assert_eq!(fetch.await, 1);
    server.resume();
    let errors = errors.lock().expect("no panic");
    assert!(errors.iter().any(|error| error.contains("no connection within 50ms")), "{errors:?}");
}

/// The system's table of TCP connections tells when the next probe is due.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn idle_connections_are_probed() {
    let Some((_server, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let cache = node_with(format!("redis://127.0.0.1:{port}"), |options| {
        options.redis_timeout(Duration::from_secs(5)).redis_keepalive(Duration::from_secs(10))
    });
    let view: View<str, u32> = cache.view("n");
    works(&cache, &view).await;
    let remote = format!("0100007F:{port:04X}");
    // The time until the probe in hundredths of a second, if that is what the timer is for.
    let probe = |line: &str| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let (timer, time) = fields[5].split_once(':').expect("a timer");
        (timer == "02").then(|| u64::from_str_radix(time, 16).expect("a number"))
    };
    eventually("each connection has its probe", async || {
        let table = std::fs::read_to_string("/proc/self/net/tcp").expect("linux has it");
        let to_server = table.lines().filter(|line| {
            let fields: Vec<&str> = line.split_whitespace().collect();
            fields.get(2) == Some(&&*remote) && fields[3] == "01"
        });
        let probes: Vec<_> = to_server.map(probe).collect();
        !probes.is_empty() && probes.iter().all(|probe| probe.is_some_and(|time| time <= 1_000))
    })
    .await;
}

/// Everybody waits for one attempt to connect, and not each for its own after those of all others.
#[tokio::test]
async fn callers_wait_for_a_server_that_never_answers_at_the_same_time() {
    const CALLERS: u32 = 200;
    // The system accepts the connections; nobody reads from them.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    for operation in ["read", "fetch", "delete"] {
        let cache = node_with(&url, |options| options.redis_timeout(Duration::from_millis(100)));
        let view: View<str, u32> = cache.view("n");
        let mut calls = JoinSet::new();
        for number in 0..CALLERS {
            let (view, key) = (view.clone(), number.to_string());
            calls.spawn(async move {
                match operation {
                    "read" => assert_eq!(view.read(&*key).await.as_deref(), None),
                    "fetch" => assert_eq!(fetched(&view, &key, number).await, number),
                    _ => drop(view.delete(&*key).await.queued()),
                }
            });
        }
        // One after the other they would take twenty seconds.
        tokio::time::timeout(Duration::from_secs(5), calls.join_all()).await.expect(operation);
    }
}

#[tokio::test]
async fn forms_of_an_address_are_the_documented_ones() {
    let Some((server, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    let socket = server.socket();
    let socket = socket.display();
    let databases = [
        (0, vec![format!("redis://127.0.0.1:{port}"), format!("valkey://127.0.0.1:{port}/")]),
        (
            0,
            vec![
                format!("unix://{socket}"),
                format!("redis+unix://{socket}"),
                format!("valkey+unix://{socket}"),
            ],
        ),
        (3, vec![format!("unix://{socket}?db=3"), format!("redis+unix://{socket}?db=3")]),
        (3, vec![format!("redis://127.0.0.1:{port}/3"), format!("valkey://127.0.0.1:{port}/3")]),
    ];
    for (database, urls) in databases {
        for url in urls {
            let view: View<str, u32> = over(url.clone()).view("n");
            view.write(&url, 1).await.everywhere();
            let reader: View<str, u32> = over(format!("redis://127.0.0.1:{port}/{database}")).view("n");
            assert_eq!(reader.read(&url).await.as_deref(), Some(&1), "{url}");
        }
    }
    // Over TCP the path has the number of the database.
    let refused =
        Cache::builder("test").ttl(Duration::from_secs(60)).redis("redis://127.0.0.1:1?db=3").build();
    let message = refused.expect_err("it would be database 0").to_string();
    assert!(message.contains("a query is only for Unix sockets"), "{message}");
}
