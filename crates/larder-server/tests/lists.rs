//! Lists: the same commands to a real `redis-server` and to this server must get equal replies; and what lists promise beyond
//! that.

use larder_resp::Frame;
use larder_server::{Config, Store};
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::differential::{
    Pair, assert_equal_keys, assert_equal_replies, assert_equal_replies_at_random, words,
};
use crate::serialized::exchange;
use crate::support::{TestServer, connect_unix};

/// Every command with its options, and its errors.
pub(crate) const SEQUENCE: &[&str] = &[
    "RPUSH l a b c",
    "LPUSH l d e",
    "LPUSH l ''",
    "RPUSH l",
    "LPUSHX l f g",
    "RPUSHX l h",
    "LPUSHX nothing a",
    "RPUSHX nothing a",
    "EXISTS nothing",
    "LRANGE l 0 -1",
    "LRANGE l -2 -1",
    "LRANGE l 1 3",
    "LRANGE l 3 1",
    "LRANGE l -100 100",
    "LRANGE l 100 200",
    "LRANGE l x 1",
    "LRANGE l 0 1 2",
    "LRANGE nothing 0 -1",
    "LLEN l",
    "LLEN nothing",
    "LLEN",
    "TYPE l",
    "OBJECT ENCODING l",
    "OBJECT REFCOUNT l",
    "LINDEX l 0",
    "LINDEX l -1",
    "LINDEX l 7",
    "LINDEX l 100",
    "LINDEX l -100",
    "LINDEX l x",
    "LINDEX l -9223372036854775808",
    "LINDEX nothing 0",
    "LINDEX nothing x",
    "LSET l 0 first",
    "LSET l -1 last",
    "LSET l 100 x",
    "LSET l -100 x",
    "LSET l x x",
    "LSET nothing 0 x",
    "LSET nothing x x",
    "LRANGE l 0 -1",
    "LINSERT l BEFORE a before",
    "LINSERT l after a after",
    "LINSERT l BEFORE nothing x",
    "LINSERT l AROUND a x",
    "LINSERT nothing BEFORE a x",
    "LINSERT l BEFORE a",
    "LRANGE l 0 -1",
    "RPUSH r a b a c a b a",
    "LREM r 1 a",
    "LREM r -1 a",
    "LREM r 0 nothing",
    "LREM r x a",
    "LREM nothing 0 a",
    "LRANGE r 0 -1",
    "LREM r -9223372036854775808 b",
    "LREM r 0 a",
    "LRANGE r 0 -1",
    "LREM r 0 c",
    "EXISTS r",
    "RPUSH p a b c 1 2 3 c c",
    "LPOS p c",
    "LPOS p nothing",
    "LPOS nothing c",
    "LPOS p c RANK 2",
    "LPOS p c RANK -1",
    "LPOS p c RANK -3",
    "LPOS p c RANK 4",
    "LPOS p c RANK 0",
    "LPOS p c RANK x",
    "LPOS p c COUNT 0",
    "LPOS p c COUNT 2",
    "LPOS p c COUNT -1",
    "LPOS p c COUNT x",
    "LPOS p c COUNT 2 RANK -1",
    "LPOS p c COUNT 0 RANK 2",
    "LPOS p c MAXLEN 2",
    "LPOS p c MAXLEN 3",
    "LPOS p c COUNT 0 MAXLEN 7",
    "LPOS p c COUNT 0 RANK -1 MAXLEN 2",
    "LPOS p c MAXLEN 0",
    "LPOS p c MAXLEN -1",
    "LPOS p c COUNT 0 COUNT 1",
    "LPOS p c FOO 1",
    "LPOS p c COUNT",
    "LPOS nothing c COUNT 1",
    "LPOS nothing c FOO 1",
    "LTRIM p 1 -2",
    "LRANGE p 0 -1",
    "LTRIM p x 1",
    "LTRIM p 0 100",
    "LTRIM p -3 -1",
    "LRANGE p 0 -1",
    "LTRIM p 5 1",
    "EXISTS p",
    "LTRIM nothing 0 1",
    "RPUSH q 1 2 3 4 5 6 7 8",
    "LPOP q",
    "RPOP q",
    "LPOP q 2",
    "RPOP q 2",
    "LPOP q 0",
    "RPOP q 0",
    "LPOP q -1",
    "LPOP q x",
    "LPOP q 1 1",
    "RPOP q 1 1",
    "LPOP nothing",
    "LPOP nothing 1",
    "LPOP nothing 0",
    "RPOP nothing",
    "RPOP nothing 5",
    "LPOP nothing -1",
    "LPOP q 100",
    "EXISTS q",
    "RPUSH m 1 2 3 4",
    "LMOVE m n LEFT RIGHT",
    "LMOVE m n left left",
    "LMOVE m n RIGHT LEFT",
    "LMOVE m m LEFT RIGHT",
    "LRANGE m 0 -1",
    "LRANGE n 0 -1",
    "LMOVE n n RIGHT LEFT",
    "LMOVE n n LEFT LEFT",
    "LMOVE n n RIGHT RIGHT",
    "LMOVE n n LEFT RIGHT",
    "LRANGE n 0 -1",
    "LMOVE m n LEFT RIGHT",
    "EXISTS m",
    "LMOVE m n LEFT RIGHT",
    "LMOVE n m UP LEFT",
    "LMOVE n m LEFT UP",
    "LMOVE n m LEFT",
    "RPOPLPUSH n o",
    "RPOPLPUSH n n",
    "RPOPLPUSH nothing n",
    "RPOPLPUSH o o",
    "LRANGE n 0 -1",
    "LRANGE o 0 -1",
    "LMPOP 1 n LEFT",
    "LMPOP 2 nothing n RIGHT COUNT 2",
    "LMPOP 2 nothing n RIGHT COUNT 10",
    "LMPOP 2 nothing n RIGHT",
    "LMPOP 1 o left count 1",
    "LMPOP 0 o LEFT",
    "LMPOP x o LEFT",
    "LMPOP -1 o LEFT",
    "LMPOP 1 o UP",
    "LMPOP 1 o LEFT COUNT 0",
    "LMPOP 1 o LEFT COUNT x",
    "LMPOP 1 o LEFT COUNT",
    "LMPOP 1 o LEFT FOO 1",
    "LMPOP 1 o LEFT COUNT 1 COUNT 1",
    "LMPOP 2 o LEFT",
    "LMPOP 9223372036854775807 o LEFT",
    // What every type has.
    "RPUSH l x",
    "EXPIRE l 100",
    "TTL l",
    "PERSIST l",
    "RENAME l renamed",
    "LRANGE renamed 0 2",
    "COPY renamed l",
    "LPOP renamed 2",
    "LRANGE l 0 2",
    "SCAN 0 COUNT 1000 TYPE list MATCH renamed",
    "DEL renamed",
    "RPUSH one x",
    "EXPIRE one 100",
    "LSET one 0 y",
    "TTL one",
    "LPOP one",
    "RPUSH one z",
    "TTL one",
    // Every command on other types refuses a list.
    "SET string hello",
    "ZADD z 1 a",
    "HSET h a 1",
    "GET l",
    "GETSET l x",
    "GETDEL l",
    "GETEX l",
    "STRLEN l",
    "APPEND l x",
    "INCR l",
    "SETBIT l 1 1",
    "GETBIT l 1",
    "BITCOUNT l",
    "BITOP AND to l string",
    "PFADD l a",
    "PFCOUNT l",
    "SETNX l x",
    "MGET l string",
    "SET l x GET",
    "HSET l a 1",
    "HGET l a",
    "HGETALL l",
    "HDEL l a",
    "ZADD l 1 a",
    "ZSCORE l a",
    "ZRANGE l 0 -1",
    "ZREM l a",
    "ZPOPMIN l",
    "ZMPOP 1 l MIN",
    "ZUNION 2 z l",
    "ZUNIONSTORE to 2 z l",
    "ZSCAN l 0",
    // And the other way round.
    "LPUSH string a",
    "RPUSH h a",
    "LPUSHX z a",
    "LPOP string",
    "RPOP string 2",
    "LPOP string x",
    "LLEN h",
    "LINDEX z 0",
    "LINDEX z x",
    "LSET string 0 x",
    "LSET string x x",
    "LINSERT string BEFORE a b",
    "LREM string 0 a",
    "LTRIM string 0 1",
    "LRANGE string 0 1",
    "LPOS string a",
    "LMOVE string l LEFT LEFT",
    "LMOVE l string LEFT LEFT",
    "LMOVE nothing string LEFT LEFT",
    "RPOPLPUSH l string",
    "RPOPLPUSH string l",
    "LMPOP 2 string l LEFT",
    "LMPOP 2 nothing string LEFT",
    "LLEN l",
    "SET l x XX",
    "GET l",
    "DEL l",
    "RPUSH l a",
    "ZUNIONSTORE l 1 z",
    "TYPE l",
    "COMMAND GETKEYS RPUSH a b c",
    "COMMAND GETKEYS LMOVE a b LEFT RIGHT",
    "COMMAND GETKEYS LMPOP 2 a b LEFT",
    "FLUSHALL",
];

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(SEQUENCE);
}

