//! `BITFIELD` and `BITFIELD_RO`: the same commands to a real `redis-server` and to this server must get equal replies.

use larder_resp::Frame;
use larder_testkit::RedisServer;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config as ProptestConfig, TestRunner};

use crate::differential::{Pair, assert_equal_replies, words};
use crate::support::TestServer;

#[test]
fn fixed_sequence_gets_equal_replies() {
    assert_equal_replies(&[
        "BITFIELD b",
        "EXISTS b",
        "BITFIELD b GET u8 0",
        "EXISTS b",
        "BITFIELD b SET u8 0 255 GET u4 2 INCRBY u2 100 1 OVERFLOW FAIL INCRBY u2 102 4",
        "STRLEN b",
        "BITFIELD b SET i5 #3 -1 GET u5 #3 GET i64 0 GET u63 1",
        "BITFIELD b SET i64 0 -9223372036854775808 INCRBY i64 0 -1",
        "BITFIELD b OVERFLOW SAT INCRBY i64 0 9223372036854775807 INCRBY i64 0 9223372036854775807",
        "BITFIELD b OVERFLOW SAT SET u8 0 -1 SET u8 0 256 SET i8 0 200 SET i8 0 -200 GET i8 0",
        "BITFIELD b OVERFLOW FAIL SET u8 0 -1 SET u8 0 256 SET i8 0 200 GET i8 0",
        "BITFIELD b OVERFLOW WRAP SET u8 0 -1 SET u8 0 257 SET i8 0 200 GET i8 0",
        "BITFIELD b OVERFLOW sat OVERFLOW wrap INCRBY u1 0 3",
        "BITFIELD b OVERFLOW FOO",
        "BITFIELD b OVERFLOW",
        "BITFIELD b GET",
        "BITFIELD b GET u8",
        "BITFIELD b SET u8 0",
        "BITFIELD b INCRBY u8 0",
        "BITFIELD b FOO u8 0",
        "BITFIELD b GET u64 0",
        "BITFIELD b GET i65 0",
        "BITFIELD b GET u0 0",
        "BITFIELD b GET x8 0",
        "BITFIELD b GET u 0",
        "BITFIELD b GET U8 0",
        "BITFIELD b GET u8 -1",
        "BITFIELD b GET u8 x",
        "BITFIELD b GET u8 #x",
        "BITFIELD b GET u8 #",
        "BITFIELD b GET u8 4294967295",
        "BITFIELD b GET u8 4294967296",
        "BITFIELD b GET u8 #536870911",
        "BITFIELD b GET u8 #536870912",
        "BITFIELD b GET i64 #9223372036854775807",
        "BITFIELD b SET u8 0 x",
        "BITFIELD b SET u8 0 18446744073709551615",
        "BITFIELD_RO b GET u8 0 GET i7 3",
        "BITFIELD_RO b",
        "BITFIELD_RO b SET u8 0 1",
        "BITFIELD_RO b OVERFLOW SAT GET u8 0",
        "BITFIELD_RO nothing GET u8 5",
        "EXPIRE b 1000",
        "BITFIELD b SET u8 1000 1",
        "TTL b",
        "ZADD z 1 a",
        "BITFIELD z GET u8 0",
        "BITFIELD z SET u8 0 1",
        "BITFIELD_RO z GET u8 0",
        "BITFIELD_RO z",
    ]);
}

