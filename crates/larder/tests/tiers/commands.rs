//! What each operation costs Redis: round trips and commands, so that a change of either is seen.

use crate::mutation::Mutation;
use crate::{fetched, node_with};
use larder::{Cache, Counters, Invalidation, Policy, Update, View, WriteOptions};
use larder_testkit::RedisServer;
use std::collections::BTreeMap;
use std::time::Duration;

/// Commands that a connection costs, and not an operation, and those of this test.
const UNCOUNTED: [&str; 5] = ["hello", "info", "config|resetstat", "client|kill", "ping"];
/// A heartbeat is these and a HELLO. It writes a marker.
const HEARTBEAT: [&str; 3] = ["set", "time", "zscore"];

fn commands(server: &RedisServer) -> String {
    let info = server.command("INFO commandstats");
    let mut counts = BTreeMap::new();
    for line in info.lines().filter_map(|line| line.trim().strip_prefix("cmdstat_")) {
        let (name, rest) = line.split_once(':').expect("name:calls=…");
        let calls = rest.strip_prefix("calls=").and_then(|rest| rest.split(',').next()).expect("calls");
        counts.insert(name.to_owned(), calls.parse::<u64>().expect("a number of calls"));
    }
    let heartbeats = counts.get("hello").copied().unwrap_or(0);
    for name in HEARTBEAT {
        counts.entry(name.to_owned()).and_modify(|calls| *calls = calls.saturating_sub(heartbeats));
    }
    counts.retain(|name, calls| !UNCOUNTED.contains(&&**name) && *calls > 0);
    counts.into_iter().map(|(name, calls)| format!("{name} {calls}")).collect::<Vec<_>>().join(", ")
}

/// What an operation costs: round trips, then commands, those inside scripts included.
async fn cost(server: &RedisServer, cache: &Cache, operation: impl AsyncFnOnce()) -> (u64, String) {
    let trips = || cache.stats().redis.map_or(0, |redis| redis.latency.count());
    server.command("CONFIG RESETSTAT");
    let before = trips();
    operation().await;
    (trips() - before, commands(server))
}

/// A node whose clock does not advance.
fn stopped(server: &RedisServer) -> Cache {
    let (clock, _) = larder_engine::Clock::manual();
    node_with(server.url(), |options| options.redis_timeout(Duration::from_secs(5)).clock(clock))
}

#[tokio::test]
async fn operation_costs_match_documentation() {
    let Some(server) = RedisServer::start() else { return };
    let cache = stopped(&server);
    let view: View<u32, u32> = cache.view("n");
    let counters: Counters<str> = cache.counters("c");
    // The connections, the scripts and the ledger are there; every slot of the readers has been used.
    for key in 1_000..1_064 {
        view.fetch(&key).load(|_| async { Ok(1) }).await.expect("loads");
    }
    cache.invalidate_tags(["warm"], Invalidation::Hard).await.everywhere();
    counters.increment("warm", 1).await.expect("added");
    let name: View<str, u32> = cache.view("s");
    let cold = cost(&server, &cache, async || _ = fetched(&name, "cold", 1).await).await;
    assert_eq!(cold, (2, "evalsha 1, getrange 1, set 2".into()), "fetch cold");

    let warm = cost(&server, &cache, async || _ = fetched(&name, "cold", 1).await).await;
    assert_eq!(warm, (0, String::new()), "fetch warm in memory");

    let other = stopped(&server);
    let elsewhere: View<str, u32> = other.view("s");
    let everywhere: View<u32, u32> = other.view("n");
    for key in 2_000..2_064 {
        everywhere.read(&key).await.is_none().then_some(()).expect("a miss");
    }
    let found = cost(&server, &other, async || _ = fetched(&elsewhere, "cold", 1).await).await;
    assert_eq!(found, (1, "set 1".into()), "fetch warm in redis");

    let graceful = name.clone().with_policy(Policy::new().grace(Duration::from_secs(60)));
    graceful.write("stale", 1).await.everywhere();
    graceful.expire("stale").await.everywhere();
    let reload = cost(&server, &cache, async || assert_eq!(fetched(&graceful, "stale", 2).await, 2)).await;
    assert_eq!(reload, (3, "evalsha 2, getrange 2, set 3".into()), "fetch stale");

    let load = async || _ = graceful.fetch("stale").refresh().load(|_| async { Ok(3) }).await;
    let refresh = cost(&server, &cache, load).await;
    assert_eq!(refresh, (3, "evalsha 2, getrange 2, set 3".into()), "refresh");

    let keys: Vec<u32> = (0..26).collect();
    let bulk = async || {
        let loader = |keys: Vec<u32>, _| async move { Ok(keys.into_iter().map(|key| (key, key))) };
        let found = view.fetch_multi(&keys).load(loader).await;
        assert!(found.iter().all(Result::is_ok));
    };
    let multi = cost(&server, &cache, bulk).await;
    assert_eq!(multi, (2, "evalsha 1, getrange 26, set 52".into()), "fetch_multi of 26");

    let one = cost(&server, &other, async || _ = everywhere.read(&30).await).await;
    assert_eq!(one, (1, "mget 1".into()), "read of an absent value");

    let one = cost(&server, &other, async || assert!(everywhere.read(&0).await.is_some())).await;
    assert_eq!(one, (1, "mget 1".into()), "read");

    let many = cost(&server, &other, async || {
        assert!(everywhere.read_multi(&keys).await.iter().all(Option::is_some));
    });
    assert_eq!(many.await, (1, "mget 1".into()), "read_multi of 26, of which memory has one");

    let taken =
        cost(&server, &cache, async || assert!(view.take(&25).await.is_ok_and(|v| v.is_some()))).await;
    let take = (2, "getdel 1, publish 1, zmscore 1".into());
    assert_eq!(taken, take, "take");

    let add_one = |found: Option<&u32>| Update::Put(found.map_or(0, |number| number + 1));
    let update =
        cost(&server, &cache, async || assert!(view.update(&24, add_one).await.is_ok_and(|v| v.changed)));
    let expected = (2, "evalsha 1, getrange 1, mget 1, publish 1, set 1, zmscore 1".into());
    assert_eq!(update.await, expected, "update");

    let touch =
        cost(&server, &cache, async || assert_eq!(view.touch(&24, Policy::new()).await.ok(), Some(true)));
    assert_eq!(touch.await, expected, "touch");

    let write = cost(&server, &cache, async || view.write(&1, 2).await.everywhere()).await;
    assert_eq!(write, (1, "publish 1, set 1, zmscore 1".into()), "write");

    let options = WriteOptions::new().tag("a").tag("b");
    let tagged = cost(&server, &cache, async || view.write_with(&1, 2, &options).await.everywhere()).await;
    assert_eq!(tagged, (1, "publish 1, set 1, zmscore 1".into()), "write with two tags");

    let add = cost(&server, &cache, async || _ = counters.increment("x", 1).await.expect("added")).await;
    assert_eq!(add, (1, "evalsha 1, get 1, incrby 1, set 1".into()), "increment");

    let delete = cost(&server, &cache, async || _ = view.delete(&1).await.expect("deleted")).await;
    assert_eq!(delete, (1, "getrange 1, publish 1, unlink 1".into()), "delete");

    let tags = async || cache.invalidate_tags(["a", "b"], Invalidation::Hard).await.everywhere();
    let tags = cost(&server, &cache, tags).await;
    assert_eq!(tags, (1, "evalsha 1, publish 1, zadd 3, zcard 1, zmscore 1".into()), "invalidate_tags");
}
