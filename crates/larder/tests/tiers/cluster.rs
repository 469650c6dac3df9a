//! A cluster: requests go where the slots are, and no invalidation is missed while slots and primaries change.

use crate::mutation::Mutation;
use crate::{cached, fetched, node_with};
use larder::{Cache, CacheError, CoherenceMode, Invalidation, LoadCx, Requirement, View};
use larder_testkit::{Cluster, RedisServer, eventually, slot_of};
use std::collections::HashMap;
use std::time::Duration;

/// A node with a short `max_lag`.
fn over(url: impl Into<String>) -> Cache {
    node_with(url, |options| options.max_lag(Duration::from_millis(400)).ttl(Duration::from_secs(600)))
}

/// Two nodes, each with the same view.
fn pair(cluster: &Cluster) -> [(Cache, View<str, u32>); 2] {
    [(); 2].map(|()| {
        let cache = over(cluster.url());
        let view = cache.view("n");
        (cache, view)
    })
}

/// A node whose namespace is a hash tag.
fn tagged(cluster: &Cluster) -> Cache {
    let options = Cache::builder("{shop}").ttl(Duration::from_secs(60)).redis(cluster.url());
    options.max_lag(Duration::from_millis(400)).build().expect("valid")
}

/// Waits until every node has proved to itself that it misses nothing.
async fn trusted<'c>(caches: impl IntoIterator<Item = &'c Cache> + Clone) {
    eventually("memory is trusted", async || {
        caches.clone().into_iter().all(|cache| cache.coherence().memory_trusted)
    })
    .await;
}

/// Waits until every node trusts its memory again and has repeated what it had to.
async fn settled<'c>(caches: impl IntoIterator<Item = &'c Cache> + Clone) {
    eventually("nothing is pending", async || {
        let states = caches.clone().into_iter().map(Cache::coherence);
        states.into_iter().all(|state| state.memory_trusted && state.pending_invalidations == 0)
    })
    .await;
}

/// Waits until what one node writes the other reads. One that finds a new primary later repeats what it has heard, and may
/// remove what was written meanwhile.
async fn written_is_read(writer: &View<str, u32>, reader: &View<str, u32>, key: &str) {
    eventually("what one writes the other reads", async || {
        writer.write(key, 2).await.is_everywhere() && reader.read(key).await.as_deref() == Some(&2)
    })
    .await;
}

/// Waits until a server has a marker of a later heartbeat than the first of two nodes, which tells of nothing before it.
async fn marked(cluster: &Cluster, server: usize) {
    let marker = || {
        let keys = cluster.command(server, "KEYS test::marker:*");
        keys.lines().nth(2).map(|key| cluster.command(server, &format!("GET {key}")))
    };
    let mut last = larder_testkit::until("a heartbeat is marked", marker);
    for _ in 0..3 {
        eventually("another one is marked", async || marker().is_some_and(|next| next != last)).await;
        last = marker().expect("it stays");
    }
}

/// The key in Redis.
fn in_redis(key: &str) -> String {
    format!("test:n:{key}")
}

/// A key for each primary of a cluster, by its owner.
fn key_of_each(cluster: &Cluster) -> HashMap<usize, String> {
    let mut keys = HashMap::new();
    for key in (0..1_000).map(|number| format!("k{number}")) {
        keys.entry(cluster.owner_of(&in_redis(&key))).or_insert(key);
        if keys.len() == 3 {
            break;
        }
    }
    keys
}

