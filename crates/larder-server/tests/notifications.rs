//! Keyspace notifications: the same events as in Redis.

use std::cell::RefCell;

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config};
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};

use crate::differential::{Pair, requests, words};
use crate::support::TestServer;
use crate::{hashes, lists, sets, sorted_sets, sorting, streams};

/// A command and the number of its events, each in two channels.
const EVENTS: &[(&str, usize)] = &[
    ("SET k v", 2),
    ("SET k w", 1),
    ("SET k w NX", 0),
    ("SET k v EX 100", 2),
    ("SETEX k 100 abc", 2),
    ("SETNX fresh v", 2),
    ("GETSET k v", 1),
    ("MSET k 1 other 2", 3),
    ("MSETNX k 1 other 2", 0),
    ("GET k", 0),
    ("INCR k", 1),
    ("INCR n", 2),
    ("DECRBY k 100", 1),
    ("INCRBYFLOAT k 0.5", 1),
    ("APPEND k x", 1),
    ("SETRANGE k 1 yy", 1),
    ("SETRANGE k 1 ''", 0),
    ("SETBIT k 2 0", 1),
    ("SETBIT k 2 0", 0),
    ("SETBIT k 1000 0", 1),
    ("SETRANGE k 1 yy", 1),
    ("BITOP NOT bits k", 2),
    ("BITOP AND bits missing", 1),
    ("EXPIRE k 100", 1),
    ("EXPIRE missing 100", 0),
    ("PERSIST k", 1),
    ("PERSIST k", 0),
    ("GETEX k EX 100", 1),
    ("GETEX k PERSIST", 1),
    ("EXPIRE k -1", 1),
    ("DEL k", 0),
    ("DEL other n missing", 2),
    ("GETDEL fresh", 1),
    ("SET k v", 2),
    ("RENAME k l", 3),
    ("COPY l k", 2),
    ("RENAME k l", 3),
    ("MOVE l 1", 3),
    ("SELECT 1", 0),
    ("SET l v", 1),
    ("UNLINK l", 1),
    ("SELECT 0", 0),
    ("SET k v", 2),
    ("MULTI", 0),
    ("INCR n", 0),
    ("DEL k", 0),
    ("EXEC", 3),
    ("ZADD z 1 a 2 b 3 c 4 d", 2),
    ("ZADD z 1 a", 0),
    ("ZADD z 5 a", 1),
    ("ZINCRBY z 1 a", 1),
    ("ZADD z INCR 1 a", 1),
    ("ZREM z nobody", 0),
    ("ZREM z a", 1),
    ("ZPOPMIN z", 1),
    ("ZPOPMAX z", 1),
    ("ZRANGESTORE y z 0 -1", 2),
    ("ZUNIONSTORE x 2 y z", 2),
    ("ZUNIONSTORE x 1 missing", 1),
    ("ZREMRANGEBYSCORE z 100 200", 0),
    ("ZREM z c", 2),
    ("ZREMRANGEBYRANK y 0 -1", 2),
    ("HSET map a 1 b 2", 2),
    ("HSET map a 1", 1),
    ("HMSET map a 1 c 3", 1),
    ("HSETNX map a 1", 0),
    ("HSETNX map d 1", 1),
    ("HINCRBY map a 1", 1),
    ("HINCRBY map2 a 1", 2),
    ("HINCRBYFLOAT map a 0.5", 1),
    ("HINCRBY map a x", 0),
    ("HDEL map nothing", 0),
    ("HDEL map b c", 1),
    ("HDEL map a d", 2),
    ("HGET map2 a", 0),
    ("RENAME map2 map", 3),
    ("RESTORE r 0 \u{0}\u{6}v11553\n\u{0}8\"O#7k.$", 2),
    ("RESTORE r 0 \u{0}\u{6}v11553\n\u{0}8\"O#7k.$ REPLACE", 2),
    ("XADD x2 1-1 a 1", 2),
    ("XADD x2 1-1 a 1", 0),
    ("XADD x2 NOMKSTREAM MAXLEN 1 1-2 a 1", 2),
    ("XADD x2 MAXLEN 5 1-3 a 1", 1),
    ("XADD nothing NOMKSTREAM 1-1 a 1", 0),
    ("XADD x3 MAXLEN 0 1-1 a 1", 3),
    ("XDEL x2 9-9", 0),
    ("XDEL x2 1-2 1-3", 1),
    ("XTRIM x2 MAXLEN 0", 0),
    ("XADD x2 1-4 a 1", 1),
    ("XTRIM x2 MAXLEN 0", 1),
    ("XLEN x2", 0),
    ("DEL x2", 1),
    ("PFADD h a", 2),
    ("PFADD h a", 0),
    ("PFCOUNT h", 0),
    ("PFMERGE h2 h", 2),
    ("BITFIELD f SET u8 0 1", 2),
    ("BITFIELD f GET u8 0", 0),
    ("BITFIELD f SET u8 0 1", 0),
    ("BITFIELD f SET u8 0 257 INCRBY u8 0 0", 0),
    ("BITFIELD f OVERFLOW FAIL INCRBY u8 0 255", 0),
    ("BITFIELD f OVERFLOW SAT INCRBY u8 0 255", 1),
    ("BITFIELD f SET u8 8 0", 1),
    ("BITFIELD f SET u8 0 1 SET u8 0 255", 1),
    ("FLUSHALL", 0),
    ("CONFIG SET notify-keyspace-events E$", 0),
];

