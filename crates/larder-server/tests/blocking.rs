//! Commands that wait for members of keys, compared with a real Redis; and that everything that is put into a list is taken
//! exactly once, in the order of those who wait.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use larder_resp::{Frame, Protocol};
use larder_server::{Config, Store};
use larder_testkit::{may_open, needs, until};

use crate::differential::{Pair, assert_equal_keys, assert_equal_replies, words};
use crate::support::{Client, TestServer, encode};

/// What is answered at once, and errors.
pub(crate) const SEQUENCE: &[&str] = &[
    "RPUSH l a b c d e f g h",
    "BLPOP l 0",
    "BRPOP l 0",
    "BLPOP nothing l 0",
    "BLPOP l l 0",
    "BLMOVE l m LEFT RIGHT 0",
    "BRPOPLPUSH l m 0",
    "LRANGE m 0 -1",
    "BLMPOP 0 2 nothing l LEFT COUNT 5",
    "BLMPOP 0 1 m RIGHT",
    "EXISTS l",
    "ZADD z 1 a 2 b 3 c 4 d 5 e",
    "BZPOPMIN z 0",
    "BZPOPMAX nothing z 0",
    "BZMPOP 0 2 nothing z MIN COUNT 2",
    "BZMPOP 0 1 z MAX",
    "EXISTS z",
    "BLPOP nothing 0.01",
    "BRPOP nothing other 0.01",
    "BLMOVE nothing m LEFT LEFT 0.01",
    "BRPOPLPUSH nothing m 0.01",
    "BLMPOP 0.01 1 nothing LEFT",
    "BZPOPMIN nothing 0.01",
    "BZMPOP 0.01 1 nothing MIN",
    "BLPOP l x",
    "BLPOP l -1",
    "BLPOP l nan",
    "BLPOP l",
    "BLPOP",
    "BLMOVE a b LEFT UP 0",
    "BLMOVE a b LEFT LEFT x",
    "BLMPOP 0 0 l LEFT",
    "BLMPOP 0 1 l UP",
    "BLMPOP x 1 l LEFT",
    "BZMPOP 0 1 l LEFT",
    "BZMPOP 0 1 l MIN COUNT 0",
    "SET string x",
    "BLPOP string 0",
    "BLPOP nothing string 0",
    "BZPOPMIN string 0",
    "BLMOVE string m LEFT LEFT 0",
    "RPUSH l a",
    "BLMOVE l string LEFT LEFT 0",
    "BLPOP l string 0",
    "XADD s 1-1 a 1",
    "XREAD BLOCK 0 STREAMS s 0",
    "XREAD BLOCK 1 COUNT 5 STREAMS nothing s 0 0",
    "XREAD BLOCK 1 STREAMS s 1-1",
    "XREAD BLOCK 1 STREAMS s nothing $ $",
    "XREAD BLOCK x STREAMS s $",
    "XREAD BLOCK 1.5 STREAMS s $",
    "XREAD BLOCK -1 STREAMS s $",
    "XREAD BLOCK 1 STREAMS string $",
    "XREAD BLOCK 1 STREAMS s x",
    "XREAD BLOCK 1",
    "CLIENT UNBLOCK 1000000",
    "CLIENT UNBLOCK x",
    "CLIENT UNBLOCK 1 FOO",
    "COMMAND GETKEYS BLPOP a b 0",
    "COMMAND GETKEYS BLMPOP 0 2 a b LEFT",
    "FLUSHALL",
];

#[test]
fn replies_without_a_wait_equal_redis() {
    assert_equal_replies(SEQUENCE);
}

