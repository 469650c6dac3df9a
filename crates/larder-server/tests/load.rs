//! Thousands of connections, clients that never read or send half of a request, and memory that stays bounded. The server
//! is a process of its own.

use std::io::Write;
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use larder_resp::{Frame, Protocol};
use larder_testkit::{may_open, needs, until};
use serde_json::json;

use crate::server_process::ServerProcess;
use crate::support::{Client, connect, encode};

const MIB: u64 = 1 << 20;

#[test]
fn ten_thousand_idle_and_a_thousand_busy_connections_are_served() {
    const IDLE: usize = 10_000;
    /// Threads, and the connections of each.
    const BUSY: (usize, usize) = (4, 250);
    const ROUNDS: usize = 10;
    if needs("a limit of 12000 open files", may_open(12_000)).is_none() {
        return;
    }
    let server = ServerProcess::start(&json!({ "maxclients": 11_100, "max_memory": "64mb" }));
    let before = server.resident_bytes();
    let mut idle: Vec<_> = (0..IDLE).map(|_| server.connect()).collect();
    until("all are accepted", || (server.info("connected_clients") > IDLE as u64).then_some(()));
    let each = (server.resident_bytes().saturating_sub(before)) / IDLE as u64;
    assert!(each <= 4 << 10, "an idle connection costs {each} bytes");
    let address = server.address();
    thread::scope(|scope| {
        for number in 0..BUSY.0 {
            scope.spawn(move || {
                let mut clients: Vec<_> = (0..BUSY.1).map(|_| connect(address)).collect();
                (0..ROUNDS).for_each(|round| exchange(&mut clients, number, round));
            });
        }
    });
    for client in &mut idle {
        client.send(b"PING\r\n");
    }
    assert!(idle.iter_mut().all(|client| client.receive() == Frame::Simple("PONG".into())));
    drop(idle);
    until("all are closed", || (server.info("connected_clients") <= 1).then_some(()));
    until("nothing is buffered", || (server.info("mem_clients_normal") < 64 << 10).then_some(()));
}

/// All clients send before the first reply is read.
fn exchange(clients: &mut [Client<TcpStream>], number: usize, round: usize) {
    let name = |index: usize| format!("{number}:{index}");
    for (index, client) in clients.iter_mut().enumerate() {
        let value = round.to_string();
        client.send(&[encode(&["SET", &name(index), &value]), encode(&["GET", &name(index)])].concat());
    }
    for client in clients {
        assert_eq!(client.receive(), Frame::Simple("OK".into()));
        assert_eq!(client.receive().as_bytes(), Some(round.to_string().as_bytes()));
    }
}

/// Six of these would need three times as much as all clients may have together.
#[test]
fn half_sent_requests_stay_within_the_default_client_memory() {
    const VALUE: usize = 32 << 20;
    let server = ServerProcess::start(&json!({ "max_memory": "128mb" }));
    let before = server.resident_bytes();
    let request = encode(&["SET", "k", &"x".repeat(VALUE)]);
    let mut clients: Vec<_> = (0..6).map(|_| server.connect()).collect();
    for client in &mut clients {
        // The server may close the connection before it has read everything.
        _ = client.stream.write_all(&request[..VALUE - 1_000]);
        until("the largest is closed", || (server.info("mem_clients_normal") <= 64 * MIB).then_some(()));
    }
    let more = server.resident_bytes().saturating_sub(before);
    assert!(more <= 80 * MIB, "{more} bytes for clients; half of max_memory is {}", 64 * MIB);
    let finish = |client: &mut Client<TcpStream>| {
        client.stream.write_all(&request[VALUE - 1_000..]).is_ok()
            && matches!(client.try_receive(), Ok(Some(Frame::Simple(_))))
    };
    let finished = clients.iter_mut().filter_map(|client| finish(client).then_some(())).count();
    assert!((1..6).contains(&finished), "{finished} requests were finished");
    assert_eq!(server.connect().call(&["STRLEN", "k"]), Frame::Integer(VALUE as i64));
}

#[test]
fn request_above_the_client_memory_is_refused_before_it_is_sent() {
    let server = ServerProcess::start(&json!({ "max_memory": "1gb", "max_client_memory": "100mb" }));
    let mut client = server.connect();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$536870912\r\n");
    assert_eq!(client.receive(), Frame::Error("ERR Protocol error: too big request".into()));
    assert_eq!(client.read_to_end(), b"");
    // The default follows the capacity.
    let server = ServerProcess::start(&json!({ "max_memory": "1mb" }));
    let mut client = server.connect();
    client.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$67108864\r\n");
    assert_eq!(client.receive(), Frame::Error("ERR Protocol error: too big request".into()));
}

