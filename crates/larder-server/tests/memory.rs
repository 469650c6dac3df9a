//! The keyspace: capacity, eviction, statistics, atomicity, scans, and a keyspace that outlives its server.

use larder_resp::Frame;
use larder_server::{ByteSize, Config, MemoryPolicy, Server, ServerError, Store};
use larder_testkit::{PATIENCE, until};
use std::time::Instant;

use crate::support::TestServer;

#[test]
fn eviction_bounds_memory() {
    let config = Config { max_memory: Some(ByteSize(4 << 20)), ..Config::default() };
    let server = TestServer::with(config);
    let mut client = server.connect();
    let value = "x".repeat(1_000);
    for number in 0..20_000 {
        assert_eq!(client.call(&["SET", &format!("key:{number}"), &value]), Frame::Simple("OK".into()));
    }
    let stats = server.stats().snapshot();
    assert!(stats.memory_used_bytes <= 4 << 20, "{} bytes used", stats.memory_used_bytes);
    assert!(stats.memory_used_bytes > 3 << 20, "{} bytes used", stats.memory_used_bytes);
    assert_eq!(stats.evicted + stats.keys, 20_000);
    // The newest entry is in the keyspace.
    assert_eq!(client.call(&["EXISTS", "key:19999"]), Frame::Integer(1));
}

#[test]
fn lowered_maxmemory_evicts_entries() {
    let server = TestServer::start();
    let mut client = server.connect();
    let value = "x".repeat(10_000);
    for number in 0..1_000 {
        client.call(&["SET", &format!("key:{number}"), &value]);
    }
    assert_eq!(client.call(&["CONFIG", "SET", "maxmemory", "2mb"]), Frame::Simple("OK".into()));
    client.call(&["SET", "one more", &value]);
    let stats = server.stats().snapshot();
    assert!(stats.memory_used_bytes <= 2 << 20, "{} bytes used", stats.memory_used_bytes);
    let reply = client.call(&["CONFIG", "GET", "maxmemory"]);
    let Frame::Array(pair) = reply else { panic!("{reply:?}") };
    assert_eq!(pair[1].as_bytes(), Some(&b"2097152"[..]));
}

/// Programs that set a policy find it again, where they look for it.
#[test]
fn policy_is_reported_by_its_name() {
    let server = TestServer::start();
    let mut client = server.connect();
    for name in MemoryPolicy::ALL.map(MemoryPolicy::name) {
        let set = ["CONFIG", "SET", "maxmemory-policy", &name.to_uppercase()];
        assert_eq!(client.call(&set), Frame::Simple("OK".into()));
        let Frame::Array(pair) = client.call(&["CONFIG", "GET", "maxmemory-policy"]) else {
            panic!("{name}")
        };
        assert_eq!(pair[1].as_bytes(), Some(name.as_bytes()));
        let info = client.call(&["INFO", "memory"]);
        let field = format!("maxmemory_policy:{name}\r\n");
        assert!(String::from_utf8_lossy(info.as_bytes().unwrap()).contains(&field), "{info:?}");
    }
}

#[test]
fn value_larger_than_capacity_is_rejected() {
    let config = Config { max_memory: Some(ByteSize(1 << 20)), ..Config::default() };
    let server = TestServer::with(config);
    let mut client = server.connect();
    let reply = client.call(&["SET", "k", &"x".repeat(2 << 20)]);
    assert_eq!(reply, Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".into()));
    assert_eq!(client.call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn max_memory_below_minimum_is_error() {
    let max_memory = Some(ByteSize(1_000));
    let error = Server::bind(Config { max_memory, ..Config::default() }).map(|_| ()).unwrap_err();
    assert!(matches!(error, ServerError::Range { option: "max_memory", value: 1_000, .. }), "{error}");
}

#[test]
fn keyspace_is_served_by_next_server() {
    let first = TestServer::with_store(Config::default(), Store::new(None).unwrap());
    first.connect().call(&["SET", "k", "v"]);
    let store = first.store();
    first.stop();
    let second = TestServer::with_store(Config::default(), store);
    assert_eq!(second.connect().call(&["GET", "k"]).as_bytes(), Some(&b"v"[..]));
}

#[test]
fn stats_count_commands_lookups_and_connections() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["SET", "k", "v"]);
    client.call(&["MGET", "k", "x", "y"]);
    client.call(&["NOSUCH"]);
    client.call(&["PING"]);
    // One turn of sixteen is timed.
    (0..16).for_each(|_| _ = client.call(&["PING"]));
    let stats = server.stats().snapshot();
    assert_eq!((stats.commands, stats.errors, stats.hits, stats.misses), (20, 1, 1, 2));
    assert_eq!((stats.connections, stats.connections_accepted, stats.keys), (1, 1, 1));
    assert!(stats.bytes_in > 60 && stats.bytes_out > 30 && stats.latency.count() >= 16);
}

/// Each request sets both keys; a reader on another thread must never see different values.
#[test]
fn mset_is_atomic() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let (mut writer, mut reader) = (server.connect(), server.connect());
    writer.call(&["MSET", "a", "0", "b", "0"]);
    let writing = std::thread::spawn(move || {
        for number in 1..20_000 {
            let number = number.to_string();
            writer.call(&["MSET", "a", &number, "b", &number]);
        }
    });
    while !writing.is_finished() {
        let reply = reader.call(&["MGET", "a", "b"]);
        let Frame::Array(pair) = reply else { panic!("{reply:?}") };
        assert_eq!(pair[0], pair[1]);
    }
    writing.join().unwrap();
}

