//! `CLIENT TRACKING`: replies and messages equal to those of Redis, and a client cache that is never stale.

use std::net::TcpStream;

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config, Store};
use larder_testkit::{RedisServer, until};

use crate::differential::{Pair, words};
use crate::support::{Client, TestServer, encode};

const SEQUENCE: &[&str] = &[
    "CLIENT TRACKING",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKINGINFO x",
    "CLIENT GETREDIR",
    "CLIENT CACHING",
    "CLIENT CACHING yes",
    "CLIENT TRACKING maybe",
    "CLIENT TRACKING on BLAH",
    "CLIENT TRACKING on REDIRECT",
    "CLIENT TRACKING on REDIRECT x",
    "CLIENT TRACKING on REDIRECT 99999999",
    "CLIENT TRACKING on PREFIX foo",
    "CLIENT TRACKING on OPTIN BCAST",
    "CLIENT TRACKING on OPTIN OPTOUT",
    "CLIENT TRACKING on BCAST PREFIX foo PREFIX foobar",
    "CLIENT TRACKING on OPTIN",
    "CLIENT TRACKINGINFO",
    "CLIENT GETREDIR",
    "CLIENT CACHING no",
    "CLIENT CACHING maybe",
    "CLIENT CACHING yes",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING on OPTOUT",
    "CLIENT TRACKING on BCAST",
    "CLIENT TRACKING off",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING on OPTOUT NOLOOP",
    "CLIENT CACHING yes",
    "CLIENT CACHING no",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING off",
    "CLIENT TRACKING on",
    "CLIENT CACHING yes",
    "CLIENT CACHING no",
    "CLIENT TRACKING off",
    "CLIENT TRACKING on BCAST PREFIX a PREFIX b NOLOOP",
    "CLIENT TRACKING on BCAST PREFIX ab",
    "CLIENT TRACKING on BCAST PREFIX c",
    "CLIENT TRACKING on BCAST PREFIX c",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING on BCAST",
    "CLIENT TRACKING on BCAST",
    "CLIENT TRACKINGINFO",
    "CLIENT TRACKING on BCAST PREFIX z",
    "CLIENT TRACKING on",
    "CLIENT CACHING yes",
    "RESET",
    "CLIENT TRACKINGINFO",
];

#[test]
fn fixed_sequence_gets_equal_replies_in_both_versions() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for version in ["2", "3"] {
        let mut pair = Pair::connect(&redis, &server);
        pair.call(&words(&format!("HELLO {version}")));
        let differences: Vec<String> =
            SEQUENCE.iter().filter_map(|line| pair.compare(&words(line)).err()).collect();
        assert!(differences.is_empty(), "RESP{version}:\n{}", differences.join("\n"));
    }
}

