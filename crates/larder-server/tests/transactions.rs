//! `MULTI`, `EXEC`, `WATCH`: replies equal to those of Redis, atomicity between threads, and every way to lose a watch.

use std::sync::atomic::{AtomicBool, Ordering};

use larder_resp::Frame;
use larder_server::{ByteSize, Config, Store};
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::test_runner::{Config as ProptestConfig, TestCaseError, TestRunner};

use crate::differential::{Pair, SEQUENCE, requests, words};
use crate::support::{Client, TestServer, encode};
use crate::{blocking, hashes, lists, sets, sorted_sets, sorting, streams};

const SEQUENCE_OF_TRANSACTIONS: &[&str] = &[
    "EXEC",
    "DISCARD",
    "UNWATCH",
    "MULTI",
    "MULTI",
    "WATCH k",
    "SET k 1",
    "INCR k",
    "GET k",
    "EXEC",
    "GET k",
    "MULTI",
    "SET k discarded",
    "DISCARD",
    "GET k",
    "MULTI",
    "EXEC",
    "MULTI x",
    "MULTI",
    "GET",
    "SET k aborted",
    "EXEC",
    "GET k",
    "MULTI",
    "FOO",
    "EXEC",
    "MULTI",
    "EXEC x",
    "EXEC",
    "EXEC x",
    "WATCH k",
    "SET k changed",
    "EXEC x",
    "MULTI",
    "EXEC",
    "MULTI",
    "SET k text",
    "INCR k",
    "SET k 5",
    "INCR k",
    "EXEC",
    "MULTI",
    "SELECT 1",
    "SET other 1",
    "SELECT 0",
    "EXISTS other",
    "EXEC",
    "MULTI",
    "SELECT 1",
    "SELECT x",
    "DBSIZE",
    "KEYS *",
    "GET k",
    "EXEC",
    "GET other",
    "SELECT 0",
    "MULTI",
    "FLUSHALL",
    "SET k 1",
    "DBSIZE",
    "RANDOMKEY",
    "SCAN 0",
    "KEYS *",
    "OBJECT ENCODING k",
    "COPY k l DB 1",
    "MOVE k 1",
    "EXISTS k",
    "FLUSHDB",
    "PING",
    "ECHO x",
    "UNWATCH",
    "CLIENT SETNAME me",
    "CLIENT GETNAME",
    "EXEC",
    "WATCH k l k",
    "SET k changed",
    "MULTI",
    "SET k 2",
    "EXEC",
    "GET k",
    "MULTI",
    "SET k 3",
    "EXEC",
    "WATCH k",
    "SET k changed",
    "UNWATCH",
    "MULTI",
    "EXEC",
    "WATCH k",
    "SET k changed",
    "MULTI",
    "DISCARD",
    "MULTI",
    "EXEC",
    "WATCH",
    "WATCH k",
    "MULTI",
    "GET",
    "EXEC",
    "MULTI",
    "RESET",
    "EXEC",
];

#[test]
fn fixed_transactions_get_equal_replies_in_both_versions() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    for version in ["2", "3"] {
        let mut pair = Pair::connect(&redis, &server);
        for command in ["FLUSHALL".to_owned(), format!("HELLO {version}")] {
            pair.call(&words(&command));
        }
        let lines = SEQUENCE_OF_TRANSACTIONS.iter();
        let differences: Vec<String> = lines.filter_map(|line| pair.compare(&words(line)).err()).collect();
        assert!(differences.is_empty(), "RESP{version}:\n{}", differences.join("\n"));
    }
}

/// Time passes between the two executions, names come in any order, settings cannot be queued here, and wrong
/// subcommands are found by `EXEC`.
pub(crate) fn is_comparable(command: &[String]) -> bool {
    const EXCEPTIONS: [&str; 16] = [
        "TTL",
        "PTTL",
        "EXPIRETIME",
        "PEXPIRETIME",
        "KEYS",
        "SCAN",
        "RANDOMKEY",
        "CONFIG",
        "HELLO",
        "RESET",
        "INFO",
        "CLIENT",
        "AUTH",
        "COMMAND",
        "OBJECT",
        "MEMORY",
    ];
    !EXCEPTIONS.contains(&command[0].as_str())
}

