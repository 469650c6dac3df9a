//! Connections: many clients, slow or misbehaving clients, authentication, shutdown.

use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use larder_resp::Frame;
use larder_server::{Config, Password, Server, ServerError};
use larder_testkit::{PATIENCE, until};

use crate::support::{Client, TestServer, connect_unix, encode};

#[test]
fn three_hundred_clients_are_served_concurrently() {
    let server = TestServer::start();
    let mut clients: Vec<_> = (0..300).map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.send(&encode(&["SET", &format!("k{number}"), &number.to_string()]));
        client.send(&encode(&["INCR", &format!("k{number}")]));
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(client.receive(), Frame::Simple("OK".into()));
        assert_eq!(client.receive(), Frame::Integer(number as i64 + 1));
    }
    let listed = clients[0].call(&["CLIENT", "LIST"]);
    let listed = String::from_utf8(listed.as_bytes().unwrap().to_vec()).unwrap();
    assert_eq!(listed.lines().count(), 300);
    assert_eq!(server.stats().snapshot().connections, 300);
}

#[test]
fn client_above_maxclients_gets_error() {
    let server = TestServer::with(Config { maxclients: 2, ..Config::default() });
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.call(&["PING"]), Frame::Simple("PONG".into()));
    assert_eq!(second.call(&["PING"]), Frame::Simple("PONG".into()));
    assert_eq!(server.connect().read_to_end(), b"-ERR max number of clients reached\r\n");
    assert_eq!(server.stats().snapshot().connections_rejected, 1);
    assert_eq!(first.call(&["CONFIG", "SET", "maxclients", "3"]), Frame::Simple("OK".into()));
    assert_eq!(server.connect().call(&["PING"]), Frame::Simple("PONG".into()));
}

/// A client that never reads must neither block other clients nor use unbounded memory.
#[test]
fn client_that_never_reads_is_not_read_from() {
    let server = TestServer::with(Config { threads: Some(1), ..Config::default() });
    let mut other = server.connect();
    other.call(&["SET", "large", &"x".repeat(1 << 20)]);
    let mut slow_reader = server.connect();
    slow_reader.stream.set_nonblocking(true).unwrap();
    let requests = encode(&["GET", "large"]).repeat(100_000);
    let (mut sent, start) = (0, Instant::now());
    while !is_quiet(&mut other) || sent == 0 {
        match slow_reader.stream.write(&requests[sent..]) {
            Ok(n) => sent += n,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(start.elapsed() < PATIENCE, "the server does not stop executing");
    }
    // The requests ask for a hundred gigabytes. Only the socket buffers and the replies of one turn are filled.
    let written = server.stats().snapshot().bytes_out;
    assert!(written < 64 << 20, "{written} bytes of replies for a client that reads nothing");
    // Once the client reads, it gets every reply.
    slow_reader.stream.set_nonblocking(false).unwrap();
    for _ in 0..100 {
        assert_eq!(slow_reader.receive().as_bytes().map(<[u8]>::len), Some(1 << 20));
    }
    drop(slow_reader);
    assert_eq!(other.call(&["PING"]), Frame::Simple("PONG".into()));
}

/// Whether the server executes only the commands of this client.
fn is_quiet(other: &mut crate::support::Client<std::net::TcpStream>) -> bool {
    let processed = |frame: Frame| {
        let text = String::from_utf8(frame.as_bytes().unwrap().to_vec()).unwrap();
        let line =
            text.lines().find_map(|line| line.strip_prefix("total_commands_processed:")).unwrap().to_owned();
        line.parse::<u64>().unwrap()
    };
    let before = processed(other.call(&["INFO", "stats"]));
    for _ in 0..50 {
        other.call(&["PING"]);
    }
    processed(other.call(&["INFO", "stats"])) == before + 51
}

#[test]
fn incomplete_request_of_closed_connection_has_no_effect() {
    let server = TestServer::start();
    for cut in [1, 5, 14, 20, 30] {
        let mut client = server.connect();
        client.send(&encode(&["SET", "half", "a value"])[..cut]);
        drop(client);
    }
    let mut client = server.connect();
    assert_eq!(client.call(&["EXISTS", "half"]), Frame::Integer(0));
}

#[test]
fn exceeded_client_memory_closes_largest_connection() {
    let max_client_memory = Some(larder_server::ByteSize(8 << 20));
    let server = TestServer::with(Config { max_client_memory, ..Config::default() });
    let mut small = server.connect();
    small.send(&encode(&["SET", "small", &"x".repeat(100_000)])[..50_000]);
    let (mut large, mut other) = (server.connect(), server.connect());
    // Incomplete requests, which do not fit together.
    large.send(&encode(&["SET", "large", &"x".repeat(6 << 20)])[..6 << 20]);
    other.send(&encode(&["SET", "other", &"x".repeat(4 << 20)])[..4 << 20]);
    assert_eq!(large.read_to_end(), b"");
    other.send(&encode(&["SET", "other", &"x".repeat(4 << 20)])[4 << 20..]);
    assert_eq!(other.receive(), Frame::Simple("OK".into()));
    small.send(&encode(&["SET", "small", &"x".repeat(100_000)])[50_000..]);
    assert_eq!(small.receive(), Frame::Simple("OK".into()));
    assert_eq!(small.call(&["EXISTS", "large"]), Frame::Integer(0));
}

#[test]
fn client_kill_closes_the_connections_that_match() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let (mut first, mut second, mut third) = (server.connect(), server.connect(), server.connect());
    let (first_id, second_id) = (id_of(&mut first), id_of(&mut second));
    assert_eq!(first.call(&["CLIENT", "KILL", "ID", &second_id]), Frame::Integer(1));
    assert_eq!(second.read_to_end(), b"");
    let address = third.stream.local_addr().unwrap().to_string();
    assert_eq!(first.call(&["CLIENT", "KILL", &address]), Frame::Simple("OK".into()));
    assert_eq!(third.read_to_end(), b"");
    assert_eq!(first.call(&["CLIENT", "KILL", "ID", &first_id]), Frame::Integer(0), "itself is spared");
    let others: Vec<_> = (0..3).map(|_| server.connect()).collect();
    assert_eq!(others.len(), 3);
    // A connection is listed once it is accepted.
    let start = Instant::now();
    while server.stats().snapshot().connections < 4 {
        assert!(start.elapsed() < PATIENCE);
        std::thread::yield_now();
    }
    assert_eq!(first.call(&["CLIENT", "KILL", "TYPE", "normal"]), Frame::Integer(3));
    others.into_iter().for_each(|mut other| assert_eq!(other.read_to_end(), b""));
    // The reply comes before the end.
    first.send(&encode(&["CLIENT", "KILL", "SKIPME", "no"]));
    assert_eq!(first.read_to_end(), b":1\r\n");
}

