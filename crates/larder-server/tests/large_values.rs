//! Values above 1 MiB, which are received, edited and sent in pieces: what clients read is what they have stored.

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config};

use crate::support::{Client, TestServer, encode};
use std::net::TcpStream;

const LENGTH: usize = 5_000_000;

fn server() -> TestServer {
    TestServer::with(Config { max_memory: Some(ByteSize(512 << 20)), ..Config::default() })
}

/// Bytes that tell where they are, and do not look like line ends.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| b'A' + (at / 1000 % 50) as u8).collect()
}

fn call(client: &mut Client<TcpStream>, args: &[&[u8]]) -> Frame {
    client.call(args)
}

fn ok() -> Frame {
    Frame::Simple("OK".into())
}

#[track_caller]
fn expect_bytes(frame: Frame, expected: &[u8]) {
    assert!(frame.as_bytes() == Some(expected), "another value");
}

#[test]
fn every_command_that_stores_a_large_argument_stores_all_of_it() {
    let server = server();
    let client = &mut server.connect();
    let value = &pattern(LENGTH)[..];
    let other = &vec![b'o'; LENGTH][..];
    assert_eq!(call(client, &[b"SET", b"k", value]), ok());
    expect_bytes(call(client, &[b"GET", b"k"]), value);
    assert_eq!(call(client, &[b"SETEX", b"k", b"100", other]), ok());
    expect_bytes(call(client, &[b"GET", b"k"]), other);
    expect_bytes(call(client, &[b"GETSET", b"k", value]), other);
    expect_bytes(call(client, &[b"SET", b"k", other, b"GET", b"EX", b"100"]), value);
    assert_eq!(call(client, &[b"SETNX", b"k", value]), Frame::Integer(0));
    assert_eq!(call(client, &[b"SETNX", b"new", value]), Frame::Integer(1));
    assert_eq!(call(client, &[b"MSET", b"a", value, b"b", b"short", b"c", other]), ok());
    let Frame::Array(values) = call(client, &[b"MGET", b"a", b"new", b"b", b"c"]) else { panic!() };
    assert!(values.iter().map(Frame::as_bytes).eq([value, value, b"short", other].map(Some)));
    // Commands that only read it.
    expect_bytes(call(client, &[b"ECHO", value]), value);
    assert!(matches!(call(client, &[b"GET", b"k", value]), Frame::Error(_)));
    assert_eq!(call(client, &[b"EXISTS", value]), Frame::Integer(0));
    // A name as long as that, too.
    assert_eq!(call(client, &[b"SET", value, b"v"]), ok());
    expect_bytes(call(client, &[b"GET", value]), b"v");
}