/// How a connection tracks keys, and the commands that follow: those after `>` are of another connection. The numbers
/// are the messages that the first connection gets.
const MESSAGES: &[(&str, &[(&str, usize)])] = &[
    (
        "ON",
        &[
            ("GET k", 0),
            (">SET k 2", 1),
            (">SET k 3", 0),
            ("MGET k l missing", 0),
            (">SET missing 1", 1),
            (">DEL l", 1),
            (">EXPIRE k 100", 1),
            ("GET k", 0),
            (">GETEX k PERSIST", 1),
            ("EXISTS k", 0),
            (">INCR k", 1),
            ("STRLEN k", 0),
            (">MSET k 1 l 2 m 3", 1),
            ("SET k own", 0),
            (">SET k 1", 0),
            ("GETDEL k", 0),
            (">SET k 1", 0),
            ("GET k", 0),
            ("SET k own", 1),
            ("GET k", 0),
            (">SELECT 1", 0),
            (">SET k other", 1),
            (">SELECT 0", 0),
            ("GET k", 0),
            (">RENAME k l", 1),
            ("GET l", 0),
            ("GET k", 0),
            (">COPY l k", 1),
            (">SETRANGE l 0 ''", 0),
            (">APPEND l x", 1),
            ("GET k", 0),
            (">FLUSHALL", 1),
            (">SET k 1", 0),
            ("GET k", 0),
            (">FLUSHDB", 1),
            ("FLUSHALL", 1),
            ("GET k", 0),
            (">EXPIRE k 10", 0),
            (">DEL k", 0),
            (">MULTI", 0),
            (">SET k 1", 0),
            (">EXEC", 1),
            ("CLIENT TRACKING off", 0),
            (">SET k 1", 0),
        ],
    ),
    (
        "ON NOLOOP",
        &[("GET k", 0), ("SET k 2", 0), (">SET k 3", 0), ("GET k", 0), (">SET k 4", 1), ("FLUSHALL", 1)],
    ),
    (
        "ON OPTIN",
        &[
            ("GET k", 0),
            (">SET k 2", 0),
            ("CLIENT CACHING yes", 0),
            ("GET k", 0),
            (">SET k 3", 1),
            ("GET k", 0),
            (">SET k 4", 0),
            ("CLIENT CACHING yes", 0),
            ("MULTI", 0),
            ("GET k", 0),
            ("GET l", 0),
            ("EXEC", 0),
            (">MSET k 1 l 2", 2),
            ("GET k", 0),
            (">SET k 5", 0),
        ],
    ),
    (
        "ON OPTOUT",
        &[
            ("GET k", 0),
            (">SET k 2", 1),
            ("CLIENT CACHING no", 0),
            ("GET k", 0),
            (">SET k 3", 0),
            ("GET k", 0),
            (">SET k 4", 1),
        ],
    ),
    (
        "ON BCAST PREFIX k PREFIX other:",
        &[
            (">SET k 2", 1),
            (">SET k1 2", 1),
            (">SET l 2", 0),
            (">SET other:1 x", 1),
            ("SET k own", 1),
            // One message for each prefix, with all keys.
            (">MSET k3 1 k1 2 k2 3 l 4 k1 5", 1),
            (">MSET k 1 other:2 2 k4 3 other:1 4", 2),
            (">EVAL redis.call('SET','k',1)redis.call('DEL','k2','k') 0", 1),
            ("MSET k 1 k2 2 k1 3", 1),
            (">MULTI", 0),
            (">SET k 1", 0),
            (">SET k2 1", 0),
            (">DEL k k3", 0),
            (">EXEC", 1),
            ("MULTI", 0),
            ("SET k 1", 0),
            ("MSET k2 1 k3 2", 0),
            ("EXEC", 1),
            (">FLUSHALL", 1),
        ],
    ),
    (
        "ON BCAST PREFIX a:",
        &[
            (">SET k 2", 0),
            ("CLIENT TRACKING ON BCAST", 0),
            (">SET k 3", 1),
            // For each of the two prefixes.
            (">SET a:1 x", 2),
        ],
    ),
    ("ON BCAST NOLOOP", &[(">SET k 2", 1), ("SET k own", 0), (">SET anything 2", 1), ("FLUSHALL", 1)]),
];

#[test]
fn messages_equal_those_of_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for (options, steps) in MESSAGES {
        let [mut tracker, mut other] = [(); 2].map(|()| Pair::connect(&redis, &server));
        other.call(&words("FLUSHALL"));
        other.call(&words("MSET k 1 l 1"));
        tracker.call(&words("HELLO 3"));
        tracker.call(&words(&format!("CLIENT TRACKING {options}")));
        for (step, messages) in *steps {
            let checked = match step.strip_prefix('>') {
                Some(command) => {
                    other.call(&words(command));
                    tracker.compare_received(step, *messages)
                }
                None => tracker.compare_all(&words(step), 1 + *messages),
            };
            // Nothing else has arrived. Another command would end the effect of this one.
            let checked = checked.and_then(|()| match step.starts_with("CLIENT CACHING") {
                true => Ok(()),
                false => tracker.compare_all(&words("ECHO end"), 1),
            });
            checked.unwrap_or_else(|error| panic!("CLIENT TRACKING {options}: {error}"));
        }
    }
}

/// With RESP2, messages are for the connection that another one redirects to.
#[test]
fn subscriber_with_resp2_gets_no_messages_about_keys_that_it_tracks_itself() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let [mut tracker, mut other] = [(); 2].map(|()| Pair::connect(&redis, &server));
    for command in ["CLIENT TRACKING on", "GET k", "SUBSCRIBE __redis__:invalidate"] {
        tracker.compare(&words(command)).unwrap();
    }
    other.compare(&words("SET k v")).unwrap();
    tracker.compare(&words("PING end")).unwrap();
}

