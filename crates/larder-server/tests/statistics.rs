//! The statistics of commands and errors in `INFO`, compared with those of a real Redis, and the settings of both.

use std::collections::BTreeMap;
use std::io::{Read, Write};

use larder_resp::Frame;
use larder_testkit::{RedisServer, until};

use crate::support::{Client, TestServer, connect_unix, encode};

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

/// Scripts that fail by themselves, by a command, or by a command that is refused, and commands that fail in them.
const SCRIPTS: &[&[&str]] = &[
    &["CONFIG", "RESETSTAT"],
    &["SET", "t", "text"],
    &["EVALSHA", "nosuch", "0"],
    &["EVAL", "return redis.error_reply('MY_ERR_CODE x')", "0"],
    &["EVAL", "return {err='OTHER y'}", "0"],
    &["EVAL", "return {err='without'}", "0"],
    &["EVAL", "error('x')", "0"],
    &["EVAL", "error({err='THROWN x'})", "0"],
    &["EVAL", "return redis.call('get')", "0"],
    &["EVAL", "return redis.pcall('get')", "0"],
    &["EVAL", "return redis.pcall('get').err", "0"],
    &["EVAL", "redis.pcall('nosuch')", "0"],
    &["EVAL", "return redis.pcall('nosuch', 'a', 'b')", "0"],
    &["EVAL", "return redis.call('nosuch')", "0"],
    &["EVAL", "return redis.pcall()", "0"],
    &["EVAL", "return redis.call('incr', 't')", "0"],
    &["EVAL", "return redis.pcall('incr', 't')", "0"],
    &["EVAL", "redis.pcall('incr', 't') return 1", "0"],
    &["EVAL", "return redis.call('zadd', 't', 1, 'x')", "0"],
    &["EVAL", "return redis.call('subscribe', 't')", "0"],
    &["EVAL", "local x = nil + 1", "0"],
    &["EVAL", "a syntax error", "0"],
    &["EVAL_RO", "return redis.call('set', 'a', 'b')", "0"],
    &["EVAL", "return 1", "-1"],
    &["EVAL", "return 1", "x"],
    &["EVAL", "return 1", "5"],
    &["MULTI"],
    &["EVALSHA", "nosuch", "0"],
    &["EVAL", "return redis.error_reply('IN_EXEC x')", "0"],
    &["EXEC"],
];

#[test]
fn counts_of_failed_scripts_are_those_of_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut ours, mut theirs) = (server.connect(), connect_unix(&redis.socket()).unwrap());
    for command in SCRIPTS {
        ours.call(command);
        theirs.call(command);
        assert_eq!(counts(&mut ours), counts(&mut theirs), "{command:?}");
    }
    assert_eq!(counts(&mut ours)["errorstat_MY_ERR_CODE"], "count=1");
    for number in 0..1_000 {
        ours.call(&["EVAL", &format!("return {{err='E{number} x'}}"), "0"]);
    }
    let prefixes = counts(&mut ours).into_keys().filter(|name| name.starts_with("errorstat_")).count();
    assert_eq!(prefixes, 128, "a script makes up any number of prefixes");
}

#[test]
fn missing_command_in_a_script_is_named() {
    let server = TestServer::start();
    let mut client = server.connect();
    let reply = client.call(&["EVAL", "return redis.call('xgroup', 'k')", "0"]);
    let names = |text: &str| text.starts_with("ERR Unknown Redis command 'xgroup' called from script");
    assert!(matches!(&reply, Frame::Error(text) if names(text)), "{reply:?}");
}

#[test]
fn times_are_measured_anew_after_a_reset() {
    let server = TestServer::start();
    let mut client = server.connect();
    (0..65).for_each(|_| run(&mut client, &["SET k v"]));
    run(&mut client, &["CONFIG RESETSTAT", "SET k v"]);
    let text = info(&mut client, "commandstats");
    let line = text.lines().find(|line| line.starts_with("cmdstat_set:calls=1,")).expect(&text);
    let mean = field(line, "usec_per_call=").and_then(|mean| mean.parse::<f64>().ok());
    assert!(mean.is_some_and(|mean| mean > 0.0), "{line}");
}

