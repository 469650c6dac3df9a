//! Deadlines of fields of hashes: the same commands to a real `valkey-server`, because Redis 7.0 has none, and to this server
//! must get equal replies; and what this server promises beyond that.
//!
//! Without the valkey-server that `cargo xtask install` brings the comparisons are skipped with a message; if `CI` is `true`,
//! they fail.

use larder_resp::{Frame, Protocol};
use larder_server::{Config, Store};
use larder_testkit::{RedisServer, until};
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestCaseError, TestRunner};

use crate::differential::{Pair, words};
use crate::support::{Client, TestServer};

/// Every command with its options, and its errors. Fields are read by name: those of Valkey have no order.
const SEQUENCE: &[&str] = &[
    "HSET h a 1 b 2 c 3",
    "HEXPIRE h 1000 FIELDS 2 a nothing",
    "HEXPIRE nothing 1000 FIELDS 2 a b",
    "HEXPIRE h 1000 FIELDS 3 a b",
    "HEXPIRE h 1000 FIELDS 1 a b",
    "HEXPIRE h 1000 FIELDS 0",
    "HEXPIRE h 1000 FIELDS 0 a",
    "HEXPIRE h 1000 FIELDS -1 a",
    "HEXPIRE h 1000 FIELDS x a",
    "HEXPIRE h 1000 FOO 1 a",
    "HEXPIRE h 1000 NX FOO 1 a",
    "HEXPIRE h 1000 NX 1 a",
    "HEXPIRE h x FIELDS 1 a",
    "HEXPIRE h x FIELDS 2 a",
    "HEXPIRE h x NX XX FIELDS 1 a",
    "HEXPIRE h 1.5 FIELDS 1 a",
    "HEXPIRE h -5 FIELDS 1 a",
    "HEXPIRE nothing -5 FIELDS 1 a",
    "HEXPIRE h -5 FIELDS 2 a",
    "HEXPIRE h 9223372036854775807 FIELDS 1 a",
    "HPEXPIRE h 9223372036854775807 FIELDS 1 a",
    "HEXPIREAT h 9223372036854775807 FIELDS 1 a",
    "HEXPIREAT h -1 FIELDS 1 a",
    "HPEXPIREAT h 9223372036854775807 FIELDS 1 a",
    "HPEXPIRETIME h FIELDS 2 a b",
    "HPEXPIREAT h 4000000000000 FIELDS 2 a c",
    "HPEXPIRETIME h FIELDS 4 a b c nothing",
    "HEXPIRETIME h FIELDS 4 a b c nothing",
    "HEXPIREAT h 4000000001 NX FIELDS 2 a b",
    "HEXPIREAT h 4000000002 XX FIELDS 2 a nothing",
    "HEXPIREAT h 4000000001 GT FIELDS 1 a",
    "HEXPIREAT h 4000000002 GT FIELDS 1 a",
    "HEXPIREAT h 4000000003 GT FIELDS 1 a",
    "HEXPIREAT h 4000000003 LT FIELDS 1 a",
    "HEXPIREAT h 4000000001 LT FIELDS 1 a",
    "HPERSIST h FIELDS 1 b",
    "HEXPIREAT h 4000000001 GT FIELDS 1 b",
    "HEXPIREAT h 4000000001 XX FIELDS 1 b",
    "HEXPIREAT h 4000000001 LT FIELDS 1 b",
    "HEXPIREAT h 4000000001 XX GT FIELDS 1 b",
    "HEXPIREAT h 4000000009 xx gt fields 1 b",
    "HEXPIREAT h 4000000001 NX XX FIELDS 1 a",
    "HEXPIREAT h 4000000001 GT LT FIELDS 1 a",
    "HEXPIREAT h 4000000001 NX GT FIELDS 1 a",
    "HEXPIREAT h 4000000001 NX LT FIELDS 1 a",
    "HEXPIREAT h 4000000001 NX NX FIELDS 1 a",
    "HEXPIREAT h 4000000001 FIELDS 1 a NX",
    "HEXPIREAT h 4000000001 FIELDS 2 a NX",
    "HEXPIRETIME h FIELDS 3 a b c",
    "HEXPIREAT h 4000000005 FIELDS 2 a a",
    "HTTL h FIELDS 2 a",
    "HTTL h FIELDS 1 a b",
    "HTTL h FOO 1 a",
    "HTTL h FIELDS 0 a",
    "HTTL h FIELDS -1 a",
    "HTTL h FIELDS x a",
    "HTTL nothing FIELDS 2 a b",
    "HPTTL nothing FIELDS 2 a b",
    "HTTL h",
    "HPERSIST h FIELDS 3 a b nothing",
    "HPERSIST h FIELDS 3 a b nothing",
    "HPERSIST nothing FIELDS 1 a",
    "HPERSIST h FIELDS 2 a",
    "HPERSIST h FOO 1 a",
    "HPERSIST h FIELDS x a",
    // A deadline in the past removes a field.
    "HEXPIRE h 0 FIELDS 2 a nothing",
    "HMGET h a b c",
    "HLEN h",
    "HEXPIREAT h 1 FIELDS 1 b",
    "HSETNX h b 5",
    "HPEXPIREAT h 1 NX FIELDS 1 c",
    "HPEXPIREAT h 1 FIELDS 2 b c",
    "EXISTS h",
    // What keeps a deadline, and what does not.
    "HSET h a 1 b 2 n 3 f 1.5",
    "HEXPIREAT h 4000000000 FIELDS 4 a b n f",
    "HSET h a 5",
    "HSETNX h b 5",
    "HINCRBY h n 5",
    "HINCRBYFLOAT h f 1",
    "HEXPIRETIME h FIELDS 4 a b n f",
    "HMSET h b 7",
    "HEXPIRETIME h FIELDS 1 b",
    "COPY h copied",
    "HEXPIRETIME copied FIELDS 4 a b n f",
    "RENAME copied renamed",
    "HEXPIRETIME renamed FIELDS 4 a b n f",
    "HDEL renamed n",
    "HSET renamed n 1",
    "HEXPIRETIME renamed FIELDS 2 n f",
    "MOVE renamed 1",
    "HGETEX h FIELDS 2 n nothing",
    "HGETEX h EXAT 4000000001 FIELDS 2 n nothing",
    "HEXPIRETIME h FIELDS 1 n",
    "HGETEX h PXAT 4000000002000 FIELDS 2 n n",
    "HEXPIRETIME h FIELDS 1 n",
    "HGETEX h PERSIST FIELDS 2 n nothing",
    "HEXPIRETIME h FIELDS 1 n",
    "HGETEX h PERSIST PERSIST FIELDS 1 n",
    "HGETEX h PERSIST EX 100 FIELDS 1 a",
    "HGETEX h EX 100 PERSIST FIELDS 1 a",
    "HGETEX h EX 100 PX 100 FIELDS 1 a",
    "HGETEX h EX 100 EX 1000 FIELDS 1 a",
    "HGETEX h KEEPTTL FIELDS 1 a",
    "HGETEX h EX -1 FIELDS 1 a",
    "HGETEX h EX x FIELDS 1 a",
    "HGETEX h EX FIELDS 1 a",
    "HGETEX h PX 9223372036854775807 FIELDS 1 a",
    "HGETEX h FOO",
    "HGETEX h FOO 1 a",
    "HGETEX h FOO FIELDS 1 a",
    "HGETEX h FIELDS 1",
    "HGETEX h FIELDS 2 a",
    "HGETEX h FIELDS 1 a b",
    "HGETEX h FIELDS 0 a",
    "HGETEX h FIELDS x a",
    "HGETEX nothing FIELDS 2 a b",
    "HGETEX nothing EX 10 FIELDS 2 a b",
    "HGETEX nothing EX -1 FIELDS 2 a b",
    "HGETEX nothing EX x FIELDS 2 a b",
    "HSET h gone 1",
    "HGETEX h EX 0 FIELDS 1 gone",
    "HGETEX h EXAT 1 FIELDS 2 gone a",
    "HMGET h gone a b n",
    "HSETEX h FIELDS 2 a 1 b 2",
    "HSETEX h EXAT 4000000000 FIELDS 2 a 1 z 2",
    "HEXPIRETIME h FIELDS 3 a z b",
    "HSETEX h KEEPTTL FIELDS 2 a 5 y 1",
    "HEXPIRETIME h FIELDS 3 a y z",
    "HSETEX h FIELDS 1 a 5",
    "HEXPIRETIME h FIELDS 1 a",
    "HSETEX h FNX FIELDS 2 a 6 new 1",
    "HSETEX h FXX FIELDS 2 a 6 new 1",
    "HSETEX h FXX FIELDS 2 a 6 b 1",
    "HSETEX h fnx FIELDS 2 new 6 newer 1",
    "HSETEX h FNX FNX FIELDS 1 newest 5",
    "HSETEX h FNX FXX FIELDS 1 a 5",
    "HSETEX h FXX FNX FIELDS 1 a 5",
    "HSETEX h NX FIELDS 1 a 5",
    "HSETEX fresh NX FIELDS 1 a 5",
    "HSETEX fresher XX FIELDS 1 a 5",
    "HSETEX fresher FXX FIELDS 1 a 5",
    "EXISTS fresher",
    "HSETEX fresh XX FNX EXAT 4000000000 FIELDS 1 b 5",
    "HSETEX fresh NX XX FIELDS 1 a 5",
    "HSETEX fresh KEEPTTL EX 5 FIELDS 1 a 5",
    "HSETEX fresh EX 5 KEEPTTL FIELDS 1 a 5",
    "HSETEX fresh EX 5 PX 5 FIELDS 1 a 5",
    "HSETEX fresh EX 500 EX 5000 FIELDS 1 a 5",
    "HSETEX fresh EX -1 FIELDS 1 a 5",
    "HSETEX fresh EX x FIELDS 1 a 5",
    "HSETEX fresh EX FIELDS 1 a 5",
    "HSETEX fresh PX 9223372036854775807 FIELDS 1 a 5",
    "HSETEX fresh PERSIST FIELDS 1 a 5",
    "HSETEX fresh FIELDS 1 a",
    "HSETEX fresh FIELDS 2 a 1",
    "HSETEX fresh FIELDS 1 a 1 b 2",
    "HSETEX fresh FIELDS 0 a 1",
    "HSETEX fresh FIELDS x a 1",
    "HSETEX fresh FIELDS 1 a 1 EX 10",
    "HSETEX fresh FOO 1 a 5",
    "HSETEX fresh FOO FIELDS 1 a 5",
    "HMGET fresh a b c",
    "HSETEX fresh EXAT 1 FIELDS 2 a 5 c 1",
    "HMGET fresh a b c",
    "HSETEX fresh EX 0 FIELDS 1 b 5",
    "EXISTS fresh",
    "HSETEX fresh EXAT 1 FIELDS 1 n1 5",
    "EXISTS fresh",
    "HSET h a 1 b 2",
    "HGETDEL h FIELDS 3 a nothing a",
    "HGETDEL h FIELDS 2 a",
    "HGETDEL h FIELDS 1 a b",
    "HGETDEL h FIELDS 0 a",
    "HGETDEL h FIELDS x a",
    "HGETDEL h FOO 1 a",
    "HGETDEL h FIELDS 1",
    "HGETDEL nothing FIELDS 2 a b",
    "HGETDEL h FIELDS 1 b",
    "DEL h",
    "HSET h a 1",
    "HGETDEL h FIELDS 1 a",
    "EXISTS h",
    // Other types.
    "SET s x",
    "HEXPIRE s 100 FIELDS 1 a",
    "HEXPIRE s x FIELDS 1 a",
    "HEXPIRE s -1 FIELDS 1 a",
    "HEXPIRE s 100 FIELDS 3 a",
    "HTTL s FIELDS 1 a",
    "HTTL s FIELDS 2 a",
    "HPEXPIRETIME s FIELDS 1 a",
    "HPERSIST s FIELDS 1 a",
    "HPERSIST s FIELDS 2 a",
    "HGETEX s FIELDS 1 a",
    "HGETEX s FIELDS 2 a",
    "HGETEX s EX x FIELDS 1 a",
    "HGETEX s EX -1 FIELDS 1 a",
    "HSETEX s FIELDS 1 a 1",
    "HSETEX s FIELDS 2 a 1",
    "HSETEX s EX x FIELDS 1 a 1",
    "HSETEX s EX -1 FIELDS 1 a 1",
    "HSETEX s NX FIELDS 1 a 1",
    "HGETDEL s FIELDS 1 a",
    "HGETDEL s FIELDS 2 a",
    "COMMAND GETKEYS HSETEX a FIELDS 1 b 1",
    "COMMAND GETKEYSANDFLAGS HEXPIRE k 1 FIELDS 1 a",
    "COMMAND GETKEYSANDFLAGS HPEXPIREAT k 1 FIELDS 1 a",
    "COMMAND GETKEYSANDFLAGS HTTL k FIELDS 1 a",
    "COMMAND GETKEYSANDFLAGS HPEXPIRETIME k FIELDS 1 a",
    "COMMAND GETKEYSANDFLAGS HPERSIST k FIELDS 1 a",
    "COMMAND GETKEYSANDFLAGS HGETEX k FIELDS 1 a",
    "COMMAND GETKEYSANDFLAGS HSETEX k FIELDS 1 a 1",
    "COMMAND GETKEYSANDFLAGS HGETDEL k FIELDS 1 a",
    "FLUSHALL",
];