/// A reader that polls for the keys must see them appear together.
#[test]
fn msetnx_is_atomic() {
    const ROUNDS: usize = 5_000;
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let (mut writer, mut reader) = (server.connect(), server.connect());
    let writing = std::thread::spawn(move || {
        for round in 0..ROUNDS {
            let (first, last) = (format!("first:{round}"), format!("last:{round}"));
            let request = ["MSETNX", &first, "x", "other", "x", &last, "x"];
            assert_eq!(writer.call(&request), Frame::Integer(1));
            assert_eq!(writer.call(&request), Frame::Integer(0));
            writer.call(&["DEL", "other"]);
        }
    });
    for round in 0..ROUNDS {
        let start = Instant::now();
        loop {
            let reply = reader.call(&["EXISTS", &format!("first:{round}"), &format!("last:{round}")]);
            assert_ne!(reply, Frame::Integer(1), "round {round}");
            if reply == Frame::Integer(2) {
                break;
            }
            assert!(start.elapsed() < PATIENCE, "the keys of round {round} do not appear");
        }
    }
    writing.join().unwrap();
}

#[test]
fn scan_during_writes_returns_all_stable_keys() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..3_000 {
        client.call(&["SET", &format!("stable:{number}"), "v"]);
    }
    let (mut found, mut cursor, mut turn) = (std::collections::BTreeSet::new(), "0".to_owned(), 0);
    loop {
        for number in 0..20 {
            client.call(&["SET", &format!("temporary:{turn}:{number}"), "v"]);
            client.call(&["DEL", &format!("temporary:{}:{number}", turn - 1)]);
        }
        turn += 1;
        let reply = client.call(&["SCAN", &cursor, "COUNT", "100", "MATCH", "stable:*"]);
        let Frame::Array(parts) = reply else { panic!("{reply:?}") };
        cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        let Frame::Array(keys) = &parts[1] else { panic!("{parts:?}") };
        found.extend(keys.iter().map(|key| key.as_bytes().unwrap().to_vec()));
        if cursor == "0" {
            break;
        }
    }
    assert_eq!(found.len(), 3_000);
}

#[test]
fn expired_entries_are_reclaimed_and_counted() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..100 {
        client.call(&["SET", &format!("short:{number}"), "v", "PX", "30"]);
    }
    client.call(&["SET", "long", "v", "PX", "600000"]);
    let start = std::time::Instant::now();
    // No client reads the keys: the server reclaims them on its own.
    until("expired entries are reclaimed", || (client.call(&["DBSIZE"]) == Frame::Integer(1)).then_some(()));
    assert!(start.elapsed().as_millis() >= 29);
    assert_eq!(server.stats().snapshot().expired, 100);
    assert_eq!(client.call(&["GET", "short:1"]), Frame::Null);
}

