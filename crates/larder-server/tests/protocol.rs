//! The protocol below the commands: framing errors, limits, pipelines, HTTP.

use std::io::Write;

use larder_resp::Frame;
use larder_server::{ByteSize, Config, Password};
use proptest::prelude::*;

use crate::support::{TestServer, encode};

#[test]
fn framing_error_is_reported_and_closes_connection() {
    let server = TestServer::start();
    for (input, reply) in [
        (&b"*1\r\n$18446744073709551616\r\n"[..], "-ERR Protocol error: invalid bulk length\r\n"),
        (b"*18446744073709551616\r\n", "-ERR Protocol error: invalid multibulk length\r\n"),
        (b"*1\r\n$536870913\r\n", "-ERR Protocol error: invalid bulk length\r\n"),
        (b"PING\r\n*1\r\n+PING\r\n", "+PONG\r\n-ERR Protocol error: expected '$', got '+'\r\n"),
        (b"GET \"k\r\n", "-ERR Protocol error: unbalanced quotes in request\r\n"),
    ] {
        let mut client = server.connect();
        client.send(input);
        assert_eq!(String::from_utf8(client.read_to_end()).unwrap(), reply, "{}", input.escape_ascii());
    }
    assert_eq!(server.connect().call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn nested_headers_close_only_their_connection() {
    let server = TestServer::start();
    let mut client = server.connect();
    // The server may close the connection before it has read everything.
    let _ = client.stream.write_all(&b"*1\r\n".repeat(200_000));
    let reply = client.read_to_end();
    assert!(reply.is_empty() || reply == b"-ERR Protocol error: expected '$', got '*'\r\n");
    assert_eq!(server.connect().call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn pipeline_of_twenty_thousand_requests_is_answered_in_order() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut requests = Vec::new();
    for number in 0..10_000 {
        requests.extend(encode(&["SET", &format!("key:{number}"), &number.to_string()]));
        requests.extend(encode(&["GET", &format!("key:{number}")]));
    }
    let mut sender = client.stream.try_clone().unwrap();
    let writer = std::thread::spawn(move || sender.write_all(&requests).unwrap());
    for number in 0..10_000 {
        assert_eq!(client.receive(), Frame::Simple("OK".into()));
        assert_eq!(client.receive().as_bytes(), Some(number.to_string().as_bytes()));
    }
    writer.join().unwrap();
}

#[test]
fn request_sent_byte_by_byte_is_executed() {
    let server = TestServer::start();
    let mut client = server.connect();
    for byte in encode(&["SET", "k", "a\r\nb"]).iter().chain(b"GET k\r\n") {
        client.send(&[*byte]);
    }
    assert_eq!(client.receive(), Frame::Simple("OK".into()));
    assert_eq!(client.receive().as_bytes(), Some(&b"a\r\nb"[..]));
}

#[test]
fn binary_keys_and_large_values_round_trip() {
    let server = TestServer::start();
    let mut client = server.connect();
    let key: Vec<u8> = (0..=255).collect();
    let value: Vec<u8> = (0..5_000_000u32).map(|n| (n % 251) as u8).collect();
    assert_eq!(client.call(&[&b"SET"[..], &key, &value]), Frame::Simple("OK".into()));
    assert_eq!(client.call(&[&b"GET"[..], &key]).as_bytes(), Some(&value[..]));
}

#[test]
fn http_connection_is_closed_without_executing_commands() {
    let server = TestServer::start();
    for request in [
        "POST / HTTP/1.1\r\nHost: localhost\r\n\r\nSET stolen 1\r\n",
        "GET / HTTP/1.1\r\n\r\nSET stolen 1\r\n",
        "OPTIONS /x HTTP/1.0\r\nSET stolen 1\r\n",
        "PUT x\r\nHost: localhost\r\nSET stolen 1\r\n",
    ] {
        let mut client = server.connect();
        client.send(request.as_bytes());
        let reply = client.read_to_end();
        assert!(!reply.windows(3).any(|part| part == b"+OK"), "{request}");
    }
    assert_eq!(server.connect().call(&["EXISTS", "stolen"]), Frame::Integer(0));
}

#[test]
fn unauthenticated_requests_are_limited() {
    let config = Config { requirepass: Some(Password::new("secret")), ..Config::default() };
    let server = TestServer::with(config);
    for (input, reply) in [
        (&b"*11\r\n"[..], "-ERR Protocol error: unauthenticated multibulk length\r\n"),
        (b"*2\r\n$4\r\nAUTH\r\n$16385\r\n", "-ERR Protocol error: unauthenticated bulk length\r\n"),
    ] {
        let mut client = server.connect();
        client.send(input);
        assert_eq!(String::from_utf8(client.read_to_end()).unwrap(), reply);
    }
    let mut client = server.connect();
    assert_eq!(client.call(&["AUTH", "secret"]), Frame::Simple("OK".into()));
    assert_eq!(client.call(&["ECHO", &"x".repeat(100_000)]).as_bytes().map(<[u8]>::len), Some(100_000));
}

#[test]
fn reply_above_limit_is_an_error() {
    let config = Config { max_reply_bytes: ByteSize(4 << 20), ..Config::default() };
    let server = TestServer::with(config);
    let mut client = server.connect();
    client.call(&["SET", "large", &"x".repeat(1 << 20)]);
    let mut request = vec!["MGET"];
    request.resize(1_000, "large");
    assert!(is_too_large(&client.call(&request)));
    for request in [
        "EVAL for_i=1,9_do_redis.call('GET','large')_end_return_redis.call('MGET','large','large','large','large','large') 0",
        "KEYS *",
    ] {
        let request: Vec<String> = request.split(' ').map(|word| word.replace('_', " ")).collect();
        let reply = client.call(&request);
        assert_eq!(is_too_large(&reply), request[0] == "EVAL", "{reply:?}");
    }
    // What changes the value that it replies with changes nothing.
    let text = "x".repeat(5 << 20);
    client.call(&["SET", "larger", &text]);
    for request in [
        &["GETDEL", "larger"][..],
        &["GETSET", "larger", "x"],
        &["SET", "larger", "x", "GET"],
        &["GETEX", "larger", "EX", "100"],
    ] {
        assert!(is_too_large(&client.call(request)), "{}", request[0]);
    }
    assert_eq!(client.call(&["STRLEN", "larger"]), Frame::Integer(5 << 20));
    assert_eq!(client.call(&["TTL", "larger"]), Frame::Integer(-1));
    assert_eq!(server.connect().call(&["STRLEN", "large"]), Frame::Integer(1 << 20));
}

fn is_too_large(reply: &Frame) -> bool {
    matches!(reply, Frame::Error(text) if text.starts_with("ERR the reply would exceed 4194304 bytes"))
}

/// Random commands with random arguments, mixed with random bytes.
fn random_requests() -> impl Strategy<Value = Vec<u8>> {
    let names = larder_server::commands().iter().map(|spec| spec.name).filter(|name| *name != "flushall");
    let word = prop_oneof![
        4 => prop::sample::select(names.collect::<Vec<_>>()).prop_map(|name| name.as_bytes().to_vec()),
        2 => "(NX|XX|GET|EX|PX|KEEPTTL|MATCH|COUNT|ID|LIST|INFO|DOCS|SET|AUTH)".prop_map(String::into_bytes),
        2 => any::<i64>().prop_map(|number| number.to_string().into_bytes()),
        2 => prop::collection::vec(any::<u8>(), 0..20),
    ];
    let request = prop::collection::vec(word, 0..7).prop_map(|words| encode(&words));
    let garbage = prop_oneof![9 => Just(Vec::new()), 1 => prop::collection::vec(any::<u8>(), 0..10)];
    prop::collection::vec((request, garbage).prop_map(|(a, b)| [a, b].concat()), 1..20)
        .prop_map(|all| all.concat())
}

#[test]
fn random_requests_never_panic_the_server() {
    let server = TestServer::start();
    let healthy_client = std::cell::RefCell::new(server.connect());
    proptest!(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) }, |(bytes in random_requests())| {
        let mut client = server.connect();
        // The server may close the connection before it has read everything.
        let _ = client.stream.write_all(&bytes);
        let _ = client.stream.shutdown(std::net::Shutdown::Write);
        client.read_to_end();
        let reply = healthy_client.borrow_mut().call(&["ECHO", "alive"]);
        prop_assert_eq!(reply.as_bytes(), Some(&b"alive"[..]));
    });
    assert_eq!(server.stats().snapshot().panics, 0);
}
