//! Sorted sets: the same commands to a real `redis-server` and to this server must get equal replies; and what sorted
//! sets promise beyond that.

use larder_resp::Frame;
use larder_server::{Config, Store};
use proptest::collection::vec;
use proptest::prelude::*;

use crate::differential::{Pair, assert_equal_replies, assert_equal_replies_at_random};
use crate::support::TestServer;

/// Every command with its options, and its errors.
pub(crate) const SEQUENCE: &[&str] = &[
    "ZADD z 1 a 2 b 3 c",
    "ZADD z 1 a 5 b",
    "ZADD z CH 1 a 6 b 7 d",
    "ZADD z NX 100 a 8 e",
    "ZADD z XX 100 a 9 f",
    "ZADD z XX CH 1 a",
    "ZADD z GT 0 a",
    "ZADD z GT CH 2 a",
    "ZADD z LT CH 1 a 1 g",
    "ZADD z INCR 2.5 a",
    "ZADD z NX INCR 2.5 a",
    "ZADD z XX INCR 2.5 nothing",
    "ZADD z GT INCR -1 a",
    "ZADD z LT INCR 1 a",
    "ZADD z INCR 0 a",
    "ZADD z incr gt 1 a",
    "ZADD z INCR 1 a 2 b",
    "ZADD z NX XX 1 a",
    "ZADD z GT LT 1 a",
    "ZADD z NX GT 1 a",
    "ZADD z NX LT 1 a",
    "ZADD z 1",
    "ZADD z 1 a 2",
    "ZADD z NX",
    "ZADD z NX CH INCR",
    "ZADD z FOO 1 a",
    "ZADD z x a",
    "ZADD z nan a",
    "ZADD z 1e999 a",
    "ZADD z 1 ok x a",
    "ZSCORE z ok",
    "ZADD z inf i -inf j +inf k",
    "ZADD nought -0 a",
    "ZSCORE nought a",
    "ZINCRBY nought -0 b",
    "ZADD nought INCR -0 c",
    "ZADD nought INCR -0 c",
    "ZADD nought 0 d -0.0 d 1 e -1 f",
    "ZINCRBY nought -1 e",
    "ZRANGE nought 0 -1 WITHSCORES",
    "ZUNION 1 nought WEIGHTS -1 WITHSCORES",
    "ZUNIONSTORE nought 1 nought WEIGHTS -1",
    "ZRANGE nought 0 -1 WITHSCORES",
    "ZRANGESTORE nought2 nought 0 -1",
    "ZPOPMIN nought2",
    "ZMSCORE nought a b c d e f",
    "ZADD z INCR -inf i",
    "ZINCRBY z inf j",
    "ZINCRBY z 1.1 a",
    "ZINCRBY z 0.1 new",
    "ZINCRBY z x new",
    "ZINCRBY z nan new",
    "ZADD xx XX 1 a",
    "EXISTS xx",
    "ZRANGE z 0 -1 WITHSCORES",
    "TYPE z",
    "OBJECT ENCODING z",
    "OBJECT REFCOUNT z",
    "ZCARD z",
    "ZCARD nothing",
    "ZSCORE z a",
    "ZSCORE z nothing",
    "ZSCORE nothing a",
    "ZMSCORE z a nothing b",
    "ZMSCORE nothing a b",
    "ZMSCORE z",
    "ZRANK z a",
    "ZRANK z nothing",
    "ZRANK nothing a",
    "ZREVRANK z a",
    "ZREVRANK z j",
    "ZCOUNT z -inf +inf",
    "ZCOUNT z (2 6",
    "ZCOUNT z 2 (6",
    "ZCOUNT z 6 2",
    "ZCOUNT z x 2",
    "ZCOUNT z 1 (x",
    "ZCOUNT z nan 2",
    "ZCOUNT z '' 5",
    "ZCOUNT nothing 1 2",
    "ZCOUNT nothing x 2",
    "ZRANGE z 0 1",
    "ZRANGE z -2 -1",
    "ZRANGE z 5 1",
    "ZRANGE z 0 100",
    "ZRANGE z 100 200",
    "ZRANGE z -100 -50",
    "ZRANGE z x 1",
    "ZRANGE z 0 1 REV",
    "ZRANGE z 0 2 REV WITHSCORES",
    "ZRANGE z 0 -1 LIMIT 0 1",
    "ZRANGE z 0 -1 LIMIT 0 -1",
    "ZRANGE z 1 5 BYSCORE",
    "ZRANGE z (1 5 BYSCORE LIMIT 1 2 WITHSCORES",
    "ZRANGE z 5 1 BYSCORE REV",
    "ZRANGE z +inf -inf BYSCORE REV LIMIT 1 3",
    "ZRANGE z -inf +inf BYSCORE LIMIT -1 3",
    "ZRANGE z -inf +inf BYSCORE LIMIT 2 -5",
    "ZRANGE z -inf +inf BYSCORE LIMIT 2 0",
    "ZRANGE z -inf +inf BYSCORE LIMIT x 0",
    "ZRANGE z -inf +inf BYSCORE LIMIT 1",
    "ZRANGE z 1 5 BYSCORE BYLEX",
    "ZRANGE z 1 5 REV REV",
    "ZRANGE z [a [c BYLEX WITHSCORES",
    "ZRANGE z a c BYLEX",
    "ZRANGE z 1 2 FOO",
    "ZRANGE nothing 0 -1",
    "ZRANGE nothing 0 -1 WITHSCORES",
    "ZREVRANGE z 0 1",
    "ZREVRANGE z 0 1 WITHSCORES",
    "ZREVRANGE z 0 1 REV",
    "ZREVRANGE z 0 1 BYSCORE",
    "ZREVRANGE z 0 1 LIMIT 0 1",
    "ZRANGEBYSCORE z 1 5 WITHSCORES LIMIT 0 2",
    "ZRANGEBYSCORE z 1 5 REV",
    "ZREVRANGEBYSCORE z 5 1",
    "ZREVRANGEBYSCORE z 5 1 LIMIT 1 1",
    "ZREVRANGEBYSCORE z 1 5",
    "ZADD lex 0 a 0 b 0 c 0 d 0 e 0 aa 0 ''",
    "ZRANGEBYLEX lex - +",
    "ZRANGEBYLEX lex [b (d",
    "ZRANGEBYLEX lex (a [c LIMIT 1 2",
    "ZRANGEBYLEX lex + -",
    "ZRANGEBYLEX lex - + WITHSCORES",
    "ZRANGEBYLEX lex b d",
    "ZRANGEBYLEX lex [ (b",
    "ZRANGEBYLEX lex +x -",
    "ZREVRANGEBYLEX lex + -",
    "ZREVRANGEBYLEX lex (d [b LIMIT 0 1",
    "ZREVRANGEBYLEX lex [b (d",
    "ZRANGE lex - (c BYLEX",
    "ZRANGE lex (c - BYLEX REV LIMIT 0 2",
    "ZLEXCOUNT lex - +",
    "ZLEXCOUNT lex [b [d",
    "ZLEXCOUNT lex b d",
    "ZLEXCOUNT nothing - +",
    "ZREMRANGEBYLEX lex [b (d",
    "ZREMRANGEBYLEX lex b (d",
    "ZRANGE lex 0 -1",
    "ZRANGESTORE to z 0 2",
    "ZRANGE to 0 -1 WITHSCORES",
    "ZRANGESTORE to z 0 2 REV",
    "ZRANGE to 0 -1 WITHSCORES",
    "ZRANGESTORE to z 1 5 BYSCORE LIMIT 1 2",
    "ZRANGESTORE to lex - + BYLEX",
    "ZRANGE to 0 -1",
    "ZRANGESTORE to z 0 2 WITHSCORES",
    "ZRANGESTORE to z 0",
    "ZRANGESTORE z z 0 -2",
    "ZRANGESTORE to nothing 0 -1",
    "EXISTS to",
    "ZADD s 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h",
    "ZREMRANGEBYRANK s 0 1",
    "ZREMRANGEBYRANK s -1 -1",
    "ZREMRANGEBYRANK s 5 1",
    "ZREMRANGEBYRANK s x 1",
    "ZREMRANGEBYRANK nothing 0 1",
    "ZREMRANGEBYSCORE s (3 4",
    "ZREMRANGEBYSCORE s x 4",
    "ZREMRANGEBYSCORE s -inf +inf",
    "EXISTS s",
    "ZADD s 1 a 2 b 3 c 4 d 5 e 6 f 7 g 8 h",
    "ZREM s a b nothing",
    "ZREM nothing a",
    "ZREM s",
    "ZPOPMIN s",
    "ZPOPMAX s",
    "ZPOPMIN s 2",
    "ZPOPMAX s 0",
    "ZPOPMAX s -1",
    "ZPOPMAX s x",
    "ZPOPMAX s 1 2",
    "ZPOPMIN nothing",
    "ZPOPMIN nothing 3",
    "ZPOPMIN nothing 0",
    "ZPOPMAX s 100",
    "EXISTS s",
    "ZADD s 1 a 2 b 3 c",
    "ZMPOP 2 nothing s MIN",
    "ZMPOP 1 s MAX COUNT 5",
    "ZMPOP 1 s MAX",
    "ZMPOP 0 s MAX",
    "ZMPOP x s MAX",
    "ZMPOP -1 s MAX",
    "ZMPOP 5 s MAX",
    "ZMPOP 1 s",
    "ZMPOP 9223372036854775807 s MAX",
    "ZMPOP 1 s FOO",
    "ZMPOP 1 s MIN COUNT",
    "ZMPOP 1 s MIN COUNT 0 MAX",
    "ZMPOP 1 s MIN COUNT 1 MAX",
    "ZMPOP 1 s MIN COUNT 0",
    "ZMPOP 1 s MIN COUNT x",
    "ZMPOP 1 s MIN COUNT 1 COUNT 1",
    "ZMPOP 1 s MIN FOO 1",
    "ZADD u 1 a 2 b 3 c",
    "ZADD v 10 b 20 c 30 d",
    "ZADD w 100 c",
    "ZUNION 2 u v",
    "ZUNION 2 u v WITHSCORES",
    "ZUNION 3 u v w WEIGHTS 1 2 3 WITHSCORES",
    "ZUNION 2 u v AGGREGATE MAX WITHSCORES",
    "ZUNION 2 u v AGGREGATE min WITHSCORES",
    "ZUNION 2 u v AGGREGATE foo",
    "ZUNION 2 u v AGGREGATE",
    "ZUNION 2 u v WEIGHTS 1",
    "ZUNION 2 u v WEIGHTS 1 x",
    "ZUNION 2 u v WEIGHTS 1 2 3",
    "ZUNION 2 u nothing WITHSCORES",
    "ZUNION 0 u",
    "ZUNION x u",
    "ZUNION 3 u v",
    "ZUNION 1 nothing",
    "ZUNION 2 u u WITHSCORES",
    "ZINTER 2 u v WITHSCORES",
    "ZINTER 3 u v w WEIGHTS 1 0.5 2 AGGREGATE SUM WITHSCORES",
    "ZINTER 2 u nothing",
    "ZINTER 2 u u WITHSCORES",
    "ZDIFF 2 u v WITHSCORES",
    "ZDIFF 3 u v w",
    "ZDIFF 1 u WITHSCORES",
    "ZDIFF 2 u u",
    "ZDIFF 2 nothing u",
    "ZDIFF 2 u nothing WITHSCORES",
    "ZDIFF 2 u v WEIGHTS 1 2",
    "ZDIFF 2 u v AGGREGATE SUM",
    "ZDIFF 0 u",
    "ZUNIONSTORE to 2 u v",
    "ZRANGE to 0 -1 WITHSCORES",
    "ZUNIONSTORE to 2 u v WITHSCORES",
    "ZUNIONSTORE u 2 u v WEIGHTS 2 3 AGGREGATE MAX",
    "ZRANGE u 0 -1 WITHSCORES",
    "ZUNIONSTORE to 0 u",
    "ZINTERSTORE to 2 u v",
    "ZRANGE to 0 -1 WITHSCORES",
    "ZINTERSTORE to 2 u nothing",
    "EXISTS to",
    "ZDIFFSTORE to 2 u w",
    "ZRANGE to 0 -1 WITHSCORES",
    "ZDIFFSTORE to 2 u u",
    "EXISTS to",
    "ZDIFFSTORE to 1 u WITHSCORES",
    "ZINTERCARD 2 u v",
    "ZINTERCARD 2 u v LIMIT 1",
    "ZINTERCARD 2 u v LIMIT 0",
    "ZINTERCARD 2 u v LIMIT -1",
    "ZINTERCARD 2 u v LIMIT x",
    "ZINTERCARD 2 u v LIMIT",
    "ZINTERCARD 2 u v WITHSCORES",
    "ZINTERCARD 0 u",
    "ZINTERCARD 2 u nothing",
    "ZADD inf inf a -inf b",
    "ZADD fin -inf a 1 b",
    "ZUNION 2 inf fin WITHSCORES",
    "ZUNION 1 inf WEIGHTS 0 WITHSCORES",
    "ZADD five 5 a",
    "ZADD two 2 b 3 a",
    "ZINTER 2 five inf WEIGHTS 1 0 WITHSCORES",
    "ZINTER 2 five inf WEIGHTS 1 0 AGGREGATE MIN WITHSCORES",
    "ZINTER 2 five inf WEIGHTS -1 0 AGGREGATE MAX WITHSCORES",
    "ZINTER 2 two inf WEIGHTS 0 0 WITHSCORES",
    "ZUNION 2 five inf WEIGHTS 1 0 WITHSCORES",
    "ZUNION 2 five inf WEIGHTS 1 0 AGGREGATE MIN WITHSCORES",
    "ZINTERSTORE to 2 five inf WEIGHTS 1 0",
    "ZRANGE to 0 -1 WITHSCORES",
    "ZADD zero 0 a",
    "ZADD zeros 0 a 0 b",
    "ZUNION 2 zeros zero WEIGHTS 1 -1 WITHSCORES",
    "ZUNION 2 zero zeros WEIGHTS -1 1 AGGREGATE MIN WITHSCORES",
    "ZUNION 2 zero zeros WEIGHTS -1 1 AGGREGATE MAX WITHSCORES",
    "ZUNION 2 zero zeros WEIGHTS 1 -1 AGGREGATE MIN WITHSCORES",
    "ZRANDMEMBER nothing",
    "ZRANDMEMBER nothing 3",
    "ZRANDMEMBER w",
    "ZRANDMEMBER w 5",
    "ZRANDMEMBER w -3",
    "ZRANDMEMBER w -3 WITHSCORES",
    "ZRANDMEMBER w 1 WITHSCORES",
    "ZRANDMEMBER w 0",
    "ZRANDMEMBER w x",
    "ZRANDMEMBER w 1 FOO",
    "ZRANDMEMBER w 1 WITHSCORES x",
    "ZRANDMEMBER w -9223372036854775808",
    "ZRANDMEMBER w -9223372036854775807 WITHSCORES",
    "ZSCAN w 0",
    "ZSCAN u 0",
    "ZSCAN u 0 MATCH [ab] COUNT 1",
    "ZSCAN u 0 MATCH",
    "ZSCAN u 0 COUNT 0",
    "ZSCAN u 0 COUNT x",
    "ZSCAN u 0 FOO 1",
    "ZSCAN u x",
    "ZSCAN nothing 0",
    "ZSCAN nothing 0 FOO 1",
    "ZSCAN nothing 5",
    "RENAME u renamed",
    "ZCARD renamed",
    "RENAMENX renamed v",
    "COPY renamed copied",
    "ZADD copied 1000 only-here",
    "ZRANGE renamed 0 -1 WITHSCORES",
    "ZRANGE copied 0 -1 WITHSCORES",
    "COPY renamed copied",
    "COPY renamed copied REPLACE",
    "MOVE copied 1",
    "EXPIRE renamed 100",
    "TTL renamed",
    "ZADD renamed 5 x",
    "ZREM renamed x",
    "TTL renamed",
    "ZUNIONSTORE renamed 1 v",
    "TTL renamed",
    "EXPIRE renamed 100",
    "PERSIST renamed",
    "TOUCH renamed v",
    "EXISTS renamed v",
    "SCAN 0 COUNT 1000 TYPE zset MATCH renamed",
    "SCAN 0 COUNT 1000 TYPE string",
    "SCAN 0 COUNT 1000 TYPE hash",
    "SET string hello",
    "SCAN 0 COUNT 1000 TYPE string",
    "UNLINK renamed",
    "DEL v w",
    // Every command on strings refuses a sorted set.
    "ZADD z 1 a",
    "GET z",
    "GETSET z x",
    "GETDEL z",
    "GETEX z",
    "GETEX z EX 10",
    "GETRANGE z 0 -1",
    "SUBSTR z 0 -1",
    "SETRANGE z 0 x",
    "SETRANGE z 0 ''",
    "STRLEN z",
    "APPEND z x",
    "INCR z",
    "DECR z",
    "INCRBY z 2",
    "DECRBY z 2",
    "INCRBYFLOAT z 1.5",
    "INCRBYFLOAT z abc",
    "INCRBY z abc",
    "SETBIT z 1 1",
    "GETBIT z 1",
    "BITCOUNT z",
    "BITPOS z 1",
    "BITOP AND to z string",
    "BITOP NOT to z",
    "SETNX z x",
    "MSETNX z x y x",
    "MGET z string",
    "SET z x NX",
    "SET z x GET",
    "SET z x XX GET",
    "TYPE z",
    "SET z x XX",
    "GET z",
    "DEL z",
    "ZADD z 1 a",
    "SETEX z 100 x",
    "DEL z",
    "ZADD z 1 a",
    "MSET z x",
    "GET z",
    // And the other way round.
    "ZADD string 1 a",
    "ZADD string x a",
    "ZADD string XX 1 a",
    "ZINCRBY string 1 a",
    "ZREM string a",
    "ZCARD string",
    "ZCOUNT string 1 2",
    "ZLEXCOUNT string - +",
    "ZSCORE string a",
    "ZMSCORE string a",
    "ZRANK string a",
    "ZREVRANK string a",
    "ZRANGE string 0 -1",
    "ZRANGEBYSCORE string 0 1",
    "ZRANGESTORE to string 0 -1",
    "ZPOPMIN string",
    "ZPOPMIN string 0",
    "ZPOPMAX string 2",
    "ZMPOP 1 string MIN",
    "ZMPOP 2 nothing string MIN",
    "ZREMRANGEBYRANK string 0 1",
    "ZREMRANGEBYSCORE string 0 1",
    "ZREMRANGEBYLEX string - +",
    "ZUNION 1 string",
    "ZUNION 2 nothing string FOO",
    "ZINTER 2 nothing string",
    "ZDIFF 2 nothing string",
    "ZINTERCARD 2 nothing string",
    "ZUNIONSTORE to 1 string",
    "ZRANDMEMBER string",
    "ZRANDMEMBER string 1",
    "ZSCAN string 0",
    "ZSCAN string 0 FOO 1",
    "ZADD other 1 a",
    "ZUNIONSTORE string 1 other",
    "TYPE string",
    "COMMAND GETKEYS ZUNION 2 a b WITHSCORES",
    "COMMAND GETKEYS ZUNIONSTORE to 2 a b",
    "COMMAND GETKEYS ZMPOP 1 a MIN",
    "COMMAND GETKEYS ZINTERCARD 5 a b",
    "COMMAND GETKEYS ZRANGESTORE a b 0 1",
    "FLUSHALL",
];

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(SEQUENCE);
}

