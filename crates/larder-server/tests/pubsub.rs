//! Publish and subscribe: replies and messages equal to those of Redis, and their order between threads.

use std::net::TcpStream;

use larder_resp::{Frame, Protocol};
use larder_server::{Config, Store};
use larder_testkit::{RedisServer, until};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};

use crate::differential::{Pair, words};
use crate::support::{Client, TestServer, encode};

/// A request, and the number of replies or messages that it causes on its own connection.
const SEQUENCE: &[(&str, usize)] = &[
    ("PUBLISH none x", 1),
    ("UNSUBSCRIBE", 1),
    ("UNSUBSCRIBE a b", 2),
    ("PUNSUBSCRIBE", 1),
    ("SUNSUBSCRIBE", 1),
    ("SUBSCRIBE a b a", 3),
    ("PSUBSCRIBE a* ?b", 2),
    ("SSUBSCRIBE a s", 2),
    ("PING", 1),
    ("PING x", 1),
    ("PING x y", 1),
    ("UNSUBSCRIBE b nothing", 2),
    ("PUNSUBSCRIBE ?b", 1),
    ("PUNSUBSCRIBE", 1),
    ("SUNSUBSCRIBE a", 1),
    ("SUNSUBSCRIBE", 1),
    ("UNSUBSCRIBE", 1),
    ("SUBSCRIBE", 1),
    ("PUBLISH a", 1),
    ("PUBSUB CHANNELS", 1),
    ("PUBSUB NUMSUB", 1),
    ("PUBSUB NUMSUB a b", 1),
    ("PUBSUB NUMPAT", 1),
    ("PUBSUB NUMPAT x", 1),
    ("PUBSUB SHARDCHANNELS", 1),
    ("PUBSUB SHARDNUMSUB a", 1),
    ("PUBSUB BLAH", 1),
    ("MULTI", 1),
    ("PUBLISH a x", 1),
    ("PUBSUB NUMPAT", 1),
    ("EXEC", 1),
    ("PSUBSCRIBE only", 1),
    ("SUBSCRIBE only", 1),
    ("RESET", 1),
    ("PING", 1),
];

/// Refused to a subscriber with RESP2.
const REFUSED: &[&str] = &["GET k", "PUBLISH a x", "MULTI", "EXEC", "HELLO 3", "FOO"];

#[test]
fn fixed_sequence_gets_equal_replies_and_messages_in_both_versions() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for version in ["2", "3"] {
        let mut pair = Pair::connect(&redis, &server);
        pair.call(&words(&format!("HELLO {version}")));
        for (line, replies) in SEQUENCE {
            pair.compare_all(&words(line), *replies).unwrap_or_else(|error| panic!("RESP{version}: {error}"));
        }
    }
    let mut subscriber = Pair::connect(&redis, &server);
    subscriber.compare_all(&words("SUBSCRIBE a"), 1).unwrap();
    for line in REFUSED {
        subscriber.compare_all(&words(line), 1).unwrap();
    }
}

/// Commands that are sent at once.
const PIPELINES: &[&[&str]] = &[
    &["PING", "UNSUBSCRIBE", "ECHO x"],
    &["ECHO 1", "PUNSUBSCRIBE", "GET", "SUNSUBSCRIBE"],
    &["ECHO 1", "SUBSCRIBE a", "GET k", "FOO", "ECHO 2"],
    &["SUBSCRIBE a a", "UNSUBSCRIBE", "PING", "UNSUBSCRIBE", "PUNSUBSCRIBE x y", "ECHO 1"],
    &["MULTI", "ECHO 1", "EXEC", "SUBSCRIBE a", "PING", "EXEC"],
    &["SSUBSCRIBE s", "PSUBSCRIBE p*", "SUBSCRIBE a", "RESET", "ECHO 1", "UNSUBSCRIBE"],
    &["CLIENT REPLY SKIP", "SUBSCRIBE a", "PING", "UNSUBSCRIBE a"],
    &["CLIENT REPLY SKIP", "UNSUBSCRIBE", "PING"],
    &["CLIENT REPLY SKIP", "EXEC", "CLIENT REPLY SKIP", "EVALSHA x 0", "PING"],
    &["CLIENT REPLY SKIP", "RESET", "PING", "CLIENT REPLY OFF", "RESET"],
    &["CLIENT REPLY OFF", "MULTI", "CLIENT REPLY ON", "DISCARD", "ECHO 1", "CLIENT REPLY ON"],
    &["CLIENT REPLY OFF", "SUBSCRIBE a", "PING", "UNSUBSCRIBE", "ECHO 1", "CLIENT REPLY ON"],
];

