//! `DUMP` and `RESTORE`: strings go to a real `redis-server` and come back.

use larder_resp::Frame;
use larder_testkit::RedisServer;

use crate::differential::assert_equal_replies;
use crate::support::{TestServer, connect_unix};

fn values() -> Vec<Vec<u8>> {
    let mut values: Vec<Vec<u8>> = [
        "",
        "a",
        "0",
        "-1",
        "127",
        "128",
        "-128",
        "-129",
        "32767",
        "32768",
        "-32769",
        "2147483647",
        "2147483648",
        "-2147483648",
        "-2147483649",
        "12345678901",
        "007",
        "+1",
        "1.5",
        "hello world",
    ]
    .map(|text| text.as_bytes().to_vec())
    .into();
    for length in [20, 21, 63, 64, 1_000, 16_383, 16_384, 100_000] {
        // One that Redis compresses, one that it compresses little, one that it cannot.
        values.push(vec![b'x'; length]);
        values.push((0..length).map(|at| (at * at / 7) as u8 % 11 + b'a').collect());
        values.push((0..length).map(|at| (at.wrapping_mul(0x9e37_79b9) >> 13) as u8).collect());
    }
    values
}

#[test]
fn strings_go_to_redis_and_back() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    let ok = Frame::Simple("OK".into());
    for value in values() {
        let what = format!("{} bytes: {}", value.len(), value[..value.len().min(20)].escape_ascii());
        let set = |key: &[u8]| [b"SET".to_vec(), key.to_vec(), value.clone()];
        assert_eq!((redis.call(&set(b"k")), larder.call(&set(b"k"))), (ok.clone(), ok.clone()));
        let payload = |reply: Frame| reply.as_bytes().expect("a payload").to_vec();
        let (from_redis, from_larder) =
            (payload(redis.call(&["DUMP", "k"])), payload(larder.call(&["DUMP", "k"])));
        if value.len() <= 20 {
            assert_eq!(from_redis, from_larder, "{what}");
        }
        let restore = |payload: &[u8]| {
            let words: [&[u8]; 5] = [b"RESTORE", b"to", b"0", payload, b"REPLACE"];
            words.map(<[u8]>::to_vec)
        };
        assert_eq!(larder.call(&restore(&from_redis)), ok, "{what}");
        assert_eq!(redis.call(&restore(&from_larder)), ok, "{what}");
        assert_eq!(larder.call(&["GET", "to"]).as_bytes(), Some(&value[..]), "{what}");
        assert_eq!(redis.call(&["GET", "to"]).as_bytes(), Some(&value[..]), "{what}");
    }
}

#[test]
fn other_types_are_bad_data() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    for create in ["RPUSH k a", "SADD k a", "SADD k 1", "HSET k a b", "ZADD k 1 a", "XADD k * a b"] {
        redis.call(&["DEL", "k"]);
        redis.call(&create.split(' ').collect::<Vec<_>>());
        let reply = redis.call(&["DUMP", "k"]);
        let words: [&[u8]; 4] = [b"RESTORE", b"to", b"0", reply.as_bytes().expect("a payload")];
        assert_eq!(larder.call(&words), Frame::Error("ERR Bad data format".into()), "{create}");
    }
    larder.call(&["ZADD", "z", "1", "a"]);
    assert_eq!(larder.call(&["DUMP", "z"]), Frame::Error("ERR only strings can be serialized".into()));
}

#[test]
fn options_and_errors_equal_redis() {
    assert_equal_replies(&[
        "DUMP nothing",
        "DUMP",
        "RESTORE k 0 x",
        "RESTORE k x y",
        "RESTORE k -1 y",
        "RESTORE k 0 payload REPLACE ABSTTL",
        "RESTORE k 0 payload FOO",
        "RESTORE k 0 payload IDLETIME",
        "RESTORE k 0 payload IDLETIME x",
        "RESTORE k 0 payload IDLETIME -1",
        "RESTORE k 0 payload FREQ -1",
        "RESTORE k 0 payload FREQ 256",
        "RESTORE k 0 payload FREQ x",
        "RESTORE k 0 payload FREQ 1 IDLETIME 1",
        "RESTORE k 0 payload FREQ 1 FREQ 2",
        "SET k v",
        "RESTORE k x payload",
        "RESTORE k 0 payload",
        "RESTORE k 0 payload REPLACE",
        "GET k",
    ]);
}

#[test]
fn restored_deadlines_equal_redis() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    redis.call(&["SET", "source", "value"]);
    let reply = redis.call(&["DUMP", "source"]);
    let payload = reply.as_bytes().expect("a payload");
    for (ttl, options) in [
        ("0", vec![]),
        ("100000", vec![]),
        ("4000000000000", vec!["ABSTTL"]),
        ("1", vec!["ABSTTL"]),
        ("0", vec!["ABSTTL"]),
        ("5000", vec!["IDLETIME", "5"]),
        ("5000", vec!["freq", "5"]),
    ] {
        let mut words: Vec<&[u8]> = vec![b"RESTORE", b"k", ttl.as_bytes(), payload];
        words.extend(options.iter().map(|option| option.as_bytes()));
        let outcome = |client: &mut dyn FnMut(&[&[u8]]) -> Frame| {
            client(&[b"DEL", b"k"]);
            let stored = client(&words);
            let again = client(&words);
            (stored, again, client(&[b"PEXPIRETIME", b"k"]))
        };
        let expected = outcome(&mut |words| redis.call(words));
        let actual = outcome(&mut |words| larder.call(words));
        assert_eq!((&actual.0, &actual.1), (&expected.0, &expected.1), "{ttl} {options:?}");
        match (actual.2, expected.2) {
            // The commands are executed one after the other.
            (Frame::Integer(a), Frame::Integer(b)) => assert!((a - b).abs() <= 5_000, "{a} {b}"),
            replies => panic!("{replies:?}"),
        }
    }
}