fn client_id(client: &mut crate::support::Client<std::net::TcpStream>) -> String {
    match client.call(&["CLIENT", "ID"]) {
        Frame::Integer(id) => id.to_string(),
        reply => panic!("{reply:?}"),
    }
}

fn bulk(text: &str) -> Frame {
    Frame::Bulk(text.as_bytes().to_vec().into())
}

fn invalidation(name: &str) -> Frame {
    Frame::Push(vec![bulk("invalidate"), Frame::Array(vec![bulk(name)])])
}

#[test]
fn redirected_messages_go_to_the_other_connection_in_its_version() {
    let server = TestServer::start();
    let mut writer = server.connect();
    let mut receivers = [server.connect(), server.connect_as(Protocol::Resp3)];
    let ids = receivers.each_mut().map(client_id);
    receivers[0].call(&["SUBSCRIBE", "__redis__:invalidate"]);
    let message =
        Frame::Array(vec![bulk("message"), bulk("__redis__:invalidate"), Frame::Array(vec![bulk("k")])]);
    let mut data = server.connect();
    for ((receiver, id), expected) in receivers.iter_mut().zip(ids).zip([message, invalidation("k")]) {
        data.call(&["CLIENT", "TRACKING", "on", "REDIRECT", &id]);
        assert_eq!(data.call(&["CLIENT", "GETREDIR"]), Frame::Integer(id.parse().unwrap()));
        data.call(&["GET", "k"]);
        writer.call(&["SET", "k", "v"]);
        assert_eq!(receiver.receive(), expected);
    }
    // A receiver with RESP2 that is no subscriber would take a message for a reply.
    receivers[0].call(&["RESET"]);
    let id = client_id(&mut receivers[0]);
    data.call(&["CLIENT", "TRACKING", "on", "REDIRECT", &id]);
    data.call(&["GET", "k"]);
    writer.call(&["SET", "k", "v"]);
    assert_eq!(receivers[0].call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn closed_receiver_is_reported_as_in_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let mut results = Vec::new();
    let mut on_redis = [(); 3].map(|()| crate::support::connect_unix(&redis.socket()).unwrap());
    let mut on_larder = [(); 3].map(|()| server.connect());
    macro_rules! run {
        ($clients:expr) => {{
            let [receiver, data, writer] = &mut $clients;
            let Frame::Integer(id) = receiver.call(&["CLIENT", "ID"]) else { panic!("no id") };
            data.call(&["HELLO", "3"]);
            data.call(&["CLIENT", "TRACKING", "on", "REDIRECT", &id.to_string()]);
            data.call(&["GET", "k"]);
            writer.call(&["CLIENT", "KILL", "ID", &id.to_string()]);
            assert_eq!(receiver.try_receive().unwrap(), None);
            writer.call(&["SET", "k", "v"]);
            let Frame::Push(mut parts) = data.receive() else { panic!("no message") };
            assert_eq!(parts.pop(), Some(Frame::Integer(id)));
            let Frame::Map(info) = data.call(&["CLIENT", "TRACKINGINFO"]) else { panic!("no map") };
            results.push((parts, info[0].clone()));
        }};
    }
    run!(on_redis);
    run!(on_larder);
    assert_eq!(results[0], results[1]);
}

#[test]
fn expired_and_evicted_keys_are_reported() {
    let server = TestServer::with(Config { max_memory: Some(ByteSize(1 << 20)), ..Config::default() });
    let (mut tracker, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    tracker.call(&["CLIENT", "TRACKING", "on"]);
    other.call(&["SET", "timed", "v", "PX", "20"]);
    tracker.call(&["GET", "timed"]);
    assert_eq!(tracker.receive(), invalidation("timed"));
    other.call(&["SET", "k", "v"]);
    tracker.call(&["GET", "k"]);
    for number in 0.. {
        other.call(&["SET", &format!("filler:{number}"), &"x".repeat(1000)]);
        if other.call(&["EXISTS", "k"]) == Frame::Integer(0) {
            break;
        }
    }
    assert_eq!(tracker.receive(), invalidation("k"));
}

#[test]
fn full_table_forgets_other_keys_and_reports_them() {
    const KEYS: usize = 100;
    let server = TestServer::start();
    let (mut tracker, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    other.call(&["CONFIG", "SET", "tracking-table-max-keys", "10"]);
    tracker.call(&["CLIENT", "TRACKING", "on"]);
    (0..KEYS).for_each(|number| tracker.send(&encode(&["GET", &format!("k{number}")])));
    let mut cached = std::collections::HashSet::new();
    let (mut replies, mut forgotten) = (0, 0);
    while replies < KEYS || forgotten < KEYS - 10 {
        match tracker.receive() {
            Frame::Push(parts) => {
                let Frame::Array(names) = &parts[1] else { panic!("{parts:?}") };
                let name = String::from_utf8(names[0].as_bytes().unwrap().to_vec()).unwrap();
                assert!(cached.remove(&name), "{name} was not read before, or was reported twice");
                forgotten += 1;
            }
            _ => {
                cached.insert(format!("k{replies}"));
                replies += 1;
            }
        }
    }
    let info = other.call(&["INFO", "stats"]);
    let info = String::from_utf8(info.as_bytes().unwrap().to_vec()).unwrap();
    assert!(info.contains("tracking_total_keys:10\r\ntracking_total_items:10\r\n"), "{info}");
    // The others are still tracked.
    for name in &cached {
        other.call(&["SET", name, "v"]);
        assert_eq!(tracker.receive(), invalidation(name));
    }
}

/// Two servers with one keyspace: the writer and the reader are on threads of their own.
fn pair_of_servers() -> [TestServer; 2] {
    let store = Store::new(Some(64 << 20)).unwrap();
    [(); 2].map(|()| TestServer::with_store(Config { threads: Some(1), ..Config::default() }, store.clone()))
}

/// The writer writes the same number to `data` and then to `seen`. A client that caches `data` and reads `n` from `seen`
/// must not have an older number in its cache: the message about `data` is ahead of the reply.
fn check_client_cache(options: &[&str], limit: usize, rounds: usize) {
    let servers = pair_of_servers();
    let mut reader = servers[0].connect_as(Protocol::Resp3);
    let mut writer = servers[1].connect();
    writer.call(&["CONFIG", "SET", "tracking-table-max-keys", &limit.to_string()]);
    reader.call(&[&["CLIENT", "TRACKING", "on"], options].concat());
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for number in 1..=rounds {
                let number = number.to_string();
                writer.send(&[encode(&["SET", "data", &number]), encode(&["SET", "seen", &number])].concat());
                writer.receive();
                writer.receive();
            }
        });
        let number = |reply: &Frame| match reply {
            Frame::Null => 0,
            reply => std::str::from_utf8(reply.as_bytes().unwrap()).unwrap().parse::<u64>().unwrap(),
        };
        let mut cached = None;
        while !writing.is_finished() {
            // A pipeline: messages arrive at any point of it.
            let names = [if cached.is_none() { "data" } else { "seen" }, "seen", "filler", "seen"];
            reader.send(&names.iter().flat_map(|name| encode(&["GET", name])).collect::<Vec<u8>>());
            let mut replies = 0;
            while replies < names.len() {
                match reader.receive() {
                    Frame::Push(parts) => {
                        if parts[1] == Frame::Array(vec![bulk("data")]) {
                            cached = None;
                        }
                    }
                    reply => {
                        match names[replies] {
                            "data" => cached = Some(number(&reply)),
                            "seen" => {
                                let seen = number(&reply);
                                assert!(
                                    cached.is_none_or(|cached| cached >= seen),
                                    "{cached:?} is older than {seen}"
                                );
                            }
                            _ => {}
                        }
                        replies += 1;
                    }
                }
            }
        }
    });
}