#[test]
fn large_values_are_edited_and_removed_as_short_ones_are() {
    let server = server();
    let client = &mut server.connect();
    let mut expected = pattern(LENGTH);
    assert_eq!(call(client, &[b"APPEND", b"k", &expected]), Frame::Integer(LENGTH as i64));
    expected.extend_from_slice(b"tail");
    assert_eq!(call(client, &[b"APPEND", b"k", b"tail"]), Frame::Integer(expected.len() as i64));
    expected[10..15].copy_from_slice(b"12345");
    assert_eq!(call(client, &[b"SETRANGE", b"k", b"10", b"12345"]), Frame::Integer(expected.len() as i64));
    let patch = vec![b'p'; LENGTH / 2];
    expected[100..][..patch.len()].copy_from_slice(&patch);
    assert_eq!(call(client, &[b"SETRANGE", b"k", b"100", &patch]), Frame::Integer(expected.len() as i64));
    expect_bytes(call(client, &[b"GETRANGE", b"k", b"5", b"-5"]), &expected[5..expected.len() - 4]);
    assert_eq!(call(client, &[b"EXPIRE", b"k", b"100"]), Frame::Integer(1));
    expected.push(b'x');
    assert_eq!(call(client, &[b"APPEND", b"k", b"x"]), Frame::Integer(expected.len() as i64));
    assert_eq!(call(client, &[b"TTL", b"k"]), Frame::Integer(100), "an edit keeps the deadline");
    expect_bytes(call(client, &[b"GETDEL", b"k"]), &expected);
    assert_eq!(call(client, &[b"SETRANGE", b"k", b"3000000", b"x"]), Frame::Integer(3_000_001));
    assert_eq!(call(client, &[b"STRLEN", b"k"]), Frame::Integer(3_000_001));
    assert_eq!(call(client, &[b"DEL", b"k"]), Frame::Integer(1));
    assert!(matches!(call(client, &[b"SETRANGE", b"k", b"536870911", b"xx"]), Frame::Error(_)));
    assert_eq!(call(client, &[b"ZADD", b"z", b"1", b"a"]), Frame::Integer(1));
    assert!(matches!(call(client, &[b"APPEND", b"z", &expected]), Frame::Error(_)));
    assert_eq!(call(client, &[b"PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn large_values_in_transactions_scripts_and_without_replies() {
    let server = server();
    let client = &mut server.connect();
    let value = &pattern(LENGTH)[..];
    let queued = Frame::Simple("QUEUED".into());
    assert_eq!(call(client, &[b"MULTI"]), ok());
    for command in [&[&b"SET"[..], b"k", value][..], &[b"APPEND", b"k", b"x"], &[b"GET", b"k"], &[b"PING"]] {
        assert_eq!(call(client, command), queued);
    }
    let Frame::Array(replies) = call(client, &[b"EXEC"]) else { panic!() };
    let stored = [value, b"x"].concat();
    assert_eq!((&replies[0], &replies[1]), (&ok(), &Frame::Integer(stored.len() as i64)));
    assert!(replies[2].as_bytes() == Some(&stored) && replies[3] == Frame::Simple("PONG".into()));
    let script = b"redis.call('SET', KEYS[1], ARGV[1]) redis.call('APPEND', KEYS[1], 'y') return redis.call('GET', KEYS[1])";
    expect_bytes(call(client, &[b"EVAL", script, b"1", b"s", value]), &[value, b"y"].concat());
    client.send(b"CLIENT REPLY SKIP\r\nGET k\r\nCLIENT REPLY SKIP\r\nAPPEND k z\r\nSTRLEN k\r\n");
    assert_eq!(client.receive(), Frame::Integer(stored.len() as i64 + 1));
}

/// The messages about tracked keys stay in order with large replies.
#[test]
fn client_that_tracks_keys_reads_and_edits_large_values() {
    let server = server();
    let (mut tracking, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    let value = &pattern(LENGTH)[..];
    assert_eq!(call(&mut other, &[b"SET", b"k", value]), ok());
    assert_eq!(call(&mut tracking, &[b"CLIENT", b"TRACKING", b"ON"]), ok());
    expect_bytes(call(&mut tracking, &[b"GET", b"k"]), value);
    assert_eq!(call(&mut other, &[b"APPEND", b"k", b"x"]), Frame::Integer(LENGTH as i64 + 1));
    assert!(matches!(tracking.receive(), Frame::Push(_)));
    expect_bytes(call(&mut tracking, &[b"GET", b"k"]), &[value, b"x"].concat());
    tracking.send(&encode(&["APPEND", "k", "y"]));
    let (first, second) = (tracking.receive(), tracking.receive());
    assert!(matches!((first, second), (Frame::Integer(_), Frame::Push(_))));
}

/// The request is complete, and its large argument is not in the buffer that is parsed again after the pause.
#[test]
fn large_argument_waits_for_the_end_of_a_pause() {
    let server = server();
    let (mut paused, mut other) = (server.connect(), server.connect());
    let value = pattern(LENGTH);
    assert_eq!(call(&mut other, &[b"CLIENT", b"PAUSE", b"100000", b"WRITE"]), ok());
    paused.send(&encode(&[&b"SET"[..], b"k", &value]));
    paused.send(&encode(&["GET", "k"]));
    // Replies of the same connection are in order, so nothing of it is executed before the end of the pause.
    assert_eq!(call(&mut other, &[b"EXISTS", b"k"]), Frame::Integer(0));
    assert_eq!(call(&mut other, &[b"CLIENT", b"UNPAUSE"]), ok());
    assert_eq!(paused.receive(), ok());
    expect_bytes(paused.receive(), &value);
}

#[test]
fn reply_of_large_values_is_limited() {
    let server = TestServer::with(Config { max_reply_bytes: ByteSize(3 << 20), ..Config::default() });
    let (mut client, mut other) = (server.connect(), server.connect());
    let value = pattern(LENGTH);
    assert_eq!(call(&mut client, &[b"SET", b"k", &value]), ok());
    assert!(matches!(call(&mut client, &[b"GET", b"k"]), Frame::Error(_)));
    assert!(matches!(call(&mut client, &[b"DUMP", b"k"]), Frame::Error(_)));
    expect_bytes(call(&mut other, &[b"GETRANGE", b"k", b"0", b"1999999"]), &value[..2_000_000]);
}

/// Its memory tells when a value is copied: it has room for a quarter more, and grows into it.
#[test]
fn value_that_grows_in_small_steps_is_copied_a_few_times() {
    let server = server();
    let client = &mut server.connect();
    let kilobyte = "a".repeat(1_000);
    let step = |name: &str, at: usize| match name {
        "APPEND" => vec!["APPEND".to_owned(), "k".to_owned(), kilobyte.clone()],
        "SETRANGE" => vec!["SETRANGE".to_owned(), "k".to_owned(), (at * 1_000).to_string(), kilobyte.clone()],
        _ => ["SETBIT", "k", &(at * 8_000 + 7_999).to_string(), "1"].map(str::to_owned).into(),
    };
    for name in ["APPEND", "SETRANGE", "SETBIT"] {
        let (mut copies, mut before) = (0, 0);
        for at in 0..3_000 {
            client.call(&step(name, at));
            let Frame::Integer(bytes) = client.call(&["MEMORY", "USAGE", "k"]) else { panic!("{name}") };
            copies += usize::from(bytes != before);
            before = bytes;
        }
        let Frame::Integer(length) = client.call(&["STRLEN", "k"]) else { panic!("{name}") };
        assert_eq!(length, 3_000_000, "{name}");
        assert!(length < before && before < length * 4 / 3, "{name}: {before} bytes of {length}");
        // Up to 4 KiB each step is one.
        assert!(copies < 50, "{name}: {copies} copies");
        assert_eq!(client.call(&["DEL", "k"]), Frame::Integer(1));
    }
}
