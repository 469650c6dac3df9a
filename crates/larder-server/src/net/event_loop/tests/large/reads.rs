//! Commands that read large values in slices, and store what they found.

use super::*;

#[test]
fn large_value_is_read_in_slices() {
    let value = pattern(VALUE_BYTES);
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    let number = |number: u32| format!(":{number}\r\n").into_bytes();
    let mut last_bit = vec![0; VALUE_BYTES];
    last_bit[VALUE_BYTES - 1] = 1;
    let payload = crate::values::rdb::dump(&value);
    let dumped = [format!("${}\r\n", payload.len()).as_bytes(), &payload, b"\r\n"].concat();
    let bits = 8 * VALUE_BYTES as u32;
    for (request, value, expected) in [
        ("BITCOUNT large", &value, number(ones(&value))),
        ("BITCOUNT large 3 -9 BIT", &value, number(ones(&value[..VALUE_BYTES - 1]))),
        ("BITPOS large 1", &last_bit, number(bits - 1)),
        ("BITPOS large 1 7 -2", &last_bit, b":-1\r\n".to_vec()),
        ("BITPOS large 0", &vec![0xff; VALUE_BYTES], number(bits)),
        ("DUMP large", &value, dumped),
    ] {
        let mut two = Two::new();
        two.set("large", value);
        two.send(format!("{request}\r\n").as_bytes());
        let mut slices = 0;
        let mut received = two.receive();
        while received.len() < expected.len() {
            assert!(two.other_is_served(), "{request}");
            slices += 1;
            received.extend(two.receive());
        }
        assert!(slices >= 3, "{request} took {slices} slices");
        assert!(received == expected, "{request}: {}", received[..20.min(received.len())].escape_ascii());
    }
}

/// It is the value of the start, whatever happens to the key meanwhile.
#[test]
fn value_that_is_being_read_is_not_changed() {
    let mut two = Two::new();
    let value = vec![1; VALUE_BYTES];
    for change in ["SETRANGE large 0 xyz", "SETBIT large 0 1", "DEL large", "APPEND large xyz"] {
        two.set("large", &value);
        two.send(b"BITCOUNT large\r\n");
        two.other.write_all(format!("{change}\r\n").as_bytes()).unwrap();
        while !two.event_loop.yielding.is_empty() {
            two.turns();
        }
        assert_eq!(two.receive(), format!(":{VALUE_BYTES}\r\n").into_bytes(), "{change}");
        assert!(two.other.read(&mut [0; 100]).unwrap() > 0);
    }
}

/// A client would keep a value that was read before it has got the message about its change.
#[test]
fn message_about_a_change_follows_the_reply_about_the_former_value() {
    let mut value = vec![0; VALUE_BYTES];
    value[VALUE_BYTES - 1] = 1;
    let dumped = crate::values::rdb::dump(&value);
    let dumped = [format!("${}\r\n", dumped.len()).as_bytes(), &dumped, b"\r\n"].concat();
    let message = b">2\r\n$10\r\ninvalidate\r\n*1\r\n$5\r\nlarge\r\n";
    for (request, reply) in [
        ("BITCOUNT large", b":1\r\n".to_vec()),
        ("BITPOS large 1", format!(":{}\r\n", 8 * VALUE_BYTES - 1).into_bytes()),
        ("DUMP large", dumped),
    ] {
        for is_woken in [false, true] {
            let mut two = Two::new();
            two.set("large", &value);
            // What a command has built so far is no message.
            two.state.clients.output_limits.set(64 << 10, 0, 0);
            two.send(b"HELLO 3\r\nCLIENT TRACKING ON\r\nPING\r\n");
            assert!(two.receive().ends_with(b"+OK\r\n+PONG\r\n"));
            two.send(format!("{request}\r\nGET large\r\n").as_bytes());
            let client = Arc::clone(two.event_loop.connections[0].as_ref().unwrap().client());
            two.other.write_all(b"SET large new\r\n").unwrap();
            two.turns();
            if is_woken {
                two.event_loop.send_mail(&client);
            }
            let expected = [&reply, &message[..], b"$3\r\nnew\r\n"].concat();
            let mut received = two.receive();
            for _ in 0..1_000 {
                two.turns();
                received.extend(two.receive());
            }
            assert!(
                received == expected,
                "{request}: {}",
                received[..100.min(received.len())].escape_ascii()
            );
        }
    }
}