#[test]
fn client_cache_is_not_older_than_a_reply_of_another_thread() {
    check_client_cache(&[], 1_000_000, 4_000);
}

#[test]
fn client_cache_with_broadcast_is_not_older_than_a_reply_of_another_thread() {
    check_client_cache(&["BCAST", "PREFIX", "data"], 1_000_000, 4_000);
}

/// The table forgets keys while they are read.
#[test]
fn client_cache_with_a_full_table_is_not_older_than_a_reply_of_another_thread() {
    check_client_cache(&[], 1, 4_000);
}

/// A third connection copies `data` to `seen` as soon as it sees it, before the writer has its reply.
#[test]
fn client_cache_is_not_older_than_what_a_third_connection_has_seen() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let config = || Config { threads: Some(1), ..Config::default() };
    let servers = [(); 3].map(|()| TestServer::with_store(config(), store.clone()));
    let [mut reader, mut writer, mut relay] =
        [0, 1, 2].map(|server: usize| servers[server].connect_as(Protocol::Resp3));
    writer.call(&["MSET", "data", "0", "seen", "0"]);
    reader.call(&["CLIENT", "TRACKING", "on"]);
    let number =
        |reply: Frame| std::str::from_utf8(reply.as_bytes().unwrap()).unwrap().parse::<u64>().unwrap();
    let is_done = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            (1..=2_000).for_each(|value: u64| _ = writer.call(&["SET", "data", &value.to_string()]));
            is_done.store(true, std::sync::atomic::Ordering::SeqCst);
        });
        scope.spawn(|| {
            while !is_done.load(std::sync::atomic::Ordering::SeqCst) {
                let value = number(relay.call(&["GET", "data"]));
                relay.call(&["SET", "seen", &value.to_string()]);
            }
        });
        let mut cached = None;
        while !writing.is_finished() {
            for name in ["data", "seen"] {
                if name == "data" && cached.is_some() {
                    continue;
                }
                reader.send(&encode(&["GET", name]));
                let value = loop {
                    match reader.receive() {
                        Frame::Push(parts) if parts[1] == Frame::Array(vec![bulk("data")]) => cached = None,
                        Frame::Push(_) => {}
                        reply => break number(reply),
                    }
                };
                if name == "data" {
                    cached = Some(value);
                } else {
                    assert!(cached.is_none_or(|cached| cached >= value), "{cached:?} is older than {value}");
                }
            }
        }
    });
}