/// Those who do not read are closed, and have received everything before that; those who read miss nothing.
#[test]
fn subscribers_that_never_read_are_closed_and_cost_bounded_memory() {
    const SUBSCRIBERS: usize = 50;
    const MESSAGES: usize = 900;
    const BYTES: usize = 60_000;
    let server = ServerProcess::start(&json!({ "max_memory": "64mb" }));
    let before = server.resident_bytes();
    let subscribe = || {
        let mut client = server.connect();
        client.call(&["HELLO", "3"]);
        assert!(matches!(client.call(&["SUBSCRIBE", "news"]), Frame::Push(_)));
        client
    };
    let mut deaf: Vec<_> = (0..SUBSCRIBERS).map(|_| subscribe()).collect();
    let (mut reader, mut publisher) = (subscribe(), server.connect());
    let mut most = 0;
    for number in 0..MESSAGES {
        let message = format!("{number:0>BYTES$}");
        assert!(matches!(publisher.call(&["PUBLISH", "news", &message]), Frame::Integer(1..)));
        assert_eq!(number_of(&reader.receive()), number);
        most = most.max(server.resident_bytes().saturating_sub(before));
    }
    assert!(most <= 128 * MIB, "{most} bytes for subscribers that may have {}", 64 * MIB);
    let mut numbers = MESSAGES..;
    until("only the reader is left", || {
        let number = numbers.next()?.to_string();
        (publisher.call(&["PUBLISH", "news", &number]) == Frame::Integer(1)).then_some(())
    });
    for client in &mut deaf {
        let mut expected = 0;
        // The end may be a reset, because the server has closed the connection with messages that were not sent.
        while let Ok(Some(message)) = client.try_receive() {
            assert_eq!(number_of(&message), expected, "a message is missing");
            expected += 1;
        }
        assert!(expected < MESSAGES, "it was not closed");
    }
}

fn number_of(message: &Frame) -> usize {
    let Frame::Push(parts) = message else { panic!("{message:?}") };
    std::str::from_utf8(parts[2].as_bytes().unwrap()).unwrap().parse().unwrap()
}

/// As long as `LARDER_SOAK` says, or two seconds: everything that allocates, on connections that come and go.
#[test]
fn memory_stays_bounded_in_a_soak() {
    const CLIENTS: u64 = 8;
    let seconds = std::env::var("LARDER_SOAK").map_or(2.0, |text| text.parse().expect("seconds"));
    let server = ServerProcess::start(&json!({ "max_memory": "32mb", "threads": 2 }));
    let before = server.resident_bytes();
    let (end, over) = (Instant::now() + Duration::from_secs_f64(seconds), AtomicBool::new(false));
    let address = server.address();
    let mut most = 0;
    thread::scope(|scope| {
        let clients: Vec<_> = (1..=CLIENTS)
            .map(|seed| {
                let over = &over;
                scope.spawn(move || {
                    let mut random = Random(seed);
                    while !over.load(Ordering::Relaxed) {
                        use_connection(address, &mut random);
                    }
                })
            })
            .collect();
        while Instant::now() < end && !clients.iter().any(|client| client.is_finished()) {
            most = most.max(server.resident_bytes().saturating_sub(before));
            // The limit of the charges may just have become lower.
            assert!(server.info("used_memory") <= 34 * MIB);
            thread::sleep(Duration::from_millis(20));
        }
        over.store(true, Ordering::Relaxed);
    });
    // The capacity, the scripts that are kept, the buffers of eight clients, and what the allocator keeps.
    assert!(most <= 128 * MIB, "{most} bytes above the start");
    until("all connections are closed", || (server.info("connected_clients") == 1).then_some(()));
    assert_eq!(server.connect().call(&["FLUSHALL"]), Frame::Simple("OK".into()));
    until("nothing is left", || {
        (server.info("used_memory") == 0 && server.info("mem_clients_normal") < 64 << 10).then_some(())
    });
    assert_eq!(server.info("pubsub_channels"), 0);
    until("no key is tracked", || (server.info("tracking_total_keys") == 0).then_some(()));
}

/// A pseudo-random sequence.
struct Random(u64);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// One connection: some requests of every kind, and an end that is not always polite.
fn use_connection(address: SocketAddr, random: &mut Random) {
    let mut client = connect(address);
    if random.below(2) == 0 {
        let version = Protocol::Resp3.version().to_string();
        client.call(&["HELLO", &version]);
        client.call(&["CLIENT", "TRACKING", "ON"]);
    }
    let mut requests = Vec::new();
    for _ in 0..random.below(200) {
        requests.extend_from_slice(&request(random));
    }
    let is_cut = random.below(8) == 0;
    let length = if is_cut { requests.len() / 2 } else { requests.len() };
    // The server does not read from a client that does not read its replies.
    client.stream.set_write_timeout(Some(Duration::from_millis(50))).unwrap();
    let is_sent = client.stream.write_all(&requests[..length]).is_ok();
    if is_sent && !is_cut && random.below(8) > 0 {
        _ = client.stream.shutdown(Shutdown::Write);
        client.read_to_end();
    }
}

fn request(random: &mut Random) -> Vec<u8> {
    let key = format!("key:{}", random.below(20_000));
    let value = "x".repeat([0, 10, 100, 1_000, 5_000, 100_000][random.below(6) as usize]);
    let number = random.below(1_000).to_string();
    match random.below(16) {
        0..3 => encode(&["SET", &key, &value]),
        3 => encode(&["SET", &key, &value, "PX", &number]),
        4..6 => encode(&["GET", &key]),
        6 => encode(&["ZADD", &format!("set:{}", random.below(50)), &number, &key]),
        7 => encode(&["APPEND", &key, &value]),
        8 => encode(&["EVAL", &format!("return redis.call('SET', KEYS[1], '{number}')"), "1", &key]),
        9 => [encode(&["MULTI"]), encode(&["SET", &key, &value]), encode(&["EXEC"])].concat(),
        10 => encode(&["SUBSCRIBE", &format!("channel:{number}")]),
        11 => encode(&["PUBLISH", &format!("channel:{number}"), &value]),
        12 => encode(&["WATCH", &key]),
        13 => encode(&["HSET", &format!("hash:{}", random.below(50)), &key, &value]),
        14 => {
            let hash = format!("hash:{}", random.below(50));
            encode(&["HSETEX", &hash, "PX", &number, "FIELDS", "1", &key, &value])
        }
        _ => encode(&["DEL", &key]),
    }
}
