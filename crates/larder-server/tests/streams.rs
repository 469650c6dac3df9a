//! Streams: the same commands to a real `redis-server` and to this server must get equal replies; and what streams promise beyond
//! that.

use larder_resp::{Frame, Protocol};
use larder_server::{ByteSize, Config, Store};
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::prelude::*;

use crate::differential::{
    Pair, assert_equal_keys, assert_equal_replies, assert_equal_replies_at_random, words,
};
use crate::serialized::exchange;
use crate::support::{TestServer, connect_unix};

/// Every command with its options, and its errors. The ids are given, because the servers have times of their own.
pub(crate) const SEQUENCE: &[&str] = &[
    "XADD s 1-1 a 1",
    "XADD s 1-* a 2 b 3",
    "XADD s 2 a 4",
    "XADD s 2-* a 5",
    "XADD s 2-1 a 6",
    "XADD s 2-2 a 6 b x",
    "XADD s 1-9 a 1",
    "XADD s 1-* a 1",
    "XADD s 0-0 a 1",
    "XADD s 0-0 a",
    "XADD s 0 a 1",
    "XADD other 0-* a 1",
    "XADD s 003-007 '' ''",
    "XADD s 4-0 a 1 a 2 a 3",
    "XADD s 5-0 a",
    "XADD s 5-0 a 1 b",
    "XADD s 5-0",
    "XADD s * a",
    "XADD s x a 1",
    "XADD s 5-x a 1",
    "XADD s 5- a 1",
    "XADD s -5 a 1",
    "XADD s 5-1-1 a 1",
    "XADD s - a 1",
    "XADD s + a 1",
    "XADD s $ a 1",
    "XADD s *-1 a 1",
    "XADD s 18446744073709551616-0 a 1",
    "XADD s",
    "XADD nothing NOMKSTREAM 1-1 a 1",
    "EXISTS nothing",
    "XADD s nomkstream 5-1 a 1",
    "XADD s NOMKSTREAM NOMKSTREAM 5-2 a 1",
    "XADD s NOMKSTREAM",
    "XLEN s",
    "XLEN nothing",
    "XLEN",
    "TYPE s",
    "OBJECT ENCODING s",
    "OBJECT REFCOUNT s",
    "XRANGE s - +",
    "XRANGE s 1 1",
    "XRANGE s 1 2",
    "XRANGE s 1-2 2-1",
    "XRANGE s (1-1 (2-2",
    "XRANGE s (1 2",
    "XRANGE s 2 1",
    "XRANGE s + -",
    "XRANGE s - - COUNT 1",
    "XRANGE s (- +",
    "XRANGE s - (+",
    "XRANGE s ( +",
    "XRANGE s x +",
    "XRANGE s - x",
    "XRANGE s - (0-0",
    "XRANGE s (18446744073709551615-18446744073709551615 +",
    "XRANGE s (0-18446744073709551615 2-0",
    "XRANGE s 18446744073709551615 +",
    "XRANGE s - + COUNT 3",
    "XRANGE s - + COUNT 0",
    "XRANGE s - + COUNT -1",
    "XRANGE s - + COUNT x",
    "XRANGE s - + COUNT",
    "XRANGE s - + COUNT 1 COUNT 2",
    "XRANGE s - + FOO 1",
    "XRANGE s - + count 1 FOO",
    "XRANGE s -",
    "XRANGE nothing - +",
    "XRANGE nothing - + COUNT 0",
    "XRANGE nothing x +",
    "XREVRANGE s + -",
    "XREVRANGE s + - COUNT 2",
    "XREVRANGE s 2 1",
    "XREVRANGE s 1 2",
    "XREVRANGE s (2-2 (1-1 COUNT 10",
    "XREVRANGE s + - COUNT 0",
    "XREVRANGE s x -",
    "XREVRANGE nothing + -",
    "XREAD STREAMS s 0",
    "XREAD STREAMS s 2-1",
    "XREAD STREAMS s 5-2",
    "XREAD STREAMS s $",
    "XREAD STREAMS s 18446744073709551615-18446744073709551615",
    "XREAD COUNT 2 STREAMS s other 1-1 0",
    "XREAD COUNT 1 STREAMS nothing other s 0 0 $",
    "XREAD STREAMS s s 0 5",
    "XREAD COUNT 0 STREAMS s 5",
    "XREAD COUNT -5 STREAMS s 5",
    "XREAD COUNT x STREAMS s 0",
    "XREAD COUNT 1 COUNT 2 STREAMS s 0",
    "XREAD STREAMS nothing 0",
    "XREAD STREAMS s",
    "XREAD STREAMS s other 0",
    "XREAD COUNT 1 STREAMS",
    "XREAD COUNT 1 s 0",
    "XREAD COUNT STREAMS s 0",
    "XREAD FOO STREAMS s 0",
    "XREAD STREAMS s x",
    "XREAD STREAMS s -",
    "XREAD STREAMS s >",
    "XREAD STREAMS nothing s $ >",
    "XREAD GROUP g c STREAMS s 0",
    "XREAD NOACK STREAMS s 0",
    "XREAD",
    "XDEL s 1-2 1-2 9-9",
    "XDEL s x",
    "XDEL s 1-1 x",
    "XDEL nothing x",
    "XDEL nothing 1-1",
    "XDEL s",
    "XRANGE s - +",
    "XDEL s 1-1",
    "XDEL s 5-2",
    "XINFO STREAM s",
    "XINFO STREAM s FULL",
    "XINFO STREAM s full count 2",
    "XINFO STREAM s FULL COUNT 0",
    "XINFO STREAM s FULL COUNT -3",
    "XINFO STREAM s FULL COUNT x",
    "XINFO STREAM s FULL COUNT",
    "XINFO STREAM s FULL 1 2",
    "XINFO STREAM s FOO",
    "XINFO STREAM s FULL COUNT 1 2",
    "XINFO STREAM nothing",
    "XINFO STREAM nothing FOO",
    "XINFO",
    "XADD s 5-2 a 1",
    "XADD s 5-3 a 1",
    "XDEL s 2-0 2-1 2-2 3-7 4-0 5-1 5-3",
    "XLEN s",
    "EXISTS s",
    "XINFO STREAM s",
    "XINFO STREAM s FULL",
    "XREAD STREAMS s 0",
    "XRANGE s - +",
    "XADD s 5-3 a 1",
    "XADD s 5-* a 1",
    "XADD t 1-1 a 1",
    "XADD t 1-2 a 1",
    "XADD t MAXLEN 2 1-3 a 1",
    "XRANGE t - +",
    "XADD t MAXLEN = 3 1-4 a 1",
    "XADD t maxlen ~ 1 1-5 a 1",
    "XADD t MAXLEN ~ 1 LIMIT 5 1-6 a 1",
    "XADD t LIMIT 5 MAXLEN ~ 1 1-7 a 1",
    "XLEN t",
    "XADD t MINID 1-6 1-8 a 1",
    "XADD t MINID = 1-7 NOMKSTREAM 1-9 a 1",
    "XADD t MINID ~ 1-9 1-10 a 1",
    "XRANGE t - +",
    "XADD t MAXLEN 0 1-11 a 1",
    "XLEN t",
    "XINFO STREAM t",
    "XADD t MAXLEN x 2-1 a 1",
    "XADD t MAXLEN -1 2-1 a 1",
    "XADD t MAXLEN ~ -1 2-1 a 1",
    "XADD t MAXLEN ~ 2-1 a 1",
    "XADD t MAXLEN = 2-1",
    "XADD t MAXLEN ~",
    "XADD t MINID x 2-1 a 1",
    "XADD t MINID - 2-1 a 1",
    "XADD t MAXLEN 1 MAXLEN 1 2-1 a 1",
    "XADD t MAXLEN 1 MINID 1 2-1 a 1",
    "XADD t LIMIT 5 2-1 a 1",
    "XADD t LIMIT 0 2-1 a 1",
    "XADD t LIMIT -1 2-1 a 1",
    "XADD t LIMIT x 2-1 a 1",
    "XADD t MAXLEN 1 LIMIT 5 2-1 a 1",
    "XADD t MAXLEN = 1 LIMIT 0 2-1 a 1",
    "XADD t MAXLEN ~ 1 LIMIT 0 2-1 a 1",
    "XADD t 2-2 a 1",
    "XADD t 2-3 a 1",
    "XTRIM t MAXLEN 2",
    "XTRIM t MAXLEN = 5",
    "XTRIM t MAXLEN ~ 0",
    "XTRIM t MAXLEN ~ 0 LIMIT 0",
    "XTRIM t MINID 2",
    "XADD t 2-4 a 1",
    "XADD t 2-5 a 1",
    "XTRIM t MINID 2-5",
    "XTRIM t MINID ~ 9 LIMIT 1",
    "XTRIM t MINID = 9",
    "XTRIM nothing MAXLEN 1",
    "XTRIM nothing MAXLEN x",
    "XTRIM t MAXLEN x",
    "XTRIM t MAXLEN -1",
    "XTRIM t MINID x",
    "XTRIM t FOO 1",
    "XTRIM t LIMIT 1",
    "XTRIM t LIMIT 1 MAXLEN 1",
    "XTRIM t MAXLEN 1 LIMIT 1",
    "XTRIM t MAXLEN 1 FOO",
    "XTRIM t MAXLEN 1 MINID 1",
    "XTRIM t MAXLEN",
    "XTRIM t MAXLEN ~",
    "XTRIM t",
    "XADD last 18446744073709551615-18446744073709551614 a 1",
    "XADD last 18446744073709551615-* a 1",
    "XADD last 18446744073709551615-* a 1",
    "XADD last * a 1",
    "XADD last 1-1 a 1",
    "XREAD STREAMS last 18446744073709551615-18446744073709551614",
    "XADD full 7-18446744073709551615 a 1",
    "XADD full 7-18446744073709551615 a 1",
    "XADD full 8-* a 1",
    // What every type has.
    "XADD s 6-1 x y",
    "EXPIRE s 100",
    "XADD s 6-2 x y",
    "XDEL s 6-2",
    "XTRIM s MAXLEN 0",
    "TTL s",
    "PERSIST s",
    "XADD s 6-3 x y z 12",
    "RENAME s renamed",
    "XINFO STREAM renamed",
    "COPY renamed s",
    "XADD renamed 6-4 x y",
    "XINFO STREAM s",
    "SCAN 0 COUNT 1000 TYPE stream MATCH renamed",
    "DEL renamed",
    // Every command on other types refuses a stream.
    "SET string hello",
    "RPUSH l a",
    "GET s",
    "APPEND s x",
    "INCR s",
    "SETBIT s 1 1",
    "PFADD s a",
    "SET s x GET",
    "HSET s a 1",
    "HGETALL s",
    "LPUSH s a",
    "LRANGE s 0 -1",
    "SADD s a",
    "SMEMBERS s",
    "ZADD s 1 a",
    "ZRANGE s 0 -1",
    "ZUNIONSTORE to 1 s",
    // And the other way round.
    "XADD string 1-1 a 1",
    "XADD string NOMKSTREAM 1-1 a 1",
    "XADD string x a 1",
    "XADD l MAXLEN 1 1-1 a 1",
    "XLEN l",
    "XRANGE l - +",
    "XRANGE l - + COUNT 0",
    "XRANGE l x +",
    "XREVRANGE l + -",
    "XREAD STREAMS l 0",
    "XREAD STREAMS s l 0 x",
    "XREAD STREAMS s l x 0",
    "XREAD STREAMS s l 0 $",
    "XDEL l x",
    "XTRIM l MAXLEN 1",
    "XTRIM l MAXLEN x",
    "XINFO STREAM l",
    "XINFO STREAM l FOO",
    "SET s x",
    "GET s",
    "COMMAND GETKEYS XADD a * b c",
    "COMMAND GETKEYS XREAD STREAMS a b 0 0",
    "COMMAND GETKEYS XREAD COUNT 1 BLOCK 1 streams a b c 0 0",
    "COMMAND GETKEYS XREAD COUNT 1 BLOCK 1",
    "COMMAND GETKEYS XREAD COUNT 1 STREAMS",
    "COMMAND GETKEYS XINFO STREAM a",
    "FLUSHALL",
];

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(SEQUENCE);
    // In a transaction and in a script those are other errors.
    assert_equal_replies(&["XINFO STREAM", "XINFO FOO s", "XINFO HELP x"]);
}