/// Each command uses the locks that the transaction holds.
#[test]
fn each_command_gets_the_same_reply_in_a_transaction() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let mut pair = Pair::connect(&redis, &server);
    pair.call(&words("FLUSHALL"));
    let mut differences = Vec::new();
    let lines = SEQUENCE
        .iter()
        .chain(hashes::SEQUENCE)
        .chain(lists::SEQUENCE)
        .chain(sets::ordered())
        .chain(streams::SEQUENCE)
        .chain(sorting::SEQUENCE)
        .chain(blocking::SEQUENCE);
    for command in
        lines.chain(sorted_sets::SEQUENCE).map(|line| words(line)).filter(|command| is_comparable(command))
    {
        let transaction = [words("MULTI"), command, words("EXEC")];
        differences.extend(transaction.iter().filter_map(|command| pair.compare(command).err()));
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    assert_eq!(server.stats().snapshot().panics, 0);
}

#[test]
fn random_transactions_get_equal_replies() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 150, failure_persistence: None, ..Default::default() });
    let pair = std::cell::RefCell::new(Pair::connect(&redis, &server));
    let outcome = runner.run(&vec(vec(requests(), 0..12), 1..8), |transactions| {
        let mut pair = pair.borrow_mut();
        let mut commands = vec![words("SELECT 0"), words("FLUSHALL")];
        for transaction in transactions {
            commands.extend([words("WATCH a b"), words("MULTI")]);
            commands.extend(transaction.into_iter().filter(|command| is_comparable(command)));
            commands.push(words("EXEC"));
        }
        commands.iter().try_for_each(|command| pair.compare(command)).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Commands of another connection between `WATCH k missing` and `EXEC`.
const CHANGES: &[&str] = &[
    "PING",
    "GET k",
    "SET k v",
    "SET k v XX",
    "SET k v NX",
    "SET missing v XX",
    "SETNX k v",
    "SETNX missing v",
    "DEL k",
    "DEL missing",
    "UNLINK k missing",
    "GETDEL k",
    "GETDEL missing",
    "GETEX k",
    "GETEX k EX 100",
    "GETEX k PERSIST",
    "GETEX timed PERSIST",
    "APPEND k x",
    "INCR missing",
    "INCR k",
    "SETRANGE k 0 x",
    "SETRANGE k 0 ''",
    "SETBIT k 0 1",
    "BITOP NOT k other",
    "BITOP NOT other k",
    "EXPIRE k 100",
    "EXPIRE k -1",
    "EXPIRE missing 100",
    "EXPIRE k 100 XX",
    "PERSIST k",
    "PERSIST timed",
    "RENAME k other",
    "RENAME other k",
    "RENAMENX other k",
    "RENAME other missing",
    "COPY other k",
    "COPY other k REPLACE",
    "COPY k elsewhere",
    "MOVE k 1",
    "MSET other 1 k 2",
    "MSETNX other 1 k 2",
    "MGET k missing",
    "TOUCH k",
    "FLUSHALL",
    "FLUSHDB",
    "SET K v",
    "MULTI;SET k v;EXEC",
    "MULTI;SET k v;DISCARD",
    "SELECT 1;SET k v;SELECT 0",
    "SELECT 1;FLUSHDB;SELECT 0",
    "ZADD z 1 a",
    "ZADD z 3 a",
    "ZADD z 3 c",
    "ZADD z NX 3 a",
    "ZADD missing 1 a",
    "ZADD missing XX 1 a",
    "ZINCRBY z 1 a",
    "ZINCRBY z 0 a",
    "ZREM z nobody",
    "ZREM z a",
    "ZREM z a b",
    "ZPOPMIN z",
    "ZPOPMIN z 0",
    "ZMPOP 2 missing z MAX",
    "ZREMRANGEBYSCORE z 5 6",
    "ZREMRANGEBYRANK z 0 0",
    "ZRANGESTORE z y 0 -1",
    "ZRANGESTORE missing y 5 6",
    "ZUNIONSTORE missing 2 y z",
    "ZUNION 2 y z",
    "SET z v",
    "PFADD missing a",
    "PFADD k a",
    "BITFIELD k GET u8 0",
    "BITFIELD k SET u8 0 1",
    "RESTORE k 0 x",
];

#[test]
fn watched_key_fails_after_the_same_changes_as_in_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut own, mut other) = (Pair::connect(&redis, &server), Pair::connect(&redis, &server));
    let mut differences = Vec::new();
    for by_other in [true, false] {
        for changes in CHANGES {
            let setup = [
                "FLUSHALL",
                "MSET k 1 other 2",
                "SET timed 1 EX 1000",
                "ZADD z 1 a 2 b",
                "ZADD y 1 c",
                "WATCH k timed missing z",
            ];
            setup.iter().for_each(|line| own.call(&words(line)));
            let changing = if by_other { &mut other } else { &mut own };
            changes.split(';').for_each(|line| changing.call(&words(line)));
            own.call(&words("MULTI"));
            own.call(&words("PING"));
            if let Err(difference) = own.compare(&words("EXEC")) {
                differences.push(format!("{changes}, by another connection: {by_other}\n{difference}"));
            }
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Without a reply to one of its commands, `EXEC` would have fewer elements than it announces.
#[test]
fn client_reply_in_a_transaction_is_refused_and_aborts_it() {
    let server = TestServer::start();
    let mut client = server.connect();
    for mode in ["SKIP", "OFF", "ON"] {
        let line = format!("CLIENT REPLY {mode}");
        let replies = call(&mut client, ["MULTI", &line, "GET x", "EXEC", "PING"]);
        let expected = [
            Frame::Simple("OK".into()),
            Frame::Error("ERR Command not allowed inside a transaction".into()),
            Frame::Simple("QUEUED".into()),
            Frame::Error("EXECABORT Transaction discarded because of previous errors.".into()),
            Frame::Simple("PONG".into()),
        ];
        assert_eq!(replies, expected, "{mode}");
    }
}

fn call<const N: usize>(client: &mut Client<std::net::TcpStream>, lines: [&str; N]) -> [Frame; N] {
    lines.map(|line| client.call(&words(line)))
}

#[test]
fn watched_key_that_expires_fails_the_transaction() {
    let server = TestServer::start();
    let (mut own, mut other) = (server.connect(), server.connect());
    call(&mut own, ["SET k v PX 20", "WATCH k"]);
    while other.call(&["EXISTS", "k"]) == Frame::Integer(1) {}
    let [.., reply] = call(&mut own, ["MULTI", "PING", "EXEC"]);
    assert_eq!(reply, Frame::Null);
    // It had expired already.
    let [.., reply] = call(&mut own, ["WATCH k", "MULTI", "PING", "EXEC"]);
    assert_eq!(reply, Frame::Array(vec![Frame::Simple("PONG".into())]));
}

#[test]
fn watched_key_that_is_evicted_fails_the_transaction() {
    let server = TestServer::with(Config { max_memory: Some(ByteSize(1 << 20)), ..Config::default() });
    let (mut own, mut other) = (server.connect(), server.connect());
    call(&mut own, ["SET k v", "WATCH k"]);
    for number in 0.. {
        other.call(&["SET", &format!("filler:{number}"), &"x".repeat(1000)]);
        if other.call(&["EXISTS", "k"]) == Frame::Integer(0) {
            break;
        }
    }
    let [.., reply] = call(&mut own, ["MULTI", "SET k new", "EXEC"]);
    assert_eq!(reply, Frame::Null);
}

#[test]
fn queued_commands_count_as_client_memory() {
    let config = Config { max_client_memory: Some(ByteSize(4 << 20)), ..Config::default() };
    let server = TestServer::with(config);
    let (mut own, mut other) = (server.connect(), server.connect());
    own.call(&["MULTI"]);
    let request = encode(&["SET", "k", &"x".repeat(100_000)]);
    let closed = (0..100).any(|_| {
        use std::io::Write;
        own.stream.write_all(&request).is_err() || !matches!(own.try_receive(), Ok(Some(Frame::Simple(_))))
    });
    assert!(closed, "ten megabytes are queued");
    assert_eq!(other.call(&["EXISTS", "k"]), Frame::Integer(0));
}

/// Two servers with one keyspace: their threads execute transactions at the same time.
fn pair_of_servers() -> [TestServer; 2] {
    let store = Store::new(Some(64 << 20)).unwrap();
    [(); 2].map(|()| TestServer::with_store(Config::default(), store.clone()))
}

fn request(lines: &[&str]) -> Vec<u8> {
    lines.iter().flat_map(|line| encode(&words(line))).collect()
}

#[test]
fn transaction_sees_no_part_of_another() {
    let servers = pair_of_servers();
    let [mut writer, mut reader] = [0, 1].map(|server: usize| servers[server].connect());
    const ROUNDS: usize = 3_000;
    // Keys are locked in other orders, and some transactions lock everything.
    let writes = [
        request(&["MULTI", "SET a 1", "SET b 1", "SELECT 1", "SET c 1", "SELECT 0", "EXEC"]),
        request(&["MULTI", "SELECT 1", "SET c 2", "SELECT 0", "MSET b 2 a 2", "EXEC"]),
        request(&["MULTI", "APPEND b x", "APPEND a x", "SELECT 1", "APPEND c x", "SELECT 0", "EXEC"]),
        request(&["MULTI", "FLUSHALL", "EXEC"]),
    ];
    let read = request(&["MULTI", "GET b", "SELECT 1", "GET c", "SELECT 0", "GET a", "EXEC"]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..ROUNDS {
                let write = &writes[round % writes.len()];
                writer.send(write);
                while !matches!(writer.receive(), Frame::Array(_)) {}
            }
        });
        for _ in 0..ROUNDS {
            reader.send(&read);
            let values = loop {
                if let Frame::Array(replies) = reader.receive() {
                    break [0, 2, 4].map(|index: usize| replies[index].clone());
                }
            };
            assert!(values.iter().all(|value| *value == values[0]), "{values:?}");
        }
    });
}