fn requests() -> impl Strategy<Value = Vec<String>> {
    let kind = || {
        prop_oneof![
            (1u32..=63).prop_map(|bits| format!("u{bits}")),
            (1u32..=64).prop_map(|bits| format!("i{bits}"))
        ]
    };
    let offset =
        || prop_oneof![(0u32..200).prop_map(|at| at.to_string()), (0u32..4).prop_map(|at| format!("#{at}"))];
    // Beyond half of the range, Redis compares numbers that have overflowed.
    let number = || {
        prop_oneof![
            any::<i64>().prop_map(|n| n >> 1),
            -300i64..300,
            (any::<i64>(), 1u32..63).prop_map(|(n, bits)| n >> bits)
        ]
    };
    let get_or_write = || {
        prop_oneof![
            2 => (kind(), offset()).prop_map(|(kind, at)| format!("GET {kind} {at}")),
            2 => (kind(), offset(), number()).prop_map(|(kind, at, n)| format!("SET {kind} {at} {n}")),
            2 => (kind(), offset(), number()).prop_map(|(kind, at, n)| format!("INCRBY {kind} {at} {n}")),
            // These often change nothing.
            1 => (kind(), offset()).prop_map(|(kind, at)| format!("INCRBY {kind} {at} 0")),
            1 => (kind(), offset()).prop_map(|(kind, at)| format!("SET {kind} {at} 0")),
            1 => Just("OVERFLOW SAT".to_owned()),
        ]
    };
    let operation = prop_oneof![
        6 => get_or_write(),
        1 => prop::sample::select(&["OVERFLOW WRAP", "OVERFLOW FAIL"][..]).prop_map(str::to_owned),
    ];
    let join = |operations: Vec<String>| operations.join(" ");
    let request = prop_oneof![
        5 => vec(operation, 1..6).prop_map(move |all| format!("BITFIELD long {}", join(all))),
        3 => vec(get_or_write(), 1..6).prop_map(move |all| format!("BITFIELD b {}", join(all))),
        3 => (prop::sample::select(&["b", "long"][..]), 0..300, 0..2)
            .prop_map(|(key, at, bit)| format!("SETBIT {key} {at} {bit}")),
        1 => (kind(), offset()).prop_map(|(kind, at)| format!("BITFIELD_RO b GET {kind} {at}")),
        1 => Just("BITCOUNT b".to_owned()),
        1 => Just("STRLEN b".to_owned()),
        1 => Just("GET long".to_owned()),
    ];
    request.prop_map(|line| words(&line))
}

/// The key `long` is as long as it can become: where nothing but `OVERFLOW FAIL` happens, Redis makes a value longer and tells
/// nobody. A connection watches both keys during each command: what changes nothing is no write.
#[test]
fn random_commands_get_equal_replies_and_write_equally() {
    let Some(redis) = RedisServer::start() else { return };
    let server = TestServer::start();
    let mut pairs = [(); 2].map(|()| Pair::connect(&redis, &server));
    pairs[0].call(&words("FLUSHALL"));
    let pairs = std::cell::RefCell::new(pairs);
    let mut runner =
        TestRunner::new(ProptestConfig { cases: 200, failure_persistence: None, ..Default::default() });
    let outcome = runner.run(&vec(requests(), 1..40), |commands| {
        let [writer, watcher] = &mut *pairs.borrow_mut();
        writer.call(&words("DEL b long"));
        writer.call(&words("SETRANGE long 50 x"));
        let mut run = |command: &Vec<String>| {
            watcher.call(&words("WATCH b long"));
            writer.compare(command)?;
            watcher.call(&words("MULTI"));
            watcher.compare(&words("EXEC")).map_err(|error| format!("{command:?} {error}"))
        };
        commands.iter().try_for_each(&mut run).map_err(TestCaseError::fail)
    });
    if let Err(failure) = outcome {
        panic!("{failure}");
    }
}

/// Redis makes a key of zeros, and tells nobody.
#[test]
fn failed_overflow_makes_no_key() {
    let server = TestServer::start();
    let mut client = server.connect();
    let failed = Frame::Array(vec![Frame::Null]);
    assert_eq!(client.call(&words("BITFIELD b OVERFLOW FAIL INCRBY u8 0 300")), failed);
    assert_eq!(client.call(&words("EXISTS b")), Frame::Integer(0));
    client.call(&words("SET b x"));
    assert_eq!(client.call(&words("BITFIELD b OVERFLOW FAIL INCRBY u8 8 300")), failed);
    assert_eq!(client.call(&words("STRLEN b")), Frame::Integer(1));
}
