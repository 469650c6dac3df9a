//! What large values may hold of memory, and that they are freed.

use larder_resp::{Limits, RequestParser};

use super::*;
use crate::cmd::{self, Context, Session};
use crate::stats::Counts;

#[test]
fn half_sent_values_do_not_exceed_the_memory_of_clients() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    state.clients.set_max_buffered_bytes(8 << 20);
    let mut clients = Vec::new();
    for _ in 0..6 {
        let (connection, client_end) = connection(&state);
        event_loop.adopt(connection);
        client_end.set_nonblocking(true).unwrap();
        clients.push(client_end);
    }
    let head = b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$60000000\r\n";
    clients.iter_mut().for_each(|client| client.write_all(head).unwrap());
    poll(&mut event_loop);
    assert!(state.clients.buffered_bytes() < 1_000, "announcements hold nothing");
    let piece = vec![b'x'; 64 << 10];
    for _ in 0..3 * LARGE_BYTES / piece.len() {
        for client in &mut clients {
            // It fails once the connection is closed.
            let _ = client.write(&piece);
            poll(&mut event_loop);
            let buffered = state.clients.buffered_bytes();
            assert!(buffered <= 8 << 20, "{buffered} bytes");
        }
    }
    let open = state.clients.all().len();
    assert!((1..6).contains(&open), "{open} connections are open");
    drop(clients);
    poll(&mut event_loop);
    poll(&mut event_loop);
    assert_eq!((state.clients.buffered_bytes(), state.store.len()), (0, 0));
}

