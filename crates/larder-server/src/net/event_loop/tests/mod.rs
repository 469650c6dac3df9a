//! Tests of the loop: turns are given by hand, over real sockets.

mod large;
mod replies;
mod walk;

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::sync::mpsc;

use larder_testkit::PATIENCE;

use super::*;
use crate::config::Config;
use crate::db::{Expiry, Store};
use crate::net::listener::Socket;
use crate::net::peers::peers;
use crate::stats::Stats;

fn state(threads: usize) -> Arc<ServerState> {
    let store = Store::new(Some(8 << 20)).unwrap();
    Arc::new(ServerState::new(
        Config::default(),
        store,
        Arc::new(Stats::new(threads, crate::cmd::commands())),
    ))
}

/// A connection of the first thread, and the client's end of it.
fn connection(state: &Arc<ServerState>) -> (Box<Connection>, UnixStream) {
    let (server_end, client_end) = UnixStream::pair().unwrap();
    (Connection::open(Socket::unix(server_end).unwrap(), state, 0), client_end)
}

/// The loops of the first threads of a server.
fn event_loops<const N: usize>(state: &Arc<ServerState>) -> [EventLoop; N] {
    let peers = peers(state.inboxes.len());
    std::array::from_fn(|index| EventLoop::new(index, Arc::clone(state), Arc::clone(&peers)).unwrap())
}

fn event_loop(state: &Arc<ServerState>) -> EventLoop {
    let [event_loop] = event_loops(state);
    event_loop
}

fn poll(event_loop: &mut EventLoop) {
    let mut events = Events::with_capacity(8);
    event_loop.poll.poll(&mut events, Some(Duration::ZERO)).unwrap();
    event_loop.serve(&events, Moment::now());
}

#[test]
fn panic_closes_only_its_connection() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (panicking, mut panicking_client) = connection(&state);
    let (other, mut other_client) = connection(&state);
    event_loop.adopt(panicking);
    event_loop.adopt(other);
    event_loop.guarded_turn(0, |_, _| panic!("a bug in a command"));
    assert_eq!((state.stats.panics.get(), state.stats.threads[0].connections()), (1, 1));
    assert_eq!(panicking_client.read(&mut [0]).unwrap(), 0);
    other_client.write_all(b"PING\r\n").unwrap();
    poll(&mut event_loop);
    let mut reply = [0; 7];
    other_client.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn panic_leaves_the_other_turns_of_its_batch() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let mut clients: Vec<UnixStream> = Vec::new();
    for _ in 0..3 {
        let (connection, client) = connection(&state);
        event_loop.adopt(connection);
        clients.push(client);
    }
    poll(&mut event_loop);
    let now = Moment::now();
    for (position, client) in clients.iter_mut().enumerate() {
        client.write_all(format!("ECHO {position}\r\n").as_bytes()).unwrap();
        event_loop.connections[position].as_mut().unwrap().set_ready(false);
        event_loop.begin_turn(position, now);
    }
    event_loop.guarded_turn(1, |_, _| panic!("a bug in a command"));
    event_loop.run_batch(now);
    let replies = clients.iter_mut().map(|client| {
        let mut reply = [0; 7];
        client.set_nonblocking(true).unwrap();
        let length = client.read(&mut reply).unwrap();
        reply[..length].to_vec()
    });
    assert_eq!(replies.collect::<Vec<_>>(), [&b"$1\r\n0\r\n"[..], b"", b"$1\r\n2\r\n"]);
}

