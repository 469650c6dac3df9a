//! `SORT` and `SORT_RO`: the same commands to a real `redis-server` and to this server must get equal replies; and messages
//! of clients that cache what they have sorted.

use larder_resp::{Frame, Protocol};
use proptest::prelude::*;

use crate::differential::{assert_equal_replies, assert_equal_replies_at_random, words};
use crate::support::TestServer;

/// Every option, on each type, and the errors.
pub(crate) const SEQUENCE: &[&str] = &[
    "DEL l k s z d m e i no dup string hash",
    "RPUSH l 3 1 10 2 -7 2.5 1e2",
    "SORT l",
    "SORT l DESC",
    "SORT l ASC",
    "SORT l DESC ASC",
    "SORT l ALPHA",
    "SORT l ALPHA DESC",
    "SORT l LIMIT 0 3",
    "SORT l LIMIT 2 2",
    "SORT l LIMIT 2 -1",
    "SORT l LIMIT -5 2",
    "SORT l LIMIT 100 2",
    "SORT l LIMIT 2 0",
    "SORT l LIMIT 9223372036854775807 9223372036854775807",
    "SORT l LIMIT 1 9223372036854775807",
    "SORT l LIMIT 1",
    "SORT l LIMIT x 1",
    "SORT l LIMIT 1 x",
    "SORT l LIMIT x",
    "SORT l NOSUCH",
    "SORT l BY",
    "SORT l GET",
    "SORT l STORE",
    "SORT",
    "SORT_RO",
    "SORT_RO l",
    "SORT_RO l DESC LIMIT 0 2",
    "SORT_RO l STORE d",
    "SORT_RO l BY nosort GET # GET w_*",
    "SORT nothing",
    "SORT nothing ALPHA GET #",
    "SORT_RO nothing",
    "MSET w_1 4 w_2 3 w_3 2 w_10 1 n_1 one n_2 two n_3 three n_10 ten w_x_y 5",
    "HSET h_1 f 9 name uno",
    "HSET h_2 f 8 name dos",
    "HSET h_3 f 7",
    "HSET h_10 f 6 name diez",
    "RPUSH k 3 1 10 2",
    "SORT k BY w_*",
    "SORT k BY w_* DESC",
    "SORT k BY w_* LIMIT 1 2",
    "SORT k BY h_*->f",
    "SORT k BY h_*->f DESC GET h_*->name GET #",
    "SORT k BY h_*->nothing",
    "SORT k BY h_*->name ALPHA",
    "SORT k BY n_* ALPHA",
    "SORT k BY n_* ALPHA DESC GET n_*",
    "SORT k BY n_*",
    "SORT k BY nothing_*",
    "SORT k BY nosort",
    "SORT k BY nosort DESC",
    "SORT k BY nosort LIMIT 1 2",
    "SORT k BY # GET #",
    "SORT k BY w_* BY nosort",
    "SORT k BY nosort BY w_*",
    "SORT k GET n_*",
    "SORT k GET n_* GET nothing_* GET # GET w_*",
    "SORT k GET h_*",
    "SORT k GET w_*->f",
    "SORT k GET constant",
    "SORT k GET *",
    "SORT k GET h_*->",
    "SORT k BY h_*->",
    "SORT k GET *->f",
    "SORT k GET n_*->*",
    "SORT k STORE d",
    "LRANGE d 0 -1",
    "TYPE d",
    "SORT k BY w_* GET n_* GET nothing_* STORE d",
    "LRANGE d 0 -1",
    "EXPIRE d 100",
    "SORT k STORE d",
    "TTL d",
    "SORT k STORE k",
    "LRANGE k 0 -1",
    "SORT k STORE h_1 LIMIT 0 2",
    "TYPE h_1",
    "SORT nothing STORE d",
    "EXISTS d",
    "SORT k LIMIT 5 5 STORE d",
    "EXISTS d",
    "SADD s 5 4 30 1",
    "SORT s",
    "SORT s DESC",
    "SORT s ALPHA",
    "SORT s BY nosort STORE d",
    "LRANGE d 0 -1",
    "SORT s BY nosort DESC STORE d",
    "LRANGE d 0 -1",
    "ZADD z 1 c 2 b 3 a 0 d",
    "SORT z",
    "SORT z ALPHA",
    "SORT z ALPHA DESC LIMIT 1 2",
    "SORT z BY nosort",
    "SORT z BY nosort DESC",
    "SORT z BY nosort LIMIT 1 2",
    "SORT z BY nosort DESC LIMIT 1 2",
    "SORT z BY nosort DESC LIMIT 3 9",
    "SORT z BY nosort STORE d",
    "LRANGE d 0 -1",
    "SORT z BY nosort DESC GET # STORE d",
    "LRANGE d 0 -1",
    "RPUSH m a 2 1",
    "SORT m",
    "SORT m ALPHA",
    "SORT m STORE d",
    "SORT m BY w_* LIMIT 0 1",
    "RPUSH e '' 1 -1",
    "SORT e",
    "SORT e ALPHA",
    "RPUSH i inf -inf 0 +inf 1e-3",
    "SORT i",
    "SORT i DESC",
    "RPUSH no nan 1",
    "SORT no",
    "RPUSH dup 1 1.0 1 01 +1",
    "SORT dup",
    "SORT dup DESC",
    "SET string x",
    "SORT string",
    "SORT string NOSUCH",
    "SORT_RO string",
    "SORT string STORE d",
    "HSET hash a 1",
    "SORT hash",
    "SORT hash BY nosort",
    "COMMAND GETKEYS SORT k",
    "COMMAND GETKEYS SORT_RO k ALPHA",
    "COMMAND GETKEYS SORT k STORE d",
    "COMMAND GETKEYSANDFLAGS SORT k BY store LIMIT 0 store ALPHA store d",
    "COMMAND GETKEYS SORT k STORE",
    "COMMAND GETKEYS SORT k BY store",
];

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(SEQUENCE);
}

