//! `DUMP` and `RESTORE`: values of each type go to a real `redis-server` and come back, and hashes whose fields expire to a real
//! `valkey-server`.

use larder_resp::Frame;
use larder_testkit::RedisServer;

use crate::differential::assert_equal_replies;
use crate::support::{Client, TestServer, connect_unix};

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
        let (from_redis, from_larder) = exchange(&mut redis, &mut larder);
        if value.len() <= 20 {
            assert_eq!(from_redis, from_larder, "{what}");
        }
        assert_eq!(larder.call(&["GET", "to"]).as_bytes(), Some(&value[..]), "{what}");
        assert_eq!(redis.call(&["GET", "to"]).as_bytes(), Some(&value[..]), "{what}");
    }
}

/// Commands that make hashes of every form and size; some texts compress well.
fn hashes() -> Vec<Vec<Vec<String>>> {
    let text = |number: usize, bytes: usize| format!("{}{number}", "x".repeat(bytes));
    let pair = |number: usize, bytes: usize| [text(number, bytes / 2), text(number * 7, bytes)];
    let hset = |pairs: Vec<[String; 2]>| [vec!["HSET".to_owned(), "k".to_owned()], pairs.concat()].concat();
    let limits = [
        "0",
        "127",
        "128",
        "-4096",
        "-4097",
        "32768",
        "8388608",
        "2147483648",
        "-9223372036854775808",
        "",
        "007",
    ];
    let mut hashes = vec![vec![hset(limits.map(|text| [text.to_owned(), text.to_owned()]).into())]];
    for (fields, bytes) in
        [(1, 0), (3, 5), (10, 20), (100, 60), (512, 10), (513, 10), (5, 65), (3, 20_000), (30_000, 40)]
    {
        let all: Vec<[String; 2]> = (0..fields).map(|number| pair(number, bytes)).collect();
        hashes.push(all.chunks(1_000).map(|pairs| hset(pairs.to_vec())).collect());
    }
    hashes
}

/// The payload of the key `k`.
fn dump<S: std::io::Read + std::io::Write>(client: &mut Client<S>) -> Vec<u8> {
    client.call(&["DUMP", "k"]).as_bytes().expect("a payload").to_vec()
}

fn restore<S: std::io::Read + std::io::Write>(client: &mut Client<S>, payload: &[u8]) {
    let reply = client.call(&[&b"RESTORE"[..], b"to", b"0", payload, b"REPLACE"]);
    assert_eq!(reply, Frame::Simple("OK".into()), "{} bytes", payload.len());
}

/// Each server gets the key `k` of the other one as its key `to`. Returns the two payloads.
pub(crate) fn exchange<A, B>(first: &mut Client<A>, second: &mut Client<B>) -> (Vec<u8>, Vec<u8>)
where
    A: std::io::Read + std::io::Write,
    B: std::io::Read + std::io::Write,
{
    let payloads = (dump(first), dump(second));
    restore(second, &payloads.0);
    restore(first, &payloads.1);
    payloads
}

/// The fields of the key `to`, sorted, and the encoding.
fn restored<S: std::io::Read + std::io::Write>(client: &mut Client<S>) -> (Vec<Frame>, Frame) {
    let Frame::Array(texts) = client.call(&["HGETALL", "to"]) else { panic!("no hash") };
    let mut pairs: Vec<&[Frame]> = texts.chunks(2).collect();
    pairs.sort_by_key(|pair| format!("{:?}", pair[0]));
    (pairs.concat(), client.call(&["OBJECT", "ENCODING", "to"]))
}

#[test]
fn hashes_go_to_redis_and_back() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    for (number, commands) in hashes().iter().enumerate() {
        for command in [&[["DEL", "k"].map(str::to_owned).to_vec()][..], commands].concat() {
            assert_eq!(larder.call(&command), redis.call(&command));
        }
        redis.call(&["CONFIG", "SET", "rdbcompression", "no"]);
        let from_larder = dump(&mut larder);
        if larder.call(&["OBJECT", "ENCODING", "k"]).as_bytes() == Some(b"listpack") {
            assert_eq!(dump(&mut redis), from_larder, "hash {number}");
        }
        redis.call(&["CONFIG", "SET", "rdbcompression", "yes"]);
        let from_redis = dump(&mut redis);
        restore(&mut larder, &from_redis);
        restore(&mut redis, &from_larder);
        let expected = restored(&mut redis);
        assert!(!expected.0.is_empty());
        assert_eq!(restored(&mut larder), expected, "hash {number}");
        restore(&mut redis, &from_redis);
        assert_eq!(restored(&mut redis), expected, "hash {number}");
    }
}

