//! Large values: one turn receives, copies or sends one piece, and other connections get their turns in between.

use std::sync::Weak;

use larder_resp::{Limits, RequestParser};

use super::*;
use crate::cmd::{self, Context};
use crate::db::Found;
use crate::large::LARGE_BYTES;
use crate::session::Session;
use crate::stats::Counts;

/// Some pieces.
const VALUE_BYTES: usize = 4 * LARGE_BYTES;

/// A loop with a connection for the large value and another one.
struct Two {
    state: Arc<ServerState>,
    event_loop: EventLoop,
    large: UnixStream,
    other: UnixStream,
}

impl Two {
    fn new() -> Self {
        let store = Store::new(Some(64 << 20)).unwrap();
        let state = ServerState::new(Config::default(), store, Arc::new(Stats::new(1)), 0);
        let state = Arc::new(state);
        let mut event_loop = EventLoop::new(0, Arc::clone(&state)).unwrap();
        let (large_connection, large) = connection(&state);
        let (other_connection, other) = connection(&state);
        event_loop.adopt(large_connection);
        event_loop.adopt(other_connection);
        large.set_nonblocking(true).unwrap();
        other.set_nonblocking(true).unwrap();
        Two { state, event_loop, large, other }
    }

    fn set(&self, name: &str, value: &[u8]) {
        self.state.store.database(0).set(name.as_bytes(), value, Expiry::Never).unwrap();
    }

    fn value(&self, name: &str) -> Option<Vec<u8>> {
        self.state.store.database(0).get(name.as_bytes(), <[u8]>::to_vec).unwrap()
    }

    /// The large value of a key, which may be freed.
    fn weak(&self, name: &str) -> Weak<[u8]> {
        match self.state.store.database(0).get_or_share(name.as_bytes(), |_| ()) {
            Ok(Some(Found::Large(value))) => Arc::downgrade(&value),
            _ => panic!("{name} is no large value"),
        }
    }

    /// Whether a command of the first connection is not at its end.
    fn is_visiting(&self) -> bool {
        self.event_loop.connections[0].as_ref().is_some_and(|connection| connection.is_visiting())
    }

    /// Sends as much as the system accepts, and gives turns; returns what is left.
    fn send_some<'b>(&mut self, bytes: &'b [u8]) -> &'b [u8] {
        let sent = self.large.write(bytes).unwrap_or(0);
        self.turns();
        &bytes[sent..]
    }

    fn send(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            bytes = self.send_some(bytes);
        }
        self.turns();
    }

    /// One turn for each connection that is ready or has more to do.
    fn turns(&mut self) {
        poll(&mut self.event_loop);
    }

    /// The other connection gets a reply in its next turn.
    fn other_is_served(&mut self) -> bool {
        self.other.write_all(b"PING\r\n").unwrap();
        self.turns();
        let mut reply = [0; 100];
        self.other.read(&mut reply).is_ok_and(|length| &reply[..length] == b"+PONG\r\n")
    }

    /// Reads what has been sent.
    fn receive(&mut self) -> Vec<u8> {
        let (mut received, mut piece) = (Vec::new(), vec![0; LARGE_BYTES]);
        while let Ok(length @ 1..) = self.large.read(&mut piece) {
            received.extend_from_slice(&piece[..length]);
        }
        received
    }

    /// Reads until so many bytes have arrived; returns them with the number of rounds in which the other was served.
    fn receive_beside_other(&mut self, length: usize) -> (Vec<u8>, usize) {
        let (mut received, mut rounds) = (Vec::new(), 0);
        while received.len() < length {
            assert!(self.other_is_served(), "the other waits after {} bytes", received.len());
            rounds += 1;
            received.extend(self.receive());
        }
        (received, rounds)
    }
}

/// Bytes that tell where they are.
fn pattern(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at / 1000 % 251) as u8).collect()
}