/// A command of the first connection that waits, those of another one, and how the first one goes on.
const WAITS: &[(&str, &[&str])] = &[
    ("BLPOP l 5", &["RPUSH l a"]),
    ("BLPOP l 5", &["RPUSH l a b c", "LRANGE l 0 -1"]),
    ("BLPOP l 5", &["LPUSH l a b c", "LRANGE l 0 -1"]),
    ("BRPOP l m 5", &["RPUSH m a b", "LLEN m"]),
    ("BRPOP l m 5", &["RPUSH l a", "EXISTS l"]),
    ("BLMOVE l m LEFT RIGHT 5", &["RPUSH l a b", "LRANGE m 0 -1", "LRANGE l 0 -1"]),
    ("BRPOPLPUSH l l 5", &["RPUSH l a b", "LRANGE l 0 -1"]),
    ("BLMOVE l m LEFT RIGHT 5", &["SET m x", "RPUSH l a b", "LRANGE l 0 -1"]),
    ("BLMPOP 5 2 l m LEFT COUNT 2", &["RPUSH m a b c", "LRANGE m 0 -1"]),
    ("BZPOPMIN z 5", &["ZADD z 2 b 1 a", "ZRANGE z 0 -1"]),
    ("BZPOPMAX y z 5", &["ZADD z 2 b 1 a", "ZRANGE z 0 -1"]),
    ("BZMPOP 5 1 z MAX COUNT 2", &["ZADD z 2 b 1 a 3 c", "ZRANGE z 0 -1"]),
    ("BLPOP l 5", &["SET l x", "DEL l", "RPUSH l a"]),
    ("BLPOP l 5", &["ZADD l 1 a", "DEL l", "RPUSH l b"]),
    ("BLPOP l 5", &["RPUSH other a b", "RENAME other l", "LRANGE l 0 -1"]),
    ("BLPOP l 5", &["RPUSH other a b", "COPY other l", "LRANGE l 0 -1"]),
    ("BLPOP l 5", &["MULTI", "RPUSH l a", "DEL l", "EXEC", "RPUSH l b"]),
    ("BLPOP l 5", &["MULTI", "RPUSH l a b", "LPUSH l c", "EXEC", "LRANGE l 0 -1"]),
    (
        "BLPOP l 5",
        &["EVAL redis.call('RPUSH',KEYS[1],'a','b')return(redis.call('LLEN',KEYS[1])) 1 l", "LLEN l"],
    ),
    ("BLPOP l 5", &["LMOVE other l LEFT LEFT", "RPUSH other a", "LMOVE other l LEFT LEFT", "EXISTS l other"]),
    ("BZPOPMIN z 5", &["ZADD y 1 a", "ZUNIONSTORE z 1 y", "EXISTS z"]),
    ("BLPOP l 5", &["LPUSHX l a", "RPUSH l b"]),
    ("XREAD BLOCK 5000 STREAMS s $", &["XADD s 1-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s 5", &["XADD s 1-1 a 1", "XADD s 5-0 a 2", "XADD s 6-1 b 3", "XLEN s"]),
    ("XREAD BLOCK 5000 COUNT 1 STREAMS t s $ $", &["XADD s 1-1 a 1", "XADD t 1-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s s 7 0", &["XADD s 1-1 a 1", "XADD s 7-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s $", &["XADD s 1-1 a 1", "XDEL s 1-1"]),
    ("XREAD BLOCK 5000 STREAMS s $", &["XADD s MAXLEN 1 1-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s $", &["SET s x", "DEL s", "RPUSH s a", "DEL s", "XADD s 1-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s 1", &["XADD s 1-1 a 1", "DEL s", "XADD s 2-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s 3", &["XADD s 1-1 a 1", "XTRIM s MAXLEN 0", "XDEL s 1-1", "XADD s 4-1 a 1"]),
    ("XREAD BLOCK 5000 STREAMS s 1", &["XADD t 1-1 a 1", "XADD t 2-1 a 1", "XADD t 3-1 a 1", "RENAME t s"]),
    ("XREAD BLOCK 5000 COUNT 2 STREAMS s 1", &["XADD t 1-1 a 1", "XADD t 2-1 a 1", "COPY t s"]),
    ("XREAD BLOCK 5000 STREAMS s $", &["MULTI", "XADD s 1-1 a 1", "XADD s 2-1 a 1", "EXEC", "XLEN s"]),
    (
        "XREAD BLOCK 5000 COUNT 1 STREAMS s $",
        &["MULTI", "XADD s 1-1 a 1", "XADD s 2-1 a 1", "EXEC", "XLEN s"],
    ),
    ("XREAD BLOCK 5000 STREAMS s $", &["MULTI", "XADD s 1-1 a 1", "DEL s", "EXEC", "XADD s 1-2 a 1"]),
    (
        "XREAD BLOCK 5000 STREAMS s $",
        &[
            "EVAL redis.call('XADD',KEYS[1],'1-1','a','b')return(redis.call('XADD',KEYS[1],'1-2','a','b')) 1 s",
            "XLEN s",
        ],
    ),
];

fn waiting(client: &mut Client<impl std::io::Read + std::io::Write>) -> bool {
    let Frame::Bulk(info) = client.call(&["INFO", "clients"]) else { return false };
    String::from_utf8_lossy(&info).contains("blocked_clients:1\r\n")
}

#[test]
fn waits_end_as_in_redis() {
    let Some((mut other, servers)) = Pair::start() else { return };
    for (wait, commands) in WAITS {
        other.call(&words("FLUSHALL"));
        let mut first = Pair::connect(&servers.0, &servers.1);
        first.redis.send(&encode(&words(wait)));
        first.larder.send(&encode(&words(wait)));
        until("both wait", || (waiting(&mut other.redis) && waiting(&mut other.larder)).then_some(()));
        for command in *commands {
            other.compare(&words(command)).unwrap_or_else(|difference| panic!("{wait}: {difference}"));
        }
        assert_eq!(first.larder.receive(), first.redis.receive(), "{wait} {commands:?}");
        other.compare(&words("DBSIZE")).unwrap();
    }
}

#[test]
fn wait_ends_after_its_time() {
    let server = TestServer::start();
    let mut client = server.connect();
    for (command, least_ms) in [("BLPOP l 0.15", 150), ("BZPOPMAX z 0.001", 1)] {
        let started = Instant::now();
        assert!(matches!(client.call(&words(command)), Frame::Null), "{command}");
        let elapsed = started.elapsed();
        assert!(
            elapsed >= Duration::from_millis(least_ms) && elapsed < Duration::from_secs(5),
            "{elapsed:?}"
        );
    }
}

#[test]
fn requests_behind_a_wait_are_executed_after_it() {
    let server = TestServer::start();
    let (mut first, mut other) = (server.connect(), server.connect());
    first.send(&encode(&words("BLPOP l 5")));
    first.send(&encode(&words("INCR n")));
    until("it waits", || waiting(&mut other).then_some(()));
    assert_eq!(other.call(&["GET", "n"]), Frame::Null);
    other.call(&["RPUSH", "l", "a"]);
    assert!(matches!(first.receive(), Frame::Array(_)));
    assert_eq!(first.receive(), Frame::Integer(1));
}

#[test]
fn client_unblock_ends_a_wait() {
    let server = TestServer::start();
    let (mut first, mut other) = (server.connect(), server.connect());
    let Frame::Integer(id) = first.call(&["CLIENT", "ID"]) else { panic!("no id") };
    for (reason, expected) in [
        (None, Frame::Null),
        (Some("TIMEOUT"), Frame::Null),
        (Some("ERROR"), Frame::Error("UNBLOCKED client unblocked via CLIENT UNBLOCK".into())),
    ] {
        first.send(&encode(&words("BLPOP l 0")));
        until("it waits", || waiting(&mut other).then_some(()));
        let id = id.to_string();
        let request: Vec<&str> = ["CLIENT", "UNBLOCK", &id].into_iter().chain(reason).collect();
        assert_eq!(other.call(&request), Frame::Integer(1));
        assert_eq!(first.receive(), expected, "{reason:?}");
        assert_eq!(other.call(&request), Frame::Integer(0));
    }
}

#[test]
fn closed_connection_waits_no_more() {
    let server = TestServer::start();
    let mut other = server.connect();
    let mut first = server.connect();
    first.send(&encode(&words("BLPOP l 0")));
    until("it waits", || waiting(&mut other).then_some(()));
    drop(first);
    until("nobody waits", || (!waiting(&mut other)).then_some(()));
    other.call(&["RPUSH", "l", "a"]);
    assert_eq!(other.call(&["LLEN", "l"]), Frame::Integer(1));
    let mut killed = server.connect();
    let Frame::Integer(id) = killed.call(&["CLIENT", "ID"]) else { panic!("no id") };
    killed.send(&encode(&words("BLPOP other 0")));
    until("it waits", || waiting(&mut other).then_some(()));
    other.call(&["CLIENT", "KILL", "ID", &id.to_string()]);
    until("nobody waits", || (!waiting(&mut other)).then_some(()));
}

/// The end of a connection may arrive together with its last command.
#[test]
fn connection_that_ends_with_its_command_does_not_wait() {
    let Some((mut other, servers)) = Pair::start() else { return };
    for wait in ["BLPOP l 0", "BLMOVE l m LEFT LEFT 0", "BZPOPMIN z 0", "XREAD BLOCK 0 STREAMS s $"] {
        let mut first = Pair::connect(&servers.0, &servers.1);
        let requests = [encode(&words("INCR n")), encode(&words(wait))].concat();
        first.redis.send(&requests);
        first.larder.send(&requests);
        first.redis.stream.shutdown(Shutdown::Write).unwrap();
        first.larder.stream.shutdown(Shutdown::Write).unwrap();
        let (redis, larder) = (first.redis.read_to_end(), first.larder.read_to_end());
        assert_eq!(larder, redis, "{wait}");
    }
    for command in ["GET n", "RPUSH l a", "LRANGE l 0 -1"] {
        other.compare(&words(command)).unwrap();
    }
}

#[test]
fn those_who_wait_are_served_in_the_order_of_their_arrival() {
    const WAITERS: usize = 50;
    let server = TestServer::start();
    let mut other = server.connect();
    let mut waiters = Vec::new();
    for number in 0..WAITERS {
        let mut waiter = server.connect();
        waiter.send(&encode(&words("BLPOP l 0")));
        let expected = format!("blocked_clients:{}\r\n", number + 1);
        until("it waits", || match other.call(&["INFO", "clients"]) {
            Frame::Bulk(info) => String::from_utf8_lossy(&info).contains(&expected).then_some(()),
            _ => None,
        });
        waiters.push(waiter);
    }
    for number in 0..WAITERS {
        other.call(&["RPUSH", "l", &number.to_string()]);
    }
    for (number, waiter) in waiters.iter_mut().enumerate() {
        let expected = Frame::Array(vec![
            Frame::Bulk(b"l"[..].into()),
            Frame::Bulk(number.to_string().into_bytes().into()),
        ]);
        assert_eq!(waiter.receive(), expected);
    }
}

/// Some take elements with a wait, some without, some move them on, and some give up.
#[test]
fn every_element_is_taken_once() {
    const PRODUCERS: usize = 3;
    const CONSUMERS: usize = 6;
    const EACH: usize = 2_000;
    let server = TestServer::start();
    let taken = AtomicUsize::new(0);
    let elements = std::thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let mut client = server.connect();
            scope.spawn(move || {
                for number in 0..EACH {
                    let element = format!("{producer}:{number}");
                    match number % 3 {
                        0 => client.call(&["RPUSH", "in", &element]),
                        1 => client.call(&["LPUSH", "in", &element]),
                        _ => {
                            client.call(&["MULTI"]);
                            client.call(&["RPUSH", "in", &element]);
                            client.call(&["EXEC"])
                        }
                    };
                }
            });
        }
        let mut mover = server.connect();
        let taken = &taken;
        scope.spawn(move || {
            while taken.load(Ordering::Relaxed) < PRODUCERS * EACH {
                mover.call(&["BLMOVE", "in", "out", "LEFT", "RIGHT", "0.01"]);
            }
        });
        let consumers: Vec<_> = (0..CONSUMERS)
            .map(|consumer| {
                let mut client = server.connect();
                scope.spawn(move || {
                    let mut elements = Vec::new();
                    while taken.load(Ordering::Relaxed) < PRODUCERS * EACH {
                        let reply = match consumer % 3 {
                            0 => client.call(&["BLPOP", "in", "out", "0.01"]),
                            1 => client.call(&["BRPOP", "out", "0.005"]),
                            _ => client.call(&["BLMPOP", "0.002", "2", "out", "in", "LEFT", "COUNT", "3"]),
                        };
                        let Frame::Array(parts) = reply else { continue };
                        let popped = match &parts[1] {
                            Frame::Array(several) => several.clone(),
                            one => vec![one.clone()],
                        };
                        taken.fetch_add(popped.len(), Ordering::Relaxed);
                        elements.extend(popped.iter().map(|element| element.as_bytes().unwrap().to_vec()));
                    }
                    elements
                })
            })
            .collect();
        consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect::<Vec<_>>()
    });
    let different: BTreeSet<_> = elements.iter().collect();
    assert_eq!((elements.len(), different.len()), (PRODUCERS * EACH, PRODUCERS * EACH));
    let mut client = server.connect();
    assert_eq!(client.call(&["DBSIZE"]), Frame::Integer(0));
    assert_eq!(server.stats().snapshot().panics, 0);
}

#[test]
fn blocking_commands_are_described_as_in_redis() {
    assert_equal_keys(&[
        "blpop a b 0",
        "brpop a 0",
        "blmove a b left left 0",
        "brpoplpush a b 0",
        "blmpop 0 2 a b left",
        "bzpopmin a b 0",
        "bzmpop 0 2 a b min",
        "xread block 0 streams a b 0 0",
    ]);
}

/// Each waits for a key of its own and for one of all.
#[test]
fn thousands_of_connections_wait() {
    const WAITERS: usize = 3_000;
    // A connection has two ends in this process.
    if needs("a limit of 6100 open files", may_open(6_100)).is_none() {
        return;
    }
    let server = TestServer::with(Config { maxclients: WAITERS + 10, ..Config::default() });
    let mut other = server.connect();
    let mut waiters: Vec<_> = (0..WAITERS)
        .map(|number| {
            let mut waiter = server.connect();
            waiter.send(&encode(&["BLPOP", &format!("own:{number}"), "shared", "0"]));
            waiter
        })
        .collect();
    until("all wait", || match other.call(&["INFO", "clients"]) {
        Frame::Bulk(info) => {
            let expected = format!("blocked_clients:{WAITERS}\r\n");
            String::from_utf8_lossy(&info).contains(&expected).then_some(())
        }
        _ => None,
    });
    let mut served_by = |key: &str, number: usize| {
        other.call(&["RPUSH", key, "x"]);
        let expected = [key, "x"].map(|text| Frame::Bulk(text.as_bytes().to_vec().into()));
        assert_eq!(waiters[number].receive(), Frame::Array(expected.into()), "{number}");
    };
    // The last ones first, by their own keys; then those who wait longest.
    for number in (1..WAITERS).step_by(2).rev() {
        served_by(&format!("own:{number}"), number);
    }
    (0..WAITERS).step_by(2).for_each(|number| served_by("shared", number));
    assert_eq!(other.call(&["DBSIZE"]), Frame::Integer(0));
}

/// The message was a turn of the connection, after which nobody looked at its time any more.
#[test]
fn message_does_not_lengthen_a_wait() {
    let server = TestServer::start();
    let (mut first, mut other) = (server.connect_as(Protocol::Resp3), server.connect());
    first.call(&["SUBSCRIBE", "news"]);
    first.send(&encode(&["BLPOP", "l", "0.3"]));
    until("it waits", || waiting(&mut other).then_some(()));
    other.call(&["PUBLISH", "news", "x"]);
    assert!(matches!(first.receive(), Frame::Push(_)));
    assert_eq!(first.receive(), Frame::Null);
}

/// The other server uses the same keyspace on other threads, and asks for elements all the time.
#[test]
fn nobody_takes_what_others_wait_for() {
    const WAITERS: usize = 300;
    let store = Store::new(Some(8 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let other_server = TestServer::with_store(Config::default(), store);
    let mut other = server.connect();
    let mut waiters: Vec<_> = (0..WAITERS)
        .map(|_| {
            let mut waiter = server.connect();
            waiter.send(&encode(&["BLPOP", "l", "0"]));
            waiter
        })
        .collect();
    until("all wait", || match other.call(&["INFO", "clients"]) {
        Frame::Bulk(info) => {
            let expected = format!("blocked_clients:{WAITERS}\r\n");
            String::from_utf8_lossy(&info).contains(&expected).then_some(())
        }
        _ => None,
    });
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            let (mut thief, is_over) = (other_server.connect(), &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    assert_eq!(thief.call(&["LPOP", "l"]), Frame::Null);
                }
            });
        }
        for number in 0..WAITERS {
            assert_eq!(other.call(&["RPUSH", "l", &number.to_string()]), Frame::Integer(1));
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(waiters.iter_mut().all(|waiter| matches!(waiter.receive(), Frame::Array(_))));
}

/// Readers of a stream take nothing from each other.
#[test]
fn every_reader_gets_every_entry() {
    const READERS: usize = 4;
    const ENTRIES: usize = 1_500;
    let store = Store::new(Some(8 << 20)).unwrap();
    let servers = [(); 2].map(|()| TestServer::with_store(Config::default(), store.clone()));
    let read = |mut client: Client<std::net::TcpStream>| {
        let (mut known, mut values) = ("0".to_owned(), Vec::new());
        while values.len() < ENTRIES {
            let reply = client.call(&["XREAD", "BLOCK", "0", "COUNT", "7", "STREAMS", "s", &known]);
            let Frame::Array(streams) = reply else { panic!("{reply:?}") };
            let Frame::Array(stream) = &streams[0] else { panic!("{streams:?}") };
            let Frame::Array(entries) = &stream[1] else { panic!("{stream:?}") };
            assert!((1..=7).contains(&entries.len()));
            for entry in entries {
                let Frame::Array(parts) = entry else { panic!("{entry:?}") };
                let Frame::Array(fields) = &parts[1] else { panic!("{parts:?}") };
                known = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
                values.push(fields[1].as_bytes().unwrap().to_vec());
            }
        }
        values
    };
    let all = std::thread::scope(|scope| {
        let readers: Vec<_> = (0..READERS)
            .map(|number| {
                let client = servers[number % 2].connect();
                scope.spawn(move || read(client))
            })
            .collect();
        for (number, server) in (0..ENTRIES).zip(servers.iter().cycle()) {
            let mut client = server.connect();
            let number = number.to_string();
            match number.len() % 2 {
                0 => client.call(&["XADD", "s", "*", "number", &number]),
                _ => client.call(&[
                    "EVAL",
                    "return redis.call('XADD', KEYS[1], '*', 'n', ARGV[1])",
                    "1",
                    "s",
                    &number,
                ]),
            };
        }
        readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
    });
    let expected: Vec<Vec<u8>> = (0..ENTRIES).map(|number| number.to_string().into_bytes()).collect();
    assert!(all.iter().all(|values| *values == expected));
    let mut client = servers[0].connect();
    assert_eq!(client.call(&["XLEN", "s"]), Frame::Integer(ENTRIES as i64));
    assert!(
        matches!(client.call(&["INFO", "clients"]), Frame::Bulk(info) if String::from_utf8_lossy(&info).contains("blocked_clients:0"))
    );
}

/// A reply that is longer than the limit ends the wait with the error that an `XREAD` without a wait would get.
#[test]
fn entries_beyond_the_limit_of_replies_end_a_wait() {
    let config = Config { max_reply_bytes: larder_server::ByteSize(1 << 20), ..Config::default() };
    let server = TestServer::with(config);
    let (mut reader, mut small, mut other) = (server.connect(), server.connect(), server.connect());
    reader.send(&encode(&words("XREAD BLOCK 0 STREAMS s $")));
    until("it waits", || waiting(&mut other).then_some(()));
    small.send(&encode(&words("XREAD BLOCK 0 COUNT 1 STREAMS s $")));
    until("both wait", || {
        let info = other.call(&["INFO", "clients"]);
        matches!(info, Frame::Bulk(info) if String::from_utf8_lossy(&info).contains("blocked_clients:2\r\n"))
            .then_some(())
    });
    other.call(&["MULTI"]);
    for _ in 0..11 {
        other.call(&["XADD", "s", "*", "a", &"x".repeat(100_000)]);
    }
    assert!(matches!(other.call(&["EXEC"]), Frame::Array(_)));
    let too_large = Frame::Error("ERR the reply would exceed 1048576 bytes, the limit of replies".into());
    assert_eq!(reader.receive(), too_large);
    assert!(matches!(small.receive(), Frame::Array(_)));
}

/// Redis 7.0 gives such a reader an empty array.
#[test]
fn reader_waits_on_if_the_new_entry_is_gone_at_once() {
    let server = TestServer::start();
    let (mut reader, mut other) = (server.connect(), server.connect());
    reader.send(&encode(&words("XREAD BLOCK 0 STREAMS s $")));
    until("it waits", || waiting(&mut other).then_some(()));
    other.call(&words("XADD s MAXLEN 0 1-1 a 1"));
    for command in ["MULTI", "XADD s 2-1 a 1", "XDEL s 2-1", "EXEC"] {
        other.call(&words(command));
    }
    assert!(waiting(&mut other));
    other.call(&words("XADD s 3-1 a 1"));
    let Frame::Array(streams) = reader.receive() else { panic!("no entries") };
    assert!(format!("{streams:?}").contains("3-1"), "{streams:?}");
}

/// RESP2 has two forms of null, and some clients expect the one of Redis.
#[test]
fn timeout_is_the_null_array_of_redis() {
    let Some((_pair, servers)) = Pair::start() else { return };
    let mut pair = Pair::connect(&servers.0, &servers.1);
    for request in [
        "BLMOVE nothing m LEFT LEFT 0.01",
        "BRPOPLPUSH nothing m 0.01",
        "BLPOP nothing 0.01",
        "XREAD BLOCK 10 STREAMS nothing 0",
        "ACL GETUSER nobody",
    ] {
        let request = encode(&words(request));
        let [larder, redis] = [bytes_of(&mut pair.larder, &request), bytes_of(&mut pair.redis, &request)];
        assert_eq!(larder, redis);
    }
}

/// The reply as it is sent.
fn bytes_of<S: Read + Write>(client: &mut Client<S>, request: &[u8]) -> String {
    client.send(&[request, b"PING\r\n"].concat());
    client.read_until(b"+PONG\r\n").escape_ascii().to_string()
}
