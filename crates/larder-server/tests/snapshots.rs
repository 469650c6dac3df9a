//! A snapshot from the end of a server to the start of the next one, which serves while it loads it.

use std::path::Path;

use larder_resp::Frame;
use larder_server::{Config, Server, ServerError};
use serde_json::json;

use crate::server_process::ServerProcess;
use crate::support::{Client, TestServer, encode};

/// Where the version begins, from the end of the file.
const VERSION_BEFORE_END: usize = 56;

fn with_snapshot(path: &Path) -> Config {
    Config { snapshot: Some(path.to_owned()), threads: Some(2), ..Config::default() }
}

fn place() -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("snapshot");
    (folder, path)
}

fn text(reply: &Frame) -> String {
    String::from_utf8_lossy(reply.as_bytes().unwrap_or_default()).into_owned()
}

/// Many keys by few requests.
fn fill(client: &mut Client<std::net::TcpStream>, keys: usize) {
    for first in (0..keys).step_by(1_000) {
        let mut request = vec!["MSET".to_owned()];
        for n in first..first + 1_000 {
            request.extend([format!("key:{n}"), format!("{n}")]);
        }
        assert_eq!(client.call(&request), Frame::Simple("OK".into()));
    }
}

#[test]
fn next_server_has_the_keys_of_the_last_one() {
    let (_folder, path) = place();
    let first = TestServer::with(with_snapshot(&path));
    let mut client = first.connect();
    for request in [
        &["SET", "text", "value", "EX", "1000"][..],
        &["HSET", "hash", "a", "1", "b", "2"],
        &["HEXPIRE", "hash", "1000", "FIELDS", "1", "a"],
        &["RPUSH", "list", "x", "y", "z"],
        &["SADD", "set", "1", "2"],
        &["ZADD", "zset", "1.5", "member"],
        &["XADD", "stream", "5-1", "event", "active", "job", "1"],
        &["XADD", "stream", "6-1", "event", "completed", "job", "1"],
        &["XDEL", "stream", "6-1"],
        &["SETBIT", "bits", "70", "1"],
        &["PFADD", "visitors", "a", "b"],
        &["SELECT", "7"],
        &["SET", "other", "database"],
        &["SET", "gone", "v", "PX", "1"],
    ] {
        assert!(!matches!(client.call(request), Frame::Error(_)), "{request:?}");
    }
    let dumps = ["text", "list", "set", "zset", "stream", "bits", "visitors"];
    client.call(&["SELECT", "0"]);
    let before: Vec<Frame> = dumps.iter().map(|key| client.call(&["DUMP", key])).collect();
    first.stop();
    assert!(path.exists());

    let second = TestServer::with(with_snapshot(&path));
    let mut client = second.connect();
    let after: Vec<Frame> = dumps.iter().map(|key| client.call(&["DUMP", key])).collect();
    assert_eq!(after, before);
    assert!(!path.exists(), "it is read once");
    let Frame::Integer(ttl) = client.call(&["TTL", "text"]) else { panic!("a number") };
    assert!((900..=1_000).contains(&ttl), "{ttl}");
    let Frame::Array(ttls) = client.call(&["HTTL", "hash", "FIELDS", "2", "a", "b"]) else {
        panic!("an array")
    };
    assert!(matches!(ttls[0], Frame::Integer(900..=1_000)) && ttls[1] == Frame::Integer(-1), "{ttls:?}");
    client.call(&["SELECT", "7"]);
    assert_eq!(text(&client.call(&["GET", "other"])), "database");
    assert_eq!(client.call(&["EXISTS", "gone"]), Frame::Integer(0));
}

/// The first requests come while almost nothing is loaded: a lock is held, what is deleted or emptied stays so.
#[test]
fn requests_during_the_loading_find_every_key() {
    const KEYS: usize = 300_000;
    let (_folder, path) = place();
    let first = TestServer::with(with_snapshot(&path));
    let mut client = first.connect();
    fill(&mut client, KEYS);
    client.call(&["RPUSH", "queue", "job"]);
    client.call(&["SELECT", "1"]);
    fill(&mut client, 1_000);
    first.stop();

    let second = TestServer::with(with_snapshot(&path));
    let mut client = second.connect();
    let requests: &[&[&str]] = &[
        &["SET", "key:299999", "mine", "NX"],
        &["DEL", "key:299998"],
        &["INCR", "key:299997"],
        &["GETSET", "key:299996", "new"],
        &["BLPOP", "queue", "1"],
        &["MULTI"],
        &["APPEND", "key:299995", "+"],
        &["EXEC"],
        &["EVAL", "return redis.call('GET', KEYS[1])", "1", "key:299994"],
        &["RENAME", "key:299993", "renamed"],
        &["GET", "renamed"],
        &["EXISTS", "key:299993", "key:299992"],
        &["SELECT", "1"],
        &["FLUSHDB"],
        &["EXISTS", "key:1"],
        &["SELECT", "0"],
    ];
    client.send(&requests.iter().flat_map(|request| encode(request)).collect::<Vec<u8>>());
    let replies: Vec<Frame> = requests.iter().map(|_| client.receive()).collect();
    assert_eq!(replies[0], Frame::Null);
    assert_eq!(replies[1], Frame::Integer(1));
    assert_eq!(replies[2], Frame::Integer(299_998));
    assert_eq!(text(&replies[3]), "299996");
    assert!(matches!(&replies[4], Frame::Array(popped) if text(&popped[1]) == "job"), "{:?}", replies[4]);
    assert_eq!(replies[7], Frame::Array(vec![Frame::Integer(7)]));
    assert_eq!(text(&replies[8]), "299994");
    assert_eq!(text(&replies[10]), "299993");
    assert_eq!(replies[11], Frame::Integer(1));
    assert_eq!(replies[14], Frame::Integer(0));

    // Commands on all keys are refused until all are there. They never see a part.
    let mut refused = 0;
    let size = loop {
        match client.call(&["DBSIZE"]) {
            Frame::Error(error) => {
                assert!(error.starts_with("LOADING "), "{error}");
                refused += 1;
            }
            Frame::Integer(size) => break size,
            reply => panic!("{reply:?}"),
        }
    };
    assert_eq!(size, KEYS as i64 - 1, "after {refused} refusals");
    let Frame::Array(keys) = client.call(&["KEYS", "*"]) else { panic!("an array") };
    assert_eq!(keys.len(), KEYS - 1);
    client.call(&["SELECT", "1"]);
    assert_eq!(client.call(&["DBSIZE"]), Frame::Integer(0));
}