/// A confirmation is the reply to its command.
#[test]
fn confirmations_are_in_order_with_replies() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for (version, pipeline) in ["2", "3"].into_iter().flat_map(|v| PIPELINES.iter().map(move |p| (v, p))) {
        let mut pair = Pair::connect(&redis, &server);
        pair.call(&words(&format!("HELLO {version}")));
        pair.compare_pipeline(pipeline).unwrap_or_else(|error| panic!("RESP{version}: {error}"));
    }
}

/// One name of each kind: the order in which all are unsubscribed is not specified.
#[test]
fn random_pipelines_with_subscriptions_get_equal_replies() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let command = prop::sample::select(vec![
        "SUBSCRIBE a",
        "SUBSCRIBE a a",
        "PSUBSCRIBE p*",
        "SSUBSCRIBE s",
        "UNSUBSCRIBE",
        "UNSUBSCRIBE a b",
        "PUNSUBSCRIBE",
        "PUNSUBSCRIBE p*",
        "SUNSUBSCRIBE",
        "PING",
        "GET k",
        "GET",
        "FOO",
        "SET k v",
        "EXEC",
        "RESET",
    ]);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() });
    let pipelines = (prop::sample::select(vec!["HELLO 2", "HELLO 3"]), vec(command, 1..12));
    let outcome = runner.run(&pipelines, |(hello, pipeline)| {
        let mut pair = Pair::connect(&redis, &server);
        pair.call(&words(hello));
        pair.compare_pipeline(&pipeline).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn messages_equal_those_of_redis_in_both_versions() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for version in ["2", "3"] {
        let [mut subscriber, mut publisher] = [(); 2].map(|()| Pair::connect(&redis, &server));
        subscriber.call(&words(&format!("HELLO {version}")));
        subscriber.compare_all(&words("SUBSCRIBE news other"), 2).unwrap();
        subscriber.compare_all(&words("PSUBSCRIBE n[a-e]ws nothing*"), 2).unwrap();
        subscriber.compare_all(&words("SSUBSCRIBE news"), 1).unwrap();
        for (line, messages) in
            [("PUBLISH news 1", 2), ("PUBLISH other ''", 1), ("PUBLISH nxws 2", 0), ("SPUBLISH news 3", 1)]
        {
            publisher.compare_all(&words(line), 1).unwrap();
            subscriber.compare_received(line, messages).unwrap();
        }
        for line in [
            "PUBSUB CHANNELS n*",
            "PUBSUB NUMSUB news nothing",
            "PUBSUB NUMPAT",
            "PUBSUB SHARDCHANNELS",
            "PUBSUB SHARDNUMSUB news other",
        ] {
            publisher.compare_all(&words(line), 1).unwrap();
        }
        // A transaction publishes when it is executed.
        for (line, messages) in [("MULTI", 0), ("PUBLISH news a", 0), ("PUBLISH news b", 0), ("EXEC", 4)] {
            publisher.compare_all(&words(line), 1).unwrap();
            subscriber.compare_received(line, messages).unwrap();
        }
        subscriber.compare_all(&words("RESET"), 1).unwrap();
        publisher.compare_all(&words("PUBSUB CHANNELS"), 1).unwrap();
    }
}

#[test]
fn closed_connection_has_no_subscriptions() {
    let server = TestServer::start();
    let (mut subscriber, mut other) = (server.connect(), server.connect());
    subscriber.send(&encode(&["SUBSCRIBE", "a"]));
    subscriber.receive();
    assert_eq!(other.call(&["PUBLISH", "a", "x"]), Frame::Integer(1));
    drop(subscriber);
    while other.call(&["PUBLISH", "a", "x"]) != Frame::Integer(0) {}
    assert_eq!(other.call(&["PUBSUB", "NUMSUB", "a"]), Frame::Array(vec![bulk("a"), Frame::Integer(0)]));
}

#[test]
fn client_list_shows_subscriptions() {
    let server = TestServer::start();
    let mut subscriber = server.connect_as(Protocol::Resp3);
    subscriber.send(&encode(&["PSUBSCRIBE", "a", "b"]));
    subscriber.receive();
    subscriber.receive();
    for (kind, count) in [("pubsub", 1), ("normal", 0)] {
        let list = subscriber.call(&["CLIENT", "LIST", "TYPE", kind]);
        let list = String::from_utf8(list.as_bytes().unwrap().to_vec()).unwrap();
        assert_eq!(list.lines().count(), count);
        assert!(
            list.is_empty() || list.contains(" flags=P ") && list.contains(" sub=0 psub=2 ssub=0 "),
            "{list}"
        );
    }
}

/// The server closes the connection, counts it, and keeps no more than the limit.
#[test]
fn subscriber_that_never_reads_is_closed() {
    let server = TestServer::start();
    let (mut subscriber, mut publisher) = (server.connect(), server.connect());
    subscriber.send(&encode(&["SUBSCRIBE", "a"]));
    subscriber.receive();
    let message = encode(&["PUBLISH", "a", &"x".repeat(1 << 20)]);
    let sent = (0..200).take_while(|_| {
        publisher.send(&message);
        publisher.receive() == Frame::Integer(1)
    });
    let sent = sent.count();
    assert!((32..100).contains(&sent), "{sent} MiB were sent before the subscriber was closed");
    let info = publisher.call(&["INFO", "stats"]);
    let info = String::from_utf8(info.as_bytes().unwrap().to_vec()).unwrap();
    assert!(info.contains("client_output_buffer_limit_disconnections:1\r\n"), "{info}");
    assert!(subscriber.read_to_end().len() < sent << 20);
}

/// It was closed with the next message only.
#[test]
fn subscriber_that_never_reads_is_closed_without_a_further_message() {
    let server = TestServer::start();
    let (mut subscriber, mut publisher) = (server.connect(), server.connect());
    publisher.call(&["CONFIG", "SET", "client-output-buffer-limit", "pubsub 0 1mb 2"]);
    subscriber.send(&encode(&["SUBSCRIBE", "a"]));
    subscriber.receive();
    // More than the buffers of the system.
    let message = encode(&["PUBLISH", "a", &"x".repeat(1 << 20)]);
    publisher.send(&message.repeat(20));
    (0..20).for_each(|_| assert_eq!(publisher.receive(), Frame::Integer(1)));
    let nobody = Frame::Array(vec![bulk("a"), Frame::Integer(0)]);
    until("the subscriber is closed", || {
        (publisher.call(&["PUBSUB", "NUMSUB", "a"]) == nobody).then_some(())
    });
    assert!(subscriber.read_to_end().len() < 20 << 20);
}

fn bulk(text: &str) -> Frame {
    Frame::Bulk(text.as_bytes().to_vec().into())
}

/// Two servers with one keyspace: the writer and the reader are on threads of their own.
fn pair_of_servers() -> [TestServer; 2] {
    let store = Store::new(Some(64 << 20)).unwrap();
    [(); 2].map(|()| TestServer::with_store(Config { threads: Some(1), ..Config::default() }, store.clone()))
}

fn number(frame: &Frame) -> i64 {
    frame.as_bytes().map_or(0, |bytes| std::str::from_utf8(bytes).unwrap().parse().unwrap())
}

/// Reads a key on a connection that also receives messages, and returns the replies and the messages in their order.
/// Both are numbers; messages are negative.
fn next(client: &mut Client<TcpStream>) -> i64 {
    match client.receive() {
        Frame::Push(parts) => -number(parts.last().unwrap()),
        reply => number(&reply),
    }
}

/// The writer changes a key and reports the change in one transaction. A reader that gets the new value must have got the
/// message before, and one that gets the old value must get it after.
#[test]
fn message_of_a_transaction_is_in_order_with_reads_of_another_thread() {
    let servers = pair_of_servers();
    let mut reader = servers[0].connect_as(Protocol::Resp3);
    let mut writer = servers[1].connect();
    reader.send(&encode(&["SUBSCRIBE", "changes"]));
    reader.receive();
    std::thread::scope(|scope| {
        let writing = scope.spawn(|| {
            for value in 1..=4_000 {
                let value = value.to_string();
                let requests =
                    [&["MULTI"][..], &["SET", "k", &value], &["PUBLISH", "changes", &value], &["EXEC"]];
                writer.send(&requests.map(encode).concat());
                (0..4).for_each(|_| _ = writer.receive());
            }
        });
        let mut reported = 0;
        while !writing.is_finished() {
            reader.send(&encode(&["GET", "k"]).repeat(20));
            let mut replies = 0;
            while replies < 20 {
                match next(&mut reader) {
                    message if message < 0 => reported = -message,
                    value => {
                        assert_eq!(value, reported, "the reply and the last message before it");
                        replies += 1;
                    }
                }
            }
        }
    });
}

/// The reply to `PUBLISH` tells that the message is in the mailbox: what the subscriber reads later follows it.
#[test]
fn message_is_ahead_of_what_its_publisher_causes() {
    let servers = pair_of_servers();
    let mut reader = servers[0].connect_as(Protocol::Resp3);
    let mut writer = servers[0].connect();
    let mut helper = servers[1].connect();
    reader.send(&encode(&["SUBSCRIBE", "changes"]));
    reader.receive();
    for value in 1..=1_000 {
        // Another server with the same keyspace: another thread.
        assert_eq!(helper.call(&["PUBLISH", "changes", &value.to_string()]), Frame::Integer(1));
        writer.call(&["PING"]);
        reader.send(&encode(&["PING"]));
        assert_eq!(next(&mut reader), -value);
        assert_eq!(reader.receive(), Frame::Simple("PONG".into()));
    }
}

/// All subscribers receive the messages of all publishers in the same order, on whatever threads they are.
#[test]
fn subscribers_agree_on_the_order_of_messages() {
    let servers = pair_of_servers();
    const MESSAGES: usize = 2_000;
    let mut subscribers = [0, 1].map(|server: usize| servers[server].connect());
    for subscriber in &mut subscribers {
        subscriber.send(&encode(&["SUBSCRIBE", "a"]));
        subscriber.receive();
    }
    let publish = |server: usize| {
        let mut publisher = servers[server].connect();
        for message in 0..MESSAGES {
            publisher.send(&encode(&["PUBLISH", "a", &format!("{server}-{message}")]));
            if message % 50 == 49 {
                (0..50).for_each(|_| _ = publisher.receive());
            }
        }
    };
    let received = std::thread::scope(|scope| {
        let publish = &publish;
        (0..2).for_each(|server| _ = scope.spawn(move || publish(server)));
        subscribers
            .each_mut()
            .map(|subscriber| (0..2 * MESSAGES).map(|_| subscriber.receive()).collect::<Vec<Frame>>())
    });
    assert!(received[0] == received[1]);
}

/// To compare them at each position took minutes, under the lock of all channels and all threads.
#[test]
fn long_patterns_are_compared_with_long_channels_and_keys_in_a_moment() {
    let server = TestServer::start();
    let (mut subscriber, mut other) = (server.connect(), server.connect());
    let (repeated, key) = ("a".repeat(400_000), "a".repeat(100_000));
    let long = "a".repeat(200_000);
    let mixed = format!("?{}b", "a".repeat(200));
    for pattern in
        [format!("*{long}b"), format!("*{long}b*"), format!("*{mixed}*"), format!("*{mixed}*{mixed}*")]
    {
        assert!(matches!(subscriber.call(&["PSUBSCRIBE", &pattern]), Frame::Array(_)));
    }
    assert_eq!(other.call(&["PUBLISH", &repeated, "message"]), Frame::Integer(0));
    assert_eq!(other.call(&["SET", &key, "v"]), Frame::Simple("OK".into()));
    let none = Frame::Array(Vec::new());
    for pattern in [format!("*{}b*", &long[..50_000]), format!("*{mixed}*")] {
        assert_eq!(other.call(&["KEYS", &pattern]), none);
        assert_eq!(
            other.call(&["SCAN", "0", "MATCH", &pattern]),
            Frame::Array(vec![Frame::Bulk(b"0".to_vec().into()), none.clone()])
        );
        assert_eq!(other.call(&["PUBSUB", "CHANNELS", &pattern]), none);
    }
    let matching = format!("{repeated}{}b", &repeated[..201]);
    assert_eq!(other.call(&["PUBLISH", &matching, "message"]), Frame::Integer(3));
}

#[test]
fn pattern_that_is_expensive_to_compare_is_refused_and_changes_nothing() {
    let server = TestServer::start();
    let mut client = server.connect();
    let too_long = format!("*{}*", "?".repeat(257));
    let many_stars = "a*".repeat(1_001);
    for pattern in [&too_long, &many_stars] {
        for command in [
            &["PSUBSCRIBE", "x*", pattern][..],
            &["KEYS", pattern],
            &["SCAN", "0", "MATCH", pattern],
            &["PUBSUB", "CHANNELS", pattern],
            &["CONFIG", "GET", pattern],
            &["COMMAND", "LIST", "FILTERBY", "PATTERN", pattern],
            &["EVAL", "return redis.call('KEYS', ARGV[1])", "0", pattern],
        ] {
            let reply = client.call(command);
            let is_refused =
                matches!(&reply, Frame::Error(text) if text.starts_with("ERR invalid pattern: it has more"));
            assert!(is_refused, "{}: {reply:?}", command[0]);
        }
    }
    assert_eq!(client.call(&["PUBSUB", "NUMPAT"]), Frame::Integer(0));
}