#[test]
fn sorted_sets_go_to_redis_and_back() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    let scores =
        ["0", "1", "-7", "0.1", "1e300", "inf", "-inf", "3.0000000000000004", "1700000000", "-4097", "1e17"];
    for (members, name_bytes) in [(1, 1), (11, 5), (128, 20), (129, 5), (3, 65), (5_000, 30)] {
        let member =
            |number: usize| [scores[number % scores.len()].to_owned(), format!("{number:0name_bytes$}")];
        let start = ["ZADD".to_owned(), "k".to_owned()].to_vec();
        let add = [start, (0..members).flat_map(member).collect()].concat();
        for command in [["DEL", "k"].map(str::to_owned).to_vec(), add] {
            assert_eq!(larder.call(&command), redis.call(&command));
        }
        redis.call(&["CONFIG", "SET", "rdbcompression", "no"]);
        let from_larder = dump(&mut larder);
        assert_eq!(dump(&mut redis), from_larder, "{members} members of {name_bytes} bytes");
        redis.call(&["CONFIG", "SET", "rdbcompression", "yes"]);
        let from_redis = dump(&mut redis);
        for payload in [&from_redis, &from_larder] {
            restore(&mut larder, payload);
            restore(&mut redis, payload);
            for command in [&["ZRANGE", "to", "0", "-1", "WITHSCORES"][..], &["OBJECT", "ENCODING", "to"]] {
                assert_eq!(
                    larder.call(command),
                    redis.call(command),
                    "{members} members of {name_bytes} bytes"
                );
            }
        }
    }
}

#[test]
fn deadlines_of_fields_go_to_valkey_and_back() {
    let Some(valkey) = RedisServer::start_valkey() else { return };
    let server = TestServer::start();
    let (mut valkey, mut larder) = (connect_unix(&valkey.socket()).unwrap(), server.connect());
    let mut both = |command: &str| {
        let command: Vec<&str> = command.split(' ').collect();
        let replies = (larder.call(&command), valkey.call(&command));
        assert_eq!(replies.0, replies.1, "{command:?}");
    };
    both("HSET k a 1 bb hello n 12345");
    both("HPEXPIREAT k 4000000000000 FIELDS 1 bb");
    both("HPEXPIREAT k 5000000000000 FIELDS 1 n");
    let (from_valkey, from_larder) = (dump(&mut valkey), dump(&mut larder));
    for payload in [&from_valkey, &from_larder] {
        restore(&mut larder, payload);
        restore(&mut valkey, payload);
        let mut both = |command: &str| {
            let command: Vec<&str> = command.split(' ').collect();
            let replies = (larder.call(&command), valkey.call(&command));
            assert_eq!(replies.0, replies.1, "{command:?}");
        };
        both("HPEXPIRETIME to FIELDS 4 a bb n nothing");
        both("HMGET to a bb n nothing");
    }
    // One without deadlines.
    for command in ["DEL k", "HSET k a 1", "SET s value"] {
        valkey.call(&command.split(' ').collect::<Vec<_>>());
    }
    restore(&mut larder, &dump(&mut valkey));
    assert_eq!(larder.call(&["HGET", "to", "a"]).as_bytes(), Some(&b"1"[..]));
    let string = valkey.call(&["DUMP", "s"]);
    restore(&mut larder, string.as_bytes().expect("a payload"));
    assert_eq!(larder.call(&["GET", "to"]).as_bytes(), Some(&b"value"[..]));
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

/// What Redis 6.2 has written for a list, a hash and a sorted set, which have other forms since version 7.
const OF_REDIS_6: [(&str, &[&str]); 3] = [
    (
        "0e01c3409241fa1ffa010000ca000000170000f102fd02fe0d03feff03fe7f03fe8003c0800004c016ff7f04c0008004\
     f000800005f0ffff7f05f000008005d02004030006d0ff20100006200b03008006e04005200302000ae020154000017f\
     0a401340001f800a1339323233333732303336383534373735383038150330303705000240460078e03c000349412c79\
     e0ff00e019000179ff09002e02a1c3012169ef",
        &["LRANGE", "to", "0", "-1"],
    ),
    (
        "0dc325405a045a0000001b200315060000016603017603016e03fd02046c6f6e67063c7ae03100017aff0900d54c7ff3\
     76d2fc6a",
        &["HGETALL", "to"],
    ),
    (
        "0c21210000001b000000060000016303042d696e6606016103f20201620303322e35ff0900640b5f2f70bc3944",
        &["ZRANGE", "to", "0", "-1", "WITHSCORES"],
    ),
];

fn bytes_of(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.chars().map(|digit| digit.to_digit(16).expect("a digit") as u8).collect();
    digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
}

#[test]
fn values_of_redis_6_are_restored_as_by_redis_7() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let (mut redis, mut larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    for (payload, read) in OF_REDIS_6 {
        restore(&mut redis, &bytes_of(payload));
        restore(&mut larder, &bytes_of(payload));
        let Frame::Array(texts) = redis.call(read) else { panic!("{read:?} returns no texts") };
        assert!(texts.len() >= 6, "{texts:?}");
        assert_eq!(larder.call(read), Frame::Array(texts));
    }
}