#[test]
fn keys_and_their_flags_equal_those_of_redis() {
    assert_equal_keys(&[
        "xadd k * a 1",
        "xlen k",
        "xrange k - +",
        "xrevrange k + -",
        "xread streams a b 0 0",
        "xread count 1 streams a 0",
        "xdel k 1-1",
        "xtrim k maxlen 1",
        "xinfo stream k",
    ]);
}

/// Streams of many chunks, with entries that fill one.
#[test]
fn long_streams_get_equal_replies() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let mut compare = |line: String| {
        let command = words(&line);
        pair.compare(&command).unwrap_or_else(|difference| panic!("{difference}"));
    };
    for number in 0..3_000 {
        let length = if number % 200 == 7 { 9_000 } else { number % 40 };
        let name = if number % 11 == 3 { "other" } else { "name" };
        compare(format!(
            "XADD s {}-{} {name} {}x{number} n {number}",
            number / 3 + 1,
            number % 3,
            "y".repeat(length)
        ));
    }
    for number in (0..1_000).step_by(37) {
        compare(format!("XRANGE s {number} + COUNT 5"));
        compare(format!("XREVRANGE s {number}-1 - COUNT 5"));
        compare(format!("XREAD COUNT 3 STREAMS s {number}-1"));
        compare(format!("XDEL s {number}-1 {number}-2"));
    }
    compare("XRANGE s - +".to_owned());
    compare("XREVRANGE s 700 300".to_owned());
    compare("XTRIM s MAXLEN 2500".to_owned());
    compare("XTRIM s MINID 400-1".to_owned());
    compare("COPY s copy".to_owned());
    compare("XTRIM copy MAXLEN 7".to_owned());
    compare("XRANGE copy - +".to_owned());
    compare("XRANGE s - +".to_owned());
}