/// Above 128 members, and with a name above 64 bytes, Redis uses another form.
#[test]
fn encoding_equals_redis() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    let mut compare = |words: &[&str]| {
        let command: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        pair.compare(&command).unwrap_or_else(|difference| panic!("{difference}"));
    };
    for number in 0..130 {
        compare(&["ZADD", "many", &number.to_string(), &format!("member {number}")]);
        if number > 125 {
            compare(&["OBJECT", "ENCODING", "many"]);
        }
    }
    compare(&["ZPOPMIN", "many", "100"]);
    compare(&["OBJECT", "ENCODING", "many"]);
    compare(&["ZRANGESTORE", "few", "many", "0", "-1"]);
    compare(&["OBJECT", "ENCODING", "few"]);
    for length in [64, 65] {
        compare(&["ZADD", "long", "1", &"x".repeat(length)]);
        compare(&["OBJECT", "ENCODING", "long"]);
    }
}

/// A set is stored in another form from 129 members on, and from 2 KiB on.
#[test]
fn sets_around_the_limits_of_a_form_get_equal_replies() {
    let Some((mut pair, _servers)) = Pair::start() else { return };
    for (key, members, name_bytes) in [("many", 120..140, 8), ("long", 40..60, 40)] {
        let mut compare = |words: String| {
            let command: Vec<String> = words.split(' ').map(str::to_owned).collect();
            pair.compare(&command).unwrap_or_else(|difference| panic!("{difference}"));
        };
        for number in 0..members.end {
            compare(format!("ZADD {key} {} {number:0name_bytes$}", number % 7));
            if members.contains(&number) {
                compare(format!("ZRANGE {key} 0 -1 WITHSCORES"));
                compare(format!("ZREVRANGE {key} 3 9 WITHSCORES"));
                compare(format!("ZRANK {key} {:0name_bytes$}", number - 5));
                compare(format!("ZCOUNT {key} (1 5"));
                compare(format!("ZINCRBY {key} 0.5 {:0name_bytes$}", number - 3));
                compare(format!("OBJECT ENCODING {key}"));
            }
        }
        compare(format!("ZREMRANGEBYRANK {key} 5 -5"));
        compare(format!("ZRANGESTORE copy {key} 0 -1"));
        for key in [key, "copy"] {
            compare(format!("ZRANGE {key} 0 -1 WITHSCORES"));
            compare(format!("OBJECT ENCODING {key}"));
        }
    }
}

pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let key = || prop_oneof![3 => Just("a"), 3 => Just("b"), 1 => Just("c")].prop_map(str::to_owned);
    // All scores are halves, so that sums are exact in any order.
    let score = || {
        prop_oneof![
            8 => (-6i32..6).prop_map(|n| (f64::from(n) / 2.0).to_string()),
            1 => Just("inf".to_owned()),
            1 => Just("-inf".to_owned()),
            1 => Just("1e20".to_owned()),
            1 => Just("-0".to_owned()),
        ]
    };
    let member = || "[a-e]{1,2}";
    let bound =
        || (score(), any::<bool>()).prop_map(|(score, open)| if open { format!("({score}") } else { score });
    let rank = || (-12i64..12).prop_map(|n| n.to_string());
    let one = |names: &'static [&'static str]| prop::sample::select(names);
    let limit = || {
        prop_oneof![Just(String::new()), (-1i32..4, -1i32..4).prop_map(|(a, b)| format!(" LIMIT {a} {b}"))]
    };
    let scores = || one(&["", " WITHSCORES"]);
    let flags = || {
        one(&[
            "", "NX ", "XX ", "GT ", "LT ", "CH ", "XX CH ", "GT CH ", "XX GT ", "LT CH ", "INCR ",
            "NX INCR ", "XX INCR ", "GT INCR ",
        ])
    };
    let request = prop_oneof![
        10 => (key(), vec((score(), member()), 1..6)).prop_map(|(k, pairs)| {
            format!("ZADD {k} {}", pairs.iter().map(|(s, m)| format!("{s} {m}")).collect::<Vec<_>>().join(" "))
        }),
        5 => (key(), flags(), score(), member()).prop_map(|(k, f, s, m)| format!("ZADD {k} {f}{s} {m}")),
        3 => (key(), score(), member()).prop_map(|(k, s, m)| format!("ZINCRBY {k} {s} {m}")),
        3 => (key(), member(), member()).prop_map(|(k, m, n)| format!("ZREM {k} {m} {n}")),
        3 => (one(&["ZSCORE", "ZRANK", "ZREVRANK"]), key(), member()).prop_map(|(c, k, m)| format!("{c} {k} {m}")),
        1 => (key(), member(), member()).prop_map(|(k, m, n)| format!("ZMSCORE {k} {m} {n}")),
        1 => key().prop_map(|k| format!("ZCARD {k}")),
        3 => (one(&["ZRANGE", "ZREVRANGE"]), key(), rank(), rank(), scores()).prop_map(|(c, k, a, b, w)| format!("{c} {k} {a} {b}{w}")),
        3 => (one(&["ZRANGEBYSCORE", "ZREVRANGEBYSCORE"]), key(), bound(), bound(), limit(), scores())
            .prop_map(|(c, k, a, b, l, w)| format!("{c} {k} {a} {b}{l}{w}")),
        2 => (key(), bound(), bound(), one(&["", " REV"]), limit(), scores())
            .prop_map(|(k, a, b, r, l, w)| format!("ZRANGE {k} {a} {b} BYSCORE{r}{l}{w}")),
        2 => (key(), bound(), bound()).prop_map(|(k, a, b)| format!("ZCOUNT {k} {a} {b}")),
        1 => (key(), key(), bound(), bound(), limit()).prop_map(|(t, k, a, b, l)| format!("ZRANGESTORE {t} {k} {a} {b} BYSCORE{l}")),
        1 => (key(), key(), rank(), rank(), one(&["", " REV"])).prop_map(|(t, k, a, b, r)| format!("ZRANGESTORE {t} {k} {a} {b}{r}")),
        1 => (key(), rank(), rank()).prop_map(|(k, a, b)| format!("ZREMRANGEBYRANK {k} {a} {b}")),
        1 => (key(), bound(), bound()).prop_map(|(k, a, b)| format!("ZREMRANGEBYSCORE {k} {a} {b}")),
        2 => (one(&["ZPOPMIN", "ZPOPMAX"]), key(), one(&["", " 0", " 1", " 3"])).prop_map(|(c, k, n)| format!("{c} {k}{n}")),
        1 => (key(), key(), one(&["MIN", "MAX", "MIN COUNT 2"])).prop_map(|(k, l, end)| format!("ZMPOP 2 {k} {l} {end}")),
        2 => (one(&["ZUNION", "ZINTER"]), key(), key(), key(), one(&["", " WEIGHTS 1 2 -1", " AGGREGATE MIN", " AGGREGATE MAX"]), scores())
            .prop_map(|(c, k, l, m, o, w)| format!("{c} 3 {k} {l} {m}{o}{w}")),
        1 => (key(), key(), scores()).prop_map(|(k, l, w)| format!("ZDIFF 2 {k} {l}{w}")),
        2 => (one(&["ZUNIONSTORE", "ZINTERSTORE", "ZDIFFSTORE"]), key(), key(), key()).prop_map(|(c, t, k, l)| format!("{c} {t} 2 {k} {l}")),
        1 => (key(), key(), one(&["", " LIMIT 2"])).prop_map(|(k, l, o)| format!("ZINTERCARD 2 {k} {l}{o}")),
        1 => key().prop_map(|k| format!("ZSCAN {k} 0")),
        1 => (one(&["TYPE", "OBJECT ENCODING", "EXISTS", "TTL", "PERSIST", "GET", "INCR", "DEL"]), key()).prop_map(|(c, k)| format!("{c} {k}")),
        1 => (one(&["RENAME", "RENAMENX", "COPY"]), key(), key()).prop_map(|(c, k, l)| format!("{c} {k} {l}")),
        1 => key().prop_map(|k| format!("EXPIRE {k} 1000")),
        1 => key().prop_map(|k| format!("SET {k} 1")),
    ];
    request.prop_map(|line| line.split(' ').map(str::to_owned).collect())
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
        client.call(&["ZADD", "z", &number.to_string(), &format!("member {number}")]);
        assert_eq!(client.charged_memory(), client.memory_usage("z"), "member {number}");
    }
    for number in (0..2_000).rev() {
        client.call(&["ZREM", "z", &format!("member {number}")]);
        if number > 0 {
            assert_eq!(client.charged_memory(), client.memory_usage("z"), "member {number}");
        }
    }
    assert_eq!((store.used_memory(), store.len()), (0, 0));
}