/// Both requests are executed before the reply to the first one is written.
#[test]
fn invalidation_by_a_later_turn_of_the_batch_follows_the_reply() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (reader, mut reader_client) = connection(&state);
    let (writer, mut writer_client) = connection(&state);
    event_loop.adopt(reader);
    event_loop.adopt(writer);
    reader_client.write_all(b"HELLO 3\r\nCLIENT TRACKING ON\r\nSET k old\r\n").unwrap();
    poll(&mut event_loop);
    let mut received = [0; 4096];
    reader_client.set_nonblocking(true).unwrap();
    while event_loop.state.store.is_empty() {
        poll(&mut event_loop);
    }
    let _ = reader_client.read(&mut received).unwrap();
    reader_client.write_all(b"GET k\r\n").unwrap();
    writer_client.write_all(b"SET k new\r\n").unwrap();
    poll(&mut event_loop);
    poll(&mut event_loop);
    let length = reader_client.read(&mut received).unwrap();
    let expected = "$3\r\nold\r\n>2\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n";
    assert_eq!(String::from_utf8_lossy(&received[..length]), expected);
}

/// Readiness is reported once, and here while the connection still executes what it has received before.
#[test]
fn request_that_arrives_while_its_connection_is_queued_is_answered() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    event_loop.adopt(connection);
    const MORE_THAN_A_TURN: usize = 5_000;
    client_end.write_all(&b"PING\r\n".repeat(MORE_THAN_A_TURN)).unwrap();
    poll(&mut event_loop);
    assert_eq!(event_loop.yielding, [0]);
    client_end.write_all(b"ECHO last\r\n").unwrap();
    while !event_loop.yielding.is_empty() {
        poll(&mut event_loop);
    }
    let mut replies = vec![0; MORE_THAN_A_TURN * b"+PONG\r\n".len() + b"$4\r\nlast\r\n".len()];
    client_end.set_nonblocking(true).unwrap();
    client_end.read_exact(&mut replies).unwrap();
    assert!(replies.ends_with(b"last\r\n"));
}

#[test]
fn command_that_visits_every_entry_yields_to_other_connections() {
    for command in ["KEYS nothing", "SCAN 0 MATCH nothing COUNT 1000000", "FLUSHALL", "FLUSHDB"] {
        let state = state(1);
        let mut event_loop = event_loop(&state);
        for number in 0..5_000 {
            state.store.database(0).set(format!("k{number}").as_bytes(), b"v", Expiry::Never).unwrap();
        }
        let (long, mut long_client) = connection(&state);
        let (short, mut short_client) = connection(&state);
        event_loop.adopt(long);
        event_loop.adopt(short);
        long_client.write_all(format!("{command}\r\nPING\r\n").as_bytes()).unwrap();
        short_client.write_all(b"PING\r\n").unwrap();
        poll(&mut event_loop);
        long_client.set_nonblocking(true).unwrap();
        let mut reply = [0; 100];
        assert!(long_client.read(&mut reply).is_err(), "{command} ran to its end in one turn");
        short_client.read_exact(&mut reply[..7]).unwrap();
        while event_loop.yielding == [0] {
            poll(&mut event_loop);
        }
        let length = long_client.read(&mut reply).unwrap();
        assert!(reply[..length].ends_with(b"+PONG\r\n"), "{command}");
        let left = if command.starts_with("FLUSH") { 0 } else { 5_000 };
        assert_eq!(state.store.len(), left, "{command}");
    }
}

/// Each of these may need the time of some microseconds.
#[test]
fn turn_stores_or_evicts_few_entries() {
    const ENTRIES: usize = 1_000;
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (busy, mut busy_client) = connection(&state);
    let (other, mut other_client) = connection(&state);
    event_loop.adopt(busy);
    event_loop.adopt(other);
    let mut rounds = |event_loop: &mut EventLoop, most: usize| {
        let mut rounds = 0;
        loop {
            let before = state.store.len();
            other_client.write_all(b"PING\r\n").unwrap();
            poll(event_loop);
            other_client.read_exact(&mut [0; 7]).unwrap();
            let changed = state.store.len().abs_diff(before);
            assert!(changed <= most, "{changed} entries are stored or evicted in one turn");
            if changed == 0 {
                return rounds;
            }
            rounds += 1;
        }
    };
    let requests: String = (0..ENTRIES).map(|key| format!("SET k{key} {:02000}\r\n", 0)).collect();
    let mut requests = requests.as_bytes();
    busy_client.set_nonblocking(true).unwrap();
    while !requests.is_empty() {
        requests = &requests[busy_client.write(requests).unwrap_or(0)..];
        rounds(&mut event_loop, 171);
    }
    // All of them arrive at once.
    let requests: String = (0..2 * ENTRIES).map(|key| format!("SET s{key} v\r\n")).collect();
    busy_client.write_all(requests.as_bytes()).unwrap();
    let turns = rounds(&mut event_loop, 171);
    assert!(turns >= 11 && state.store.len() == 3 * ENTRIES, "{turns} turns");
    busy_client.write_all(b"CONFIG SET maxmemory 1mb\r\n").unwrap();
    let slices = rounds(&mut event_loop, 32);
    assert!(slices > 10 && state.store.used_memory() <= 1 << 20, "{slices} slices");
}