/// Redis' nodes have a hundred entries, if those are short, and so have chunks.
#[test]
fn inexact_trims_of_short_entries_equal_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    for number in 1..=1_050 {
        pair.compare(&words(&format!("XADD s {number} a 1"))).unwrap();
    }
    for line in [
        "XTRIM s MAXLEN ~ 1000",
        "XLEN s",
        "XTRIM s MAXLEN ~ 901",
        "XTRIM s MAXLEN ~ 900",
        "XTRIM s MINID ~ 350",
        "XLEN s",
        "XTRIM s MAXLEN ~ 300 LIMIT 99",
        "XTRIM s MAXLEN ~ 300 LIMIT 250",
        "XDEL s 601 602 603",
        "XTRIM s MINID ~ 701 LIMIT 97",
        "XADD s MAXLEN ~ 100 2000 a 1",
        "XRANGE s - +",
        "XTRIM s MAXLEN ~ 0",
        "XINFO STREAM s",
    ] {
        pair.compare(&words(line)).unwrap_or_else(|difference| panic!("{difference}"));
    }
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("c")].prop_map(str::to_owned);
    let id = || (0..12u8, 0..4u8).prop_map(|(ms, seq)| format!("{ms}-{seq}"));
    let time = || (0..12u8).prop_map(|ms| ms.to_string());
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let new_id = move || prop_oneof![6 => time().prop_map(|ms| format!("{ms}-*")), 1 => id()];
    let fields = || prop_oneof![4 => "a [a-c]{1,3}", 1 => "a [0-9]{1,3} b x", 1 => "[a-c] -?[0-9]{1,9}"];
    let bound = move || {
        prop_oneof![
            2 => one(&["-", "+", "(0", "x"]).prop_map(str::to_owned),
            3 => time(),
            3 => id(),
            2 => id().prop_map(|id| format!("({id}")),
        ]
    };
    let trim = move || {
        prop_oneof![
            (one(&["", "= ", "~ "]), 0..9u8).prop_map(|(sign, n)| format!("MAXLEN {sign}{n}")),
            // Without `~`: Redis keeps a node whose last entry is deleted if the id of that one is late enough. Chunks do not
            // know the ids of deleted entries.
            (one(&["", "= "]), id()).prop_map(|(sign, id)| format!("MINID {sign}{id}")),
            (0..9u8, 0..9u8).prop_map(|(n, limit)| format!("MAXLEN ~ {n} LIMIT {limit}")),
        ]
    };
    let request = prop_oneof![
        12 => (key(), new_id(), fields()).prop_map(|(k, id, f)| format!("XADD {k} {id} {f}")),
        1 => (key(), new_id(), fields()).prop_map(|(k, id, f)| format!("XADD {k} NOMKSTREAM {id} {f}")),
        3 => (key(), trim(), new_id(), fields()).prop_map(|(k, t, id, f)| format!("XADD {k} {t} {id} {f}")),
        4 => (one(&["XRANGE", "XREVRANGE"]), key(), bound(), bound()).prop_map(|(c, k, a, b)| format!("{c} {k} {a} {b}")),
        2 => (one(&["XRANGE", "XREVRANGE"]), key(), bound(), bound(), 0..4u8)
            .prop_map(|(c, k, a, b, n)| format!("{c} {k} {a} {b} COUNT {n}")),
        2 => (key(), key(), id(), prop_oneof![time(), Just("$".to_owned())])
            .prop_map(|(k, l, a, b)| format!("XREAD STREAMS {k} {l} {a} {b}")),
        1 => (key(), id(), 0..4u8).prop_map(|(k, id, n)| format!("XREAD COUNT {n} STREAMS {k} {id}")),
        5 => (key(), vec(id(), 1..6)).prop_map(|(k, ids)| format!("XDEL {k} {}", ids.join(" "))),
        2 => (key(), trim()).prop_map(|(k, t)| format!("XTRIM {k} {t}")),
        3 => (one(&["", " FULL", " FULL COUNT 2"]), key()).prop_map(|(o, k)| format!("XINFO STREAM {k}{o}")),
        1 => (one(&["XLEN", "TYPE", "EXISTS", "TTL", "PERSIST", "GET", "DEL"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => (one(&["RENAME", "RENAMENX", "COPY"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        1 => key().prop_map(|k| format!("EXPIRE {k} 1000")),
        1 => key().prop_map(|k| format!("SET {k} 1")),
    ];
    request.prop_map(|line| words(&line))
}

#[test]
fn random_commands_get_equal_replies() {
    // Redis keeps a node without entries, and counts it here, if `MINID` ends ahead of a removed one in it.
    let counts_no_nodes = |request: &Vec<String>| request[0] != "XINFO";
    assert_equal_replies_at_random(requests().prop_filter("counts nodes", counts_no_nodes));
}

#[test]
fn random_commands_without_trims_by_id_get_equal_replies() {
    let trims_by_no_id = |request: &Vec<String>| request.iter().all(|argument| argument != "MINID");
    assert_equal_replies_at_random(requests().prop_filter("trims by an id", trims_by_no_id));
}

#[test]
fn streams_go_to_redis_and_come_back() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    for (entries, length) in [(1, 5), (3, 0), (250, 10), (3_000, 16), (40, 1_000), (3, 20_000)] {
        redis.call(&["FLUSHALL"]);
        larder.call(&["FLUSHALL"]);
        let mut both =
            |request: &[&str]| assert_eq!(redis.call(request), larder.call(request), "{request:?}");
        for number in 0..entries {
            let (id, text) = (format!("{}-{}", number / 2 + 1, number % 2), "z".repeat(length));
            let (name, number) = (if number % 5 == 0 { "b" } else { "a" }, (number * 7_919).to_string());
            both(&["XADD", "k", &id, name, &text, "number", &number]);
        }
        both(&["XDEL", "k", "1-1", "2-0", "40-1", &format!("{}-0", entries / 2 + 1)]);
        both(&["XTRIM", "k", "MAXLEN", &(entries * 3 / 4).to_string()]);
        let what = format!("{entries} entries of {length} bytes");
        exchange(&mut redis, &mut larder);
        for request in [&["XRANGE", "to", "-", "+"][..], &["XADD", "to", "1-1", "a", "b"], &["XLEN", "to"]] {
            assert_eq!(redis.call(request), larder.call(request), "{what}");
        }
        // The nodes are those of the other server.
        let info = |reply: Frame| match reply {
            Frame::Array(parts) => [&parts[..2], &parts[6..]].concat(),
            reply => panic!("{reply:?}"),
        };
        let request = ["XINFO", "STREAM", "to", "FULL", "COUNT", "0"];
        assert_eq!(info(redis.call(&request)), info(larder.call(&request)), "{what}");
    }
}

#[test]
fn consumer_groups_are_refused_with_their_name() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    redis.call(&["XADD", "k", "1-1", "a", "b"]);
    redis.call(&["XGROUP", "CREATE", "k", "group", "0"]);
    let payload = redis.call(&["DUMP", "k"]);
    let words: [&[u8]; 4] = [b"RESTORE", b"k", b"0", payload.as_bytes().expect("a payload")];
    let expected = Frame::Error("ERR the stream has consumer groups, which this server does not have".into());
    assert_eq!(larder.call(&words), expected);
    for (request, expected) in [
        (
            "XGROUP CREATE k g $",
            "ERR unknown command 'XGROUP': this server has no consumer groups of streams",
        ),
        ("xack k g 1-1", "ERR unknown command 'xack': this server has no consumer groups of streams"),
        (
            "XINFO GROUPS k",
            "ERR XINFO GROUPS and XINFO CONSUMERS are unknown: this server has no consumer groups of streams",
        ),
        ("GEOADD k 1 1 a", "ERR unknown command 'GEOADD': this server has no commands of GEO"),
    ] {
        assert_eq!(larder.call(&request.split(' ').collect::<Vec<_>>()), Frame::Error(expected.into()));
    }
    assert_eq!(
        larder.call(&["EVAL", "return redis.pcall('xgroup', 'create')", "0"]),
        Frame::Error(
            "ERR Unknown Redis command 'xgroup' called from script: this server has no consumer groups of streams".into()
        )
    );
    assert_eq!(larder.call(&["PING"]), Frame::Simple("PONG".into()));
}

/// The text of an id.
fn id_of(reply: Frame) -> String {
    String::from_utf8(reply.as_bytes().unwrap_or_else(|| panic!("{reply:?}")).to_vec()).unwrap()
}

#[test]
fn given_ids_follow_the_clock_and_never_decrease() {
    let server = TestServer::start();
    let mut client = server.connect();
    let Frame::Array(time) = client.call(&["TIME"]) else { panic!("no time") };
    let seconds: u64 = id_of(time[0].clone()).parse().unwrap();
    let mut last = (0, 0);
    for _ in 0..500 {
        let id = id_of(client.call(&["XADD", "s", "*", "a", "1"]));
        let (ms, seq) = id.split_once('-').unwrap();
        let id = (ms.parse::<u64>().unwrap(), seq.parse::<u64>().unwrap());
        assert!(
            id > last && id.0 / 1_000 >= seconds && id.0 / 1_000 <= seconds + 300,
            "{id:?} after {last:?}"
        );
        last = id;
    }
    // A clock that is behind the last id does not count.
    client.call(&["XADD", "s", "99999999999999-5", "a", "1"]);
    assert_eq!(id_of(client.call(&["XADD", "s", "*", "a", "1"])), "99999999999999-6");
    client.call(&["XADD", "s", "99999999999999-18446744073709551615", "a", "1"]);
    let too_low = "ERR The ID specified in XADD is equal or smaller than the target stream top item";
    assert_eq!(client.call(&["XADD", "s", "99999999999999-*", "a", "1"]), Frame::Error(too_low.into()));
    assert_eq!(id_of(client.call(&["XADD", "s", "*", "a", "1"])), "100000000000000-0");
}

#[test]
fn plus_reads_the_last_entry() {
    let server = TestServer::start();
    let mut client = server.connect_as(Protocol::Resp3);
    let read = ["XREAD", "STREAMS", "s", "+"];
    assert_eq!(client.call(&read), Frame::Null);
    for id in ["1-0", "2-0", "3-0"] {
        client.call(&["XADD", "s", id, "a", "1"]);
    }
    client.call(&["XDEL", "s", "3-0"]);
    let bulk = |text: &str| Frame::Bulk(text.as_bytes().to_vec().into());
    let entry = Frame::Array(vec![bulk("2-0"), Frame::Array(vec![bulk("a"), bulk("1")])]);
    assert_eq!(client.call(&read), Frame::Map(vec![(bulk("s"), Frame::Array(vec![entry]))]));
    client.call(&["XTRIM", "s", "MAXLEN", "0"]);
    assert_eq!(client.call(&read), Frame::Null);
}

#[test]
fn edits_change_the_charge_exactly() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..2_000usize {
        client.call(&["XADD", "s", "*", "n", &number.to_string(), "v", &"v".repeat(number % 90)]);
        if number.is_multiple_of(5) {
            let script = "local id = redis.call('XADD', KEYS[1], '*', 'a', 'b') return redis.call('XDEL', KEYS[1], id)";
            client.call(&["EVAL", script, "1", "s"]);
        }
        assert_eq!(client.charged_memory(), client.memory_usage("s"), "entry {number}");
    }
    client.call(&["COPY", "s", "copy"]);
    client.call(&["DEL", "copy"]);
    assert_eq!(client.charged_memory(), client.memory_usage("s"));
    for number in (0..2_000usize).rev() {
        client.call(&["XTRIM", "s", "MAXLEN", &number.to_string()]);
        assert_eq!(client.charged_memory(), client.memory_usage("s"), "entry {number}");
    }
    assert!(client.memory_usage("s") < 1_000);
    client.call(&["DEL", "s"]);
    assert_eq!((store.used_memory(), store.len()), (0, 0));
}

/// What a failed script has added and removed is undone.
#[test]
fn ended_script_leaves_the_stream_as_it_was() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["CONFIG", "SET", "busy-reply-threshold", "50"]);
    for number in 0..250 {
        client.call(&["XADD", "s", &format!("{}-1", number + 1), "a", &number.to_string()]);
    }
    client.call(&["XDEL", "s", "100-1"]);
    let state = |client: &mut crate::support::Client<_>| {
        [&["XRANGE", "s", "-", "+"][..], &["XINFO", "STREAM", "s"]].map(|request| client.call(request))
    };
    let before = state(&mut client);
    let script = "redis.call('XDEL', KEYS[1], '5-1', '101-1', '250-1') \
                  for number = 1, 300 do redis.call('XADD', KEYS[1], '*', 'b', number) end \
                  redis.call('XTRIM', KEYS[1], 'MAXLEN', 120) \
                  while true do end";
    let reply = client.call(&["EVAL", script, "1", "s"]);
    assert!(matches!(&reply, Frame::Error(text) if text.contains("undone")), "{reply:?}");
    assert_eq!(state(&mut client), before);
}