#[test]
fn keys_and_their_flags_equal_those_of_redis() {
    assert_equal_keys(&[
        "lpush k a",
        "rpushx k a",
        "lpop k",
        "llen k",
        "lindex k 0",
        "lrange k 0 1",
        "lpos k a",
        "lset k 0 a",
        "linsert k before a b",
        "lrem k 0 a",
        "ltrim k 0 1",
        "lmove a b left left",
        "rpoplpush a b",
        "lmpop 2 a b left",
    ]);
}

/// Lists of many chunks, with elements that fill one.
#[test]
fn long_lists_get_equal_replies() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let mut compare = |line: String| {
        let command = words(&line);
        pair.compare(&command).unwrap_or_else(|difference| panic!("{difference}"));
    };
    for number in 0..2_000 {
        let length = if number % 200 == 7 { 9_000 } else { number % 40 };
        let end = if number % 3 == 0 { "LPUSH" } else { "RPUSH" };
        compare(format!("{end} l {number}{}", "x".repeat(length)));
    }
    for number in (0..2_000).step_by(37) {
        compare(format!("LINDEX l {number}"));
        compare(format!("LINDEX l -{number}"));
        compare(format!("LSET l {number} replaced:{}", "y".repeat(number)));
        compare(format!("LINSERT l AFTER replaced:{} inserted", "y".repeat(number)));
    }
    compare("LREM l 20 inserted".to_owned());
    compare("LREM l -20 inserted".to_owned());
    compare("LRANGE l 0 -1".to_owned());
    compare("LTRIM l 300 -300".to_owned());
    compare("COPY l m".to_owned());
    compare("LPOP m 500".to_owned());
    compare("RPOP m 400".to_owned());
    compare("LRANGE m 0 -1".to_owned());
    compare("LRANGE l 0 -1".to_owned());
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("c")].prop_map(str::to_owned);
    let element = || prop_oneof![8 => "[a-d]{1,2}", 2 => "-?[0-9]{1,4}", 1 => Just("x".repeat(3_000))];
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let index = || (-9i64..9).prop_map(|n| n.to_string());
    let end = move || one(&["LEFT", "RIGHT"]);
    let request = prop_oneof![
        10 => (one(&["LPUSH", "RPUSH", "RPUSH", "LPUSHX", "RPUSHX"]), key(), vec(element(), 1..6))
            .prop_map(|(c, k, elements)| format!("{c} {k} {}", elements.join(" "))),
        4 => (one(&["LPOP", "RPOP"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        2 => (one(&["LPOP", "RPOP"]), key(), 0..5).prop_map(|(c, k, n)| format!("{c} {k} {n}")),
        3 => (key(), key(), end(), end()).prop_map(|(k, l, from, to)| format!("LMOVE {k} {l} {from} {to}")),
        1 => (key(), key()).prop_map(|(k, l)| format!("RPOPLPUSH {k} {l}")),
        2 => (key(), key(), end(), 1..4).prop_map(|(k, l, e, n)| format!("LMPOP 2 {k} {l} {e} COUNT {n}")),
        2 => (key(), index()).prop_map(|(k, i)| format!("LINDEX {k} {i}")),
        2 => (key(), index(), index()).prop_map(|(k, i, j)| format!("LRANGE {k} {i} {j}")),
        2 => (key(), index(), element()).prop_map(|(k, i, e)| format!("LSET {k} {i} {e}")),
        3 => (key(), one(&["BEFORE", "AFTER"]), element(), element())
            .prop_map(|(k, w, p, e)| format!("LINSERT {k} {w} {p} {e}")),
        2 => (key(), index(), element()).prop_map(|(k, i, e)| format!("LREM {k} {i} {e}")),
        1 => (key(), 0..3, -3..0).prop_map(|(k, i, j)| format!("LTRIM {k} {i} {j}")),
        2 => (key(), element(), 0..3, 0..5).prop_map(|(k, e, c, m)| format!("LPOS {k} {e} COUNT {c} MAXLEN {m}")),
        1 => (key(), element(), one(&["1", "2", "-1", "-2"])).prop_map(|(k, e, r)| format!("LPOS {k} {e} RANK {r}")),
        1 => (one(&["LLEN", "TYPE", "EXISTS", "TTL", "PERSIST", "GET", "DEL"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
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
fn lists_go_to_redis_and_come_back() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    for (elements, length) in [(1, 5), (3, 0), (200, 10), (3_000, 16), (40, 1_000), (3, 20_000)] {
        redis.call(&["FLUSHALL"]);
        larder.call(&["FLUSHALL"]);
        for number in 0..elements {
            let element = match number % 3 {
                0 => (number * 7_919).to_string(),
                _ => format!("{number}{}", "z".repeat(length)),
            };
            let element = if length == 0 { "" } else { &element };
            assert_eq!(redis.call(&["RPUSH", "k", element]), larder.call(&["RPUSH", "k", element]));
        }
        let what = format!("{elements} elements of {length} bytes");
        exchange(&mut redis, &mut larder);
        let all = redis.call(&["LRANGE", "k", "0", "-1"]);
        assert_eq!(redis.call(&["LRANGE", "to", "0", "-1"]), all, "{what}");
        assert_eq!(larder.call(&["LRANGE", "to", "0", "-1"]), all, "{what}");
    }
}

#[test]
fn edits_change_the_charge_exactly() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..2_000usize {
        let end = if number.is_multiple_of(2) { "LPUSH" } else { "RPUSH" };
        client.call(&[end, "l", &"v".repeat(number % 90)]);
        if number.is_multiple_of(5) {
            let script = "redis.call('LPUSH', KEYS[1], 'a', 'b') return redis.call('LPOP', KEYS[1], 2)";
            client.call(&["EVAL", script, "1", "l"]);
        }
        assert_eq!(client.charged_memory(), client.memory_usage("l"), "element {number}");
    }
    client.call(&["COPY", "l", "copy"]);
    client.call(&["DEL", "copy"]);
    assert_eq!(client.charged_memory(), client.memory_usage("l"));
    for number in (0..2_000usize).rev() {
        client.call(&[if number.is_multiple_of(3) { "RPOP" } else { "LPOP" }, "l"]);
        if number > 0 {
            assert_eq!(client.charged_memory(), client.memory_usage("l"), "element {number}");
        }
    }
    assert_eq!((store.used_memory(), store.len()), (0, 0));
}

#[test]
fn growing_list_evicts_strings_and_stays_within_the_capacity() {
    let store = Store::new(Some(2 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..1_500 {
        client.call(&["SET", &format!("key {number}"), &"x".repeat(1_000)]);
    }
    let mut reply = Frame::Null;
    for _ in 0..4_000 {
        reply = client.call(&["RPUSH", "l", &"x".repeat(1_000)]);
        assert!(store.used_memory() <= 2 << 20);
        if let Frame::Error(_) = reply {
            break;
        }
    }
    assert_eq!(reply, Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".into()));
    assert!(store.len() < 100, "{} entries", store.len());
}