#[test]
fn expired_entries_are_reclaimed_in_small_slices() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    for number in 0..1_000 {
        state.store.database(0).set(format!("k{number}").as_bytes(), b"v", Expiry::At(1)).unwrap();
    }
    let mut slices = 0;
    while !state.store.is_empty() {
        let before = state.store.len();
        event_loop.reclaim_at = Moment::now();
        event_loop.reclaim(Moment::now());
        assert!(before - state.store.len() <= 256);
        slices += 1;
    }
    assert!(slices >= 4, "{slices} slices");
}

/// A script may hold keys for seconds, and the first thread, which reclaims, has connections to serve.
#[test]
fn reclaim_does_not_wait_for_keys_that_another_thread_has_locked() {
    let state = state(1);
    for number in 0..100 {
        state.store.database(0).set(format!("k{number}").as_bytes(), &[0; 20_000], Expiry::Never).unwrap();
    }
    state.store.resize(1 << 20);
    let locks = state.store.lock_everything();
    let (done, result) = mpsc::channel();
    let thread = std::thread::spawn({
        let state = Arc::clone(&state);
        move || {
            let mut event_loop = event_loop(&state);
            let now = event_loop.reclaim_at;
            event_loop.reclaim(now);
            done.send(event_loop.reclaim_at > now).unwrap();
        }
    });
    assert_eq!(result.recv_timeout(PATIENCE), Ok(true), "it tries again later");
    drop(locks);
    thread.join().unwrap();
    assert_eq!(state.store.len(), 100);
    while state.store.follow_memory(Moment::now(), EVICT_BUDGET) {}
    assert!(state.store.used_memory() <= 1 << 20);
}

/// The drain waited for its whole time if the replies were sent during it.
#[test]
fn connection_closes_when_its_replies_are_sent_during_the_drain() {
    const LONG: usize = 512 << 10;
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    event_loop.adopt(connection);
    state.store.database(0).set(b"long", &vec![b'x'; LONG], Expiry::Never).unwrap();
    client_end.write_all(b"GET long\r\n").unwrap();
    poll(&mut event_loop);
    state.draining.store(true, Ordering::Release);
    event_loop.start_drain();
    client_end.set_nonblocking(true).unwrap();
    let (mut left, mut chunk) = ("$524288\r\n".len() + LONG + 2, vec![0; 1 << 20]);
    while left > 0 {
        poll(&mut event_loop);
        left -= client_end.read(&mut chunk).unwrap_or(0);
    }
    assert!(event_loop.is_done(Moment::now()), "the connection is closed");
}

/// Commands that store at `k`, whose entry has expired.
const STORES: [&str; 15] = [
    "SET k w",
    "GETSET k w",
    "APPEND k w",
    "SETRANGE k 1 w",
    "INCRBY k 1",
    "SETBIT k 1 1",
    "PFADD k a",
    "ZADD k 1 a",
    "MSET k 1 l 2",
    "BITOP NOT k s",
    "COPY s k",
    "RENAME s k",
    "ZUNIONSTORE k 1 z",
    "MULTI\r\nSET k w\r\nEXEC",
    "EVAL \"redis.call('set', KEYS[1], 'w')\" 1 k",
];