#[test]
fn long_replies_are_refused() {
    let server = TestServer::with(Config { max_reply_bytes: ByteSize(1 << 20), ..Config::default() });
    let mut client = server.connect();
    for _ in 0..30 {
        client.call(&["XADD", "s", "*", "a", &"x".repeat(100_000)]);
    }
    let too_large = Frame::Error("ERR the reply would exceed 1048576 bytes, the limit of replies".into());
    for request in [
        &["XRANGE", "s", "-", "+"][..],
        &["XREVRANGE", "s", "+", "-"],
        &["XREAD", "STREAMS", "s", "0"],
        &["XREAD", "STREAMS", "s", "s", "s", "s", "0", "0", "0", "0"],
        &["XREAD", "COUNT", "6", "STREAMS", "s", "s", "0", "0"],
        &["XINFO", "STREAM", "s", "FULL", "COUNT", "0"],
    ] {
        assert_eq!(client.call(request), too_large, "{request:?}");
    }
    assert!(matches!(client.call(&["XRANGE", "s", "-", "+", "COUNT", "9"]), Frame::Array(_)));
}

/// The memory that a server uses, in bytes.
fn used_memory(client: &mut crate::support::Client<impl std::io::Read + std::io::Write>) -> f64 {
    let Frame::Bulk(info) = client.call(&["INFO", "memory"]) else { panic!("no memory") };
    let info = String::from_utf8_lossy(&info).into_owned();
    let line = info.lines().find_map(|line| line.strip_prefix("used_memory:")).expect("the memory in use");
    line.parse().unwrap()
}

