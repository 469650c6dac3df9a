//! Hashes: the same commands to a real `redis-server` and to this server must get equal replies; and what hashes promise
//! beyond that. Deadlines of fields are in `field_expiry`.

use std::collections::BTreeMap;

use larder_resp::{Frame, Protocol};
use larder_server::{Config, Store};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::differential::{Pair, assert_equal_replies, assert_equal_replies_at_random, words};
use crate::support::TestServer;

/// Every command with its options, and its errors.
pub(crate) const SEQUENCE: &[&str] = &[
    "HSET h a 1 b 2 c 3",
    "HSET h a 1 d 4 a 2",
    "HSET h",
    "HSET h a",
    "HSET h a 1 b",
    "HMSET h a 5 e 6",
    "HMSET h",
    "HMSET h a",
    "HMSET h a 1 b",
    "HSETNX h a 9",
    "HSETNX h f 9",
    "HSETNX new x ''",
    "HSETNX h a",
    "HGET h a",
    "HGET h nothing",
    "HGET nothing a",
    "HGET new x",
    "HGET h",
    "HMGET h a nothing b a",
    "HMGET nothing a b",
    "HMGET h",
    "HGETALL h",
    "HGETALL nothing",
    "HGETALL h x",
    "HKEYS h",
    "HKEYS nothing",
    "HVALS h",
    "HVALS nothing",
    "HLEN h",
    "HLEN nothing",
    "HEXISTS h a",
    "HEXISTS h nothing",
    "HEXISTS nothing a",
    "HSTRLEN h a",
    "HSTRLEN h nothing",
    "HSTRLEN nothing a",
    "HSTRLEN new x",
    "HSET texts '' empty long aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa 007 1 -0 -0 127 128",
    "HGETALL texts",
    "HSTRLEN texts long",
    "HSTRLEN texts 127",
    "OBJECT ENCODING texts",
    "HDEL h nothing",
    "HDEL h a nothing b",
    "HDEL nothing a",
    "HDEL h",
    "HGETALL h",
    "HDEL h c c",
    "HDEL h d e f",
    "EXISTS h",
    "HINCRBY h n 5",
    "HINCRBY h n -7",
    "HINCRBY h n 0",
    "HINCRBY h n 9223372036854775807",
    "HINCRBY h n 9223372036854775807",
    "HINCRBY h m -9223372036854775808",
    "HINCRBY h m -1",
    "HINCRBY h n x",
    "HINCRBY h n 1.5",
    "HINCRBY h n",
    "HSET h text abc float 1.5 spaced ' 1'",
    "HINCRBY h text 1",
    "HINCRBY h float 1",
    "HINCRBY h spaced 1",
    "HINCRBYFLOAT h f 1.5",
    "HINCRBYFLOAT h f 1.5",
    "HINCRBYFLOAT h f -3",
    "HINCRBYFLOAT h f 0.1",
    "HINCRBYFLOAT h f 2e-1",
    "HINCRBYFLOAT h f 1E+2",
    "HINCRBYFLOAT h f x",
    "HINCRBYFLOAT h f ''",
    "HINCRBYFLOAT h f nan",
    "HINCRBYFLOAT h f inf",
    "HINCRBYFLOAT h f -inf",
    "HINCRBYFLOAT h f +Infinity",
    "HINCRBYFLOAT h text 1",
    "HINCRBYFLOAT h text x",
    "HINCRBYFLOAT h spaced 1",
    "HINCRBYFLOAT h f",
    "HINCRBYFLOAT h i 3",
    "HGETALL h",
    "OBJECT ENCODING h",
    "OBJECT REFCOUNT h",
    "TYPE h",
    "HSET one only x",
    "HRANDFIELD one",
    "HRANDFIELD nothing",
    "HRANDFIELD nothing 3",
    "HRANDFIELD nothing -3 WITHVALUES",
    "HRANDFIELD one 5",
    "HRANDFIELD one 5 WITHVALUES",
    "HRANDFIELD one -3",
    "HRANDFIELD one -3 withvalues",
    "HRANDFIELD one 0",
    "HRANDFIELD one x",
    "HRANDFIELD one 1 FOO",
    "HRANDFIELD one 1 WITHVALUES x",
    "HRANDFIELD one -9223372036854775808",
    "HRANDFIELD one -9223372036854775807 WITHVALUES",
    "HRANDFIELD one",
    "HSCAN one 0",
    "HSCAN h 0",
    "HSCAN h 0 MATCH [fn]* COUNT 1",
    "HSCAN h 0 MATCH",
    "HSCAN h 0 COUNT 0",
    "HSCAN h 0 COUNT x",
    "HSCAN h 0 FOO 1",
    "HSCAN h x",
    "HSCAN nothing 0",
    "HSCAN nothing 0 FOO 1",
    "HSCAN nothing 5",
    "HSCAN h",
    "RENAME h renamed",
    "HLEN renamed",
    "RENAMENX renamed one",
    "COPY renamed copied",
    "HSET copied only here",
    "HGETALL renamed",
    "HGETALL copied",
    "COPY renamed copied",
    "COPY renamed copied REPLACE",
    "MOVE copied 1",
    "EXPIRE renamed 100",
    "TTL renamed",
    "HSET renamed x 1",
    "HDEL renamed x",
    "TTL renamed",
    "PERSIST renamed",
    "TOUCH renamed one",
    "EXISTS renamed one",
    "SCAN 0 COUNT 1000 TYPE hash MATCH renamed",
    "SCAN 0 COUNT 1000 TYPE zset",
    "UNLINK renamed",
    "DEL one",
    // Every command on other types refuses a hash.
    "HSET h a 1",
    "SET string hello",
    "ZADD z 1 a",
    "GET h",
    "GETSET h x",
    "GETDEL h",
    "GETEX h",
    "GETEX h EX 10",
    "GETRANGE h 0 -1",
    "SETRANGE h 0 x",
    "STRLEN h",
    "APPEND h x",
    "INCR h",
    "INCRBYFLOAT h 1.5",
    "SETBIT h 1 1",
    "GETBIT h 1",
    "BITCOUNT h",
    "BITPOS h 1",
    "BITOP AND to h string",
    "BITFIELD h GET u8 0",
    "PFADD h a",
    "PFCOUNT h",
    "PFMERGE to h",
    "SETNX h x",
    "MSETNX h x y x",
    "MGET h string",
    "SET h x NX",
    "SET h x GET",
    "ZADD h 1 a",
    "ZINCRBY h 1 a",
    "ZSCORE h a",
    "ZRANGE h 0 -1",
    "ZCARD h",
    "ZREM h a",
    "ZPOPMIN h",
    "ZMPOP 1 h MIN",
    "ZUNION 2 z h",
    "ZUNIONSTORE to 2 z h",
    "ZRANDMEMBER h",
    "ZSCAN h 0",
    "TYPE h",
    "SET h x XX",
    "GET h",
    "DEL h",
    "HSET h a 1",
    "ZUNIONSTORE h 1 z",
    "TYPE h",
    // And the other way round.
    "HSET string a 1",
    "HSET string a",
    "HMSET string a 1",
    "HSETNX string a 1",
    "HGET string a",
    "HMGET string a",
    "HGETALL string",
    "HKEYS string",
    "HVALS string",
    "HLEN string",
    "HEXISTS string a",
    "HSTRLEN string a",
    "HDEL string a",
    "HINCRBY string a 1",
    "HINCRBY string a x",
    "HINCRBYFLOAT string a 1",
    "HINCRBYFLOAT string a x",
    "HRANDFIELD string",
    "HRANDFIELD string 1",
    "HRANDFIELD string x",
    "HSCAN string 0",
    "HSCAN string 0 FOO 1",
    "HSET z a 1",
    "HGETALL z",
    "COMMAND GETKEYS HSET a b c",
    "COMMAND GETKEYS HSCAN a 0",
    "FLUSHALL",
];

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(SEQUENCE);
}

