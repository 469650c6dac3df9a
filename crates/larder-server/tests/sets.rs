//! Sets: the same commands to a real `redis-server` and to this server must get equal replies; and what sets promise beyond
//! that.

use std::collections::BTreeMap;

use larder_resp::Frame;
use larder_server::{Config, Store};
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::differential::{
    Pair, UNORDERED, assert_equal_keys, assert_equal_replies, assert_equal_replies_at_random, words,
};
use crate::serialized::exchange;
use crate::support::{TestServer, connect_unix};

/// Every command with its options, and its errors.
pub(crate) const SEQUENCE: &[&str] = &[
    "SADD s a b c",
    "SADD s a d d",
    "SADD s ''",
    "SADD s",
    "SCARD s",
    "SCARD nothing",
    "SISMEMBER s a",
    "SISMEMBER s nothing",
    "SISMEMBER nothing a",
    "SMISMEMBER s a nothing b a",
    "SMISMEMBER nothing a b",
    "SMISMEMBER s",
    "SMEMBERS s",
    "SMEMBERS nothing",
    "TYPE s",
    "OBJECT ENCODING s",
    "SADD n 1 2 3 -7 9223372036854775807",
    "OBJECT ENCODING n",
    "SMEMBERS n",
    "SISMEMBER n -7",
    "SISMEMBER n 007",
    "SADD n 007",
    "OBJECT ENCODING n",
    "SMEMBERS n",
    "SREM s a nothing",
    "SREM nothing a",
    "SREM s",
    "SREM s b c d",
    "SREM s ''",
    "EXISTS s",
    "SADD a 1 2 3 x y",
    "SADD b 2 3 4 y z",
    "SADD c 3 y 9",
    "SUNION a b c",
    "SUNION a nothing",
    "SUNION nothing",
    "SINTER a b c",
    "SINTER a",
    "SINTER a nothing b",
    "SDIFF a b",
    "SDIFF a b c",
    "SDIFF a nothing",
    "SDIFF nothing a",
    "SDIFF a a",
    "SUNIONSTORE to a b",
    "SMEMBERS to",
    "SINTERSTORE to a b c",
    "SMEMBERS to",
    "SDIFFSTORE to a b c",
    "SMEMBERS to",
    "SDIFFSTORE to a a",
    "EXISTS to",
    "SINTERSTORE a a b",
    "SMEMBERS a",
    "SUNIONSTORE nothing nothing",
    "SUNION",
    "SUNIONSTORE to",
    "SINTERCARD 2 a b",
    "SINTERCARD 2 a b LIMIT 1",
    "SINTERCARD 2 a b LIMIT 0",
    "SINTERCARD 2 a nothing",
    "SINTERCARD 0 a",
    "SINTERCARD x a",
    "SINTERCARD 3 a b",
    "SINTERCARD 2 a b LIMIT -1",
    "SINTERCARD 2 a b LIMIT x",
    "SINTERCARD 2 a b LIMIT",
    "SINTERCARD 2 a b FOO 1",
    "SMOVE a b 2",
    "SMOVE a b nothing",
    "SMOVE nothing b 2",
    "SMOVE a new 3",
    "SMOVE a a y",
    "SMOVE a a nothing",
    "SMOVE a b y",
    "EXISTS a",
    "SMEMBERS b",
    "SMEMBERS new",
    "SADD one x",
    "SPOP one",
    "EXISTS one",
    "SPOP one",
    "SPOP one 2",
    "SADD one x y",
    "SPOP one 0",
    "SPOP one 5",
    "EXISTS one",
    "SPOP b -1",
    "SPOP b x",
    "SPOP b 1 1",
    "SRANDMEMBER nothing",
    "SRANDMEMBER nothing 5",
    "SRANDMEMBER nothing -5",
    "SRANDMEMBER b 100",
    "SRANDMEMBER b 0",
    "SRANDMEMBER b x",
    "SRANDMEMBER b 1 1",
    "SRANDMEMBER b -9223372036854775808",
    "SADD one x",
    "SRANDMEMBER one",
    "SRANDMEMBER one 1",
    "SRANDMEMBER one -3",
    "SSCAN b 0",
    "SSCAN b 0 COUNT 100 MATCH [a-z]",
    "SSCAN nothing 0",
    "SSCAN b x",
    "SSCAN b 0 COUNT 0",
    "SSCAN b 0 COUNT",
    "SSCAN b 0 FOO 1",
    // What every type has.
    "EXPIRE b 100",
    "TTL b",
    "PERSIST b",
    "RENAME b renamed",
    "COPY renamed b",
    "SREM renamed z",
    "SMEMBERS b",
    "SCAN 0 COUNT 1000 TYPE set MATCH renamed",
    "DEL renamed",
    "EXPIRE one 100",
    "SADD one y",
    "TTL one",
    "SREM one x y",
    "SADD one z",
    "TTL one",
    // Every command on other types refuses a set.
    "SET string hello",
    "ZADD z 1 a",
    "HSET h a 1",
    "GET b",
    "GETDEL b",
    "STRLEN b",
    "APPEND b x",
    "INCR b",
    "GETBIT b 1",
    "BITOP AND to b string",
    "PFADD b a",
    "MGET b string",
    "SET b x GET",
    "HSET b a 1",
    "HGETALL b",
    "ZADD b 1 a",
    "ZRANGE b 0 -1",
    "ZREM b a",
    // And the other way round.
    "SADD string a",
    "SREM h a",
    "SCARD z",
    "SISMEMBER string a",
    "SMISMEMBER string a",
    "SMEMBERS h",
    "SPOP z",
    "SPOP z 2",
    "SRANDMEMBER string",
    "SRANDMEMBER string 2",
    "SSCAN string 0",
    "SSCAN string 0 FOO 1",
    "SMOVE string b a",
    "SMOVE b string 2",
    "SMOVE b string nothing",
    "SMOVE nothing string a",
    "SUNION b string",
    "SINTER b string",
    "SINTER nothing string",
    "SDIFF b string",
    "SUNIONSTORE to b string",
    "SINTERSTORE to nothing string",
    "SINTERCARD 2 b string",
    "SINTERCARD 2 nothing string",
    "SUNIONSTORE string b",
    "TYPE string",
    "SET b x XX",
    "GET b",
    "DEL b",
    "SADD b a",
    "ZUNIONSTORE b 1 z",
    "TYPE b",
    // As sorted sets, whose members have the score 1.
    "SADD t a b 1",
    "ZADD u 5 a 7 c",
    "ZUNION 2 t u WITHSCORES",
    "ZINTER 2 t u WITHSCORES",
    "ZINTER 2 u t WEIGHTS 2 3 AGGREGATE MAX WITHSCORES",
    "ZDIFF 2 t u WITHSCORES",
    "ZDIFF 2 u t",
    "ZINTERCARD 2 t u",
    "ZUNIONSTORE v 2 t u",
    "ZRANGE v 0 -1 WITHSCORES",
    "ZUNION 2 t string",
    "ZRANGESTORE v t 0 -1",
    "COMMAND GETKEYS SADD a b c",
    "COMMAND GETKEYS SMOVE a b c",
    "COMMAND GETKEYS SUNIONSTORE a b c",
    "COMMAND GETKEYS SINTERCARD 2 a b LIMIT 1",
    "FLUSHALL",
];