#[test]
fn events_equal_those_of_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let [mut subscriber, mut other] = [(); 2].map(|()| Pair::connect(&redis, &server));
    other.compare(&words("CONFIG GET notify-keyspace-events")).unwrap();
    for letters in ["KEA", "Kx", "q", "", "g$lshzxetd", "KEAn"] {
        other.call(&["CONFIG", "SET", "notify-keyspace-events", letters].map(str::to_owned));
        other.compare(&words("CONFIG GET notify-keyspace-events")).unwrap();
    }
    other.call(&words("FLUSHALL"));
    subscriber.call(&words("PSUBSCRIBE __key*__:*"));
    for (command, events) in EVENTS {
        other.call(&words(command));
        let received = subscriber.compare_received(command, 2 * events);
        // Nothing else has arrived.
        received.and_then(|()| subscriber.compare(&words("PING"))).unwrap();
    }
    // One of two classes, in one of two channels.
    for (command, events) in [("SET k v EX 10", 1), ("DEL k", 0)] {
        other.call(&words(command));
        subscriber.compare_received(command, events).unwrap();
    }
    subscriber.compare(&words("PING")).unwrap();
}

/// Whether the events of a command, and when they happen, are those of Redis.
fn has_equal_events(command: &[String]) -> bool {
    let is_deadline = |word: &String| word == "EXAT" || word == "PXAT";
    // A deadline in the past may be reported at any time.
    command[0] != "ZMPOP" && !(command[0] == "SET" && command.iter().any(is_deadline))
}

#[test]
fn random_commands_have_equal_events() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let [mut subscriber, mut other] = [(); 2].map(|()| Pair::connect(&redis, &server));
    other.call(&words("CONFIG SET notify-keyspace-events KEA"));
    subscriber.call(&words("PSUBSCRIBE __key*__:*"));
    let pairs = RefCell::new([subscriber, other]);
    let commands = prop_oneof![
        requests(),
        hashes::requests(),
        lists::requests(),
        sets::requests(),
        sorted_sets::requests(),
        streams::requests(),
        sorting::requests()
    ]
    .prop_filter("the events differ from those of Redis", |command| has_equal_events(command));
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() });
    let outcome = runner.run(&vec(commands, 1..60), |commands| {
        let [subscriber, other] = &mut *pairs.borrow_mut();
        [words("SELECT 0"), words("FLUSHALL")].iter().chain(&commands).try_for_each(|command| {
            other.call(command);
            let compared = subscriber.compare_pipeline(&[]);
            compared.map_err(|error| TestCaseError::fail(format!("{command:?}: {error}")))
        })
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn expired_and_evicted_keys_have_events() {
    let server = TestServer::with(Config { max_memory: Some(ByteSize(1 << 20)), ..Config::default() });
    let (mut subscriber, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    other.call(&["CONFIG", "SET", "notify-keyspace-events", "Exe"]);
    subscriber.call(&["PSUBSCRIBE", "*"]);
    let bulk = |text: &str| Frame::Bulk(text.as_bytes().to_vec().into());
    let event = |name: &str, key: &str| {
        let channel = format!("__keyevent@0__:{name}");
        Frame::Push(vec![bulk("pmessage"), bulk("*"), bulk(&channel), bulk(key)])
    };
    other.call(&["SET", "timed", "v", "PX", "10"]);
    assert_eq!(subscriber.receive(), event("expired", "timed"));
    other.call(&["SET", "k", "v"]);
    for number in 0.. {
        other.call(&["SET", &format!("filler:{number}"), &"x".repeat(1000)]);
        if other.call(&["EXISTS", "k"]) == Frame::Integer(0) {
            break;
        }
    }
    while subscriber.receive() != event("evicted", "k") {}
}
