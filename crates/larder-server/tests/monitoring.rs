//! Slow commands and monitors, compared with those of a real Redis: what they show of a request, and what they hide.

use larder_resp::{Frame, Protocol};
use larder_testkit::RedisServer;

use crate::differential::{Pair, words};
use crate::support::{Client, TestServer, encode};

/// Requests of all kinds: secrets, errors, transactions, scripts, commands that administer the server.
const REQUESTS: &[&[&str]] = &[
    &["SET", "k", "v"],
    &["set", "special\n\t\r\"\\\u{7}\u{8}\u{1}é", ""],
    &["GET"],
    &["NOSUCH", "a"],
    &["INCR", "k"],
    &["AUTH", "secret"],
    &["AUTH", "user", "secret"],
    &["HELLO", "2", "AUTH", "default", "secret", "SETNAME", "n"],
    &["HELLO", "2", "SETNAME", "n", "AUTH", "default", "secret"],
    &["CONFIG", "SET", "timeout", "0", "requirepass", ""],
    &["CONFIG", "SET", "masterauth", "secret"],
    &["CONFIG", "GET", "timeout"],
    &["CLIENT", "ID"],
    &["CLIENT", "LIST", "ID", "9"],
    &["CLIENT", "KILL", "ID", "999"],
    &["CLIENT", "UNBLOCK", "999"],
    &["SLOWLOG", "LEN"],
    &["MULTI"],
    &["SELECT", "3"],
    &["SET", "k", "1"],
    &["INCR", "k"],
    &["EXEC"],
    &["MULTI"],
    &["GET", "k"],
    &["DISCARD"],
    &["MULTI"],
    &["GET"],
    &["EXEC"],
    &["WATCH", "k"],
    &["UNWATCH"],
    &["EVAL", "redis.call('set', KEYS[1], 'x') return redis.pcall('incr', KEYS[1])", "1", "s"],
    &["EVAL", "return redis.call('get', 'other' .. ARGV[1])", "0", "key"],
    &["EVAL", "return redis.pcall('nosuch')", "0"],
    &["EVALSHA", "0000000000000000000000000000000000000000", "0"],
    &["SUBSCRIBE", "c"],
    &["UNSUBSCRIBE", "c"],
    &["PUBLISH", "c", "m"],
    &["KEYS", "nothing*"],
    &["RESET"],
    &["FLUSHALL"],
    &["ECHO", "last"],
];

/// What a line says without its time, and without the address of the client.
fn shown(line: &Frame) -> String {
    let Frame::Simple(line) = line else { panic!("{line:?}") };
    let (time, rest) = line.split_once(" [").expect("a time");
    let (secs, micros) = time.split_once('.').expect("a fraction");
    assert!(secs.parse::<u64>().is_ok() && micros.len() == 6 && micros.parse::<u32>().is_ok(), "{line}");
    let (source, request) = rest.split_once("] ").expect("a source");
    let (database, executor) = source.split_once(' ').expect("a database");
    let executor = if executor == "lua" { "lua" } else { "client" };
    format!("{database} {executor} {request}")
}

fn lines<S: std::io::Read + std::io::Write>(monitor: &mut Client<S>) -> Vec<String> {
    let lines = monitor.receive_until(|line| shown(line).ends_with("\"last\""));
    lines.iter().map(shown).collect()
}

#[test]
fn monitors_see_the_commands_that_those_of_redis_see() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for protocol in ["2", "3"] {
        let (mut pair, mut monitors) = (Pair::connect(&redis, &server), Pair::connect(&redis, &server));
        monitors.call(&words(&format!("HELLO {protocol}")));
        monitors.compare(&words("MONITOR")).unwrap();
        for request in REQUESTS {
            pair.redis.call(request);
            pair.larder.call(request);
        }
        let (ours, theirs) = (lines(&mut monitors.larder), lines(&mut monitors.redis));
        assert_eq!(ours, theirs);
        assert!(!ours.concat().contains("secret"), "{ours:?}");
    }
}

