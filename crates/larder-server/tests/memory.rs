//! Limits by bytes, eviction, numbers, and a keyspace that outlives its server.

use larder_resp::Frame;
use larder_server::{ByteSize, Config, Server, ServerError, Store};

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