/// How a connection sends its commands.
#[derive(Clone, Copy, Debug)]
enum Kind {
    Resp2,
    Resp3,
    Transaction,
    Script,
}

/// What a connection of this kind sends for a command.
fn requests_of(kind: Kind, command: &[String]) -> Vec<Vec<String>> {
    match kind {
        Kind::Resp2 | Kind::Resp3 => vec![command.to_vec()],
        Kind::Transaction => vec![words("MULTI"), command.to_vec(), words("EXEC")],
        Kind::Script if ["FLUSHALL", "COMMAND"].contains(&command[0].as_str()) => Vec::new(),
        Kind::Script => {
            let script = ["EVAL", "return redis.pcall(unpack(ARGV))", "0"].map(str::to_owned);
            vec![[&script, command].concat()]
        }
    }
}

#[test]
fn fixed_sequence_gets_the_replies_of_valkey() {
    let Some(valkey) = RedisServer::start_valkey() else { return };
    let server = TestServer::start();
    for kind in [Kind::Resp2, Kind::Resp3, Kind::Transaction, Kind::Script] {
        let mut pair = Pair::connect(&valkey, &server);
        pair.call(&words(if matches!(kind, Kind::Resp3) { "HELLO 3" } else { "HELLO 2" }));
        pair.call(&words("FLUSHALL"));
        let requests = SEQUENCE.iter().flat_map(|line| requests_of(kind, &words(line)));
        let differences = requests.filter_map(|request| pair.compare(&request).err());
        // Valkey has another text for it.
        let is_other = |text: &String| !text.contains("Wrong number of args calling");
        let differences: Vec<String> = differences.filter(is_other).collect();
        assert!(differences.is_empty(), "{kind:?}:\n{}", differences.join("\n"));
    }
    assert_eq!(server.stats().snapshot().panics, 0);
}