#[test]
fn expiry_is_reported_before_the_write_that_follows_it() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (subscriber, mut subscriber_end) = connection(&state);
    let (writer, mut writer_end) = connection(&state);
    event_loop.adopt(subscriber);
    event_loop.adopt(writer);
    subscriber_end.write_all(b"PSUBSCRIBE *\r\n").unwrap();
    writer_end.write_all(b"CONFIG SET notify-keyspace-events EA\r\n").unwrap();
    poll(&mut event_loop);
    for policy in ["allkeys-lru", "noeviction"] {
        for command in STORES {
            writer_end.write_all(b"FLUSHALL\r\nSET s x\r\nZADD z 1 a\r\n").unwrap();
            writer_end.write_all(format!("CONFIG SET maxmemory-policy {policy}\r\n").as_bytes()).unwrap();
            (0..3).for_each(|_| poll(&mut event_loop));
            state.store.database(0).set(b"k", b"v", Expiry::At(1)).unwrap();
            poll(&mut event_loop);
            read_text(&mut subscriber_end);
            writer_end.write_all(format!("{command}\r\n").as_bytes()).unwrap();
            (0..3).for_each(|_| poll(&mut event_loop));
            let events = read_text(&mut subscriber_end);
            // The name of a key is two lines behind the channel.
            let lines: Vec<&str> = events.lines().collect();
            let events = lines.windows(3).filter(|window| window[2] == "k");
            let events: Vec<&str> =
                events.filter_map(|window| window[0].strip_prefix("__keyevent@0__:")).collect();
            assert!(events.len() > 1, "{policy}: {command}: {events:?}");
            let expired = events.iter().position(|event| *event == "expired");
            let last = events.iter().rposition(|event| *event == "expired");
            assert_eq!((expired, last), (Some(0), Some(0)), "{policy}: {command}: {events:?}");
        }
    }
}

#[test]
fn arguments_of_a_large_request_are_counted_and_freed() {
    const ARGUMENTS: usize = 100_000;
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    event_loop.adopt(connection);
    client_end.set_nonblocking(true).unwrap();
    let request = [format!("*{}\r\n", ARGUMENTS + 1).as_bytes(), b"$6\r\nEXISTS\r\n"].concat();
    let request = [request, b"$1\r\nk\r\n".repeat(ARGUMENTS)].concat();
    let mut send = |event_loop: &mut EventLoop, mut bytes: &[u8]| {
        while !bytes.is_empty() {
            bytes = &bytes[client_end.write(bytes).unwrap_or(0)..];
            poll(event_loop);
        }
    };
    let (begin, end) = request.split_at(request.len() - 1);
    send(&mut event_loop, begin);
    while !event_loop.yielding.is_empty() {
        poll(&mut event_loop);
    }
    let buffered = state.clients.buffered_bytes();
    assert!(buffered as usize > request.len() + 8 * (ARGUMENTS - 1), "{buffered} bytes");
    send(&mut event_loop, end);
    let mut reply = [0; 4];
    client_end.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b":0\r\n");
    let buffered = state.clients.buffered_bytes();
    assert!(buffered < 1_000, "an idle connection holds {buffered} bytes");
}

#[test]
fn names_of_a_client_are_counted_and_end_with_it() {
    const NAME_BYTES: usize = 60_000;
    let long = "x".repeat(NAME_BYTES);
    for request in ["CLIENT SETNAME", "CLIENT SETINFO LIB-NAME", "CLIENT SETINFO LIB-VER", "HELLO 3 SETNAME"]
    {
        let state = state(1);
        let mut event_loop = event_loop(&state);
        let (connection, mut client_end) = connection(&state);
        let client = Arc::clone(connection.client());
        event_loop.adopt(connection);
        let mut buffered_after = |event_loop: &mut EventLoop, request: &str| {
            client_end.write_all(request.as_bytes()).unwrap();
            (0..3).for_each(|_| poll(event_loop));
            state.clients.buffered_bytes() as usize
        };
        let buffered = buffered_after(&mut event_loop, &format!("{request} {long}\r\n"));
        assert!((NAME_BYTES..2 * NAME_BYTES).contains(&buffered), "{request}: {buffered} bytes");
        let buffered = buffered_after(&mut event_loop, "RESET\r\n");
        let is_reset = request.ends_with("SETNAME");
        assert_eq!(buffered < 1_000, is_reset, "{request}, RESET: {buffered} bytes");
        event_loop.remove(0);
        let names = client.names();
        assert!([names.name, names.library, names.library_version].iter().all(Vec::is_empty), "{request}");
        assert_eq!(state.clients.buffered_bytes(), 0, "{request}");
    }
}