#[tokio::test]
async fn values_and_invalidations_are_shared_over_all_primaries() {
    for start in [Cluster::start_primaries, Cluster::start_valkey_primaries] {
        let Some(cluster) = start(3) else { continue };
        let [(one, a), (_, b)] = pair(&cluster);
        let keys: Vec<String> = (0..60).map(|number| format!("k{number}")).collect();
        let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
        let loaded = a
            .fetch_multi(keys.iter().copied())
            .load(async |missing, _| Ok(missing.into_iter().map(|key| (key, 1)).collect::<Vec<_>>()));
        assert!(loaded.await.iter().all(|found| found.as_ref().is_ok_and(Option::is_some)));
        for key in &keys {
            assert_eq!(cached(&b, key).await, 1);
        }
        for server in cluster.servers() {
            assert_ne!(cluster.command(server, "DBSIZE"), ":0\r\n", "server {server} has values");
        }
        let primaries = one.coherence().primaries;
        assert_eq!(primaries.iter().map(|primary| primary.slots).sum::<usize>(), 16_384, "{primaries:?}");
        a.delete_multi(keys[..30].iter().copied()).await.everywhere();
        a.write(keys[30], 2).await.everywhere();
        one.delete_matched("n:k4*").await.everywhere();
        eventually("the other node has heard all", async || {
            let mut values = Vec::new();
            for key in &keys {
                values.push(b.read(key).await);
            }
            let expected = keys.iter().enumerate().map(|(at, key)| match at {
                0..30 => None,
                30 => Some(2),
                _ if key.starts_with("k4") => None,
                _ => Some(1),
            });
            values.into_iter().map(|value| value.map(|value| *value)).eq(expected)
        })
        .await;
    }
}

#[tokio::test]
async fn tags_and_counters_work_over_all_primaries() {
    let Some(cluster) = Cluster::start_primaries(3) else { return };
    let [(one, a), (other, b)] = pair(&cluster);
    let keys: Vec<_> = key_of_each(&cluster).into_values().collect();
    for key in &keys {
        let loader = |cx: LoadCx<u32>| async move {
            cx.tag("red");
            Ok(1)
        };
        a.fetch(key).load(loader).await.expect("loads");
        assert_eq!(cached(&b, key).await, 1);
    }
    one.invalidate_tags(["red"], Invalidation::Hard).await.everywhere();
    for key in &keys {
        eventually("the tag is heard", async || b.read(key).await.is_none()).await;
        assert_eq!(fetched(&b, key, 2).await, 2);
    }
    one.clear().await.everywhere();
    for key in &keys {
        eventually("everything is cleared", async || b.read(key).await.is_none()).await;
        let sums = [
            one.counters::<str>("c").increment(key, 2).await,
            other.counters::<str>("c").increment(key, 3).await,
        ];
        assert_eq!(sums.map(|sum| sum.expect("counted")), [2, 5]);
    }
}

