//! `BITFIELD` and `BITFIELD_RO`: the same commands to a real `redis-server` and to this server must get equal replies.

use proptest::prelude::*;

use crate::differential::{assert_equal_replies, assert_equal_replies_at_random};

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
    let operation = prop_oneof![
        2 => (kind(), offset()).prop_map(|(kind, at)| format!("GET {kind} {at}")),
        2 => (kind(), offset(), number()).prop_map(|(kind, at, n)| format!("SET {kind} {at} {n}")),
        3 => (kind(), offset(), number()).prop_map(|(kind, at, n)| format!("INCRBY {kind} {at} {n}")),
        1 => prop::sample::select(&["OVERFLOW WRAP", "OVERFLOW SAT", "OVERFLOW FAIL"][..]).prop_map(str::to_owned),
    ];
    let request = prop_oneof![
        8 => proptest::collection::vec(operation, 1..6).prop_map(|operations| format!("BITFIELD b {}", operations.join(" "))),
        1 => (kind(), offset()).prop_map(|(kind, at)| format!("BITFIELD_RO b GET {kind} {at}")),
        1 => Just("BITCOUNT b".to_owned()),
        1 => Just("STRLEN b".to_owned()),
    ];
    request.prop_map(|line| line.split(' ').map(str::to_owned).collect())
}

#[test]
fn random_commands_get_equal_replies() {
    assert_equal_replies_at_random(requests());
}