#[test]
fn client_list_shows_transactions_tracking_and_memory() {
    let server = TestServer::start();
    let (mut other, mut client) = (server.connect_as(larder_resp::Protocol::Resp3), server.connect());
    let own = format!("id={} ", id_of(&mut client));
    let mut line = || {
        let list = other.call(&["CLIENT", "LIST"]);
        let list = String::from_utf8(list.as_bytes().unwrap().to_vec()).unwrap();
        list.lines().find(|line| line.starts_with(&own)).unwrap().to_owned()
    };
    let memory = |line: &str| -> u64 {
        line.split(" tot-mem=").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap()
    };
    assert!(
        line().contains(" flags=N ") && line().contains(" multi=-1 ") && memory(&line()) < 1_000,
        "{}",
        line()
    );
    client.call(&["MULTI"]);
    client.call(&["SET", "k", &"x".repeat(5_000)]);
    client.call(&["GET", "k"]);
    assert!(line().contains(" flags=x ") && line().contains(" multi=2 "), "{}", line());
    assert!((5_000..20_000).contains(&memory(&line())), "{}", line());
    client.call(&["DISCARD"]);
    client.call(&["HELLO", "3"]);
    client.call(&["CLIENT", "TRACKING", "ON", "BCAST"]);
    assert!(line().contains(" flags=tB ") && line().contains(" multi=-1 "), "{}", line());
}