#[test]
fn large_value_is_sent_in_pieces_and_not_copied() {
    for (request, range) in [
        ("GET large\r\n", 0..VALUE_BYTES),
        ("GETRANGE large 1000 -1001\r\n", 1000..VALUE_BYTES - 1000),
        ("GETEX large PERSIST\r\n", 0..VALUE_BYTES),
        ("SET large x GET\r\n", 0..VALUE_BYTES),
        ("MULTI\r\nGET large\r\nEXEC\r\n", 0..VALUE_BYTES),
        ("MGET large\r\n", 0..VALUE_BYTES),
        ("GETDEL large\r\n", 0..VALUE_BYTES),
    ] {
        let mut two = Two::new();
        let value = pattern(VALUE_BYTES);
        two.set("large", &value);
        two.send(format!("ECHO before\r\n{request}PING\r\n").as_bytes());
        assert_eq!(two.event_loop.yielding, [0], "{request}: the turn has sent all that it may");
        let connection = two.event_loop.connections[0].as_ref().unwrap();
        assert!(connection.has_unsent());
        assert!(connection.unsent_copied_bytes() < 100, "{request}: the value is copied");
        let part = &value[range];
        let array = match request.split(' ').next() {
            Some("MULTI\r\nGET") => "+OK\r\n+QUEUED\r\n*1\r\n",
            Some("MGET") => "*1\r\n",
            _ => "",
        };
        let head = format!("$6\r\nbefore\r\n{array}${}\r\n", part.len());
        let expected = [head.as_bytes(), part, b"\r\n+PONG\r\n"].concat();
        let (received, rounds) = two.receive_beside_other(expected.len());
        assert!(received == expected, "{request}");
        assert!(rounds >= 4, "{request}: {rounds} pieces");
        let buffered = two.state.clients.buffered_bytes();
        assert!(buffered < 1_000, "{request}: an idle connection holds {buffered} bytes");
    }
}

#[test]
fn message_precedes_or_follows_a_large_reply_as_a_whole() {
    let mut two = Two::new();
    two.set("large", &pattern(VALUE_BYTES));
    let client = Arc::clone(two.event_loop.connections[0].as_ref().unwrap().client());
    two.large.write_all(b"PING\r\nGET large\r\n").unwrap();
    post(&client, "first");
    // The wake-up is not read before the requests.
    two.event_loop.connections[0].as_mut().unwrap().set_ready(false);
    two.event_loop.turn(0, Moment::now());
    post(&client, "last");
    let expected =
        [&b"+first\r\n+PONG\r\n$4194304\r\n"[..], &pattern(VALUE_BYTES), b"\r\n+last\r\n"].concat();
    let (received, _) = two.receive_beside_other(expected.len());
    assert!(received == expected);
}

#[test]
fn large_argument_grows_as_it_arrives_and_becomes_the_value() {
    let mut two = Two::new();
    let value = pattern(VALUE_BYTES);
    two.send(format!("MULTI\r\n*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${VALUE_BYTES}\r\n").as_bytes());
    assert_eq!(two.receive(), b"+OK\r\n");
    let (mut left, mut pieces, mut received_at) = (&value[..], 0, std::ptr::null());
    while !left.is_empty() {
        let buffered = two.state.clients.buffered_bytes() as usize;
        let arrived = value.len() - left.len();
        // A buffer doubles until it is known that the value is large.
        assert!(
            buffered <= 2 * arrived.min(LARGE_BYTES) + arrived + 1_000,
            "{buffered} bytes after {arrived}"
        );
        let piece = &left[..left.len().min(64 << 10)];
        let unsent = two.send_some(piece).len();
        left = &left[piece.len() - unsent..];
        assert!(two.other_is_served());
        pieces += 1;
        if left.len() == VALUE_BYTES / 2 {
            received_at = two.event_loop.connections[0].as_mut().unwrap().large_address();
        }
    }
    assert!(pieces > 10 && two.value("large").is_none());
    two.send(b"\r\nEXEC\r\nPING\r\n");
    assert_eq!(two.receive(), b"+QUEUED\r\n*1\r\n+OK\r\n+PONG\r\n");
    let stored_at = two.state.store.database(0).get(b"large", |value| value.as_ptr()).unwrap();
    assert_eq!(stored_at, Some(received_at), "the value is copied");
    assert!(two.value("large") == Some(value));
    let buffered = two.state.clients.buffered_bytes();
    assert!(buffered < 1_000, "an idle connection holds {buffered} bytes");
}

