//! What tools and exporters ask: the real `redis-cli` in its modes, and the requests of exporters, compared with a real
//! Redis.

use std::path::Path;
use std::process::{Command, Stdio};

use larder_resp::{Frame, Protocol};
use larder_testkit::program;

use crate::differential::{assert_equal_replies, words};
use crate::support::{Client, TestServer};

/// What exporters and monitors ask, and what they ask with wrong arguments.
#[test]
fn requests_of_exporters_get_the_replies_of_redis() {
    assert_equal_replies(&[
        "LATENCY LATEST",
        "LATENCY LATEST x",
        "LATENCY HISTORY command",
        "LATENCY HISTORY",
        "LATENCY RESET",
        "LATENCY RESET a b",
        "LATENCY GRAPH command",
        "LATENCY DOCTOR x",
        "LATENCY HISTOGRAM nosuch",
        "LATENCY",
        "LATENCY NOSUCH",
        "MODULE LIST",
        "MODULE LIST x",
        "MODULE",
        "MODULE NOSUCH",
        "MEMORY PURGE",
        "MEMORY PURGE x",
        "MEMORY STATS x",
        "MEMORY DOCTOR x",
        "MEMORY MALLOC-STATS x",
        "MEMORY USAGE",
        "MEMORY",
        "MEMORY NOSUCH",
        "CONFIG GET latency-monitor-threshold",
        "CONFIG SET latency-monitor-threshold 0",
        "COMMAND LIST FILTERBY ACLCAT nosuch",
        "COMMAND LIST FILTERBY MODULE nosuch",
        "COMMAND LIST FILTERBY nosuch x",
        "CLIENT LIST TYPE replica",
        "CLIENT LIST TYPE nosuch",
        "CLIENT LIST ID",
        "CLIENT LIST ID x",
        "CLIENT NO-EVICT ON",
        "CLIENT NO-EVICT x",
        "CLIENT GETREDIR",
    ]);
}

fn integer(frame: &Frame) -> i64 {
    match frame {
        Frame::Integer(number) => *number,
        frame => panic!("{frame:?}"),
    }
}

/// The fields of a map in RESP3.
fn fields<S: std::io::Read + std::io::Write>(
    client: &mut Client<S>,
    request: &[&str],
) -> Vec<(String, Frame)> {
    let Frame::Map(pairs) = client.call(request) else { panic!("{request:?}") };
    let name = |frame: Frame| String::from_utf8(frame.as_bytes().unwrap().to_vec()).unwrap();
    pairs.into_iter().map(|(key, value)| (name(key), value)).collect()
}

#[test]
fn histogram_of_latencies_counts_all_calls() {
    let server = TestServer::start();
    let mut client = server.connect_as(Protocol::Resp3);
    (0..500).for_each(|_| drop(client.call(&["GET", "k"])));
    client.call(&["SET", "k", "v"]);
    let mut histograms = fields(&mut client, &["LATENCY", "HISTOGRAM", "get", "nosuch", "hget"]);
    let [(name, Frame::Map(histogram))] = &mut histograms[..] else { panic!("{histograms:?}") };
    assert_eq!(name, "get");
    assert_eq!(histogram[0], (Frame::Bulk("calls".into()), Frame::Integer(500)));
    let (_, Frame::Map(steps)) = &histogram[1] else { panic!("{histogram:?}") };
    let steps: Vec<(i64, i64)> =
        steps.iter().map(|(limit, calls)| (integer(limit), integer(calls))).collect();
    assert!(steps.iter().all(|(limit, _)| limit.count_ones() == 1), "{steps:?}");
    assert!(steps.is_sorted_by(|one, next| one.0 < next.0 && one.1 < next.1), "{steps:?}");
    assert_eq!(steps.last().map(|(_, calls)| *calls), Some(500));
    let all = fields(&mut client, &["LATENCY", "HISTOGRAM"]);
    let names: Vec<&str> = all.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["get", "hello", "latency", "set"]);
}

#[test]
fn memory_stats_add_up() {
    let server = TestServer::start();
    let mut client = server.connect_as(Protocol::Resp3);
    (0..1_000).for_each(|n| drop(client.call(&["SET", &n.to_string(), "a value of some bytes"])));
    let stats = fields(&mut client, &["MEMORY", "STATS"]);
    let bytes = |name: &str| integer(&stats.iter().find(|(field, _)| field == name).expect(name).1);
    assert_eq!(bytes("keys.count"), 1_000);
    assert_eq!(bytes("dataset.bytes") + bytes("overhead.total"), bytes("total.allocated"));
    assert_eq!(bytes("keys.bytes-per-key"), bytes("total.allocated") / 1_000);
    assert!(bytes("peak.allocated") >= bytes("total.allocated"));
    for request in ["MEMORY DOCTOR", "LATENCY DOCTOR"] {
        let reply = client.call(&words(request));
        assert!(reply.as_bytes().is_some_and(|text| text.ends_with(b".\n")), "{reply:?}");
    }
}

#[test]
fn frequency_of_a_key_tells_hot_keys() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["SET", "hot", "v"]);
    client.call(&["SET", "cold", "v"]);
    (0..2_000).for_each(|_| drop(client.call(&["GET", "hot"])));
    let mut frequency = |key: &str| client.call(&["OBJECT", "FREQ", key]);
    assert_eq!((frequency("cold"), frequency("missing")), (Frame::Integer(0), Frame::Null));
    // Eight times the logarithm of 2,000 is 87; one hit in sixteen is counted, at random.
    assert!(matches!(frequency("hot"), Frame::Integer(75..=100)), "{:?}", frequency("hot"));
}

/// Runs `redis-cli` with these arguments until its end.
fn redis_cli(program: &Path, server: &TestServer, arguments: &[&str]) -> String {
    let mut command = Command::new(program);
    command.args(["-p", &server.address().port().to_string()]).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && output.stderr.is_empty(), "{arguments:?}: {output:?}");
    assert!(!text.contains("ERR") && !text.contains("Error"), "{arguments:?}: {text}");
    text
}

/// The modes of `redis-cli` that walk all keys, or measure the server.
#[test]
fn modes_of_redis_cli_work() {
    let Some(program) = program("redis-cli") else { return };
    let server = TestServer::start();
    let mut client = server.connect();
    for request in
        ["SET string value", "RPUSH list a b c", "SADD set a b", "ZADD zset 1 a", "HSET hash a 1 b 2"]
    {
        client.call(&words(request));
    }
    (0..500).for_each(|_| drop(client.call(&["GET", "string"])));
    for (arguments, expected) in [
        (&["--bigkeys"][..], &["Biggest   list found '\"list\"' has 3 items", "1 hashs with 2 fields"][..]),
        (&["--memkeys"], &["Biggest string found '\"string\"' has", "Sampled 5 keys in the keyspace!"]),
        (
            &["--hotkeys"],
            &["Sampled 5 keys in the keyspace!", "hot key found with counter: ", "keyname: \"string\""],
        ),
        (&["--scan", "--pattern", "*set"], &["zset\n", "set\n"]),
        (&["--latency", "-i", "0.1"], &[" "]),
        (&["info", "server"], &["redis_version:"]),
        (&["--csv", "slowlog", "len"], &["0"]),
    ] {
        let text = redis_cli(&program, &server, arguments);
        expected.iter().for_each(|expected| assert!(text.contains(expected), "{arguments:?}: {text}"));
    }
}