/// All deadlines are far in the future or past, so that the time between the two executions does not matter.
fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![3 => Just("a"), 1 => Just("b")].prop_map(str::to_owned);
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let name = || "[a-d]";
    let moment = || one(&["1", "4000000000", "5000000000", "6000000000"]);
    let condition = || one(&["", "NX ", "XX ", "GT ", "LT ", "XX GT ", "XX LT "]);
    let request = prop_oneof![
        4 => (key(), vec((name(), "[a-z0-9]{0,3}x"), 1..4)).prop_map(|(k, pairs)| {
            format!("HSET {k} {}", pairs.iter().map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>().join(" "))
        }),
        6 => (key(), moment(), condition(), name(), name()).prop_map(|(k, at, o, m, n)| format!("HEXPIREAT {k} {at} {o}FIELDS 2 {m} {n}")),
        2 => (key(), moment(), condition(), name()).prop_map(|(k, at, o, n)| format!("HPEXPIREAT {k} {at}000 {o}FIELDS 1 {n}")),
        1 => (one(&["HEXPIRE", "HPEXPIRE"]), key(), name()).prop_map(|(c, k, n)| format!("{c} {k} 0 FIELDS 1 {n}")),
        2 => (key(), name(), name()).prop_map(|(k, m, n)| format!("HPERSIST {k} FIELDS 2 {m} {n}")),
        4 => (one(&["HEXPIRETIME", "HPEXPIRETIME"]), key()).prop_map(|(c, k)| format!("{c} {k} FIELDS 4 a b c d")),
        3 => key().prop_map(|k| format!("HMGET {k} a b c d")),
        1 => (key(), name(), name()).prop_map(|(k, m, n)| format!("HDEL {k} {m} {n}")),
        1 => (key(), name()).prop_map(|(k, n)| format!("HINCRBY {k} {n} 1")),
        1 => (key(), name()).prop_map(|(k, n)| format!("HSETNX {k} {n} 1")),
        3 => (key(), one(&["", "PERSIST ", "EXAT 1 ", "EXAT 4000000000 ", "PXAT 5000000000000 "]), name(), name())
            .prop_map(|(k, o, m, n)| format!("HGETEX {k} {o}FIELDS 2 {m} {n}")),
        4 => (key(), one(&["", "NX ", "XX ", "FNX ", "FXX ", "XX FNX "]), one(&["", "KEEPTTL ", "EXAT 1 ", "EXAT 4000000000 ", "PXAT 5000000000000 "]), name(), name())
            .prop_map(|(k, c, o, m, n)| format!("HSETEX {k} {c}{o}FIELDS 2 {m} 1 {n} 2")),
        1 => (key(), name(), name()).prop_map(|(k, m, n)| format!("HGETDEL {k} FIELDS 2 {m} {n}")),
        2 => (one(&["HLEN", "EXISTS", "TYPE", "HGETALL", "HKEYS", "DEL"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => (one(&["RENAME", "COPY"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        1 => key().prop_map(|k| format!("SET {k} 1")),
    ];
    request.prop_map(|line| words(&line))
}

fn run_at_random(cases: u32, check: impl Fn(&[Vec<String>]) -> Result<(), String>) {
    let config = ProptestConfig { cases, failure_persistence: None, ..Default::default() };
    let outcome = TestRunner::new(config)
        .run(&vec(requests(), 1..60), |commands| check(&commands).map_err(TestCaseError::fail));
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

#[test]
fn random_commands_get_the_replies_of_valkey() {
    let Some(valkey) = RedisServer::start_valkey() else { return };
    let server = TestServer::start();
    let pair = std::cell::RefCell::new(Pair::connect(&valkey, &server));
    run_at_random(300, |commands| {
        let mut pair = pair.borrow_mut();
        std::iter::once(&words("FLUSHALL")).chain(commands).try_for_each(|command| pair.compare(command))
    });
}

#[test]
fn random_commands_have_the_events_of_valkey() {
    let Some(valkey) = RedisServer::start_valkey() else { return };
    let server = TestServer::start();
    let [mut subscriber, mut other] = [(); 2].map(|()| Pair::connect(&valkey, &server));
    other.call(&words("CONFIG SET notify-keyspace-events KEA"));
    subscriber.call(&words("PSUBSCRIBE __key*__:*"));
    let pairs = std::cell::RefCell::new([subscriber, other]);
    run_at_random(150, |commands| {
        let [subscriber, other] = &mut *pairs.borrow_mut();
        let commands = commands.iter().filter(|command| has_equal_events(command));
        std::iter::once(&words("FLUSHALL")).chain(commands).try_for_each(|command| {
            other.call(command);
            subscriber.compare_pipeline(&[]).map_err(|error| format!("{command:?}: {error}"))
        })
    });
}

/// `HSETEX` with a deadline in the past creates no key here, so that it has no events if there was none.
fn has_equal_events(command: &[String]) -> bool {
    !(command[0] == "HSETEX" && command.contains(&"1".to_owned()) && command.contains(&"EXAT".to_owned()))
}

/// A connection whose hash has fields that expire in a moment, and others that do not.
fn expiring(client: &mut Client<std::net::TcpStream>, key: &str, fields: usize) {
    for number in 0..fields {
        let name = format!("field {number}");
        client.call(&["HSET", key, &name, "5"]);
        if number % 2 == 0 {
            client.call(&["HPEXPIRE", key, "40", "FIELDS", "1", &name]);
        }
    }
}

/// Whatever is asked, a field that has expired is missing: at once, before it is removed.
#[test]
fn expired_fields_are_invisible_to_every_command() {
    let server = TestServer::start();
    let mut client = server.connect();
    let integer = Frame::Integer;
    for fields in [4, 2_000] {
        expiring(&mut client, "h", fields);
        // In one transaction, during which time stands still: some may be removed before, and some not.
        until("all have expired", || {
            (client.call(&["HEXISTS", "h", &format!("field {}", fields - 2)]) == integer(0)).then_some(())
        });
        assert_eq!(client.call(&["HLEN", "h"]), integer(fields as i64 / 2));
        assert_eq!(client.call(&["HEXISTS", "h", "field 0"]), integer(0));
        assert_eq!(client.call(&["HGET", "h", "field 0"]), Frame::Null);
        assert_eq!(client.call(&["HSTRLEN", "h", "field 0"]), integer(0));
        assert_eq!(client.call(&["HTTL", "h", "FIELDS", "1", "field 0"]), Frame::Array(vec![integer(-2)]));
        for command in [&["HKEYS", "h"][..], &["HRANDFIELD", "h", "100000"]] {
            let Frame::Array(names) = client.call(command) else { panic!("{command:?}") };
            assert_eq!(names.len(), fields / 2, "{command:?}");
        }
        assert_eq!(client.call(&["HINCRBY", "h", "field 0", "1"]), integer(1), "it counts from 0 again");
        assert_eq!(client.call(&["HSETNX", "h", "field 2", "1"]), integer(1));
        assert_eq!(client.call(&["HDEL", "h", "field 2"]), integer(1));
        client.call(&["DEL", "h"]);
    }
}

/// Nobody asks for them: their alarms remove them, and the keys of hashes that have no others.
#[test]
fn expired_fields_are_removed_in_the_background() {
    const FIELDS: usize = 5_000;
    let store = Store::new(Some(64 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    let names: Vec<String> = (0..FIELDS).map(|number| format!("field {number}")).collect();
    for name in &names {
        client.call(&["HSET", "large", name, "value"]);
    }
    let whole = store.used_memory();
    let expire = |key: &str, names: &[String]| {
        let start = ["HPEXPIRE", key, "20", "FIELDS", &names.len().to_string()].map(str::to_owned);
        [&start[..], names].concat()
    };
    client.call(&expire("large", &names[..FIELDS * 49 / 50]));
    for key in 0..50 {
        let key = format!("h{key}");
        client.call(&["HSET", &key, "field 0", "1", "field 1", "2"]);
        client.call(&expire(&key, &names[..2]));
    }
    until("the keys are removed", || (client.call(&["DBSIZE"]) == Frame::Integer(1)).then_some(()));
    // What is left lies in one chunk of 64 KiB.
    until("most of the large one is removed", || (store.used_memory() < whole * 3 / 5).then_some(()));
    assert_eq!(client.call(&["HLEN", "large"]), Frame::Integer(FIELDS as i64 / 50));
    assert_eq!(server.stats().snapshot().panics, 0);
}

/// A hash keeps the alarms of its fields under each name that it gets, however it gets it.
#[test]
fn fields_expire_in_copies_and_under_other_names() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["HSET", "h", "a", "1"]);
    client.call(&["HPEXPIRE", "h", "400", "FIELDS", "1", "a"]);
    for copy in ["copied", "renamed0", "moved", "undone"] {
        assert_eq!(client.call(&["COPY", "h", copy]), Frame::Integer(1));
    }
    client.call(&["RENAME", "renamed0", "renamed"]);
    client.call(&["MOVE", "moved", "1"]);
    let payload = client.call(&["DUMP", "h"]);
    client.call(&[&b"RESTORE"[..], b"restored", b"0", payload.as_bytes().expect("a payload")]);
    // It starts again, because it uses a key that is not declared.
    let script =
        "redis.call('RENAME', KEYS[1], 'elsewhere') return redis.call('RENAME', 'elsewhere', KEYS[1])";
    assert_eq!(client.call(&["EVAL", script, "1", "undone"]), Frame::Simple("OK".into()));
    assert_eq!(client.call(&["DBSIZE"]), Frame::Integer(5));
    let is_empty = |client: &mut Client<_>| (client.call(&["DBSIZE"]) == Frame::Integer(0)).then_some(());
    until("all keys are removed", || is_empty(&mut client));
    client.call(&["SELECT", "1"]);
    until("that of the other database, too", || is_empty(&mut client));
}

/// A script that starts again, because it uses another key, has undone what it did with fields.
#[test]
fn script_that_starts_again_has_undone_its_edits_of_fields() {
    let server = TestServer::start();
    let mut client = server.connect();
    for fields in [2, 600] {
        client.call(&["DEL", "h", "other"]);
        for number in 0..fields {
            client.call(&["HSET", "h", &format!("f{number}"), "1"]);
        }
        client.call(&["HEXPIREAT", "h", "4000000000", "FIELDS", "1", "f1"]);
        let script = "redis.call('HINCRBY', KEYS[1], 'f0', 1) redis.call('HDEL', KEYS[1], 'f1') \
                      redis.call('HSET', KEYS[1], 'new', 1) redis.call('HEXPIRE', KEYS[1], 1000, 'FIELDS', 1, 'f0') \
                      return redis.call('INCR', 'other')";
        assert_eq!(client.call(&["EVAL", script, "1", "h"]), Frame::Integer(1));
        assert_eq!(client.call(&["HGET", "h", "f0"]), Frame::Bulk("2".into()));
        assert_eq!(client.call(&["HEXISTS", "h", "f1"]), Frame::Integer(0));
        assert_eq!(client.call(&["HLEN", "h"]), Frame::Integer(fields));
    }
    assert_eq!(server.stats().snapshot().panics, 0);
}

#[test]
fn removed_fields_are_told_to_those_who_track_and_subscribe() {
    let server = TestServer::start();
    let (mut client, mut tracker) = (server.connect(), server.connect_as(Protocol::Resp3));
    client.call(&["CONFIG", "SET", "notify-keyspace-events", "Ehg"]);
    let mut subscriber = server.connect_as(Protocol::Resp3);
    subscriber.call(&["PSUBSCRIBE", "*"]);
    tracker.call(&["CLIENT", "TRACKING", "on"]);
    client.call(&["HSET", "h", "a", "1"]);
    tracker.call(&["HGETALL", "h"]);
    client.call(&["HPEXPIRE", "h", "20", "FIELDS", "1", "a"]);
    let is_about = |frame: &Frame, key: &str| format!("{frame:?}").contains(key);
    assert!(is_about(&tracker.receive(), "invalidate"));
    tracker.call(&["HGETALL", "h"]);
    assert!(is_about(&tracker.receive(), "invalidate"), "the alarm has removed the field");
    for event in ["hset", "hexpire", "hexpired", "del"] {
        let frame = subscriber.receive();
        assert!(
            is_about(&frame, &format!("__keyevent@0__:{event}\"")) || is_about(&frame, event),
            "{event}: {frame:?}"
        );
    }
}

/// A watched hash changes when its fields expire, so that a transaction which has read them fails.
#[test]
fn watched_hash_changes_when_its_fields_are_removed() {
    let server = TestServer::start();
    let (mut client, mut other) = (server.connect(), server.connect());
    client.call(&["HSET", "h", "a", "1", "b", "2"]);
    client.call(&["HPEXPIRE", "h", "30", "FIELDS", "1", "a"]);
    client.call(&["WATCH", "h"]);
    until("it is removed", || (other.call(&["HEXISTS", "h", "a"]) == Frame::Integer(0)).then_some(()));
    // An edit removes it at the latest.
    other.call(&["HSET", "h", "c", "1"]);
    client.call(&["MULTI"]);
    client.call(&["HGETALL", "h"]);
    assert_eq!(client.call(&["EXEC"]), Frame::Null);
}
