//! What holds for every command that works in slices.

use super::*;

#[test]
fn command_that_has_begun_waits_for_the_end_of_a_pause() {
    let payload = crate::values::rdb::dump(&pattern(VALUE_BYTES));
    let head = format!("*4\r\n$7\r\nRESTORE\r\n$2\r\nto\r\n$1\r\n0\r\n${}\r\n", payload.len());
    let restore = [head.as_bytes(), &payload, b"\r\n"].concat();
    for (request, reply, is_write) in [
        (&b"APPEND large x\r\n"[..], ":4194305\r\n", true),
        (b"SETRANGE large 4194304 x\r\n", ":4194305\r\n", true),
        (b"SETBIT large 40000000 1\r\n", ":0\r\n", true),
        (b"BITOP NOT to large\r\n", ":4194304\r\n", true),
        (&restore, "+OK\r\n", true),
        (b"FLUSHALL\r\n", "+OK\r\n", true),
        (b"BITCOUNT large\r\n", ":33554432\r\n", false),
        (b"BITPOS large 0\r\n", ":33554432\r\n", false),
        (b"KEYS none\r\n", "*0\r\n", false),
    ] {
        for mode in ["WRITE", "ALL"] {
            let mut two = Two::new();
            two.set("large", &vec![0xff; VALUE_BYTES]);
            (0..20_000).for_each(|number| two.set(&format!("key{number}"), b"x"));
            let mut left = request;
            while !two.has_long_command() {
                left = two.send_some(left);
            }
            two.other.write_all(format!("CLIENT PAUSE 1000000 {mode}\r\n").as_bytes()).unwrap();
            two.turns();
            let (stored, keys) = (two.value("large"), two.state.store.len());
            for _ in 0..200 {
                two.turns();
            }
            let name = format!("{mode}: {}", request[..20.min(request.len())].escape_ascii());
            assert_eq!(two.has_long_command(), is_write || mode == "ALL", "{name}");
            assert!(two.value("large") == stored && two.value("to").is_none(), "{name}");
            assert_eq!(two.state.store.len(), keys, "{name}");
            two.other.write_all(b"CLIENT UNPAUSE\r\n").unwrap();
            for _ in 0..200 {
                two.turns();
            }
            assert_eq!(two.receive(), reply.as_bytes(), "{name}");
        }
    }
}

#[test]
fn slices_are_in_the_statistics_of_their_command() {
    let mut damaged = crate::values::rdb::dump(&pattern(VALUE_BYTES));
    damaged[VALUE_BYTES / 2] ^= 1;
    let head = format!("*4\r\n$7\r\nRESTORE\r\n$2\r\nto\r\n$1\r\n0\r\n${}\r\n", damaged.len());
    let restore = [head.as_bytes(), &damaged, b"\r\n"].concat();
    for is_queued in [false, true] {
        let mut two = Two::new();
        two.set("large", &pattern(VALUE_BYTES));
        let (begin, end) = if is_queued { ("MULTI\r\n", "EXEC\r\n") } else { ("", "") };
        let requests = [begin.as_bytes(), b"DUMP large\r\n", &restore, end.as_bytes()].concat();
        let mut left = &requests[..];
        for _ in 0..1_000 {
            left = two.send_some(left);
            two.receive();
        }
        two.send(b"INFO commandstats\r\nINFO errorstats\r\n");
        let text = String::from_utf8(two.receive()).unwrap();
        for name in ["dump", "restore"] {
            let (_, line) = text.split_once(&format!("cmdstat_{name}:calls=1,usec=")).unwrap();
            let (micros, line) = line.split_once(',').unwrap();
            let micros: u64 = micros.parse().unwrap();
            // The checksum of a value takes ten milliseconds or more, and the rest some microseconds.
            assert!((1_000..1_000_000).contains(&micros), "{name} has taken {micros} microseconds");
            let failed = format!("failed_calls={}\r", u32::from(name == "restore"));
            assert!(line.split_once('\n').unwrap().0.ends_with(&failed), "{name}: {line}");
        }
        assert!(text.contains("errorstat_ERR:count=1\r\n"), "{text}");
    }
}

#[test]
fn command_without_a_reply_works_in_slices_too() {
    for (request, changed) in [
        ("APPEND large tail", true),
        ("BITCOUNT large", false),
        ("DUMP large", false),
        ("BITOP NOT large large", true),
    ] {
        for (before, after, reply) in
            [("SKIP", "PING\r\n", "+PONG\r\n"), ("OFF", "PING\r\nCLIENT REPLY ON\r\n", "+OK\r\n")]
        {
            let mut two = Two::new();
            let value = pattern(VALUE_BYTES);
            two.set("large", &value);
            two.send(format!("CLIENT REPLY {before}\r\n{request}\r\n{after}").as_bytes());
            let mut slices = 0;
            while two.event_loop.yielding == [0] {
                assert!(two.other_is_served());
                slices += 1;
            }
            assert!(slices >= 3, "{request} took {slices} slices");
            assert_eq!(two.receive(), reply.as_bytes(), "{request}");
            assert_eq!(two.value("large") != Some(value), changed, "{request}");
        }
    }
}