/// Keys of the three types with numbers, and weights that may be equal.
pub(crate) fn requests() -> impl Strategy<Value = Vec<String>> {
    let number = || (-9..30).prop_map(|n: i32| n.to_string());
    let key = || prop::sample::select(&["l", "s", "z"][..]);
    let order = prop::sample::select(&["", "ALPHA", "BY w_*", "BY h_*->w", "BY nosort STORE e"][..]);
    let get =
        prop::sample::select(&["", "GET #", "GET n_*", "GET h_*->t GET w_*", "GET nothing_* GET #"][..]);
    let limit = prop_oneof![
        2 => Just(String::new()),
        1 => (-2..9, -2..9).prop_map(|(first, most)| format!("LIMIT {first} {most}")),
    ];
    let target = prop::sample::select(&["", "", "", "STORE d", "STORE l"][..]);
    let direction = prop::sample::select(&["", "ASC", "DESC"][..]);
    let sort = (key(), order, direction, limit, get, target).prop_map(
        |(key, order, direction, limit, get, target)| {
            format!("SORT {key} {order} {direction} {limit} {get} {target}")
        },
    );
    prop_oneof![
        2 => number().prop_map(|n| format!("RPUSH l {n}")),
        2 => number().prop_map(|n| format!("SADD s {n}")),
        2 => (number(), number()).prop_map(|(score, n)| format!("ZADD z {score} {n}")),
        2 => (number(), number()).prop_map(|(n, weight)| format!("SET w_{n} {weight}")),
        1 => (number(), number()).prop_map(|(n, weight)| format!("HSET h_{n} w {weight} t {weight}:{n}")),
        1 => number().prop_map(|n| format!("SET n_{n} {n}")),
        10 => sort,
        1 => Just("LRANGE d 0 -1".to_owned()),
    ]
    .prop_map(|line| line.split_whitespace().map(str::to_owned).collect())
}

#[test]
fn random_commands_get_equal_replies() {
    assert_equal_replies_at_random(requests());
}

/// A script gets the members of a set in an order, also without one.
#[test]
fn script_gets_a_set_in_order() {
    let script = |options: &str| {
        [
            "EVAL".to_owned(),
            format!("return redis.call('sort', KEYS[1], {options})"),
            "1".to_owned(),
            "s".to_owned(),
        ]
    };
    let Some((mut pair, _servers)) = crate::differential::Pair::start() else { return };
    pair.compare(&words("SADD s 10 9 8 b a c")).unwrap();
    for options in ["'by', 'nosort'", "'by', 'nosort', 'desc'", "'by', 'nosort', 'limit', 1, 2", "'alpha'"] {
        pair.compare(&script(options)).unwrap();
    }
    pair.compare(&script("'by', 'w_*', 'get', '#'")).unwrap();
}

/// A client that caches what it has sorted is told of a change, after the reply.
#[test]
fn sorted_key_is_tracked() {
    let server = TestServer::start();
    let (mut caching, mut writer) = (server.connect_as(Protocol::Resp3), server.connect());
    writer.call(&["RPUSH", "l", "2", "1"]);
    caching.call(&["CLIENT", "TRACKING", "ON"]);
    for options in [&[][..], &["BY", "w_*"]] {
        let sorted = caching.call(&[&["SORT_RO", "l"][..], options].concat());
        assert!(matches!(&sorted, Frame::Array(elements) if elements.len() >= 2), "{sorted:?}");
        writer.call(&["RPUSH", "l", "3"]);
        let Frame::Push(message) = caching.receive() else { panic!("no message") };
        assert_eq!(message[1], Frame::Array(vec![Frame::Bulk("l".into())]));
    }
}

#[test]
fn result_above_the_limits_is_an_error() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.call(&["SET", "v0", &"v".repeat(1 << 20)]);
    // Each of a hundred elements has the value: 100 MiB, in a keyspace of 64.
    client.call(&[&["RPUSH", "l"][..], &["0"; 100]].concat());
    for (request, prefix) in
        [("SORT l GET v*", "ERR the reply would exceed "), ("SORT l GET v* STORE d", "OOM ")]
    {
        let reply = client.call(&words(request));
        assert!(matches!(&reply, Frame::Error(text) if text.starts_with(prefix)), "{request}: {reply:?}");
    }
    assert_eq!(client.call(&["EXISTS", "d"]), Frame::Integer(0));
    assert_eq!(client.call(&["SORT", "l", "LIMIT", "0", "1"]), Frame::Array(vec![Frame::Bulk("0".into())]));
}