#[test]
fn half_sent_values_do_not_exceed_the_memory_of_clients() {
    let state = state(1);
    let mut event_loop = EventLoop::new(0, Arc::clone(&state)).unwrap();
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

#[test]
fn command_that_has_begun_waits_for_the_end_of_a_pause() {
    let payload = crate::rdb::dump(&pattern(VALUE_BYTES));
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
            while !two.is_visiting() {
                left = two.send_some(left);
            }
            two.other.write_all(format!("CLIENT PAUSE 1000000 {mode}\r\n").as_bytes()).unwrap();
            two.turns();
            let (stored, keys) = (two.value("large"), two.state.store.len());
            for _ in 0..200 {
                two.turns();
            }
            let name = format!("{mode}: {}", request[..20.min(request.len())].escape_ascii());
            assert_eq!(two.is_visiting(), is_write || mode == "ALL", "{name}");
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
    let mut damaged = crate::rdb::dump(&pattern(VALUE_BYTES));
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

/// The store does not count it any more.
#[test]
fn value_that_is_held_after_its_removal_counts_for_the_client() {
    let payload = crate::rdb::dump(&pattern(VALUE_BYTES));
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
        while !two.is_visiting() {
            left = two.send_some(left);
        }
        let bytes = buffered(&two);
        assert!((before..before + large).contains(&bytes), "{name}: {bytes} bytes at the start");
        two.set("large", &other);
        two.turns();
        assert!(two.is_visiting(), "{name} takes some slices");
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
    // Not a string any more.
    two.send(b"APPEND large tail\r\n");
    two.other.write_all(b"DEL large\r\nZADD large 1 a\r\n").unwrap();
    while two.event_loop.yielding == [0] {
        two.turns();
    }
    assert!(two.receive().starts_with(b"-WRONGTYPE"));
}

#[test]
fn transaction_holds_no_more_replies_than_the_limit() {
    let two = Two::new();
    two.set("large", &pattern(VALUE_BYTES));
    let limit = two.state.max_reply_bytes();
    let count = limit as usize / VALUE_BYTES + 2;
    for (reading, is_muted) in [("DUMP", false), ("GET", false), ("DUMP", true)] {
        let client = two.state.clients.register(0, String::new(), String::new());
        let (mut session, mut counts, mut out) = (Session::new(client, true), Counts::default(), Vec::new());
        let mut execute = |request: &str| {
            let (mut parser, request) = (RequestParser::new(), format!("{request}\r\n"));
            parser.parse(request.as_bytes(), &Limits::default()).unwrap();
            let mut context = Context::new(&two.state, &mut session, &mut counts, &mut out);
            cmd::execute(&mut context, parser.args(request.as_bytes()));
            context.is_reply_refused()
        };
        if is_muted {
            execute("CLIENT REPLY OFF");
        }
        execute("MULTI");
        (0..count).for_each(|_| _ = execute(&format!("{reading} large")));
        execute(&format!("SET after {reading}"));
        assert_eq!(execute("EXEC"), !is_muted, "{reading}");
        let bytes = out.len() as u64 + session.large_replies.held_bytes();
        assert!(bytes < VALUE_BYTES as u64, "{reading}: {bytes} bytes are held");
        assert_eq!(two.value("after"), Some(reading.into()), "the transaction goes on");
    }
}

#[test]
fn transaction_with_too_large_a_reply_closes_the_connection() {
    let mut two = Two::new();
    two.set("large", &pattern(VALUE_BYTES));
    let count = two.state.max_reply_bytes() as usize / VALUE_BYTES + 2;
    two.send(format!("PING\r\nMULTI\r\n{}EXEC\r\n", "GET large\r\n".repeat(count)).as_bytes());
    let received = two.receive();
    assert!(received.len() < 1_000 && !received.contains(&b'*'), "{}", received.escape_ascii());
    assert!(two.event_loop.connections[0].is_none() && two.other_is_served());
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

#[test]
fn large_value_is_read_in_slices() {
    let value = pattern(VALUE_BYTES);
    let ones = |bytes: &[u8]| bytes.iter().map(|byte| byte.count_ones()).sum::<u32>();
    let number = |number: u32| format!(":{number}\r\n").into_bytes();
    let mut last_bit = vec![0; VALUE_BYTES];
    last_bit[VALUE_BYTES - 1] = 1;
    let payload = crate::rdb::dump(&value);
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

#[test]
fn large_value_is_restored_in_slices() {
    let value = pattern(VALUE_BYTES);
    let payload = crate::rdb::dump(&value);
    let mut damaged = payload.clone();
    damaged[VALUE_BYTES / 2] ^= 1;
    let others = b"of another client".to_vec();
    let body = &payload[..payload.len() - 10];
    let list = crate::rdb::payload(&[&[1], &body[1..]].concat());
    let longer = crate::rdb::payload(&[body, b"x"].concat());
    // Nothing but literals of 32 bytes.
    let literals: Vec<u8> = value.chunks(32).flat_map(|chunk| [&[31], chunk].concat()).collect();
    let length = |length: usize| [&[0x80][..], &(length as u32).to_be_bytes()].concat();
    let head = [&[0, 0xc3][..], &length(literals.len()), &length(VALUE_BYTES)].concat();
    let compressed = crate::rdb::payload(&[&head[..], &literals].concat());
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

/// A client would keep a value that was read before it has got the message about its change.
#[test]
fn message_about_a_change_follows_the_reply_about_the_former_value() {
    let mut value = vec![0; VALUE_BYTES];
    value[VALUE_BYTES - 1] = 1;
    let dumped = crate::rdb::dump(&value);
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