#[test]
fn growing_set_evicts_strings_and_stays_within_the_capacity() {
    let store = Store::new(Some(2 << 20)).unwrap();
    let server = TestServer::with_store(Config::default(), store.clone());
    let mut client = server.connect();
    for number in 0..1_500 {
        client.call(&["SET", &format!("key {number}"), &"x".repeat(1_000)]);
    }
    for number in 0..30_000 {
        let reply = client.call(&["ZADD", "z", &number.to_string(), &format!("member {number}")]);
        assert_eq!(reply, Frame::Integer(1), "member {number}");
        assert!(store.used_memory() <= 2 << 20);
    }
    assert_eq!(client.call(&["ZCARD", "z"]), Frame::Integer(30_000));
    assert!(store.len() < 1_000, "{} entries", store.len());
    let mut reply = Frame::Null;
    for number in 0..100 {
        reply = client.call(&["ZADD", "z", "1", &format!("{number}{}", "x".repeat(50_000))]);
        if let Frame::Error(_) = reply {
            break;
        }
    }
    assert_eq!(reply, Frame::Error("OOM command not allowed when used memory > 'maxmemory'.".into()));
    assert!(store.used_memory() <= 2 << 20);
}

/// Each command sees all members of the others' commands or none.
#[test]
fn stores_and_pops_are_atomic() {
    let store = Store::new(Some(64 << 20)).unwrap();
    let servers = [(); 2].map(|()| TestServer::with_store(Config::default(), store.clone()));
    let [mut writer, mut reader] = [0, 1].map(|server: usize| servers[server].connect());
    writer.call(&["ZADD", "a", "1", "x", "2", "y"]);
    writer.call(&["ZADD", "b", "1", "x", "2", "y", "3", "z"]);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..2_000 {
                writer.call(&["ZUNIONSTORE", "to", "1", if round % 2 == 0 { "a" } else { "b" }]);
            }
        });
        for _ in 0..2_000 {
            let reply = reader.call(&["ZMPOP", "2", "nothing", "to", "MIN", "COUNT", "10"]);
            let popped = match reply {
                Frame::Array(parts) => match &parts[1] {
                    Frame::Array(members) => members.len(),
                    other => panic!("{other:?}"),
                },
                _ => 0,
            };
            assert!([0, 2, 3].contains(&popped), "{popped} members");
        }
    });
}