#[test]
fn monitor_names_the_address_of_the_client() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.connect(), server.connect());
    monitor.call(&["MONITOR"]);
    client.call(&["PING"]);
    let address = client.stream.local_addr().unwrap();
    let Frame::Simple(line) = monitor.receive() else { panic!("a line") };
    assert!(line.ends_with(&format!(" [0 {address}] \"PING\"")), "{line}");
}

/// A monitor is told of its own commands, after their replies, and may use no keys. `RESET` ends it.
#[test]
fn connection_that_monitors_is_limited_as_in_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    pair.compare(&words("MONITOR")).unwrap();
    for request in ["GET k", "SET k v", "PUBLISH a b", "DEL k", "KEYS *", "EVAL x 0"] {
        pair.compare(&words(request)).unwrap();
    }
    // Each line follows the reply to its command.
    for (request, reply) in [("PING", "PONG"), ("SELECT 1", "OK"), ("MULTI", "OK")] {
        for client in [&mut pair.larder as &mut dyn Calls, &mut pair.redis] {
            assert_eq!(client.call(request), Frame::Simple(reply.into()));
            assert!(shown(&client.next()).contains(request.split(' ').next().unwrap()), "{request}");
        }
    }
    for client in [&mut pair.larder as &mut dyn Calls, &mut pair.redis] {
        assert_eq!(client.call("RESET"), Frame::Simple("RESET".into()));
    }
    pair.compare(&words("GET k")).unwrap();
    pair.compare(&words("PING")).unwrap();
    pair.compare(&words("MULTI")).unwrap();
    pair.compare(&words("MONITOR")).unwrap();
    pair.compare(&words("EXEC")).unwrap();
}

/// A connection of either kind.
trait Calls {
    fn call(&mut self, request: &str) -> Frame;
    fn next(&mut self) -> Frame;
}

impl<S: std::io::Read + std::io::Write> Calls for Client<S> {
    fn call(&mut self, request: &str) -> Frame {
        Client::call(self, &words(request))
    }

    fn next(&mut self) -> Frame {
        self.receive()
    }
}

#[test]
fn monitor_that_does_not_read_is_closed() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.connect(), server.connect());
    client.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 1mb 0 0"]);
    monitor.call(&["MONITOR"]);
    let value = "v".repeat(256 << 10);
    let is_closed = |client: &mut Client<_>| {
        let info = client.call(&["INFO", "stats"]);
        let info = String::from_utf8_lossy(info.as_bytes().unwrap()).into_owned();
        info.contains("client_output_buffer_limit_disconnections:1\r\n")
    };
    // The system buffers some megabytes.
    let sent = (0..400).find(|_| {
        client.call(&["SET", "k", &value]);
        is_closed(&mut client)
    });
    assert!(sent.is_some());
    assert_eq!(client.call(&["GET", "k"]).as_bytes(), Some(value.as_bytes()));
}

/// A script that starts again with other locks has run once for those who watch.
#[test]
fn monitor_sees_a_script_once_that_starts_again() {
    let server = TestServer::start();
    let (mut monitor, mut client) = (server.connect_as(Protocol::Resp3), server.connect());
    monitor.call(&["MONITOR"]);
    client.call(&["EVAL", "redis.call('set', KEYS[1], 1) return redis.call('get', 'other')", "1", "a"]);
    client.call(&["ECHO", "last"]);
    let lines = lines(&mut monitor);
    assert_eq!(lines.iter().filter(|line| line.contains("0 lua \"set\"")).count(), 1, "{lines:?}");
    assert_eq!(lines.len(), 4);
}

/// The requests of the log, the oldest one first.
fn logged<S: std::io::Read + std::io::Write>(client: &mut Client<S>) -> Vec<Vec<String>> {
    let Frame::Array(entries) = client.call(&["SLOWLOG", "GET", "-1"]) else { panic!("entries") };
    let text = |frame: &Frame| String::from_utf8_lossy(frame.as_bytes().unwrap()).into_owned();
    let request = |entry: &Frame| match entry {
        Frame::Array(fields) => match &fields[..] {
            [Frame::Integer(_), Frame::Integer(1..), Frame::Integer(0..), Frame::Array(request), _, _] => {
                request.iter().map(text).collect()
            }
            fields => panic!("{fields:?}"),
        },
        entry => panic!("{entry:?}"),
    };
    entries.iter().rev().map(request).collect()
}