/// Callers that gave up a connection rely on it: nothing of it may overwrite what they write later.
#[test]
fn nothing_is_executed_after_client_kill_has_replied() {
    for threads in [1, 2] {
        let server = TestServer::with(Config { threads: Some(threads), ..Config::default() });
        let mut own = server.connect();
        let increments = encode(&["INCR", "counter"]).repeat(20_000);
        for round in 0..30 {
            let (mut flooding, mut subscriber) = (server.connect(), server.connect());
            let id = id_of(&mut flooding);
            subscriber.call(&["SUBSCRIBE", "channel"]);
            let flood = std::thread::spawn({
                let (mut stream, increments) = (flooding.stream.try_clone().unwrap(), increments.clone());
                // It ends when the connection is closed.
                move || while stream.write_all(&increments).is_ok() {}
            });
            let start = Instant::now();
            while own.call(&["GET", "counter"]) == Frame::Null && start.elapsed() < PATIENCE {}
            assert_eq!(own.call(&["CLIENT", "KILL", "ID", &id]), Frame::Integer(1));
            assert_eq!(own.call(&["DEL", "counter"]), Frame::Integer(1));
            std::thread::sleep(Duration::from_millis(2));
            assert_eq!(
                own.call(&["EXISTS", "counter"]),
                Frame::Integer(0),
                "round {round}, {threads} threads"
            );
            assert_eq!(own.call(&["CLIENT", "KILL", "TYPE", "pubsub"]), Frame::Integer(1));
            assert_eq!(own.call(&["PUBLISH", "channel", "message"]), Frame::Integer(0));
            flood.join().unwrap();
        }
    }
}

/// Both are on threads that wait for each other, and one holds the locks of a transaction.
#[test]
fn connections_that_kill_each_other_do_not_hang() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    for _ in 0..50 {
        let (mut one, mut other) = (server.connect(), server.connect());
        let (one_id, other_id) = (id_of(&mut one), id_of(&mut other));
        one.send(&encode(&["CLIENT", "KILL", "ID", &other_id]));
        for request in [&["MULTI"][..], &["SET", "a", "1"], &["CLIENT", "KILL", "ID", &one_id], &["EXEC"]] {
            // It may be closed already.
            _ = other.stream.write_all(&encode(request));
        }
        for mut client in [one, other] {
            _ = client.stream.shutdown(Shutdown::Write);
            let end = client.stream.read_to_end(&mut Vec::new()).map_err(|error| error.kind());
            assert!(matches!(end, Ok(_) | Err(ErrorKind::ConnectionReset)), "{end:?}");
        }
    }
    assert_eq!(server.connect().call(&["PING"]), Frame::Simple("PONG".into()));
}

fn id_of<S: Read + Write>(client: &mut Client<S>) -> String {
    match client.call(&["CLIENT", "ID"]) {
        Frame::Integer(id) => id.to_string(),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn clients_are_listed_in_the_order_of_their_ids_in_the_request() {
    fn listed<S: Read + Write>(mut first: Client<S>, mut second: Client<S>) -> Vec<usize> {
        let ids = [id_of(&mut first), id_of(&mut second)];
        let reply = first.call(&["CLIENT", "LIST", "ID", &ids[1], "999999", &ids[0], &ids[1]]);
        let lines = String::from_utf8(reply.as_bytes().unwrap().to_vec()).unwrap();
        let position = |line: &str| ids.iter().position(|id| line.starts_with(&format!("id={id} "))).unwrap();
        lines.lines().map(position).collect()
    }
    let server = TestServer::start();
    assert_eq!(listed(server.connect(), server.connect()), [1, 0, 1]);
    let Some(redis) = larder_testkit::RedisServer::start() else { return };
    let [first, second] = [(); 2].map(|()| connect_unix(&redis.socket()).unwrap());
    assert_eq!(listed(first, second), [1, 0, 1]);
}

#[test]
fn quit_replies_and_closes() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.read_to_end(), b"+PONG\r\n+OK\r\n");
}