/// A mark that is set while a connection is between two threads must not be lost.
#[test]
fn connection_that_is_closed_while_it_moves_is_closed_on_arrival() {
    let state = state(2);
    let [mut from, mut to] = event_loops(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    from.adopt(connection);
    from.move_to(1, &[0]);
    assert_eq!(client.thread(), 1);
    client.close();
    to.read_messages();
    assert_eq!(client_end.read(&mut [0]).unwrap(), 0);
    assert!(state.clients.all().is_empty());
}

/// The request arrives while no thread waits for the socket.
#[test]
fn request_that_arrives_while_its_connection_moves_is_answered() {
    let state = state(2);
    let [mut from, mut to] = event_loops(&state);
    let (connection, mut client_end) = connection(&state);
    from.adopt(connection);
    from.move_to(1, &[0]);
    client_end.write_all(b"PING\r\n").unwrap();
    to.read_messages();
    poll(&mut to);
    let mut reply = [0; 7];
    client_end.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    let connections = [0, 1].map(|thread: usize| state.stats.threads[thread].connections());
    assert_eq!(connections, [0, 1]);
}

/// A message in the protocol of RESP2.
fn post(client: &Arc<Client>, text: &str) {
    client.post(text.len(), |message| message.simple(text));
}

fn read_text(client_end: &mut UnixStream) -> String {
    client_end.set_nonblocking(true).unwrap();
    let mut bytes = [0; 1000];
    let length = client_end.read(&mut bytes).unwrap_or(0);
    String::from_utf8(bytes[..length].to_vec()).unwrap()
}

#[test]
fn message_wakes_a_waiting_connection() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    event_loop.adopt(connection);
    poll(&mut event_loop);
    post(&client, "first");
    post(&client, "second");
    assert_eq!(state.clients.buffered_bytes(), 17);
    poll(&mut event_loop);
    assert_eq!(read_text(&mut client_end), "+first\r\n+second\r\n");
    assert_eq!(state.clients.buffered_bytes(), 0);
}

/// The message is there before the command is executed, and the wake-up is not read yet.
#[test]
fn message_is_ahead_of_the_reply_to_a_later_command() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    event_loop.adopt(connection);
    poll(&mut event_loop);
    client_end.write_all(b"PING\r\n").unwrap();
    post(&client, "message");
    event_loop.connections[0].as_mut().unwrap().set_ready(false);
    event_loop.turn(0, Moment::now());
    assert_eq!(read_text(&mut client_end), "+message\r\n+PONG\r\n");
}

/// A refused command is a command, too.
#[test]
fn message_is_ahead_of_a_later_error() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    event_loop.adopt(connection);
    client_end.write_all(b"SUBSCRIBE a\r\n").unwrap();
    poll(&mut event_loop);
    read_text(&mut client_end);
    for refused in ["GET k\r\n", "FOO\r\n", "PING x y\r\n"] {
        client_end.write_all(refused.as_bytes()).unwrap();
        post(&client, "message");
        event_loop.connections[0].as_mut().unwrap().set_ready(false);
        event_loop.turn(0, Moment::now());
        let received = read_text(&mut client_end);
        assert!(received.starts_with("+message\r\n-ERR "), "{received}");
    }
}