/// From 513 fields on, and with a text above 64 bytes, Redis uses another form.
#[test]
fn hashes_around_the_limits_of_a_form_get_equal_replies() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let mut compare = |line: String| {
        let command = words(&line);
        pair.compare(&command).unwrap_or_else(|difference| panic!("{difference}"));
    };
    for number in 0..520 {
        compare(format!("HSET many {number} value{number}"));
        if number > 500 {
            compare("OBJECT ENCODING many".to_owned());
            compare(format!("HMGET many {number} {} 7 nothing", number / 2));
            compare(format!("HINCRBY many counter:{} 3", number % 3));
            compare(format!("HDEL many counter:{}", (number + 1) % 3));
            compare("HLEN many".to_owned());
        }
    }
    (0..500).for_each(|number| compare(format!("HDEL many {number}")));
    compare("OBJECT ENCODING many".to_owned());
    compare("COPY many few".to_owned());
    compare("OBJECT ENCODING few".to_owned());
    for (key, length) in [("name", 64), ("name", 65), ("value", 64), ("value", 65)] {
        let text = "x".repeat(length);
        compare(if key == "name" { format!("HSET {key} {text} 1") } else { format!("HSET {key} a {text}") });
        compare(format!("HGETALL {key}"));
        compare(format!("OBJECT ENCODING {key}"));
    }
}