/// Compare-and-set from two threads: no increment is lost.
#[test]
fn watch_finds_every_write_of_another_thread() {
    let servers = pair_of_servers();
    const INCREMENTS: i64 = 2_000;
    let add = |server: &TestServer| {
        let mut client = server.connect();
        let mut done = 0;
        while done < INCREMENTS {
            client.send(&request(&["WATCH n", "GET n"]));
            client.receive();
            let before: i64 = match client.receive() {
                Frame::Null => 0,
                value => std::str::from_utf8(value.as_bytes().unwrap()).unwrap().parse().unwrap(),
            };
            client.send(&request(&["MULTI", &format!("SET n {}", before + 1), "EXEC"]));
            client.receive();
            client.receive();
            done += i64::from(client.receive() != Frame::Null);
        }
    };
    std::thread::scope(|scope| {
        for server in &servers {
            scope.spawn(|| add(server));
        }
    });
    let total = servers[0].connect().call(&["GET", "n"]);
    assert_eq!(total.as_bytes(), Some((2 * INCREMENTS).to_string().as_bytes()));
}

/// Time went on for a transaction when another thread began a turn: a key expired between two of its commands.
#[test]
fn key_does_not_expire_within_a_transaction_or_a_script() {
    let servers = pair_of_servers();
    // Of another thread: each turn there advances the time.
    let wait = "local function micros() local now = redis.call('TIME') return now[1] * 1e6 + now[2] end
        local start = micros() repeat until micros() - start > 100000 return redis.call('EXISTS', KEYS[1])";
    let script = format!("redis.call('SET', KEYS[1], 'v', 'PX', '20') {wait}");
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut other = servers[1].connect();
            while !is_done.load(Ordering::Relaxed) {
                other.call(&["PING"]);
            }
        });
        let mut client = servers[0].connect();
        let in_script = client.call(&["EVAL", &script, "1", "k"]);
        let expires_after_script = client.call(&["EXISTS", "k"]);
        client.call(&["MULTI"]);
        client.call(&["SET", "k", "v", "PX", "20"]);
        client.call(&["EVAL", wait, "1", "k"]);
        client.call(&["PTTL", "k"]);
        let in_transaction = client.call(&["EXEC"]);
        is_done.store(true, Ordering::Relaxed);
        assert_eq!((in_script, expires_after_script), (Frame::Integer(1), Frame::Integer(0)));
        let Frame::Array(replies) = in_transaction else { panic!("{in_transaction:?}") };
        assert_eq!(replies[1..], [Frame::Integer(1), Frame::Integer(20)]);
    });
}