#[test]
fn commands_without_password_are_rejected() {
    let config = Config { requirepass: Some(Password::new("secret")), ..Config::default() };
    let server = TestServer::with(config);
    let mut client = server.connect();
    let no_auth = Frame::Error("NOAUTH Authentication required.".into());
    let wrong = Frame::Error("WRONGPASS invalid username-password pair or user is disabled.".into());
    for request in [&["GET", "k"][..], &["PING"], &["INFO"], &["COMMAND"], &["CLIENT", "LIST"]] {
        assert_eq!(client.call(request), no_auth, "{request:?}");
    }
    let aborted = "EXECABORT Transaction discarded because of: NOAUTH Authentication required.";
    assert_eq!(client.call(&["EXEC"]), Frame::Error(aborted.into()));
    assert!(
        matches!(client.call(&["HELLO", "3"]), Frame::Error(text) if text.starts_with("NOAUTH HELLO must"))
    );
    assert_eq!(client.call(&["AUTH", "wrong"]), wrong);
    assert_eq!(client.call(&["AUTH", "someone", "secret"]), wrong);
    assert_eq!(client.call(&["HELLO", "3", "AUTH", "default", "wrong"]), wrong);
    // A failed AUTH in a pipeline gets a reply too.
    client.send(b"PING\r\nAUTH wrong\r\nAUTH default secret\r\nPING\r\n");
    assert_eq!(client.receive(), no_auth);
    assert_eq!(client.receive(), wrong);
    assert_eq!(client.receive(), Frame::Simple("OK".into()));
    assert_eq!(client.receive(), Frame::Simple("PONG".into()));
    assert_eq!(client.call(&["RESET"]), Frame::Simple("RESET".into()));
    assert_eq!(client.call(&["PING"]), no_auth);
    assert!(
        matches!(client.call(&["HELLO", "3", "AUTH", "default", "secret"]), Frame::Map(fields) if fields.len() == 7)
    );
}

#[test]
fn password_that_is_set_later_is_required_from_new_connections() {
    let server = TestServer::start();
    let (ok, mut first) = (Frame::Simple("OK".into()), server.connect());
    assert_eq!(first.call(&["CONFIG", "SET", "requirepass", "secret"]), ok);
    assert_eq!(first.call(&["PING"]), Frame::Simple("PONG".into()));
    let mut second = server.connect();
    assert_eq!(second.call(&["PING"]), Frame::Error("NOAUTH Authentication required.".into()));
    assert_eq!(second.call(&["AUTH", "secret"]), ok);
    assert_eq!(second.call(&["CONFIG", "SET", "requirepass", ""]), ok);
    assert_eq!(server.connect().call(&["PING"]), Frame::Simple("PONG".into()));
}

#[test]
fn non_loopback_address_requires_password() {
    let listen = Some("0.0.0.0:0".parse().unwrap());
    let result = Server::bind(Config { listen, ..Config::default() });
    let Err(error @ ServerError::Unprotected(_)) = result.map(|_| ()) else {
        panic!("the address is accepted")
    };
    assert!(error.to_string().contains("0.0.0.0:0") && error.to_string().contains("requirepass"), "{error}");
    let requirepass = Some(Password::new("secret"));
    assert!(Server::bind(Config { listen, requirepass, ..Config::default() }).is_ok());
}

#[test]
fn port_in_use_is_error_with_address() {
    let server = TestServer::start();
    let listen = Some(server.address());
    let error = Server::bind(Config { listen, ..Config::default() }).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot bind {}", server.address())), "{error}");
}

#[test]
fn unix_socket_replaces_no_file_of_others() {
    let folder = tempfile::tempdir().unwrap();
    let (file, link) = (folder.path().join("precious.txt"), folder.path().join("link"));
    std::fs::write(&file, "precious").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    for path in [&file, &link] {
        let bound =
            Server::bind(Config { listen: None, unixsocket: Some(path.clone()), ..Config::default() });
        let error = bound.map(drop).unwrap_err().to_string();
        assert!(
            error.contains(&*path.to_string_lossy()) && error.ends_with("exists and is no socket"),
            "{error}"
        );
        assert_eq!(std::fs::read_to_string(path).unwrap(), "precious");
    }
    // A server that stops leaves what has taken the place of its socket.
    let path = folder.path().join("socket");
    let server = TestServer::with(Config { unixsocket: Some(path.clone()), ..Config::default() });
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "precious").unwrap();
    drop(server);
    assert_eq!(std::fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn unix_socket_serves_and_its_file_is_removed_on_stop() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.sock");
    // The socket file of a server that was killed.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = TestServer::with(Config { unixsocket: Some(path.clone()), ..Config::default() });
    let mut client = connect_unix(&path).unwrap();
    assert_eq!(client.call(&["SET", "k", "v"]), Frame::Simple("OK".into()));
    assert_eq!(server.connect().call(&["GET", "k"]).as_bytes(), Some(&b"v"[..]));
    let second = Server::bind(Config { listen: None, unixsocket: Some(path.clone()), ..Config::default() });
    assert!(matches!(second, Err(ServerError::UnixSocket { .. })), "a socket in use is not replaced");
    server.stop();
    assert!(!path.exists());
}