/// The commands whose replies have an order.
pub(crate) fn ordered() -> impl Iterator<Item = &'static &'static str> {
    let is_ordered = |command: &str| command != "SSCAN" && !UNORDERED.contains(&command);
    SEQUENCE.iter().filter(move |line| is_ordered(line.split(' ').next().unwrap_or_default()))
}

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(SEQUENCE);
}

#[test]
fn keys_and_their_flags_equal_those_of_redis() {
    assert_equal_keys(&[
        "sadd k a",
        "srem k a",
        "scard k",
        "sismember k a",
        "smismember k a",
        "smembers k",
        "spop k",
        "srandmember k",
        "sscan k 0",
        "smove a b c",
        "sunion a b",
        "sinterstore a b c",
        "sintercard 2 a b",
    ]);
}

/// A large set has its members in any order.
#[test]
fn large_sets_get_equal_replies() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    for number in 0..3_000 {
        pair.call(&words(&format!("SADD s member:{} {}", number % 2_000, number % 700)));
        pair.call(&words(&format!("SADD t member:{} {}", number % 500, number % 900)));
        pair.call(&words(&format!("SADD integers {}", number % 600 - 300)));
    }
    for number in (0..2_000).step_by(3) {
        pair.call(&words(&format!("SREM s member:{number}")));
    }
    for command in [
        "SMEMBERS s",
        "SUNION s t",
        "SINTER s t",
        "SDIFF s t",
        "SDIFF t s",
        "SRANDMEMBER s 5000",
        "SMEMBERS integers",
        "SPOP t 100000",
    ] {
        pair.compare_sorted(&words(command), 1);
    }
    for command in ["SCARD s", "SINTERCARD 2 s integers", "SMISMEMBER s member:1 member:3 7", "EXISTS t"] {
        pair.compare(&words(command)).unwrap();
    }
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("c")].prop_map(str::to_owned);
    let member = || prop_oneof![6 => "[a-d]{1,2}", 3 => "-?[0-9]{1,2}", 1 => Just("y".repeat(66))];
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let request = prop_oneof![
        10 => (key(), vec(member(), 1..6)).prop_map(|(k, members)| format!("SADD {k} {}", members.join(" "))),
        4 => (key(), vec(member(), 1..4)).prop_map(|(k, members)| format!("SREM {k} {}", members.join(" "))),
        2 => (one(&["SISMEMBER", "SMISMEMBER"]), key(), member()).prop_map(|(c, k, m)| format!("{c} {k} {m}")),
        3 => (key(), key(), member()).prop_map(|(k, l, m)| format!("SMOVE {k} {l} {m}")),
        2 => (one(&["SUNION", "SINTER", "SDIFF"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        2 => (one(&["SUNIONSTORE", "SINTERSTORE", "SDIFFSTORE"]), key(), key(), key())
            .prop_map(|(c, k, l, m)| format!("{c} {k} {l} {m}")),
        1 => (key(), key(), 0..4).prop_map(|(k, l, n)| format!("SINTERCARD 2 {k} {l} LIMIT {n}")),
        2 => (one(&["SMEMBERS", "SCARD"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => key().prop_map(|k| format!("SPOP {k} 1000")),
        1 => key().prop_map(|k| format!("SRANDMEMBER {k} 1000")),
        1 => key().prop_map(|k| format!("SSCAN {k} 0 COUNT 1000")),
        1 => (one(&["TYPE", "EXISTS", "TTL", "PERSIST", "GET", "DEL"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => (one(&["RENAME", "RENAMENX", "COPY"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        1 => key().prop_map(|k| format!("EXPIRE {k} 1000")),
        1 => key().prop_map(|k| format!("SET {k} 1")),
        1 => key().prop_map(|k| format!("ZADD {k} 1 x")),
    ];
    request.prop_map(|line| words(&line))
}

#[test]
fn random_commands_get_equal_replies() {
    assert_equal_replies_at_random(requests());
}

#[test]
fn sets_go_to_redis_and_come_back() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    let member = |kind: &str, number: i64| match kind {
        "small integers" => (number - 20).to_string(),
        "middle integers" => (number * 100_000).to_string(),
        "large integers" => (number << 40).to_string(),
        _ => format!("{kind} {number}"),
    };
    for kind in ["small integers", "middle integers", "large integers", "texts", "many texts"] {
        redis.call(&["FLUSHALL"]);
        larder.call(&["FLUSHALL"]);
        for number in 0..if kind.starts_with("many") { 2_000 } else { 100 } {
            let member = member(kind, number);
            assert_eq!(redis.call(&["SADD", "k", &member]), larder.call(&["SADD", "k", &member]));
        }
        exchange(&mut redis, &mut larder);
        let members = larder.call(&["SCARD", "k"]);
        for set in ["k", "to"] {
            assert_eq!(redis.call(&["SCARD", set]), members, "{kind}");
            assert_eq!(larder.call(&["SCARD", set]), members, "{kind}");
        }
        assert_eq!(larder.call(&["SINTERCARD", "2", "k", "to"]), members, "{kind}");
        assert_eq!(redis.call(&["SINTERCARD", "2", "k", "to"]), members, "{kind}");
    }
}

#[test]
fn edits_change_the_charge_exactly() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..2_000usize {
        client.call(&["SADD", "s", &format!("member {number}")]);
        if number.is_multiple_of(5) {
            let script = "redis.call('SADD', KEYS[1], 'a', 'b') return redis.call('SREM', KEYS[1], 'a', 'b')";
            client.call(&["EVAL", script, "1", "s"]);
        }
        assert_eq!(client.charged_memory(), client.memory_usage("s"), "member {number}");
    }
    for number in 0..2_000 {
        client.call(&["SREM", "s", &format!("member {number}")]);
        if number < 1_999 {
            assert_eq!(client.charged_memory(), client.memory_usage("s"), "member {number}");
        }
    }
    assert_eq!((store.used_memory(), store.len()), (0, 0));
}

#[test]
fn random_members_are_taken_fairly() {
    let server = TestServer::start();
    let mut client = server.connect();
    for members in [100usize, 1_000] {
        for number in 0..members {
            client.call(&["SADD", "s", &number.to_string()]);
        }
        let names = |reply: Frame| match reply {
            Frame::Array(names) => {
                names.iter().map(|name| name.as_bytes().unwrap().to_vec()).collect::<Vec<_>>()
            }
            reply => panic!("{reply:?}"),
        };
        let mut counts: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
        for name in names(client.call(&["SRANDMEMBER", "s", &format!("-{}", 100 * members)])) {
            *counts.entry(name).or_default() += 1;
        }
        // Each a hundred times; six standard deviations are sixty.
        let (least, most) = (counts.values().min(), counts.values().max());
        assert!(
            counts.len() == members && least > Some(&40) && most < Some(&160),
            "{least:?} to {most:?} times"
        );
        let mut taken = names(client.call(&["SPOP", "s", "60"]));
        taken.sort();
        taken.dedup();
        assert_eq!((taken.len(), client.call(&["SCARD", "s"])), (60, Frame::Integer(members as i64 - 60)));
        client.call(&["DEL", "s"]);
    }
}

#[test]
fn replies_that_repeat_members_are_bounded() {
    let server =
        TestServer::with(Config { max_reply_bytes: larder_server::ByteSize(2 << 20), ..Config::default() });
    let mut client = server.connect();
    client.call(&["SADD", "s", &"x".repeat(100_000)]);
    let too_large = Frame::Error("ERR the reply would exceed 2097152 bytes, the limit of replies".into());
    for count in ["-100", "-9223372036854775807"] {
        assert_eq!(client.call(&["SRANDMEMBER", "s", count]), too_large);
    }
}