/// A large hash has its fields in any order.
#[test]
fn fields_of_a_large_hash_equal_those_of_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    for number in 0..2_000 {
        pair.call(&words(&format!("HSET h field:{} {number}", number % 1_500)));
    }
    for number in (0..1_500).step_by(3) {
        pair.call(&words(&format!("HDEL h field:{number}")));
    }
    for (command, width) in [
        ("HGETALL h", 2),
        ("HKEYS h", 1),
        ("HVALS h", 1),
        ("HRANDFIELD h 5000 WITHVALUES", 2),
        ("HRANDFIELD h 5000", 1),
    ] {
        pair.compare_sorted(&words(command), width);
    }
    for command in ["HLEN h", "HGET h field:1", "HGET h field:3", "OBJECT ENCODING h"] {
        pair.compare(&words(command)).unwrap();
    }
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("c")].prop_map(str::to_owned);
    let value = || {
        prop_oneof![
            "[a-z]{0,6}",
            "-?[0-9]{1,5}",
            Just("9223372036854775806".to_owned()),
            Just("x".repeat(70))
        ]
    };
    let name = || prop_oneof![6 => "[a-e]{1,2}", 2 => "[0-9]{1,3}", 1 => Just("y".repeat(66))];
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let number = || (-12i64..12).prop_map(|n| n.to_string());
    let request = prop_oneof![
        10 => (one(&["HSET", "HMSET"]), key(), vec((name(), value()), 1..6)).prop_map(|(c, k, pairs)| {
            format!("{c} {k} {}", pairs.iter().map(|(n, v)| format!("{n} {v}")).collect::<Vec<_>>().join(" "))
        }),
        3 => (key(), name(), value()).prop_map(|(k, n, v)| format!("HSETNX {k} {n} {v}")),
        4 => (key(), name(), name()).prop_map(|(k, m, n)| format!("HDEL {k} {m} {n}")),
        4 => (one(&["HGET", "HEXISTS", "HSTRLEN"]), key(), name()).prop_map(|(c, k, n)| format!("{c} {k} {n}")),
        2 => (key(), name(), name()).prop_map(|(k, m, n)| format!("HMGET {k} {m} {n}")),
        2 => (key(), name(), number()).prop_map(|(k, n, by)| format!("HINCRBY {k} {n} {by}")),
        // Larger numbers are more exact here.
        1 => (key(), number(), one(&["0", "5", "25", "75"])).prop_map(|(k, a, b)| format!("HINCRBYFLOAT {k} float {a}.{b}")),
        1 => (one(&["HLEN", "TYPE", "EXISTS", "TTL", "PERSIST", "GET", "INCR", "DEL"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => key().prop_map(|k| format!("OBJECT ENCODING {k}")),
        1 => (one(&["RENAME", "RENAMENX", "COPY"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        1 => (one(&["HRANDFIELD"]), key(), one(&["0", "1000"])).prop_map(|(c, k, n)| format!("{c} {k} {n} WITHVALUES")),
        2 => (one(&["HGETALL", "HKEYS", "HVALS"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => key().prop_map(|k| format!("HSCAN {k} 0 COUNT 1000")),
        1 => key().prop_map(|k| format!("EXPIRE {k} 1000")),
        1 => key().prop_map(|k| format!("SET {k} 1")),
        1 => key().prop_map(|k| format!("ZADD {k} 1 x")),
    ];
    // An empty value is written as two quotes.
    request.prop_map(|line| words(&line))
}

#[test]
fn random_commands_get_equal_replies() {
    assert_equal_replies_at_random(requests());
}

#[test]
fn edits_change_the_charge_exactly() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..2_000 {
        client.call(&["HSET", "h", &format!("field {number}"), &"v".repeat(number % 90)]);
        if number % 5 == 0 {
            client.call(&["HEXPIRE", "h", "1000", "FIELDS", "1", &format!("field {number}")]);
        }
        assert_eq!(store.used_memory(), client.memory_usage("h"), "field {number}");
    }
    client.call(&["COPY", "h", "copy"]);
    client.call(&["RENAME", "h", "renamed"]);
    client.call(&["RENAME", "renamed", "h"]);
    client.call(&["DEL", "copy"]);
    assert_eq!(store.used_memory(), client.memory_usage("h"));
    for number in (0..2_000).rev() {
        client.call(&["HDEL", "h", &format!("field {number}")]);
        if number > 0 {
            assert_eq!(store.used_memory(), client.memory_usage("h"), "field {number}");
        }
    }
    assert_eq!((store.used_memory(), store.len()), (0, 0));
}

#[test]
fn growing_hash_evicts_strings_and_stays_within_the_capacity() {
    let store = Store::new(Some(2 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..1_500 {
        client.call(&["SET", &format!("key {number}"), &"x".repeat(1_000)]);
    }
    for number in 0..30_000 {
        let reply = client.call(&["HSET", "h", &format!("field {number}"), "value"]);
        assert_eq!(reply, Frame::Integer(1), "field {number}");
        assert!(store.used_memory() <= 2 << 20);
    }
    assert_eq!(client.call(&["HLEN", "h"]), Frame::Integer(30_000));
    assert!(store.len() < 1_200, "{} entries", store.len());
    let mut reply = Frame::Null;
    for number in 0..100 {
        reply = client.call(&["HSET", "h", &number.to_string(), &"x".repeat(50_000)]);
        if let Frame::Error(_) = reply {
            break;
        }
    }
    assert_eq!(reply, Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".into()));
    assert!(store.used_memory() <= 2 << 20);
}

/// Values become longer meanwhile, so that their fields move.
#[test]
fn hscan_returns_every_stable_field_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..1_000 {
        client.call(&["HSET", "h", &format!("stable:{number}"), "v"]);
    }
    let (mut found, mut cursor, mut turn) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let reply = client.call(&["HSCAN", "h", &cursor, "COUNT", "50", "MATCH", "stable:*", "NOVALUES"]);
        let Frame::Array(parts) = reply else { panic!("{reply:?}") };
        let Frame::Array(fields) = &parts[1] else { panic!("{parts:?}") };
        assert!(fields.len() <= 51, "{} fields", fields.len());
        found.extend(fields.iter().map(|name| name.as_bytes().unwrap().to_vec()));
        cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        if cursor == "0" {
            break;
        }
        client.call(&[
            "HSET",
            "h",
            &format!("temporary:{turn}"),
            "7",
            &format!("stable:{turn}"),
            &"x".repeat(turn),
        ]);
        client.call(&["HDEL", "h", &format!("temporary:{}", turn.wrapping_sub(1))]);
        turn += 1;
    }
    assert!(turn > 10, "{turn} turns");
    found.sort();
    let visits = found.len();
    found.dedup();
    assert_eq!((visits, found.len()), (1_000, 1_000));
}

#[test]
fn hrandfield_returns_different_fields_or_repeats_them() {
    let server = TestServer::start();
    for fields in [100, 1_000] {
        let mut client = server.connect_as(Protocol::Resp3);
        for number in 0..fields {
            client.call(&["HSET", "h", &format!("field {number}"), &number.to_string()]);
        }
        let mut names = |count: i64| {
            let reply = client.call(&["HRANDFIELD", "h", &count.to_string(), "WITHVALUES"]);
            let Frame::Array(pairs) = reply else { panic!("{reply:?}") };
            let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
            for pair in &pairs {
                let Frame::Array(pair) = pair else { panic!("{pair:?}") };
                let [name, value] = [0, 1].map(|at: usize| pair[at].as_bytes().unwrap().to_vec());
                assert_eq!(name, [b"field ", &value[..]].concat());
                *counts.entry(name).or_default() += 1;
            }
            (pairs.len(), counts)
        };
        let (all, counts) = names(50);
        assert_eq!((all, counts.len()), (50, 50));
        let (all, counts) = names(fields * 2);
        assert_eq!((all, counts.len()), (fields as usize, fields as usize));
        let (all, counts) = names(-100 * fields);
        // Each a hundred times; six standard deviations are sixty.
        let (least, most) = (counts.values().min(), counts.values().max());
        assert!(all as i64 == 100 * fields && counts.len() as i64 == fields);
        assert!(least > Some(&40) && most < Some(&160), "{least:?} to {most:?} times");
    }
}

/// A reply with repeated values is bounded.
#[test]
fn replies_that_repeat_values_are_bounded() {
    let server =
        TestServer::with(Config { max_reply_bytes: larder_server::ByteSize(2 << 20), ..Config::default() });
    let mut client = server.connect();
    client.call(&["HSET", "h", "f", &"x".repeat(100_000)]);
    let too_large = Frame::Error("ERR the reply would exceed 2097152 bytes, the limit of replies".into());
    let names = ["f"; 100];
    assert_eq!(client.call(&[&["HMGET", "h"], &names[..]].concat()), too_large);
    assert_eq!(client.call(&["HRANDFIELD", "h", "-100", "WITHVALUES"]), too_large);
    assert_eq!(client.call(&["HRANDFIELD", "h", "-9223372036854775807"]), too_large);
    let counted = [&["HGETEX", "h", "EX", "10", "FIELDS", "100"], &names[..]].concat();
    assert_eq!(client.call(&counted), too_large);
    assert_eq!(client.call(&["HTTL", "h", "FIELDS", "1", "f"]), Frame::Array(vec![Frame::Integer(-1)]));
}