/// They were there before all replies of the turn.
#[test]
fn messages_are_ahead_of_replies_before_the_first_subscription() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    event_loop.adopt(connection);
    client_end.write_all(b"PING\r\nSUBSCRIBE a\r\nPING\r\n").unwrap();
    post(&client, "message");
    event_loop.connections[0].as_mut().unwrap().set_ready(false);
    event_loop.turn(0, Moment::now());
    assert_eq!(
        read_text(&mut client_end),
        "+message\r\n+PONG\r\n*3\r\n$9\r\nsubscribe\r\n$1\r\na\r\n:1\r\n*2\r\n$4\r\npong\r\n$0\r\n\r\n"
    );
}

/// The thread that was woken has the connection no more.
#[test]
fn message_for_a_connection_that_moves_is_sent_on_its_new_thread() {
    let state = state(2);
    let [mut from, mut to] = event_loops(&state);
    let (moving, mut client_end) = connection(&state);
    let (staying, mut other_end) = connection(&state);
    let client = Arc::clone(moving.client());
    from.adopt(moving);
    post(&client, "before");
    from.move_to(1, &[0]);
    // At the same position.
    from.adopt(staying);
    from.read_messages();
    post(&client, "between");
    to.read_messages();
    poll(&mut to);
    assert_eq!(read_text(&mut client_end), "+before\r\n+between\r\n");
    assert_eq!(read_text(&mut other_end), "");
    post(&client, "after");
    to.read_messages();
    assert_eq!(read_text(&mut client_end), "+after\r\n");
}

/// Checks for idle connections at a time at which all would be too long without a request.
fn close_idle_later(event_loop: &mut EventLoop) {
    event_loop.state.set_idle_timeout(1);
    event_loop.close_idle(Moment::now() + Duration::from_secs(10));
    event_loop.idle_check_at = Moment::now();
}

#[test]
fn connection_that_waits_for_the_end_of_a_pause_is_not_idle() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (paused, mut paused_end) = connection(&state);
    let (idle, mut idle_end) = connection(&state);
    event_loop.adopt(paused);
    event_loop.adopt(idle);
    state.pause.begin(Moment::now(), Duration::from_secs(1_000), crate::client::Paused::All);
    paused_end.write_all(b"PING\r\n").unwrap();
    poll(&mut event_loop);
    close_idle_later(&mut event_loop);
    assert_eq!(idle_end.read(&mut [0]).unwrap(), 0);
    // The message about the end comes behind the turns of a round.
    state.pause.end();
    event_loop.resume();
    close_idle_later(&mut event_loop);
    poll(&mut event_loop);
    assert_eq!(read_text(&mut paused_end), "+PONG\r\n");
}

#[test]
fn client_that_receives_a_reply_is_not_idle() {
    // Less than one turn sends.
    const READ_BYTES: usize = 64_000;
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    event_loop.adopt(connection);
    for value_bytes in [4 << 20, 900_000] {
        state.store.database(0).set(b"k", &vec![b'x'; value_bytes], Expiry::Never).unwrap();
        client_end.write_all(b"GET k\r\n").unwrap();
        // As much as the system accepts.
        (0..100).for_each(|_| poll(&mut event_loop));
        let later = Moment::now() + Duration::from_secs(10);
        let idle = client.idle(later);
        let start = Moment::now();
        // The time is in milliseconds.
        while start.elapsed() < Duration::from_millis(3) {
            std::thread::yield_now();
        }
        event_loop.turn(0, Moment::now());
        assert_eq!(client.idle(later), idle, "nothing is sent");
        client_end.read_exact(&mut vec![0; READ_BYTES]).unwrap();
        event_loop.turn(0, Moment::now());
        assert!(client.idle(later) < idle, "the reply goes on");
        let mut rest = vec![0; format!("${value_bytes}\r\n\r\n").len() + value_bytes - READ_BYTES];
        client_end.set_nonblocking(true).unwrap();
        let mut received = 0;
        while received < rest.len() {
            poll(&mut event_loop);
            received += client_end.read(&mut rest[received..]).unwrap_or(0);
        }
        client_end.set_nonblocking(false).unwrap();
    }
}