#[test]
fn shutdown_closes_idle_connections_and_sends_pending_replies() {
    let server = TestServer::start();
    let mut idle = server.connect();
    assert_eq!(idle.call(&["PING"]), Frame::Simple("PONG".into()));
    let mut pending = server.connect();
    // Larger than the socket buffers.
    let value = "x".repeat(20 << 20);
    pending.call(&["SET", "large", &value]);
    pending.send(&encode(&["GET", "large"]));
    let mut first = [0; 1];
    std::io::Read::read_exact(&mut pending.stream, &mut first).unwrap();
    assert_eq!(&first, b"$");
    let stopping = std::thread::spawn(move || server.stop());
    assert_eq!(idle.read_to_end(), b"");
    let rest = pending.read_to_end();
    assert_eq!(rest.len(), value.len() + "20971520\r\n\r\n".len());
    stopping.join().unwrap();
}

/// As a supervisor does with a server that it aborts.
#[test]
fn dropped_server_closes_its_connections() {
    fn assert_send<F: Future + Send + 'static>(future: F) -> F {
        future
    }
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::bind(Config { listen, ..Config::default() }).unwrap();
    let address = server.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let running = runtime.spawn(assert_send(server.run(std::future::pending())));
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    std::io::Read::read_exact(&mut stream, &mut reply).unwrap();
    running.abort();
    assert!(runtime.block_on(running).unwrap_err().is_cancelled());
    assert_eq!(std::io::Read::read(&mut stream, &mut reply).unwrap(), 0);
    assert!(std::net::TcpStream::connect(address).is_err());
}

/// What the client reads is the same as from Redis, byte for byte.
#[test]
fn client_reply_drops_the_same_replies_as_redis() {
    let Some(redis) = larder_testkit::RedisServer::start() else { return };
    let server = TestServer::start();
    let requests = b"CLIENT REPLY SKIP\r\nSET k 1\r\nGET k\r\nCLIENT REPLY OFF\r\nGET k\r\nFOO\r\nKEYS *\r\nMULTI\r\nINCR k\r\nEXEC\r\n\
        CLIENT REPLY SKIP\r\nPING\r\nCLIENT REPLY x\r\nCLIENT REPLY ON\r\nGET k\r\nCLIENT REPLY SKIP\r\nCLIENT REPLY SKIP\r\nPING\r\nPING\r\n\
        CLIENT REPLY SKIP\r\nFOO\r\nCLIENT REPLY\r\nCLIENT REPLY x\r\nCLIENT REPLY OFF\r\nCLIENT REPLY ON\r\nECHO end\r\n";
    let (mut on_redis, mut on_larder) = (connect_unix(&redis.socket()).unwrap(), server.connect());
    on_redis.send(requests);
    on_larder.send(requests);
    let end = b"$3\r\nend\r\n";
    let (redis, larder) = (on_redis.read_until(end), on_larder.read_until(end));
    assert_eq!(larder.escape_ascii().to_string(), redis.escape_ascii().to_string());
}

#[test]
fn messages_are_sent_without_replies() {
    let server = TestServer::start();
    let (mut subscriber, mut publisher) = (server.connect_as(larder_resp::Protocol::Resp3), server.connect());
    subscriber.send(b"SUBSCRIBE a\r\nCLIENT REPLY OFF\r\nPING\r\n");
    subscriber.receive();
    publisher.call(&["PUBLISH", "a", "x"]);
    assert!(matches!(subscriber.receive(), Frame::Push(_)));
    publisher.call(&["PUBLISH", "a", "x"]);
    subscriber.send(b"MULTI\r\nSET k v\r\nEXEC\r\nGET k\r\n");
    assert!(matches!(subscriber.receive(), Frame::Push(_)));
    subscriber.send(b"CLIENT REPLY ON\r\n");
    assert_eq!(subscriber.receive(), Frame::Simple("OK".into()));
}

#[test]
fn client_kill_by_age_spares_younger_connections() {
    let server = TestServer::start();
    let (mut own, mut other) = (server.connect(), server.connect());
    for wrong in ["0", "-1", "x"] {
        assert!(matches!(own.call(&["CLIENT", "KILL", "MAXAGE", wrong]), Frame::Error(_)), "{wrong}");
    }
    assert_eq!(own.call(&["CLIENT", "KILL", "MAXAGE", "100000"]), Frame::Integer(0));
    assert_eq!(other.call(&["PING"]), Frame::Simple("PONG".into()));
    until("the other connection is a second old", || {
        (own.call(&["CLIENT", "KILL", "MAXAGE", "1"]) == Frame::Integer(1)).then_some(())
    });
    assert_eq!(other.read_to_end(), b"");
}

