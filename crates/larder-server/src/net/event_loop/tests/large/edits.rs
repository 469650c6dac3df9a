//! Commands that change a large value in slices.

use super::*;

#[test]
fn large_value_is_edited_in_slices() {
    let value = pattern(VALUE_BYTES);
    let end = VALUE_BYTES - 1;
    for (request, expected) in [
        ("APPEND large tail\r\n".to_owned(), [&value[..], b"tail"].concat()),
        (format!("SETRANGE large {end} tail\r\n"), [&value[..end], b"tail"].concat()),
        (format!("SETRANGE new {VALUE_BYTES} x\r\n"), [&vec![0; VALUE_BYTES][..], b"x"].concat()),
    ] {
        let mut two = Two::new();
        two.set("large", &value);
        two.send(format!("{request}PING\r\n").as_bytes());
        let mut slices = 0;
        while two.event_loop.yielding == [0] {
            assert!(two.other_is_served());
            slices += 1;
        }
        assert!(slices >= 3, "{request} took {slices} slices");
        assert_eq!(two.receive(), format!(":{}\r\n+PONG\r\n", expected.len()).into_bytes());
        let name = if request.contains("new") { "new" } else { "large" };
        assert!(two.value(name) == Some(expected), "{request}");
    }
}

#[test]
fn edit_begins_again_if_the_value_was_replaced_meanwhile() {
    let mut two = Two::new();
    two.set("large", &pattern(VALUE_BYTES));
    two.send(b"APPEND large tail\r\n");
    let other = vec![b'o'; 2 * LARGE_BYTES];
    two.set("large", &other);
    while two.event_loop.yielding == [0] {
        two.turns();
    }
    assert_eq!(two.receive(), b":2097156\r\n");
    assert!(two.value("large") == Some([&other[..], b"tail"].concat()));
    // Without room to grow into; and soon not a string any more.
    two.set("large", &other);
    two.send(b"APPEND large tail\r\n");
    two.other.write_all(b"DEL large\r\nZADD large 1 a\r\n").unwrap();
    while two.event_loop.yielding == [0] {
        two.turns();
    }
    assert!(two.receive().starts_with(b"-WRONGTYPE"));
}

#[test]
fn edit_ends_although_its_value_is_replaced_all_the_time() {
    let end = VALUE_BYTES - 1;
    for (request, reply, tail) in [
        ("APPEND large xy".to_owned(), format!(":{}", VALUE_BYTES + 2), &b"\x01xy"[..]),
        (format!("SETRANGE large {end} xy"), format!(":{}", VALUE_BYTES + 1), b"xy"),
        (format!("SETBIT large {} 1", 8 * VALUE_BYTES), ":0".to_owned(), b"\x01\x80"),
        (format!("BITFIELD large INCRBY u16 {} 1", 8 * end), "*1\r\n:257".to_owned(), b"\x01\x01"),
    ] {
        let mut two = Two::new();
        let value = vec![1; VALUE_BYTES];
        two.set("large", &vec![0; VALUE_BYTES]);
        two.send(format!("{request}\r\n").as_bytes());
        let mut slices = 0;
        while two.event_loop.yielding == [0] {
            two.set("large", &value);
            two.turns();
            slices += 1;
            assert!(slices < 100, "{request} has not ended");
        }
        let received = two.receive();
        assert!(received.starts_with(reply.as_bytes()), "{request}: {}", received.escape_ascii());
        let stored = two.value("large").unwrap();
        assert!(stored.starts_with(&value[..end]) && stored.ends_with(tail), "{request}");
        assert!(stored != value, "{request} is not stored");
    }
}

/// A change in place would copy the value that is being sent, while its shard is locked.
#[test]
fn value_that_is_being_sent_is_not_changed_in_place() {
    let mut two = Two::new();
    let value = pattern(VALUE_BYTES);
    two.set("large", &value);
    two.send(b"GET large\r\n");
    two.other.write_all(b"SETRANGE large 0 xyz\r\n").unwrap();
    two.turns();
    assert!(two.value("large") == Some(value.clone()), "it is built in slices");
    let mut received = two.receive();
    while received.len() < VALUE_BYTES + 12 {
        two.turns();
        received.extend(two.receive());
    }
    assert!(received[10..][..VALUE_BYTES] == value);
    while !two.event_loop.yielding.is_empty() {
        two.turns();
    }
    assert!(two.value("large") == Some([b"xyz", &value[3..]].concat()));
}

#[test]
fn bits_of_a_large_value_are_changed_in_slices() {
    let value = pattern(VALUE_BYTES);
    let (end, zeros) = (8 * VALUE_BYTES, vec![0; VALUE_BYTES]);
    for (request, reply, expected) in [
        (format!("SETBIT new {end} 1\r\n"), ":0\r\n", [&zeros[..], &[0x80]].concat()),
        (format!("SETBIT large {} 1\r\n", end + 7), ":0\r\n", [&value[..], &[1]].concat()),
        (
            format!("BITFIELD large SET u8 {end} 7 GET u8 8000 INCRBY u4 {end} 1\r\n"),
            "*3\r\n:0\r\n:1\r\n:1\r\n",
            [&value[..], &[0x17]].concat(),
        ),
    ] {
        let mut two = Two::new();
        two.set("large", &value);
        two.send(format!("{request}PING\r\n").as_bytes());
        let mut slices = 0;
        while two.event_loop.yielding == [0] {
            assert!(two.other_is_served());
            slices += 1;
        }
        assert!(slices >= 3, "{request} took {slices} slices");
        assert_eq!(two.receive(), format!("{reply}+PONG\r\n").into_bytes(), "{request}");
        let name = if request.contains("new") { "new" } else { "large" };
        assert!(two.value(name) == Some(expected), "{request}");
    }
}

/// A change in place would copy the value that is being sent, while its shard is locked.
#[test]
fn bit_of_a_value_that_is_being_sent_is_not_changed_in_place() {
    let mut two = Two::new();
    let value = pattern(VALUE_BYTES);
    two.set("large", &value);
    two.send(b"GET large\r\n");
    two.other.write_all(b"SETBIT large 0 1\r\n").unwrap();
    two.turns();
    assert!(two.value("large") == Some(value.clone()), "it is built in slices");
    while !two.event_loop.yielding.is_empty() {
        two.receive();
        two.turns();
    }
    assert!(two.value("large") == Some([b"\x80", &value[1..]].concat()));
}