#[test]
fn slow_log_shows_the_requests_that_that_of_redis_shows() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    pair.compare(&words("CONFIG GET slowlog-max-len")).unwrap();
    pair.compare(&words("CONFIG SET slowlog-max-len 1000 slowlog-log-slower-than 0")).unwrap();
    pair.call(&words("SLOWLOG RESET"));
    for request in REQUESTS {
        pair.redis.call(request);
        pair.larder.call(request);
    }
    let long = "x".repeat(129);
    let many: Vec<String> = ["MSET".to_owned()].into_iter().chain((0..32).map(|n| n.to_string())).collect();
    for request in [vec!["SET".to_owned(), "k".repeat(128), long], many] {
        pair.compare(&request).unwrap();
    }
    let (ours, theirs) = (logged(&mut pair.larder), logged(&mut pair.redis));
    assert_eq!(ours, theirs);
    assert!(!ours.concat().concat().contains("secret"), "{ours:?}");
}

#[test]
fn subcommands_of_slowlog_reply_as_those_of_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    for request in [
        "SLOWLOG LEN",
        "SLOWLOG LEN x",
        "SLOWLOG RESET x",
        "SLOWLOG RESET",
        "SLOWLOG GET",
        "SLOWLOG GET x",
        "SLOWLOG GET -2",
        "SLOWLOG GET 1 2",
        "SLOWLOG",
        "SLOWLOG NOSUCH",
        "CONFIG SET slowlog-max-len -1",
        "CONFIG SET slowlog-max-len x",
        "CONFIG SET slowlog-log-slower-than -2",
        "CONFIG SET slowlog-log-slower-than x",
        "CONFIG SET slowlog-max-len 2 slowlog-log-slower-than 0",
        "PING",
        "PING",
        "SLOWLOG LEN",
        "CONFIG GET slowlog-max-len",
        "CONFIG GET slowlog-log-slower-than",
        "CONFIG SET slowlog-log-slower-than -1",
        "SLOWLOG RESET",
        "PING",
        "SLOWLOG LEN",
    ] {
        pair.compare(&words(request)).unwrap();
    }
}

#[test]
fn slow_log_counts_execution_and_not_waiting() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["CLIENT", "SETNAME", "n"]);
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "30000"]);
    client.call(&["BLPOP", "nothing", "0.1"]);
    assert_eq!(client.call(&["SLOWLOG", "LEN"]), Frame::Integer(0));
    // Longer than the threshold, whatever the machine is.
    let script = "local start = redis.call('time') repeat local now = redis.call('time') until \
                  (now[1] - start[1]) * 1000000 + now[2] - start[2] > 40000";
    client.call(&["EVAL", script, "0"]);
    let Frame::Array(entries) = client.call(&["SLOWLOG", "GET"]) else { panic!("entries") };
    let [Frame::Array(entry)] = &entries[..] else { panic!("{entries:?}") };
    assert!(matches!(entry[2], Frame::Integer(40_000..)), "{entry:?}");
    let address = client.stream.local_addr().unwrap().to_string();
    assert_eq!(entry[4..], [Frame::Bulk(address.into_bytes().into()), Frame::Bulk(b"n"[..].into())]);
}

/// The slices of a command are one entry.
#[test]
fn command_in_slices_is_logged_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    let requests: Vec<u8> = (0..5_000).flat_map(|n| encode(&["SET", &n.to_string(), "v"])).collect();
    client.send(&requests);
    (0..5_000).for_each(|_| drop(client.receive()));
    client.call(&["CONFIG", "SET", "slowlog-log-slower-than", "0"]);
    client.call(&["KEYS", "nothing*"]);
    let logged = logged(&mut client);
    assert_eq!(logged.iter().filter(|request| request[0] == "KEYS").count(), 1, "{logged:?}");
}