#[test]
fn paused_commands_wait_for_the_end_of_the_pause() {
    let server = TestServer::with(Config { threads: Some(2), ..Config::default() });
    let (mut own, mut other) = (server.connect(), server.connect());
    let ok = Frame::Simple("OK".into());
    // Writes wait, also those in transactions, in the order of their pipeline.
    assert_eq!(own.call(&["CLIENT", "PAUSE", "100000", "WRITE"]), ok);
    other.send(b"GET k\r\nMULTI\r\nGET k\r\nEXEC\r\nMULTI\r\nSET k v\r\nEXEC\r\nGET k\r\n");
    for expected in [Frame::Null, ok.clone(), queued(), Frame::Array(vec![Frame::Null]), ok.clone(), queued()]
    {
        assert_eq!(other.receive(), expected);
    }
    assert_eq!(own.call(&["EXISTS", "k"]), Frame::Integer(0));
    assert_eq!(own.call(&["CLIENT", "UNPAUSE"]), ok);
    assert_eq!(other.receive(), Frame::Array(vec![ok.clone()]));
    assert_eq!(other.receive().as_bytes(), Some(&b"v"[..]));
    // All commands wait, those of the own connection, too, but for the one that ends the pause.
    own.send(b"CLIENT PAUSE 100000\r\nPING\r\nCLIENT UNPAUSE\r\n");
    assert_eq!(own.receive(), ok);
    other.send(b"PING\r\n");
    let mut third = server.connect();
    assert_eq!(third.call(&["CLIENT", "UNPAUSE"]), ok);
    assert_eq!(own.receive(), Frame::Simple("PONG".into()));
    assert_eq!(own.receive(), ok);
    assert_eq!(other.receive(), Frame::Simple("PONG".into()));
    // A pause ends by itself.
    assert_eq!(own.call(&["CLIENT", "PAUSE", "30", "ALL"]), ok);
    assert_eq!(own.call(&["PING"]), Frame::Simple("PONG".into()));
    for (time, mode) in [("x", "ALL"), ("-1", "WRITE"), ("1", "x")] {
        assert!(matches!(own.call(&["CLIENT", "PAUSE", time, mode]), Frame::Error(_)), "{time} {mode}");
    }
}

fn queued() -> Frame {
    Frame::Simple("QUEUED".into())
}

#[test]
fn idle_connection_is_closed_after_the_timeout() {
    let server = TestServer::with(Config { threads: Some(1), ..Config::default() });
    let (mut idle, mut subscriber, mut other) = (server.connect(), server.connect(), server.connect());
    subscriber.call(&["SUBSCRIBE", "a"]);
    assert_eq!(idle.call(&["PING"]), Frame::Simple("PONG".into()));
    assert_eq!(other.call(&["CONFIG", "SET", "timeout", "1"]), Frame::Simple("OK".into()));
    assert_eq!(idle.read_to_end(), b"");
    assert_eq!(other.read_to_end(), b"", "it was idle, too");
    assert_eq!(server.connect().call(&["PUBLISH", "a", "x"]), Frame::Integer(1));
    assert!(matches!(subscriber.receive(), Frame::Array(_)));
}

#[cfg(feature = "scripts")]
#[test]
fn shutdown_ends_a_script_without_a_limit() {
    let server = TestServer::with(Config { drain_timeout_ms: 100, ..Config::default() });
    let mut client = server.connect();
    assert_eq!(client.call(&["CONFIG", "SET", "busy-reply-threshold", "0"]), Frame::Simple("OK".into()));
    client.send(&encode(&["EVAL", "redis.call('set', 'k', '1') while true do end", "1", "k"]));
    // Without this the connection may be closed before the script begins.
    std::thread::sleep(Duration::from_millis(50));
    let store = server.store();
    server.stop();
    let reply = format!("{:?}", client.receive());
    assert!(reply.contains("its writes were undone: the server ends"), "{reply}");
    let next = TestServer::with_store(Config::default(), store);
    assert_eq!(next.connect().call(&["EXISTS", "k"]), Frame::Integer(0));
}