#[test]
fn large_value_is_restored_in_slices() {
    let value = pattern(VALUE_BYTES);
    let payload = crate::values::rdb::dump(&value);
    let mut damaged = payload.clone();
    damaged[VALUE_BYTES / 2] ^= 1;
    let others = b"of another client".to_vec();
    let body = &payload[..payload.len() - 10];
    let list = crate::values::rdb::payload(&[&[1], &body[1..]].concat());
    let longer = crate::values::rdb::payload(&[body, b"x"].concat());
    // Nothing but literals of 32 bytes.
    let literals: Vec<u8> = value.chunks(32).flat_map(|chunk| [&[31], chunk].concat()).collect();
    let length = |length: usize| [&[0x80][..], &(length as u32).to_be_bytes()].concat();
    let head = [&[0, 0xc3][..], &length(literals.len()), &length(VALUE_BYTES)].concat();
    let compressed = crate::values::rdb::payload(&[&head[..], &literals].concat());
    for (payload, created, reply, expected) in [
        (&payload, None, "+OK", Some(&value)),
        (&damaged, None, "-ERR DUMP payload version or checksum are wrong", None),
        (&payload, Some(&others), "-BUSYKEY Target key name already exists.", Some(&others)),
        (&list, None, "-ERR Bad data format", None),
        (&longer, None, "-ERR Bad data format", None),
        (&compressed, None, "+OK", Some(&value)),
    ] {
        let mut two = Two::new();
        two.send(
            format!("*4\r\n$7\r\nRESTORE\r\n$5\r\nlarge\r\n$1\r\n0\r\n${}\r\n", payload.len()).as_bytes(),
        );
        two.send(&[payload, &b"\r\n"[..]].concat());
        let mut slices = 0;
        while two.event_loop.yielding == [0] {
            assert!(two.other_is_served());
            slices += 1;
            // The command has begun, and has seen no such key.
            if let Some(created) = created.filter(|_| slices == 3) {
                two.set("large", created);
            }
        }
        assert!(slices > 3, "{reply} after {slices} slices");
        assert_eq!(two.receive(), format!("{reply}\r\n").into_bytes());
        assert!(two.value("large").as_ref() == expected, "{reply}");
    }
}

#[test]
fn large_values_are_combined_in_slices() {
    let (value, short) = (pattern(VALUE_BYTES), pattern(3_000));
    let mut other: Vec<u8> = value.iter().rev().copied().collect();
    other.truncate(VALUE_BYTES - 5);
    let combined = |operation: fn(u8, u8) -> u8| -> Vec<u8> {
        let padded = other.iter().chain(&[0; 5]);
        value.iter().zip(padded).map(|(byte, other)| operation(*byte, *other)).collect()
    };
    let long_of_short: Vec<u8> = short.iter().map(|byte| !byte).collect();
    for (request, expected) in [
        ("AND to large other", combined(|byte, other| byte & other)),
        ("OR to other missing large", combined(|byte, other| byte | other)),
        ("XOR large large other", combined(|byte, other| byte ^ other)),
        ("NOT to large", value.iter().map(|byte| !byte).collect()),
        ("AND to short large missing", vec![0; VALUE_BYTES]),
        ("XOR to short large short", value.clone()),
    ] {
        let mut two = Two::new();
        two.set("large", &value);
        two.set("other", &other);
        two.set("short", &short);
        two.send(format!("BITOP {request}\r\nPING\r\n").as_bytes());
        let mut slices = 0;
        while two.event_loop.yielding == [0] {
            assert!(two.other_is_served());
            slices += 1;
        }
        assert!(slices >= 3, "{request} took {slices} slices");
        assert_eq!(two.receive(), format!(":{VALUE_BYTES}\r\n+PONG\r\n").into_bytes(), "{request}");
        let name = if request.contains(" to ") { "to" } else { "large" };
        assert!(two.value(name) == Some(expected), "{request}");
        two.send(b"BITOP NOT to short\r\n");
        assert_eq!((two.receive(), two.value("to")), (b":3000\r\n".to_vec(), Some(long_of_short.clone())));
    }
}

/// It is one step, whose result is that of the values when it is stored.
#[test]
fn combination_is_of_the_values_at_its_end() {
    let zeros = vec![0; VALUE_BYTES];
    let begin = |request: &[u8]| {
        let mut two = Two::new();
        two.set("large", &zeros);
        two.set("short", b"");
        two.send(request);
        assert_eq!(two.event_loop.yielding, [0], "it takes some slices");
        two
    };
    let end = |two: &mut Two| {
        while two.event_loop.yielding == [0] {
            two.turns();
        }
        two.receive()
    };
    let from_start = |start: &[u8]| [start, &zeros[start.len()..]].concat();
    let or = b"BITOP OR to large short missing\r\n";
    for (name, value, expected) in [
        ("large", &b"ab"[..], b"ab".to_vec()),
        ("large", &from_start(b"abc"), from_start(b"abc")),
        ("short", b"abcd", from_start(b"abcd")),
        ("missing", b"abcde", from_start(b"abcde")),
        ("to", b"abcdef", zeros.clone()),
    ] {
        let mut two = begin(or);
        two.set(name, value);
        assert_eq!(end(&mut two), format!(":{}\r\n", expected.len()).into_bytes(), "{name}");
        assert!(two.value("to") == Some(expected), "{name}");
    }
    let mut two = begin(b"BITOP AND to large\r\n");
    two.other.write_all(b"DEL large\r\n").unwrap();
    assert_eq!((end(&mut two), two.value("to")), (b":0\r\n".to_vec(), None));
    let mut two = begin(or);
    two.other.write_all(b"ZADD missing 1 a\r\n").unwrap();
    assert!(end(&mut two).starts_with(b"-WRONGTYPE"));
    assert_eq!(two.value("to"), None);
}
