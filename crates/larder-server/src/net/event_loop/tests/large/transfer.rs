//! Values on their way: they are received and sent in pieces, and not copied.

use super::*;

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