/// A script that uses a key which it has not declared, and a transaction with `KEYS`, see all keys or are refused.
#[test]
fn undeclared_keys_are_complete_or_refused() {
    const KEYS: usize = 200_000;
    let (_folder, path) = place();
    let first = TestServer::with(with_snapshot(&path));
    fill(&mut first.connect(), KEYS);
    first.stop();
    let second = TestServer::with(with_snapshot(&path));
    let mut client = second.connect();
    let script = "return redis.call('EXISTS', 'key:' .. ARGV[1])";
    for n in (0..KEYS).rev() {
        match client.call(&["EVAL", script, "0", &n.to_string()]) {
            Frame::Error(error) => assert!(error.starts_with("LOADING "), "{error}"),
            reply => {
                assert_eq!(reply, Frame::Integer(1), "key:{n}");
                break;
            }
        }
    }
    client.call(&["MULTI"]);
    client.call(&["KEYS", "key:1*"]);
    match client.call(&["EXEC"]) {
        Frame::Error(error) => assert!(error.starts_with("LOADING "), "{error}"),
        Frame::Array(replies) => {
            assert!(
                matches!(&replies[0], Frame::Array(keys) if keys.len() == 111_111),
                "{:?}",
                replies.len()
            );
        }
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn killed_server_leaves_no_snapshot() {
    let (_folder, path) = place();
    let first = TestServer::with(with_snapshot(&path));
    first.connect().call(&["SET", "key", "value"]);
    first.stop();
    let killed = ServerProcess::start(&json!({ "snapshot": path }));
    assert_eq!(text(&killed.connect().call(&["GET", "key"])), "value");
    drop(killed);
    assert!(!path.exists());
    let next = TestServer::with(with_snapshot(&path));
    assert_eq!(next.connect().call(&["GET", "key"]), Frame::Null);
}

#[test]
fn place_that_cannot_be_written_is_an_error_at_the_start() {
    let (folder, _) = place();
    let missing = folder.path().join("missing/snapshot");
    let config = Config { listen: Some("127.0.0.1:0".parse().unwrap()), ..with_snapshot(&missing) };
    let error = Server::bind(config).map(drop).unwrap_err();
    assert!(matches!(error, ServerError::Snapshot { .. }));
    let expected = format!("cannot write the snapshot {}: ", missing.display());
    assert!(error.to_string().starts_with(&expected), "{error}");
}

/// A file that each version of the format has left: a program that cannot read one of them any more must have another number.
#[test]
fn snapshot_of_every_version_is_read() {
    let (_folder, path) = place();
    std::fs::write(&path, include_bytes!("formats/snapshot-1")).unwrap();
    let server = TestServer::with(with_snapshot(&path));
    let mut client = server.connect();
    for (request, expected) in [
        (&["GET", "text"][..], "value"),
        (&["EXPIRETIME", "text"], "4102444800"),
        (&["STRLEN", "long"], "5000"),
        (&["HGET", "hash", "b"], "2"),
        (&["LINDEX", "list", "2"], "z"),
        (&["SISMEMBER", "set", "three"], "1"),
        (&["ZSCORE", "zset", "member"], "1.5"),
        (&["XLEN", "stream"], "2"),
        (&["PFCOUNT", "visitors"], "3"),
    ] {
        let found = match client.call(request) {
            Frame::Integer(number) => number.to_string(),
            reply => text(&reply),
        };
        assert_eq!(found, expected, "{request:?}");
    }
    let deadline = client.call(&["HEXPIRETIME", "hash", "FIELDS", "1", "a"]);
    assert_eq!(deadline, Frame::Array(vec![Frame::Integer(4_102_444_800)]));
    client.call(&["SELECT", "7"]);
    assert_eq!(text(&client.call(&["GET", "other"])), "database");
}

/// A snapshot of a version to come is left where it is.
#[test]
fn snapshot_of_another_version_stays_and_the_server_starts_empty() {
    let (_folder, path) = place();
    let mut bytes = include_bytes!("formats/snapshot-1").to_vec();
    let at = bytes.len() - VERSION_BEFORE_END;
    assert_eq!(bytes[at..at + 4], [1, 0, 0, 0], "the place of the version");
    bytes[at] = 200;
    std::fs::write(&path, &bytes).unwrap();
    let server = TestServer::with(with_snapshot(&path));
    assert_eq!(server.connect().call(&["DBSIZE"]), Frame::Integer(0));
    assert_eq!(std::fs::read(&path).unwrap(), bytes);
}
