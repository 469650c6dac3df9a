//! What tests do with a cluster has the effect on which they depend.

use larder_testkit::{Cluster, MoveMethod, slot_of, until};
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;

/// How a cluster of these servers starts.
struct Servers {
    start: fn() -> Option<Cluster>,
    start_primaries: fn(usize) -> Option<Cluster>,
}

const REDIS: Servers = Servers { start: Cluster::start, start_primaries: Cluster::start_primaries };
const VALKEY: Servers =
    Servers { start: Cluster::start_valkey, start_primaries: Cluster::start_valkey_primaries };

/// Each test on redis-server and on valkey-server.
macro_rules! tests {
    ($($test:ident,)*) => {
        mod redis {
            $(#[test] fn $test() { super::$test(&super::REDIS); })*
        }
        mod valkey {
            $(#[test] fn $test() { super::$test(&super::VALKEY); })*
        }
    };
}

tests! {
    cluster_routes_and_replicates,
    slot_that_moves_answers_with_ask_and_then_with_moved,
    killed_primary_is_replaced_and_becomes_a_replica,
    paused_primary_is_replaced_and_resumes_as_a_replica,
    primary_and_replica_change_places_twice,
    added_primary_is_empty_and_can_get_a_slot,
    primary_that_restarts_before_it_is_replaced_is_empty_and_keeps_its_slots,
    connections_of_one_type_are_closed,
    slot_moves_by_each_method_that_the_servers_know,
    move_that_a_lost_target_interrupts_leaves_no_copy,
}

/// A key of this server, and its slot.
fn key_of(cluster: &Cluster, server: usize) -> (String, u16) {
    let keys = (0..).map(|number| format!("{{key-{number}}}"));
    let key = keys.into_iter().find(|key| cluster.owner_of(key) == server).expect("one of them");
    let slot = slot_of(&key);
    (key, slot)
}

fn set(cluster: &Cluster, server: usize, key: &str) -> String {
    cluster.command(server, &format!("SET {key} value"))
}

/// The shards that a server knows.
fn shards(cluster: &Cluster, server: usize) -> BTreeSet<Vec<usize>> {
    let reply = cluster.command(server, "CLUSTER SHARDS");
    let members = |shard: &str| {
        let members =
            shard.lines().filter_map(|word| cluster.servers().find(|server| cluster.id(*server) == word));
        let mut members: Vec<_> = members.collect();
        members.sort();
        members
    };
    reply.split("\nslots\r").skip(1).map(members).collect()
}

/// The redirection that a server sends.
fn redirection(kind: &str, cluster: &Cluster, slot: u16, to: usize) -> String {
    format!("-{kind} {slot} 127.0.0.1:{}\r\n", cluster.port(to))
}

fn cluster_routes_and_replicates(servers: &Servers) {
    let Some(cluster) = (servers.start)() else { return };
    let each = [vec![0, 3], vec![1, 4], vec![2, 5]];
    assert!(cluster.servers().all(|server| shards(&cluster, server) == each.clone().into()));
    for primary in 0..3 {
        let (key, slot) = key_of(&cluster, primary);
        let replica = cluster.replica_of(primary);
        assert_eq!(replica, primary + 3);
        assert_eq!(set(&cluster, primary, &key), "+OK\r\n");
        let moved = redirection("MOVED", &cluster, slot, primary);
        assert!(
            cluster
                .servers()
                .filter(|server| *server != primary)
                .all(|other| set(&cluster, other, &key) == moved)
        );
        cluster.await_replication(primary);
        assert_eq!(cluster.command(replica, "DBSIZE"), ":1\r\n");
    }
}

fn slot_that_moves_answers_with_ask_and_then_with_moved(servers: &Servers) {
    let Some(cluster) = (servers.start_primaries)(3) else { return };
    let (key, slot) = key_of(&cluster, 0);
    let absent = format!("{key}-absent");
    assert_eq!(set(&cluster, 0, &key), "+OK\r\n");
    cluster.begin_move(slot, 2);
    assert_eq!(set(&cluster, 0, &key), "+OK\r\n", "what is there stays until it moves");
    assert_eq!(set(&cluster, 0, &absent), redirection("ASK", &cluster, slot, 2));
    assert_eq!(set(&cluster, 2, &key), redirection("MOVED", &cluster, slot, 0));
    assert_eq!(cluster.move_keys(slot, 2), 1);
    assert_eq!(set(&cluster, 0, &key), redirection("ASK", &cluster, slot, 2));
    assert_eq!(cluster.owner(slot), 0);
    cluster.end_move(slot, 2);
    assert_eq!(cluster.owner(slot), 2);
    for other in [0, 1] {
        assert_eq!(set(&cluster, other, &key), redirection("MOVED", &cluster, slot, 2));
    }
    assert_eq!(cluster.command(2, &format!("GET {key}")), "$5\r\nvalue\r\n");
    assert_eq!(cluster.move_slot(slot, 0), 1);
    assert_eq!(cluster.command(0, &format!("GET {key}")), "$5\r\nvalue\r\n");
}

fn killed_primary_is_replaced_and_becomes_a_replica(servers: &Servers) {
    let Some(mut cluster) = (servers.start)() else { return };
    let (key, slot) = key_of(&cluster, 1);
    assert_eq!(set(&cluster, 1, &key), "+OK\r\n");
    cluster.await_replication(1);
    let id = cluster.id(1).to_owned();
    cluster.kill(1);
    let next = cluster.next_owner(slot, 1);
    assert_eq!(next, 4, "its replica");
    assert_eq!(cluster.command(next, &format!("GET {key}")), "$5\r\nvalue\r\n");
    cluster.restart(1);
    cluster.await_ok();
    assert!(!cluster.is_primary(1));
    assert_eq!(cluster.replica_of(4), 1);
    assert_eq!(cluster.command(1, "CLUSTER MYID"), format!("$40\r\n{id}\r\n"));
    assert_eq!(cluster.command(1, "DBSIZE"), ":1\r\n", "in sync");
}

fn paused_primary_is_replaced_and_resumes_as_a_replica(servers: &Servers) {
    let Some(mut cluster) = (servers.start)() else { return };
    let (_, slot) = key_of(&cluster, 0);
    cluster.pause(0);
    assert_eq!(cluster.next_owner(slot, 0), 3);
    cluster.resume(0);
    cluster.await_ok();
    assert!(!cluster.is_primary(0));
}

fn primary_and_replica_change_places_twice(servers: &Servers) {
    let Some(cluster) = (servers.start)() else { return };
    let (key, slot) = key_of(&cluster, 2);
    for (former, next) in [(2, 5), (5, 2)] {
        assert_eq!(set(&cluster, former, &key), "+OK\r\n");
        cluster.fail_over(next);
        assert!(cluster.is_primary(next));
        assert_eq!(cluster.owner(slot), next);
        assert_eq!(set(&cluster, next, &key), "+OK\r\n");
        cluster.await_ok();
        assert_eq!(set(&cluster, former, &key), redirection("MOVED", &cluster, slot, next));
    }
}

fn added_primary_is_empty_and_can_get_a_slot(servers: &Servers) {
    let Some(mut cluster) = (servers.start_primaries)(2) else { return };
    let (key, slot) = key_of(&cluster, 1);
    cluster.begin_move(slot, 0);
    let added = cluster.add_primary();
    let nodes = cluster.command(added, "CLUSTER NODES");
    assert!(!nodes.contains('['), "it does not import the slot of another: {nodes}");
    cluster.end_move(slot, 1);
    assert_eq!(shards(&cluster, added), [vec![0], vec![1], vec![2]].into());
    assert_eq!((added, cluster.servers(), cluster.is_primary(added)), (2, 0..3, true));
    assert_eq!(set(&cluster, added, &key), redirection("MOVED", &cluster, slot, 1));
    assert_eq!(set(&cluster, 1, &key), "+OK\r\n");
    assert_eq!(cluster.move_slot(slot, added), 1);
    assert_eq!(set(&cluster, added, &key), "+OK\r\n");
    assert_eq!(cluster.owner(slot), added);
    assert_eq!(set(&cluster, 0, &key), redirection("MOVED", &cluster, slot, added));
}

fn primary_that_restarts_before_it_is_replaced_is_empty_and_keeps_its_slots(servers: &Servers) {
    let Some(mut cluster) = (servers.start_primaries)(1) else { return };
    let url = cluster.url();
    assert_eq!(url, format!("redis+cluster://127.0.0.1:{}", cluster.port(0)));
    assert_eq!(set(&cluster, 0, "key"), "+OK\r\n");
    cluster.restart(0);
    cluster.await_ok();
    assert_eq!((cluster.url(), cluster.owner_of("key")), (url, 0));
    assert_eq!(cluster.command(0, "GET key"), "$-1\r\n");
}

fn connections_of_one_type_are_closed(servers: &Servers) {
    let Some(cluster) = (servers.start_primaries)(1) else { return };
    let connect = || TcpStream::connect(("127.0.0.1", cluster.port(0))).expect("it listens");
    let (mut normal, mut subscriber) = (connect(), connect());
    let reply = |stream: &mut TcpStream, request: &[u8]| {
        stream.write_all(request).expect("the server reads");
        let mut reply = [0; 64];
        let length = stream.read(&mut reply).unwrap_or(0);
        String::from_utf8_lossy(&reply[..length]).into_owned()
    };
    let subscribed = "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n";
    assert_eq!(reply(&mut subscriber, b"SUBSCRIBE news\r\n"), subscribed);
    assert_eq!(cluster.close_clients(0, "pubsub"), 1);
    assert_eq!(subscriber.read(&mut [0; 8]).expect("an orderly end"), 0);
    assert_eq!(reply(&mut normal, b"PING\r\n"), "+PONG\r\n");
    assert!(cluster.close_clients(0, "normal") >= 1);
    assert_eq!(normal.read(&mut [0; 8]).expect("an orderly end"), 0);
}

fn slot_moves_by_each_method_that_the_servers_know(servers: &Servers) {
    let Some(cluster) = (servers.start_primaries)(3) else { return };
    let mut mover = cluster.mover();
    let (key, slot) = key_of(&cluster, 0);
    assert_eq!(set(&cluster, 0, &key), "+OK\r\n");
    for method in [MoveMethod::Stepwise, MoveMethod::Atomic] {
        if mover.knows(method) {
            let former = cluster.owner(slot);
            mover.move_slot(slot, 1, method, || {}).expect("it moves");
            let owner = cluster.owner(slot);
            assert_ne!(owner, former);
            assert_eq!(cluster.command(owner, &format!("GET {key}")), "$5\r\nvalue\r\n");
            assert!(!mover.is_open(slot) && mover.repair());
        }
    }
}

fn move_that_a_lost_target_interrupts_leaves_no_copy(servers: &Servers) {
    let Some(mut cluster) = (servers.start)() else { return };
    let mut mover = cluster.mover();
    let (key, slot) = key_of(&cluster, 0);
    let target_slot = key_of(&cluster, 1).1;
    assert_eq!(set(&cluster, 0, &key), "+OK\r\n");
    let mut pauses = 0;
    let moved = mover.move_slot(slot, 0, MoveMethod::Stepwise, || {
        pauses += 1;
        if pauses == 2 {
            // It has the key.
            cluster.await_replication(1);
            cluster.kill(1);
        }
    });
    assert!(moved.is_err() && mover.is_open(slot));
    assert!(!mover.repair(), "a server that does not answer may have copies");
    assert_eq!(cluster.next_owner(target_slot, 1), 4);
    let copies = |cluster: &Cluster| cluster.command(4, &format!("CLUSTER COUNTKEYSINSLOT {slot}"));
    assert_eq!(copies(&cluster), ":1\r\n");
    cluster.restart(1);
    until("the slot is repaired", || mover.repair().then_some(()));
    cluster.await_ok();
    assert_eq!((cluster.owner(slot), copies(&cluster)), (0, ":0\r\n".into()));
}

#[test]
fn each_cluster_has_servers_of_its_program() {
    let is_valkey = |cluster: Cluster| cluster.command(0, "INFO server").contains("\nvalkey_version:9.1.");
    assert!(!Cluster::start_primaries(1).is_some_and(is_valkey));
    assert!(Cluster::start_valkey_primaries(1).is_none_or(is_valkey));
}