#[test]
fn info_has_the_fields_that_exporters_read() {
    let server = TestServer::start();
    let mut client = server.connect_as(larder_resp::Protocol::Resp3);
    run(&mut client, &["CLIENT TRACKING on", "SET k v"]);
    let text = info(&mut client, "everything");
    for name in [
        "instantaneous_ops_per_sec",
        "instantaneous_input_kbps",
        "used_memory_peak",
        "used_memory_peak_human",
        "lazyfree_pending_objects",
        "rdb_last_save_time",
        "rdb_changes_since_last_save",
        "rdb_last_bgsave_status",
        "master_replid",
        "second_repl_offset",
        "blocked_clients",
    ] {
        assert!(text.contains(&format!("\r\n{name}:")), "{name} is missing");
    }
    assert_eq!(field(&text, "\ntracking_clients:"), Some("1"));
    let [used, peak] = ["\nused_memory:", "\nused_memory_peak:"]
        .map(|name| field(&text, name).and_then(|number| number.parse::<u64>().ok()).expect(name));
    assert!(0 < used && used <= peak);
    run(&mut client, &["DEL k"]);
    assert_eq!(field(&info(&mut client, "memory"), "\nused_memory_peak:"), Some(&*peak.to_string()));
}

/// As samples of the counters are made every tenth of a second.
#[test]
fn rate_of_commands_is_that_of_the_last_seconds() {
    let server = TestServer::start();
    let mut client = server.connect();
    until("commands are counted", || {
        (0..100).for_each(|_| run(&mut client, &["PING"]));
        let text = info(&mut client, "stats");
        let rate = field(&text, "\ninstantaneous_ops_per_sec:").and_then(|rate| rate.parse::<u64>().ok());
        rate.expect("a number").gt(&0).then_some(())
    });
}

#[test]
fn connections_that_wait_for_a_pause_count_as_blocked() {
    let server = TestServer::start();
    let (mut own, mut first, mut second) = (server.connect(), server.connect(), server.connect());
    let mut wait_for = |expected: &str| {
        until(expected, || {
            let text = info(&mut own, "clients");
            (field(&text, "\nblocked_clients:") == Some(expected)).then_some(())
        });
    };
    wait_for("0");
    let mut other = server.connect();
    run(&mut other, &["CLIENT PAUSE 100000 WRITE"]);
    first.send(&encode(&["SET", "k", "v"]));
    wait_for("1");
    second.send(&encode(&["DEL", "other"]));
    wait_for("2");
    run(&mut other, &["CLIENT UNPAUSE"]);
    assert_eq!(first.receive(), Frame::Simple("OK".into()));
    assert_eq!(second.receive(), Frame::Integer(0));
    wait_for("0");
}

/// An option that would have no effect is an error.
#[test]
fn output_limits_without_effect_are_refused() {
    let server = TestServer::start();
    let mut client = server.connect();
    let mut set = |value: &str| client.call(&["CONFIG", "SET", "client-output-buffer-limit", value]);
    for value in ["normal 1mb 2mb 60", "pubsub 1mb 1mb 1 normal 1 1 1", "replica 1mb 2mb 60", "slave 1 1 1"] {
        assert!(matches!(set(value), Frame::Error(_)), "{value}");
    }
    let same = "normal 0 0 0 slave 268435456 67108864 60 pubsub 1048576 0 0";
    assert_eq!(set(same), Frame::Simple("OK".into()));
    let reply = client.call(&["CONFIG", "GET", "client-output-buffer-limit"]);
    assert!(matches!(&reply, Frame::Array(pair) if pair[1].as_bytes() == Some(same.as_bytes())), "{reply:?}");
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