/// A number of `INFO`.
fn info(client: &mut Client<TcpStream>, field: &str) -> usize {
    let reply = client.call(&["INFO", "stats"]);
    let text = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
    let value = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.unwrap_or_else(|| panic!("no {field} in {text}")).parse().unwrap()
}

/// Without trackers no change is reported to the table, so nothing else would ever free it.
#[test]
fn table_is_freed_when_nobody_tracks_any_more() {
    let server = TestServer::start();
    let (mut reader, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    reader.call(&["CLIENT", "TRACKING", "on"]);
    for number in 0..100 {
        reader.call(&["GET", &format!("key:{number}")]);
    }
    assert_eq!(info(&mut other, "tracking_total_keys"), 100);
    drop(reader);
    until("the table is empty", || (info(&mut other, "tracking_total_keys") == 0).then_some(()));
    assert_eq!(info(&mut other, "tracking_total_items"), 0);
}

/// A key that everyone reads and nobody writes.
#[test]
fn connections_that_have_ended_do_not_fill_the_entry_of_a_key() {
    let server = TestServer::start();
    let (mut stays, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    stays.call(&["CLIENT", "TRACKING", "on"]);
    stays.call(&["GET", "hot"]);
    for _ in 0..200 {
        let mut passing = server.connect_as(Protocol::Resp3);
        passing.call(&["CLIENT", "TRACKING", "on"]);
        passing.call(&["GET", "hot"]);
        passing.call(&["CLIENT", "TRACKING", "off"]);
    }
    let items = info(&mut other, "tracking_total_items");
    assert!(items <= 8, "{items} registrations for a key with one reader");
    assert_eq!(other.call(&["SET", "hot", "x"]), Frame::Simple("OK".into()));
    assert!(matches!(stays.receive(), Frame::Push(_)), "who stays is told");
}

/// Each was compared with all others, which took minutes. So it was to register them, and to report a change.
#[test]
fn many_prefixes_are_registered_in_a_moment() {
    const PREFIXES: usize = 300_000;
    let server = TestServer::start();
    let (mut tracker, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    let mut request: Vec<String> = ["CLIENT", "TRACKING", "ON", "BCAST"].map(str::to_owned).into();
    (0..PREFIXES).for_each(|number| request.extend(["PREFIX".to_owned(), format!("{number:06}:")]));
    assert_eq!(tracker.call(&request), Frame::Simple("OK".into()));
    assert_eq!(info(&mut other, "tracking_total_prefixes"), PREFIXES);
    other.send(&encode(&["SET", "012345:k", "v"]).repeat(1_000));
    (0..1_000).for_each(|_| assert_eq!(other.receive(), Frame::Simple("OK".into())));
    assert!(matches!(tracker.receive(), Frame::Push(_)));
    drop(tracker);
    until("no prefix is left", || (info(&mut other, "tracking_total_prefixes") == 0).then_some(()));
}
