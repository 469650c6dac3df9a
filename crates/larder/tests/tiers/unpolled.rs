//! Calls that are not polled, that leave early, or whose runtime ends: they hold nobody up.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with, over, poll_once};
use larder::{Cache, Committed, Counters, RedisCredentials, SharedFetch, Validity, View, WriteOptions};
use larder_testkit::{RedisServer, eventually};
use std::io;
use std::pin::pin;
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::time::{sleep, timeout};

/// More than anything here takes.
const LONG: Duration = Duration::from_secs(10);

/// The read held the key's ticket while it waited for Redis.
#[tokio::test]
async fn load_does_not_wait_for_a_read_that_is_not_polled() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let view: View<str, u32> = cache.view("n");
    view.write("other", 1).await.everywhere();
    let mut one = pin!(view.read("one"));
    let mut several = pin!(view.read_multi(["two", "three"]));
    assert!(poll_once(&mut one).await.is_none() && poll_once(&mut several).await.is_none());
    let loads = async {
        for key in ["one", "two", "three"] {
            assert_eq!(fetched(&view, key, 1).await, 1);
        }
    };
    timeout(LONG, loads).await.expect("the loads end");
    // They find what there was when they went on, or when they began.
    let found = several.await.into_iter().chain([one.await]);
    assert!(found.flatten().all(|value| *value == 1));
    assert_eq!(cached(&view, "one").await, 1);
}

/// The first caller opened the connection in its own future.
#[tokio::test]
async fn call_that_is_not_polled_keeps_no_connection_from_others() {
    let Some(server) = RedisServer::start() else { return };
    let cache = over(server.url());
    let (view, raw): (View<str, u32>, _) = (cache.view("n"), cache.raw::<str>("raw"));
    let counters: Counters<str> = cache.counters("count");
    let (mut read, mut count) = (pin!(raw.read("k")), pin!(counters.read("k")));
    let mut write = pin!(raw.write("k", *b"1", LONG));
    assert!(poll_once(&mut read).await.is_none() && poll_once(&mut count).await.is_none());
    assert!(poll_once(&mut write).await.is_none());
    let others = async {
        view.write("k", 1).await.everywhere();
        for key in 0..20 {
            assert_eq!(fetched(&view, &key.to_string(), 1).await, 1);
            assert!(raw.read(&key.to_string()).await.is_ok_and(|bytes| bytes.is_none()));
            assert_eq!(counters.increment(&key.to_string(), 1).await.ok(), Some(1));
        }
    };
    timeout(LONG, others).await.expect("others are served");
    assert!(read.await.is_ok() && count.await.is_ok() && write.await.is_ok());
}

/// Each caller dropped the attempt of its own, and the next one began another.
#[tokio::test]
async fn connection_is_opened_though_every_caller_leaves_before() {
    let Some(server) = RedisServer::start() else { return };
    let writer: View<str, u32> = over(server.url()).view("n");
    writer.write("k", 1).await.everywhere();
    let ask = || async {
        sleep(Duration::from_millis(50)).await;
        Ok::<_, io::Error>(RedisCredentials::new("default", ""))
    };
    let cache = node_with(server.url(), |options| options.redis_timeout(LONG).redis_credentials(ask));
    let (view, counters): (View<str, u32>, Counters<str>) = (cache.view("n"), cache.counters("count"));
    eventually("the value is found", async || {
        timeout(Duration::from_millis(10), view.read("k")).await.is_ok_and(|found| found.is_some())
    })
    .await;
    eventually("the counter is read", async || {
        timeout(Duration::from_millis(10), counters.read("k")).await.is_ok_and(|number| number.is_ok())
    })
    .await;
}

/// It held the turn of its key.
#[tokio::test]
async fn comparison_that_is_not_polled_keeps_no_other_from_redis() {
    let Some(server) = RedisServer::start() else { return };
    let (cache, other) = (over(server.url()), over(server.url()));
    let view = cache.shared("s");
    let SharedFetch::Lease(lease) = view.fetch(b"k").await else { panic!("nobody has stored it") };
    let Committed::Everywhere(copy) = lease.commit(b"bytes".to_vec(), &WriteOptions::new()).await else {
        panic!("redis replies")
    };
    other.delete_matched("nothing:*").await.everywhere();
    // A pattern may concern any key.
    eventually("the copy is compared", async || view.validity(&copy) == Validity::Unknown).await;
    let second = copy.duplicate();
    let mut comparison = pin!(view.revalidate(b"k", &copy));
    assert!(poll_once(&mut comparison).await.is_none());
    let compared = timeout(LONG, view.revalidate(b"k", &second)).await;
    assert_eq!(compared, Ok(Validity::Valid));
    assert_eq!(comparison.await, Validity::Valid);
}

/// The first call on the next runtime failed, because the task of the connection had ended with its own.
#[test]
fn next_runtime_opens_connections_of_its_own() {
    let Some(server) = RedisServer::start() else { return };
    let cache: Cache = over(server.url());
    let (view, counters): (View<str, u32>, Counters<str>) = (cache.view("n"), cache.counters("count"));
    for round in 1..10 {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(async {
            assert_eq!(counters.increment("k", 1).await.map_err(|error| error.to_string()), Ok(round));
            view.write("k", round as u32).await.everywhere();
            assert_eq!(cached(&view, "k").await, round as u32);
            view.delete("k").await.everywhere();
        });
    }
    assert_eq!(cache.stats().redis.map(|redis| redis.errors), Some(0));
}

/// It began to open a connection, and is neither driven nor dropped: its task stays.
#[tokio::test]
async fn runtime_that_is_left_holds_nobody_up_for_ever() {
    let Some(server) = RedisServer::start() else { return };
    let cache = node_with(server.url(), |options| {
        options.redis_connections(1).redis_timeout(Duration::from_millis(100))
    });
    let view: View<str, u32> = cache.view("n");
    // This opens the connections of mutations and announcements, and none of lookups.
    view.delete("k").await.everywhere();
    server.pause();
    let reader = view.clone();
    let left = std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        let read = runtime.block_on(async { timeout(Duration::from_millis(5), reader.read("k")).await });
        assert!(read.is_err(), "the server hangs");
        runtime
    });
    let left = left.join().expect("no panic");
    server.resume();
    let other = over(server.url());
    let elsewhere: View<str, u32> = other.view("n");
    elsewhere.write("k", 2).await.everywhere();
    eventually("it is read", async || view.read("k").await.as_deref() == Some(&2)).await;
    left.shutdown_background();
}
