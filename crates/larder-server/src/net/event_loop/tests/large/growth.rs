//! Commands that make a very large value a bit longer: its pages are moved, and nothing is copied.

use super::*;
use larder_engine::raw::MIN_MOVED_BYTES;

const VALUE_BYTES: usize = MIN_MOVED_BYTES + 1_234;

#[test]
fn very_large_value_grows_without_a_copy() {
    let value = pattern(VALUE_BYTES);
    let bits = 8 * VALUE_BYTES;
    for (request, reply, tail) in [
        ("APPEND large tail".to_owned(), format!(":{}", VALUE_BYTES + 4), b"tail".to_vec()),
        (
            format!("SETRANGE large {} tail", VALUE_BYTES + 5),
            format!(":{}", VALUE_BYTES + 9),
            b"\0\0\0\0\0tail".to_vec(),
        ),
        (format!("SETBIT large {bits} 1"), ":0".to_owned(), b"\x80".to_vec()),
        (format!("BITFIELD large SET u8 {bits} 7"), "*1\r\n:0".to_owned(), b"\x07".to_vec()),
    ] {
        let mut two = Two::with_memory(1 << 30);
        two.set("large", &value);
        let weight = two.state.store.database(0).charge(b"large").unwrap();
        two.send(format!("{request}\r\nPING\r\n").as_bytes());
        assert!(!two.has_long_command(), "{request} takes slices");
        assert_eq!(two.receive(), format!("{reply}\r\n+PONG\r\n").into_bytes());
        assert!(two.value("large") == Some([&value[..], &tail].concat()), "{request}");
        let grown = two.state.store.database(0).charge(b"large").unwrap();
        assert!(grown > weight, "{request}: {grown} bytes after {weight}");
        two.state.store.validate();
    }
}

#[test]
fn very_large_value_that_is_being_sent_is_copied_in_slices() {
    let mut two = Two::with_memory(1 << 30);
    let value = pattern(VALUE_BYTES);
    two.set("large", &value);
    two.send(b"GET large\r\n");
    two.other.write_all(b"APPEND large tail\r\n").unwrap();
    let mut received = Vec::new();
    while received.len() < VALUE_BYTES + 13 || !two.event_loop.yielding.is_empty() {
        two.turns();
        received.extend(two.receive());
    }
    assert!(received[11..][..VALUE_BYTES] == value, "what is sent has changed");
    assert!(two.value("large") == Some([&value[..], b"tail"].concat()));
}