/// The store does not count it any more.
#[test]
fn value_that_is_held_after_its_removal_counts_for_the_client() {
    let payload = crate::values::rdb::dump(&pattern(VALUE_BYTES));
    let large = VALUE_BYTES as u64;
    let argument = |bytes: &[u8]| [format!("${}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat();
    let with = |head: &[u8], bytes: &[u8]| [head, &argument(bytes)].concat();
    let other = vec![1; VALUE_BYTES];
    for (request, before, after) in [
        (b"BITCOUNT large\r\n".to_vec(), 0, large),
        (b"DUMP large\r\n".to_vec(), 0, large),
        (b"APPEND large x\r\n".to_vec(), 0, large),
        (format!("SETBIT large {} 1\r\n", 8 * VALUE_BYTES).into_bytes(), 0, large),
        (b"BITOP OR to large large\r\n".to_vec(), 0, 2 * large),
        (with(b"*4\r\n$7\r\nRESTORE\r\n$2\r\nto\r\n$1\r\n0\r\n", &payload), large, large),
        (with(b"*3\r\n$6\r\nAPPEND\r\n$5\r\nlarge\r\n", &other), large, 2 * large),
    ] {
        let mut two = Two::new();
        two.set("large", &pattern(VALUE_BYTES));
        let buffered = |two: &Two| two.state.clients.buffered_bytes();
        let name = request[..request.len().min(20)].escape_ascii().to_string();
        let mut left = &request[..];
        while !two.has_long_command() {
            left = two.send_some(left);
        }
        let bytes = buffered(&two);
        assert!((before..before + large).contains(&bytes), "{name}: {bytes} bytes at the start");
        two.set("large", &other);
        two.turns();
        assert!(two.has_long_command(), "{name} takes some slices");
        let bytes = buffered(&two);
        assert!((after..after + large).contains(&bytes), "{name}: {bytes} bytes after the removal");
        for _ in 0..1_000 {
            two.turns();
            two.receive();
        }
        assert!(buffered(&two) < 1_000, "{name}: an idle connection");
    }
}

#[test]
fn readers_of_removed_values_do_not_exceed_the_memory_of_clients() {
    const READERS: usize = 6;
    let limit = 4 * VALUE_BYTES as u64 + 10_000;
    for is_replaced in [false, true] {
        let mut two = Two::new();
        two.state.clients.set_max_buffered_bytes(limit);
        let mut readers = Vec::new();
        for number in 0..READERS {
            if is_replaced || number == 0 {
                two.set("large", &vec![1; VALUE_BYTES]);
            }
            let (connection, mut reader) = connection(&two.state);
            two.event_loop.adopt(connection);
            reader.write_all(b"BITCOUNT large\r\n").unwrap();
            two.turns();
            readers.push(reader);
        }
        assert_eq!(two.event_loop.yielding.len(), READERS, "all are reading");
        two.set("large", b"x");
        while !two.event_loop.yielding.is_empty() {
            two.turns();
            let buffered = two.state.clients.buffered_bytes();
            assert!(buffered <= limit, "{buffered} bytes");
        }
        two.turns();
        let open = two.state.clients.all().len() - 2;
        // Each counts a removed value as a whole, also if it is the same one.
        assert_eq!(open, 4, "connections that may hold one value each");
    }
    let mut two = Two::new();
    two.state.clients.set_max_buffered_bytes(limit);
    two.set("large", &vec![1; VALUE_BYTES]);
    let mut readers = Vec::new();
    for _ in 0..READERS {
        let (connection, mut reader) = connection(&two.state);
        two.event_loop.adopt(connection);
        reader.write_all(b"BITCOUNT large\r\n").unwrap();
        readers.push(reader);
    }
    two.turns();
    while !two.event_loop.yielding.is_empty() {
        two.turns();
        assert!(two.state.clients.buffered_bytes() < 1_000, "the value is in the store");
    }
    assert_eq!(two.state.clients.all().len(), READERS + 2);
}

#[test]
fn transaction_holds_no_more_replies_than_the_limit() {
    let two = Two::new();
    two.set("large", &pattern(VALUE_BYTES));
    let limit = two.state.max_reply_bytes();
    let count = limit as usize / VALUE_BYTES + 2;
    for (reading, is_muted) in [("DUMP", false), ("GET", false), ("DUMP", true)] {
        let users = &two.state.users;
        let user = Arc::clone(users.default_user());
        let client = two.state.clients.register(0, String::new(), String::new(), user);
        let (mut session, mut counts, mut out) =
            (Session::new(client, true, users), Counts::default(), Vec::new());
        let mut execute = |request: &str| {
            let (mut parser, request) = (RequestParser::new(), format!("{request}\r\n"));
            parser.parse(request.as_bytes(), &Limits::default()).unwrap();
            let mut context = Context::new(&two.state, &mut session, &mut counts, &mut out);
            cmd::dispatch(&mut context, parser.args(request.as_bytes()));
        };
        if is_muted {
            execute("CLIENT REPLY OFF");
        }
        execute("MULTI");
        (0..count).for_each(|_| execute(&format!("{reading} large")));
        execute(&format!("SET after {reading}"));
        execute("EXEC");
        let bytes = out.len() as u64 + session.large_replies.bytes();
        let most = if is_muted { 0 } else { limit };
        assert!(bytes <= most + 1_000, "{reading}: {bytes} bytes are held");
        assert_eq!(two.value("after"), Some(reading.into()), "the transaction goes on");
        // As a connection does when it ends: the list of clients and its clients own each other.
        two.state.clients.deregister(&session.client);
    }
}

#[test]
fn replies_of_a_transaction_beyond_the_limit_are_errors() {
    let mut two = Two::new();
    two.set("large", &pattern(VALUE_BYTES));
    let count = two.state.max_reply_bytes() as usize / VALUE_BYTES + 2;
    two.send(
        format!("PING\r\nMULTI\r\n{}PING\r\nEXEC\r\nPING\r\n", "GET large\r\n".repeat(count)).as_bytes(),
    );
    let error = format!("-{}\r\n", cmd::CommandError::ReplyTooLarge(two.state.max_reply_bytes()));
    let end = format!("{error}+PONG\r\n+PONG\r\n");
    let mut received = Vec::new();
    while !received.ends_with(end.as_bytes()) {
        assert!(two.event_loop.connections[0].is_some(), "it stays open");
        two.turns();
        received.extend(two.receive());
    }
    let values = count - received.windows(error.len()).filter(|window| *window == error.as_bytes()).count();
    assert!((1..count).contains(&values) && values * VALUE_BYTES <= two.state.max_reply_bytes() as usize);
    assert!(two.other_is_served());
}

/// A value may be larger than what clients may buffer together.
#[test]
fn value_that_is_built_counts_for_no_client() {
    let set_range = format!("SETRANGE new {} x\r\n", 2 * VALUE_BYTES);
    let set_bit = format!("SETBIT large {} 1\r\n", 16 * VALUE_BYTES);
    let bit_field = format!("BITFIELD large SET u8 {} 1\r\n", 16 * VALUE_BYTES);
    for request in [
        "APPEND large x\r\n",
        &set_range,
        &set_bit,
        &bit_field,
        "BITOP NOT to large\r\n",
        "BITOP OR to large large\r\n",
    ] {
        let mut two = Two::new();
        two.set("large", &pattern(VALUE_BYTES));
        // Who receives a value lets it be copied.
        let shared = two.state.store.database(0).get_or_share(b"large", |_| ()).unwrap();
        two.state.clients.set_max_buffered_bytes(VALUE_BYTES as u64 / 2);
        two.send(request.as_bytes());
        let mut received = Vec::new();
        while received.is_empty() {
            assert!(two.event_loop.connections[0].is_some(), "{request} is executed");
            two.turns();
            received = two.receive();
        }
        assert!(!received.starts_with(b"-"), "{request}: {}", received.escape_ascii());
        drop(shared);
    }
}

#[test]
fn value_that_two_entries_shared_is_freed() {
    let mut two = Two::new();
    let script = "redis.call('DEL', KEYS[1]) redis.call('SET', KEYS[1], 'x') while true do end";
    for requests in [
        "COPY large to\r\nDEL large to\r\n".to_owned(),
        "COPY large to\r\nRENAME to large\r\nSET large x\r\n".to_owned(),
        format!("EVAL \"{script}\" 1 large\r\nDEL large\r\n"),
    ] {
        two.state.set_script_limit_ms(5);
        two.set("large", &pattern(VALUE_BYTES));
        let value = two.weak("large");
        two.send(requests.as_bytes());
        two.receive();
        let start = Moment::now();
        while value.strong_count() > 0 {
            assert!(start.elapsed() < larder_testkit::PATIENCE, "{requests}");
            std::thread::yield_now();
        }
    }
}