#[test]
fn zscan_returns_every_stable_member_once() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..1_000 {
        client.call(&["ZADD", "z", "1", &format!("stable:{number}")]);
    }
    let (mut found, mut cursor, mut turn) = (Vec::new(), "0".to_owned(), 0);
    loop {
        let reply = client.call(&["ZSCAN", "z", &cursor, "COUNT", "50", "MATCH", "stable:*"]);
        let Frame::Array(parts) = reply else { panic!("{reply:?}") };
        let Frame::Array(members) = &parts[1] else { panic!("{parts:?}") };
        found.extend(members.iter().step_by(2).map(|name| name.as_bytes().unwrap().to_vec()));
        cursor = String::from_utf8(parts[0].as_bytes().unwrap().to_vec()).unwrap();
        if cursor == "0" {
            break;
        }
        client.call(&["ZADD", "z", "5", &format!("temporary:{turn}"), "7", &format!("stable:{turn}")]);
        client.call(&["ZREM", "z", &format!("temporary:{}", turn - 1)]);
        turn += 1;
    }
    assert!(turn > 10, "{turn} turns");
    found.sort();
    found.dedup();
    assert_eq!(found.len(), 1_000);
}

#[test]
fn zrank_with_score_returns_both() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["ZADD", "z", "1", "a", "2.5", "b"]);
    let score = |text: &str| Frame::Bulk(text.to_owned().into());
    assert_eq!(
        client.call(&["ZRANK", "z", "b", "WITHSCORE"]),
        Frame::Array(vec![Frame::Integer(1), score("2.5")])
    );
    assert_eq!(
        client.call(&["ZREVRANK", "z", "b", "withscore"]),
        Frame::Array(vec![Frame::Integer(0), score("2.5")])
    );
    assert_eq!(client.call(&["ZRANK", "z", "nothing", "WITHSCORE"]), Frame::Null);
    assert_eq!(client.call(&["ZRANK", "z", "a", "FOO"]), Frame::Error("ERR syntax error".into()));
}

#[test]
fn zrandmember_returns_different_members_or_repeats_them() {
    let server = TestServer::start();
    let mut client = server.connect();
    for number in 0..100 {
        client.call(&["ZADD", "z", &number.to_string(), &format!("member {number}")]);
    }
    let mut members = |count: &str| {
        let reply = client.call(&["ZRANDMEMBER", "z", count]);
        let Frame::Array(members) = reply else { panic!("{reply:?}") };
        let mut names: Vec<Vec<u8>> = members.iter().map(|name| name.as_bytes().unwrap().to_vec()).collect();
        let all = names.len();
        names.sort();
        names.dedup();
        (all, names.len())
    };
    assert_eq!(members("50"), (50, 50));
    assert_eq!(members("1000"), (100, 100));
    let (all, different) = members("-1000");
    assert!(all == 1_000 && different > 90, "{different} different members");
}