#[test]
fn info_counts_keys_with_deadlines_per_database() {
    let server = TestServer::start();
    let mut client = server.connect();
    for line in [
        "MSET a 1 b 2 c 3",
        "EXPIRE a 100",
        "SET b 2 EX 100",
        "SET b 2",
        "SET d 4 PX 100000",
        "PERSIST d",
        "EXPIRE d 100",
        "SELECT 3",
        "MSET a 1 b 2",
        "EXPIRE a 100",
        "RENAME a e",
        "COPY e f",
        "DEL f",
        "COPY e f DB 9",
    ] {
        client.call(&line.split(' ').collect::<Vec<_>>());
    }
    let mut keyspace = || {
        let reply = client.call(&["INFO", "keyspace"]);
        String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap()
    };
    let expected = "# Keyspace\r\ndb0:keys=4,expires=2,avg_ttl=0\r\ndb3:keys=2,expires=1,avg_ttl=0\r\ndb9:keys=1,expires=1,avg_ttl=0\r\n";
    assert_eq!(keyspace(), expected);
    server.connect().call(&["FLUSHALL"]);
    assert_eq!(keyspace(), "# Keyspace\r\n");
}

/// Long values are put into the reply after the keys are unlocked.
#[test]
fn long_values_are_returned_in_place() {
    let server = TestServer::start();
    let mut client = server.connect();
    let values: Vec<String> = [3, 4_096, 4_097, 100_000].iter().map(|length| "x".repeat(*length)).collect();
    for (name, value) in ["a", "b", "c", "d"].iter().zip(&values) {
        client.call(&["SET", name, value]);
    }
    let bulk = |at: usize| Frame::Bulk(values[at].clone().into());
    let reply = client.call(&["MGET", "c", "a", "nothing", "d", "d", "b", "a", "c"]);
    let expected = vec![bulk(2), bulk(0), Frame::Null, bulk(3), bulk(3), bulk(1), bulk(0), bulk(2)];
    assert_eq!(reply, Frame::Array(expected));
    assert_eq!(client.call(&["GETRANGE", "d", "99998", "-1"]), Frame::Bulk("xx".into()));
    assert_eq!(client.call(&["SET", "d", &values[2], "GET"]), bulk(3));
    assert_eq!(client.call(&["GETSET", "c", &values[3]]), bulk(2));
    assert_eq!(client.call(&["GETEX", "c", "EX", "100"]), bulk(3));
    assert_eq!(client.call(&["SETRANGE", "c", "99999", "yz"]), Frame::Integer(100_001));
    assert_eq!(client.call(&["SETRANGE", "c", "1", "y"]), Frame::Integer(100_001));
    assert_eq!(client.call(&["COPY", "c", "e"]), Frame::Integer(1));
    assert_eq!(client.call(&["SETBIT", "c", "1", "0"]), Frame::Integer(1));
    assert_eq!(client.call(&["GETRANGE", "c", "0", "1"]), Frame::Bulk("8y".into()));
    assert_eq!(
        client.call(&["GETRANGE", "e", "0", "1"]),
        Frame::Bulk("xy".into()),
        "a copy is its own value"
    );
    assert_eq!(client.call(&["RENAME", "e", "f"]), Frame::Simple("OK".into()));
    assert_eq!(client.call(&["STRLEN", "f"]), Frame::Integer(100_001));
    assert_eq!(client.call(&["GETDEL", "d"]), bulk(2));
    client.call(&["SET", "g", &values[1]]);
    for length in [4_097, 4_098, 4_099] {
        assert_eq!(client.call(&["APPEND", "g", "x"]), Frame::Integer(length));
    }
    assert_eq!(client.call(&["GET", "g"]), Frame::Bulk("x".repeat(4_099).into()));
    assert_eq!(client.call(&["SETNX", "h", &values[3]]), Frame::Integer(1));
    assert_eq!(client.call(&["SET", "h", &values[2], "XX", "GET"]), bulk(3));
    assert_eq!(client.call(&["GET", "h"]), bulk(2));
}

/// An append to a long value copies it unlocked, and notices what others have appended meanwhile.
#[test]
fn concurrent_appends_to_a_long_value_lose_nothing() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let servers = [(); 2].map(|()| TestServer::with_store(Config::default(), store.clone()));
    servers[0].connect().call(&["SET", "k", &"-".repeat(5_000)]);
    std::thread::scope(|scope| {
        for (server, text) in servers.iter().zip(["a", "b"]) {
            scope.spawn(move || {
                let mut client = server.connect();
                (0..1_000).for_each(|_| _ = client.call(&["APPEND", "k", text]));
            });
        }
    });
    let reply = servers[0].connect().call(&["GET", "k"]);
    let value = reply.as_bytes().expect("a value");
    let count = |byte| value.iter().filter(|other| **other == byte).count();
    assert_eq!((count(b'-'), count(b'a'), count(b'b')), (5_000, 1_000, 1_000));
}