/// The fields of an entry by its number.
type Fields = fn(usize) -> Vec<String>;

#[test]
fn streams_take_no_more_memory_than_in_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    // One long stream with the events of a queue, many short ones, and entries whose names change.
    let event: Fields = |number| {
        let [event, from] = [["waiting", ""], ["active", "waiting"], ["completed", "active"]][number % 3];
        ["event", event, "jobId", &(number / 3 + 1).to_string(), "prev", from].map(str::to_owned).to_vec()
    };
    let result: Fields = |number| {
        let texts = [
            "id",
            "7c1e2f",
            "created_at",
            "1700000000.25",
            "type",
            "1",
            "return_value",
            "gASVCgAAAAAAAACMBG9rIJQu",
        ];
        [texts.map(str::to_owned).to_vec(), vec!["number".to_owned(), number.to_string()]].concat()
    };
    let changing: Fields = |number| vec![format!("field{}", number % 7), format!("value {number}")];
    let cases: [(&str, usize, usize, Fields); 3] = [
        ("events", 1, 10_000, event),
        ("short streams", 500, 5, result),
        ("changing names", 1, 5_000, changing),
    ];
    for (what, streams, entries, fields) in cases {
        pair.call(&words("FLUSHALL"));
        let before = used_memory(&mut pair.redis);
        for number in 0..streams * entries {
            let key = format!("s{}", number % streams);
            let mut request =
                vec!["XADD".to_owned(), key, format!("17000000{:05}-{}", number / 2, number % 2)];
            request.extend(fields(number));
            assert_eq!(pair.redis.call(&request), pair.larder.call(&request));
        }
        let each = |bytes: f64| bytes / (streams * entries) as f64;
        let redis = each(used_memory(&mut pair.redis) - before);
        // That of the server would have what it measures beyond all charges.
        let charged = (0..streams).map(|number| pair.larder.memory_usage(&format!("s{number}"))).sum::<u64>();
        let larder = each(charged as f64);
        println!("{what}: {larder:.1} bytes per entry, Redis {redis:.1}");
        assert!(larder <= 1.1 * redis, "{what}: {larder:.1} bytes per entry, Redis {redis:.1}");
    }
}
