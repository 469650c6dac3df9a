//! Limits by bytes, eviction, numbers, and a keyspace that outlives its server.

use larder_resp::Frame;
use larder_server::{ByteSize, Config, Server, ServerError, Store};
use larder_testkit::{PATIENCE, until};
use std::time::Instant;

use crate::support::TestServer;

#[test]
fn memory_is_bounded_by_eviction() {
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
    // What was just stored can be read.
    assert_eq!(client.call(&["EXISTS", "key:19999"]), Frame::Integer(1));
}

#[test]
fn the_limit_can_be_changed_while_running() {
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

#[test]
fn a_value_that_never_fits_is_refused() {
    let config = Config { max_memory: Some(ByteSize(1 << 20)), ..Config::default() };
    let server = TestServer::with(config);
    let mut client = server.connect();
    let reply = client.call(&["SET", "k", &"x".repeat(2 << 20)]);
    assert_eq!(reply, Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".into()));
    assert_eq!(client.call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn less_than_a_mebibyte_is_no_cache() {
    let max_memory = Some(ByteSize(1_000));
    let error = Server::bind(Config { max_memory, ..Config::default() }).map(|_| ()).unwrap_err();
    assert!(matches!(error, ServerError::Range { option: "max_memory", value: 1_000, .. }), "{error}");
}

#[test]
fn a_keyspace_outlives_its_server() {
    let first = TestServer::serving(Config::default(), Store::new(None).unwrap());
    first.connect().call(&["SET", "k", "v"]);
    let store = first.store();
    first.stop();
    let second = TestServer::serving(Config::default(), store);
    assert_eq!(second.connect().call(&["GET", "k"]).as_bytes(), Some(&b"v"[..]));
}

#[test]
fn numbers_add_up() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["SET", "k", "v"]);
    client.call(&["MGET", "k", "x", "y"]);
    client.call(&["NOSUCH"]);
    client.call(&["PING"]);
    let stats = server.stats().snapshot();
    assert_eq!((stats.commands, stats.errors, stats.hits, stats.misses), (4, 1, 1, 2));
    assert_eq!((stats.connections, stats.connections_accepted, stats.keys), (1, 1, 1));
    assert!(stats.bytes_in > 60 && stats.bytes_out > 30 && stats.latency.count() >= 3);
}

/// Each request changes both keys or none; a reader on another thread must never find them different.
#[test]
fn several_keys_are_stored_in_one_step() {
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

/// A reader that waits for the keys to come must see them come together.
#[test]
fn several_keys_appear_in_one_step() {
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
fn a_scan_returns_all_that_stays_while_others_come_and_go() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..3_000 {
        client.call(&["SET", &format!("stays:{number}"), "v"]);
    }
    let (mut found, mut cursor, mut turn) = (std::collections::BTreeSet::new(), "0".to_owned(), 0);
    loop {
        for number in 0..20 {
            client.call(&["SET", &format!("comes:{turn}:{number}"), "v"]);
            client.call(&["DEL", &format!("comes:{}:{number}", turn - 1)]);
        }
        turn += 1;
        let reply = client.call(&["SCAN", &cursor, "COUNT", "100", "MATCH", "stays:*"]);
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
fn entries_expire_and_are_counted() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..100 {
        client.call(&["SET", &format!("short:{number}"), "v", "PX", "30"]);
    }
    client.call(&["SET", "long", "v", "PX", "600000"]);
    let began = std::time::Instant::now();
    // Nothing asks for the keys: their memory comes back by itself.
    until("expired entries are reclaimed", || (client.call(&["DBSIZE"]) == Frame::Integer(1)).then_some(()));
    assert!(began.elapsed().as_millis() >= 29);
    assert_eq!(server.stats().snapshot().expired, 100);
    assert_eq!(client.call(&["GET", "short:1"]), Frame::Null);
}
