//! The statistics of commands and errors in `INFO`, compared with those of a real Redis, and the settings of both.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use larder_resp::Frame;
use larder_testkit::RedisServer;

use crate::support::{Client, TestServer, connect_unix};

/// Commands that succeed, that fail, that are refused, and that do not exist.
const COMMANDS: &[&str] = &[
    "CONFIG RESETSTAT",
    "SET k text",
    "GET k",
    "GET k",
    "GET missing",
    "GET",
    "GET k k",
    "INCR k",
    "ZADD k 1 m",
    "NOSUCH k",
    "MULTI",
    "SET n 1",
    "INCR n",
    "INCR k",
    "EXEC",
    "MULTI",
    "GET",
    "EXEC",
    "EXEC",
    "PING",
    "SUBSCRIBE c",
    "GET k",
    "UNSUBSCRIBE c",
];

#[test]
fn counts_of_commands_and_errors_are_those_of_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut ours, mut theirs) = (server.connect(), connect_unix(&redis.socket()).unwrap());
    run(&mut ours, COMMANDS);
    run(&mut theirs, COMMANDS);
    let found = counts(&mut ours);
    assert_eq!(found, counts(&mut theirs));
    assert_eq!(found["cmdstat_get"], "calls=3 rejected_calls=4 failed_calls=0");
    assert_eq!(found["cmdstat_incr"], "calls=3 rejected_calls=0 failed_calls=2");
    run(&mut ours, &["CONFIG RESETSTAT"]);
    assert_eq!(counts(&mut ours), BTreeMap::new());
}

/// Each thread counts its own commands.
#[test]
fn counts_of_all_connections_are_summed() {
    let server = TestServer::start();
    let mut first = server.connect();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                (0..500).for_each(|_| run(&mut client, &["SET k v"]));
            });
        }
    });
    assert_eq!(counts(&mut first)["cmdstat_set"], "calls=2000 rejected_calls=0 failed_calls=0");
    let line = info(&mut first, "commandstats");
    let micros = field(&line, "usec_per_call=").expect("the mean time");
    assert!(micros.parse::<f64>().is_ok_and(|micros| micros > 0.0), "{line}");
}

#[test]
fn sections_of_commands_are_sent_on_request() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(&mut client, &["PING"]);
    for (section, is_there) in
        [("default", false), ("all", true), ("everything", true), ("latencystats", true)]
    {
        assert_eq!(
            info(&mut client, section).contains("\nlatency_percentiles_usec_ping:"),
            is_there,
            "{section}"
        );
    }
}

#[test]
fn latency_tracking_reports_the_configured_percentiles() {
    let server = TestServer::start();
    let mut client = server.connect();
    run(&mut client, &["SET k v", "GET k"]);
    let latencies = info(&mut client, "latencystats");
    let line = latencies.lines().find(|line| line.starts_with("latency_percentiles_usec_get:"));
    assert!(line.is_some_and(|line| line.contains(":p50=") && line.contains(",p99.9=")), "{latencies}");
    run(&mut client, &["CONFIG SET latency-tracking-info-percentiles 25"]);
    assert!(info(&mut client, "latencystats").contains("latency_percentiles_usec_get:p25="));
    run(&mut client, &["CONFIG SET latency-tracking no"]);
    assert_eq!(info(&mut client, "latencystats"), "# Latencystats\r\n");
    run(&mut client, &["CONFIG SET latency-tracking yes", "CONFIG RESETSTAT"]);
    assert!(!info(&mut client, "latencystats").contains("usec_get"));
    for wrong in ["CONFIG SET latency-tracking maybe", "CONFIG SET latency-tracking-info-percentiles 101"] {
        let reply = client.call(&wrong.split(' ').collect::<Vec<_>>());
        assert!(matches!(reply, Frame::Error(_)), "{wrong}: {reply:?}");
    }
}

#[test]
fn proto_max_bulk_len_limits_arguments_and_strings_as_in_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let ours = limited_replies(&mut server.connect());
    let theirs = limited_replies(&mut connect_unix(&redis.socket()).unwrap());
    assert_eq!(ours, theirs);
    assert!(ours.last().is_some_and(|reply| reply.contains("invalid bulk length")), "{ours:?}");
    let mut client = server.connect();
    for wrong in ["1", "513mb", "many"] {
        let reply = client.call(&["CONFIG", "SET", "proto-max-bulk-len", wrong]);
        assert!(matches!(reply, Frame::Error(_)), "{wrong}: {reply:?}");
    }
}

/// The replies with a limit of 1 MiB: to a string that grows beyond it, and to the announcement of a longer argument.
fn limited_replies<S: Read + Write>(client: &mut Client<S>) -> Vec<String> {
    let value = "x".repeat(1 << 20);
    let commands: [&[&str]; 5] = [
        &["CONFIG", "SET", "proto-max-bulk-len", "1mb"],
        &["CONFIG", "GET", "proto-max-bulk-len"],
        &["SET", "k", &value],
        &["APPEND", "k", "x"],
        &["SETRANGE", "k", "1048576", "x"],
    ];
    let mut replies: Vec<String> =
        commands.iter().map(|command| format!("{:?}", client.call(command))).collect();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n");
    replies.push(format!("{:?}", client.receive()));
    replies
}

fn run<S: Read + Write>(client: &mut Client<S>, commands: &[&str]) {
    for command in commands {
        client.call(&command.split(' ').collect::<Vec<_>>());
    }
}

fn info<S: Read + Write>(client: &mut Client<S>, section: &str) -> String {
    let reply = client.call(&["INFO", section]);
    String::from_utf8(reply.as_bytes().expect("a text").to_vec()).expect("a text")
}

/// The counts of every command but `CONFIG` and `INFO`, and of every kind of error.
fn counts<S: Read + Write>(client: &mut Client<S>) -> BTreeMap<String, String> {
    let (commands, errors) = (info(client, "commandstats"), info(client, "errorstats"));
    let lines = commands.lines().chain(errors.lines()).filter_map(|line| line.split_once(':'));
    let counted = lines.filter(|(name, _)| !name.contains("config") && !name.contains("info"));
    let text = |fields: &str| {
        let is_count = |field: &&str| !field.starts_with("usec");
        fields.split(',').filter(is_count).collect::<Vec<_>>().join(" ")
    };
    counted.map(|(name, fields)| (name.to_owned(), text(fields))).collect()
}

/// The value of the first field with this start.
fn field<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(start)?;
    rest.split([',', '\r']).next()
}

/// Each thread samples the hits of its own connections.
#[test]
fn keys_with_the_most_hits_are_found_over_all_threads() {
    let server = TestServer::start();
    run(&mut server.connect(), &["SET often v", "SET rarely v"]);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut client = server.connect();
                for n in 0..2_000 {
                    let command = if n % 4 == 0 { "MGET rarely often missing" } else { "GET often" };
                    run(&mut client, &[command]);
                }
            });
        }
    });
    let stats = server.stats().snapshot();
    assert_eq!((stats.hits, stats.misses), (10_000, 2_000));
    let keys: Vec<&[u8]> = stats.top_keys.iter().map(|top| &*top.key).collect();
    assert_eq!(keys, [&b"often"[..], b"rarely"]);
    for (top, hits) in stats.top_keys.iter().zip([8_000, 2_000]) {
        assert!(top.count.abs_diff(hits) <= 3 * top.error, "{hits} hits: {top:?}");
    }
}