/// The key is first at the former owner, then absent there, then at the next one, then the slot has its next owner.
#[tokio::test]
async fn invalidation_is_heard_at_every_step_of_a_move() {
    for start in [Cluster::start_primaries, Cluster::start_valkey_primaries] {
        let Some(cluster) = start(3) else { continue };
        let [(one, a), (other, b)] = pair(&cluster);
        let key = "moved";
        let slot = slot_of(&in_redis(key));
        trusted([&one, &other]).await;
        let to = (cluster.owner(slot) + 1) % 3;
        type Step<'c> = &'c dyn Fn();
        let steps: [(&str, Step<'_>); 5] = [
            ("before", &|| {}),
            ("begun", &|| cluster.begin_move(slot, to)),
            ("its keys are moved", &|| _ = cluster.move_keys(slot, to)),
            ("ended", &|| cluster.end_move(slot, to)),
            ("and again", &|| {}),
        ];
        for (number, (name, step)) in (1..).zip(steps) {
            assert_eq!((fetched(&a, key, number).await, cached(&b, key).await), (number, number), "{name}");
            step();
            a.delete(key).await.everywhere();
            eventually(name, async || b.read(key).await.is_none()).await;
        }
        for (cache, name) in [(&one, "one"), (&other, "the other")] {
            assert_eq!(cache.coherence().pending_invalidations, 0, "{name}");
        }
    }
}

/// Valkey moves all keys of a slot in one step, while its former owner takes no writes.
#[tokio::test]
async fn invalidation_is_heard_when_a_slot_moves_in_one_step() {
    let Some(cluster) = Cluster::start_valkey_primaries(3) else { return };
    let [(one, a), (other, b)] = pair(&cluster);
    let key = "moved";
    let slot = slot_of(&in_redis(key));
    trusted([&one, &other]).await;
    for number in 1..4 {
        assert_eq!((fetched(&a, key, number).await, cached(&b, key).await), (number, number));
        let from = cluster.owner(slot);
        let to = (from + 1) % 3;
        let migrate = format!("CLUSTER MIGRATESLOTS SLOTSRANGE {slot} {slot} NODE {}", cluster.id(to));
        assert_eq!(cluster.command(from, &migrate), "+OK\r\n");
        a.delete(key).await.everywhere();
        eventually("the other has heard it", async || b.read(key).await.is_none()).await;
        assert_eq!(cluster.next_owner(slot, from), to);
        assert_eq!((fetched(&a, key, 10).await, cached(&b, key).await), (10, 10));
        a.delete(key).await.everywhere();
        eventually("the other has heard it again", async || b.read(key).await.is_none()).await;
    }
}

/// The other node does not listen to the new primary yet when that executes the invalidation, and looks up nothing there.
#[tokio::test]
async fn new_primary_is_heard_by_nodes_that_do_not_know_it() {
    for start in [Cluster::start_primaries, Cluster::start_valkey_primaries] {
        let Some(mut cluster) = start(3) else { continue };
        let [(one, a), (other, b)] = pair(&cluster);
        let [key, second] = ["{moved}1", "{moved}2"];
        let slot = slot_of(&in_redis(key));
        for key in [key, second] {
            assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
        }
        trusted([&one, &other]).await;
        let added = cluster.add_primary();
        cluster.move_slot(slot, added);
        eventually("the first node has found it", async || a.delete(key).await.is_everywhere()).await;
        assert_eq!(cached(&b, second).await, 1);
        a.delete(second).await.everywhere();
        let started = tokio::time::Instant::now();
        eventually("the other has heard it", async || b.read(second).await.is_none()).await;
        assert!(started.elapsed() < Duration::from_secs(5), "long before it reads the map again");
        written_is_read(&a, &b, key).await;
        settled([&one, &other]).await;
    }
}

#[tokio::test]
async fn killed_primary_is_replaced_and_no_invalidation_is_lost() {
    for start in [Cluster::start, Cluster::start_valkey] {
        let Some(mut cluster) = start() else { continue };
        let [(one, a), (other, b)] = pair(&cluster);
        let keys = key_of_each(&cluster);
        for key in keys.values() {
            assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
        }
        trusted([&one, &other]).await;
        let (killed, key) = keys.iter().next().expect("there are three");
        let slot = slot_of(&in_redis(key));
        marked(&cluster, *killed).await;
        cluster.await_replication(*killed);
        cluster.kill(*killed);
        a.delete(key).await.queued();
        for (owner, key) in &keys {
            assert_eq!(fetched(&b, &format!("{key}-new-{owner}"), 7).await, 7, "a fetch loads");
        }
        let next = cluster.next_owner(slot, *killed);
        settled([&one, &other]).await;
        assert_eq!(cluster.command(next, &format!("EXISTS {}", in_redis(key))), ":0\r\n");
        trusted([&one, &other]).await;
        assert!(b.read(key).await.is_none());
        for (_, key) in keys.iter().filter(|(owner, _)| *owner != killed) {
            assert_eq!(cached(&b, key).await, 1, "the others have kept theirs");
        }
    }
}

#[tokio::test]
async fn failover_by_agreement_loses_no_invalidation() {
    for start in [Cluster::start, Cluster::start_valkey] {
        let Some(cluster) = start() else { continue };
        let [(one, a), (other, b)] = pair(&cluster);
        let key = "k";
        let owner = cluster.owner_of(&in_redis(key));
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
        trusted([&one, &other]).await;
        cluster.fail_over(cluster.replica_of(owner));
        eventually("the next primary is asked", async || a.delete(key).await.is_everywhere()).await;
        eventually("the other has heard it", async || b.read(key).await.is_none()).await;
        written_is_read(&a, &b, key).await;
        settled([&one, &other]).await;
    }
}

#[tokio::test]
async fn hung_primary_ends_trust_and_delays_no_other_slot() {
    let Some(mut cluster) = Cluster::start_primaries(3) else { return };
    let [(one, a), (other, b)] = pair(&cluster);
    let keys = key_of_each(&cluster);
    for key in keys.values() {
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
    }
    trusted([&one, &other]).await;
    for server in cluster.servers() {
        // Otherwise the others answer nothing either, once they agree that one is gone.
        cluster.command(server, "CONFIG SET cluster-require-full-coverage no");
    }
    let ledger = cluster.owner_of("test::ledger");
    let (hung, lost) = keys.iter().find(|(owner, _)| **owner != ledger).expect("there are three");
    cluster.pause(*hung);
    eventually("trust ends", async || !other.coherence().memory_trusted).await;
    let primaries = other.coherence().primaries;
    let oldest = primaries.iter().max_by_key(|primary| primary.proof_age).expect("there are three");
    assert_eq!(oldest.address, format!("127.0.0.1:{}", cluster.port(*hung)), "{primaries:?}");
    assert_eq!(fetched(&b, lost, 9).await, 1, "within `disconnected` memory serves what Redis does not tell");
    let late = over(cluster.url());
    let c: View<str, u32> = late.view("n");
    for (_, key) in keys.iter().filter(|(owner, _)| *owner != hung) {
        assert_eq!(cached(&b, key).await, 1);
        assert_eq!(cached(&c, key).await, 1, "Redis answers also a node that comes now");
        // Nobody knows whether a node that listens only to the hung one is still served by it.
        a.delete(key).await.queued();
        assert_eq!(fetched(&b, key, 3).await, 3, "the others have heard it all the same");
    }
    cluster.resume(*hung);
    eventually("it is confirmed", async || one.coherence().pending_invalidations == 0).await;
    trusted([&one, &other, &late]).await;
    a.write(lost, 2).await.everywhere();
    eventually("the announcement is heard", async || b.read(lost).await.as_deref() == Some(&2)).await;
}

/// What the node sent before it left the primary may still be on its way, and must not be executed after what comes later.
#[tokio::test]
async fn connection_to_a_primary_that_was_missing_is_killed() {
    let Some(mut cluster) = Cluster::start_primaries(3) else { return };
    let cache = over(cluster.url());
    let view: View<str, u32> = cache.view("n");
    view.write("k", 1).await.everywhere();
    trusted([&cache]).await;
    for server in cluster.servers() {
        // Otherwise the others refuse heartbeats too, once they agree that one is gone.
        cluster.command(server, "CONFIG SET cluster-require-full-coverage no");
    }
    let hung = cluster.owner_of(&in_redis("k"));
    cluster.pause(hung);
    view.write("k", 2).await.queued();
    eventually("the node does without it", async || {
        let problem = cache.coherence().problem.map(|problem| problem.to_string());
        problem.is_some_and(|problem| problem == "a primary of the cluster is missing")
    })
    .await;
    cluster.resume(hung);
    eventually("it is reached again", async || view.write("k", 3).await.is_everywhere()).await;
    let statistics = cluster.command(hung, "INFO commandstats");
    assert!(statistics.contains("cmdstat_client|kill:"), "{statistics}");
    settled([&cache]).await;
}

/// Nobody knows which values a tag has invalidated.
#[tokio::test]
async fn hung_primary_of_the_ledger_leaves_the_loader() {
    let Some(mut cluster) = Cluster::start_primaries(3) else { return };
    let [(_one, a), (other, b)] = pair(&cluster);
    let keys = key_of_each(&cluster);
    for key in keys.values() {
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
    }
    let ledger = cluster.owner_of("test::ledger");
    cluster.pause(ledger);
    eventually("trust ends", async || !other.coherence().memory_trusted).await;
    let late: View<str, u32> = over(cluster.url()).view("n");
    for key in keys.values() {
        assert!(matches!(fetched(&late, key, 2).await, 1 | 2), "{key} has a value, or is loaded");
    }
    other.invalidate_tags(["red"], Invalidation::Hard).await.queued();
    cluster.resume(ledger);
    settled([&other]).await;
}

/// A key that is found at neither server while it moves would stay.
#[tokio::test]
async fn deletion_by_pattern_finds_keys_of_a_slot_that_moves() {
    for start in [Cluster::start_primaries, Cluster::start_valkey_primaries] {
        let Some(cluster) = start(2) else { continue };
        let [(one, a), (_other, b)] = pair(&cluster);
        let keys: Vec<String> = (0..40).map(|number| format!("k{number}")).collect();
        for round in 0..3 {
            for key in &keys {
                fetched(&a, key, 1).await;
            }
            let slot = slot_of(&in_redis(&keys[round]));
            let to = 1 - cluster.owner(slot);
            cluster.begin_move(slot, to);
            if round > 0 {
                cluster.move_keys(slot, to);
            }
            // While a slot moves all the time, it says that it is not sure.
            one.delete_matched("n:*").await.queued();
            cluster.move_keys(slot, to);
            cluster.end_move(slot, to);
            eventually("all are gone", async || {
                let mut left = 0;
                for key in &keys {
                    left += usize::from(b.read(key).await.is_some());
                }
                left == 0 && one.coherence().pending_invalidations == 0
            })
            .await;
        }
    }
}

#[tokio::test]
async fn namespace_with_a_hash_tag_uses_one_primary() {
    let Some(cluster) = Cluster::start_primaries(3) else { return };
    let caches = [(); 2].map(|()| tagged(&cluster));
    let [a, b]: [View<str, u32>; 2] = caches.each_ref().map(|cache| cache.view("n"));
    for key in ["k1", "k2", "k3", "k4"] {
        assert_eq!((fetched(&a, key, 1).await, cached(&b, key).await), (1, 1));
    }
    trusted(&caches).await;
    caches[0].clear().await.everywhere();
    eventually("all is cleared", async || b.read("k1").await.is_none()).await;
    assert_eq!((fetched(&a, "k1", 2).await, cached(&b, "k1").await), (2, 2));
    caches[0].delete_matched("n:k*").await.everywhere();
    eventually("it is deleted", async || b.read("k1").await.is_none()).await;
    trusted(&caches).await;
    let owner = cluster.owner_of("{shop}");
    for server in cluster.servers().filter(|server| *server != owner) {
        assert_eq!(cluster.command(server, "DBSIZE"), ":0\r\n");
    }
}

/// The nodes of such a namespace listen to one primary, and to the one that receives the slot, though that owns others.
#[tokio::test]
async fn slot_of_a_hash_tag_moves_step_by_step() {
    let Some(cluster) = Cluster::start_primaries(3) else { return };
    let caches = [(); 2].map(|()| tagged(&cluster));
    let [a, b]: [View<str, u32>; 2] = caches.each_ref().map(|cache| cache.view("n"));
    assert_eq!((fetched(&a, "k", 1).await, cached(&b, "k").await), (1, 1));
    trusted(&caches).await;
    let slot = slot_of("{shop}");
    let to = (cluster.owner(slot) + 1) % 3;
    type Step<'c> = &'c dyn Fn();
    let steps: [(&str, Step<'_>); 3] = [
        ("begun", &|| cluster.begin_move(slot, to)),
        ("its keys are moved", &|| _ = cluster.move_keys(slot, to)),
        ("ended", &|| cluster.end_move(slot, to)),
    ];
    for (name, step) in steps {
        step();
        eventually(name, async || a.delete("k").await.is_everywhere()).await;
        settled(&caches).await;
        eventually(name, async || b.read("k").await.is_none()).await;
        written_is_read(&a, &b, "k").await;
    }
}

/// A scan names no key: a server that was cut off from the others answers it, and does not have what its successor has.
#[tokio::test]
async fn deletion_by_pattern_at_a_primary_without_a_majority_is_queued() {
    let Some(mut cluster) = Cluster::start_primaries(3) else { return };
    let cache = tagged(&cluster);
    let view: View<str, u32> = cache.view("n");
    view.delete("k").await.everywhere();
    cache.delete_matched("n:*").await.everywhere();
    let owner = cluster.owner_of("{shop}");
    let others: Vec<_> = cluster.servers().filter(|server| *server != owner).collect();
    others.iter().for_each(|server| cluster.pause(*server));
    eventually("it is down", async || cluster.command(owner, "GET {shop}").starts_with("-CLUSTERDOWN")).await;
    cache.delete_matched("n:*").await.queued();
    others.iter().for_each(|server| cluster.resume(*server));
    eventually("it is repeated", async || cache.coherence().pending_invalidations == 0).await;
}

#[tokio::test]
async fn wrong_kind_of_address_names_the_right_one() {
    let Some(cluster) = Cluster::start_primaries(1) else { return };
    let Some((single, port)) = RedisServer::start_with_port("--port", &[]) else { return };
    for (url, lacks, right) in [
        (cluster.url().replace("+cluster", ""), Requirement::OneServer, "redis+cluster://"),
        (format!("redis+cluster://127.0.0.1:{port}"), Requirement::Cluster, "redis://"),
    ] {
        let cache = over(url);
        let view: View<str, u32> = cache.view("n");
        assert_eq!(fetched(&view, "k", 1).await, 1, "a fetch loads");
        assert_eq!(cache.coherence().mode, CoherenceMode::Unsupported(lacks));
        let Err(error) = view.delete("k").await else { panic!("nothing is coordinated") };
        assert!(matches!(error, CacheError::Unsupported(_)) && error.to_string().contains(right), "{error}");
    }
    drop(single);
}

/// Redis is asked as soon as its servers have their slots.
#[tokio::test]
async fn cluster_without_slots_is_one_clear_error() {
    let Some(mut cluster) = Cluster::start_primaries(1) else { return };
    let url = cluster.url();
    assert_eq!(cluster.command(0, "CLUSTER FLUSHSLOTS"), "+OK\r\n");
    let cache = over(url);
    cache.connect().await;
    let problem = cache.coherence().problem.expect("nothing is connected").to_string();
    assert_eq!(problem, "the cluster is not ready: no server owns a slot");
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "a fetch loads");
    let error = cache.raw::<str>("r").read("k").await.expect_err("not ready").to_string();
    assert!(error.contains("no server owns a slot"), "{error}");
    assert_eq!(cluster.command(0, "CLUSTER ADDSLOTSRANGE 0 16383"), "+OK\r\n");
    eventually("it is used", async || view.write("k", 2).await.is_everywhere()).await;
    eventually("nothing is wrong", async || cache.coherence().problem.is_none()).await;
    cluster.kill(0);
}

#[tokio::test]
async fn user_who_may_not_ask_for_the_map_is_told_so() {
    let Some(cluster) = Cluster::start_primaries(2) else { return };
    for server in cluster.servers() {
        let user = "ACL SETUSER ann on >secret ~* &* +@all -cluster|nodes";
        assert_eq!(cluster.command(server, user), "+OK\r\n");
    }
    let cache = over(cluster.url().replace("://", "://ann:secret@"));
    let view: View<str, u32> = cache.view("n");
    assert_eq!(fetched(&view, "k", 1).await, 1, "a fetch loads");
    let error = cache.raw::<str>("r").read("k").await.expect_err("it is refused").to_string();
    assert!(error.contains("NOPERM") && error.contains("cluster|nodes"), "{error}");
    for server in cluster.servers() {
        assert_eq!(cluster.command(server, "ACL SETUSER ann +cluster|nodes"), "+OK\r\n");
    }
    eventually("it is used", async || view.write("k", 2).await.is_everywhere()).await;
}