#[test]
fn full_mailbox_closes_its_connection_and_is_counted() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    state.clients.output_limits.set(100, 0, 0);
    event_loop.adopt(connection);
    post(&client, &"x".repeat(90));
    post(&client, &"x".repeat(90));
    event_loop.read_messages();
    assert_eq!(read_text(&mut client_end), "");
    assert!(state.clients.all().is_empty());
    assert_eq!((state.clients.closed_for_output.get(), state.clients.buffered_bytes()), (1, 0));
}

/// It was closed with the next message only, which may never come.
#[test]
fn mailbox_that_stays_above_its_limit_closes_without_a_further_message() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (first, mut first_end) = connection(&state);
    let (second, mut second_end) = connection(&state);
    post(first.client(), &"x".repeat(90));
    post(second.client(), "x");
    event_loop.adopt(first);
    event_loop.adopt(second);
    let mut closed_with = |(hard_bytes, soft_bytes, soft_secs)| {
        state.clients.output_limits.set(hard_bytes, soft_bytes, soft_secs);
        event_loop.output_check_at = Moment::now();
        event_loop.close_slow_readers(Moment::now());
        state.clients.closed_for_output.get()
    };
    assert_eq!([(0, 50, 60), (0, 50, 0), (3, 0, 0)].map(&mut closed_with), [0, 1, 2]);
    event_loop.read_messages();
    assert_eq!([&mut first_end, &mut second_end].map(|end| end.read(&mut [0]).unwrap()), [0, 0]);
}

/// A client that reads a long reply is no slow reader of its messages.
#[test]
fn unsent_replies_do_not_count_as_messages() {
    const REPLIES: usize = 4 << 10;
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    state.clients.output_limits.set(1 << 20, 0, 0);
    event_loop.adopt(connection);
    state.store.database(0).set(b"short", &[b'x'; 1 << 10], Expiry::Never).unwrap();
    client_end.write_all(&b"GET short\r\n".repeat(REPLIES)).unwrap();
    (0..100).for_each(|_| poll(&mut event_loop));
    assert!(event_loop.connections[0].as_ref().unwrap().has_unsent());
    post(&client, "message");
    assert!(!client.is_closing());
    client_end.set_nonblocking(true).unwrap();
    let mut chunk = vec![0; 1 << 20];
    let mut receive = |event_loop: &mut EventLoop, bytes: usize| {
        let mut received = 0;
        while received < bytes {
            poll(event_loop);
            received += client_end.read(&mut chunk).unwrap_or(0);
        }
        assert_eq!(received, bytes);
    };
    receive(&mut event_loop, REPLIES * "$1024\r\n".len() + REPLIES * (1024 + 2) + "+message\r\n".len());
    // Messages count until they are sent.
    let long = "x".repeat(600 << 10);
    for _ in 0..3 {
        post(&client, &long);
        assert!(!client.is_closing());
        receive(&mut event_loop, long.len() + 3);
    }
    post(&client, &long);
    (0..100).for_each(|_| poll(&mut event_loop));
    post(&client, &long);
    assert!(client.is_closing());
}

#[test]
fn messages_follow_unsent_replies() {
    let state = state(1);
    let mut event_loop = event_loop(&state);
    let (connection, mut client_end) = connection(&state);
    let client = Arc::clone(connection.client());
    event_loop.adopt(connection);
    const LARGE: usize = 4 << 20;
    state.store.database(0).set(b"large", &vec![b'x'; LARGE], Expiry::Never).unwrap();
    client_end.write_all(b"GET large\r\n").unwrap();
    poll(&mut event_loop);
    post(&client, "message");
    poll(&mut event_loop);
    client_end.set_nonblocking(true).unwrap();
    let (mut received, mut chunk) = (Vec::new(), vec![0; 1 << 20]);
    while !received.ends_with(b"message\r\n") {
        poll(&mut event_loop);
        let length = client_end.read(&mut chunk).unwrap_or(0);
        received.extend_from_slice(&chunk[..length]);
    }
    assert!(received.ends_with(b"x\r\n+message\r\n") && received.len() > LARGE);
}
