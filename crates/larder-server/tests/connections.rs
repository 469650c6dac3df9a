//! Many clients, slow ones, rude ones; authentication; shutdown.

use std::io::Write;
use std::time::Instant;

use larder_resp::Frame;
use larder_server::{Config, Password, Server, ServerError};
use larder_testkit::PATIENCE;

use crate::support::{TestServer, connect_unix, encode};

#[test]
fn three_hundred_clients_are_served_at_once() {
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
fn one_client_too_many_is_told_so() {
    let server = TestServer::with(Config { maxclients: 2, ..Config::default() });
    let (mut first, mut second) = (server.connect(), server.connect());
    assert_eq!(first.call(&["PING"]), Frame::Simple("PONG".into()));
    assert_eq!(second.call(&["PING"]), Frame::Simple("PONG".into()));
    assert_eq!(server.connect().read_to_end(), b"-ERR max number of clients reached\r\n");
    assert_eq!(server.stats().snapshot().connections_rejected, 1);
    assert_eq!(first.call(&["CONFIG", "SET", "maxclients", "3"]), Frame::Simple("OK".into()));
    assert_eq!(server.connect().call(&["PING"]), Frame::Simple("PONG".into()));
}

/// A client that never reads must neither stop the others nor grow the server: it is not read from any more.
#[test]
fn a_client_that_never_reads_is_not_read_from() {
    let server = TestServer::with(Config { threads: Some(1), ..Config::default() });
    let mut other = server.connect();
    other.call(&["SET", "large", &"x".repeat(1 << 20)]);
    let mut deaf = server.connect();
    deaf.stream.set_nonblocking(true).unwrap();
    let requests = encode(&["GET", "large"]).repeat(100_000);
    let (mut sent, began) = (0, Instant::now());
    while !is_quiet(&mut other) || sent == 0 {
        match deaf.stream.write(&requests[sent..]) {
            Ok(n) => sent += n,
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
        assert!(began.elapsed() < PATIENCE, "the server goes on executing");
    }
    // What the sockets' buffers take and the one turn that found them full, of a hundred gigabytes asked for.
    let written = server.stats().snapshot().bytes_out;
    assert!(written < 64 << 20, "{written} bytes of replies for a client that reads nothing");
    // Once it reads, it gets every reply that it is owed.
    deaf.stream.set_nonblocking(false).unwrap();
    for _ in 0..100 {
        assert_eq!(deaf.receive().as_bytes().map(<[u8]>::len), Some(1 << 20));
    }
    drop(deaf);
    assert_eq!(other.call(&["PING"]), Frame::Simple("PONG".into()));
}

/// Whether the server has executed nothing but our own question for a while.
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
fn a_client_that_leaves_in_the_middle_of_a_request_leaves_nothing() {
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
fn when_connections_hold_too_much_the_largest_is_closed() {
    let max_client_memory = Some(larder_server::ByteSize(8 << 20));
    let server = TestServer::with(Config { max_client_memory, ..Config::default() });
    let mut small = server.connect();
    small.send(&encode(&["SET", "small", &"x".repeat(100_000)])[..50_000]);
    let mut large = server.connect();
    // Announced in full and never finished; the server may hang up before it has taken everything.
    let _ = large.stream.write_all(&encode(&["SET", "large", &"x".repeat(32 << 20)])[..31 << 20]);
    assert_eq!(large.read_to_end(), b"");
    small.send(&encode(&["SET", "small", &"x".repeat(100_000)])[50_000..]);
    assert_eq!(small.receive(), Frame::Simple("OK".into()));
    assert_eq!(small.call(&["EXISTS", "large"]), Frame::Integer(0));
}

#[test]
fn quit_answers_and_closes() {
    let server = TestServer::start();
    let mut client = server.connect();
    client.send(b"PING\r\nQUIT\r\nPING\r\n");
    assert_eq!(client.read_to_end(), b"+PONG\r\n+OK\r\n");
}

#[test]
fn nothing_works_without_the_password() {
    let config = Config { requirepass: Some(Password::new("secret")), ..Config::default() };
    let server = TestServer::with(config);
    let mut client = server.connect();
    let no_auth = Frame::Error("NOAUTH Authentication required.".into());
    let wrong = Frame::Error("WRONGPASS invalid username-password pair or user is disabled.".into());
    for request in [&["GET", "k"][..], &["PING"], &["INFO"], &["COMMAND"], &["CLIENT", "LIST"]] {
        assert_eq!(client.call(request), no_auth, "{request:?}");
    }
    assert!(
        matches!(client.call(&["HELLO", "3"]), Frame::Error(text) if text.starts_with("NOAUTH HELLO must"))
    );
    assert_eq!(client.call(&["AUTH", "wrong"]), wrong);
    assert_eq!(client.call(&["AUTH", "someone", "secret"]), wrong);
    assert_eq!(client.call(&["HELLO", "3", "AUTH", "default", "wrong"]), wrong);
    // A failed AUTH in a pipeline is answered too.
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
fn an_address_in_reach_of_others_needs_a_password() {
    let listen = Some("0.0.0.0:0".parse().unwrap());
    let refused = Server::bind(Config { listen, ..Config::default() });
    let Err(error @ ServerError::Unprotected(_)) = refused.map(|_| ()) else { panic!("it was not refused") };
    assert!(error.to_string().contains("0.0.0.0:0") && error.to_string().contains("requirepass"), "{error}");
    let requirepass = Some(Password::new("secret"));
    assert!(Server::bind(Config { listen, requirepass, ..Config::default() }).is_ok());
}

#[test]
fn a_taken_port_is_an_error_that_names_it() {
    let server = TestServer::start();
    let listen = Some(server.address());
    let error = Server::bind(Config { listen, ..Config::default() }).map(|_| ()).unwrap_err();
    assert!(error.to_string().starts_with(&format!("cannot bind {}", server.address())), "{error}");
}

#[test]
fn a_unix_socket_serves_and_its_file_goes_with_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("larder.sock");
    // What a server that was killed has left.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let server = TestServer::with(Config { unixsocket: Some(path.clone()), ..Config::default() });
    let mut client = connect_unix(&path).unwrap();
    assert_eq!(client.call(&["SET", "k", "v"]), Frame::Simple("OK".into()));
    assert_eq!(server.connect().call(&["GET", "k"]).as_bytes(), Some(&b"v"[..]));
    let again = Server::bind(Config { listen: None, unixsocket: Some(path.clone()), ..Config::default() });
    assert!(matches!(again, Err(ServerError::UnixSocket { .. })), "a socket that answers is not replaced");
    server.stop();
    assert!(!path.exists());
}

#[test]
fn shutdown_ends_idle_connections_and_waits_for_replies_that_are_owed() {
    let server = TestServer::start();
    let mut idle = server.connect();
    assert_eq!(idle.call(&["PING"]), Frame::Simple("PONG".into()));
    let mut owed = server.connect();
    // Large enough that the sockets' buffers cannot hold it.
    let value = "x".repeat(20 << 20);
    owed.call(&["SET", "large", &value]);
    owed.send(&encode(&["GET", "large"]));
    let mut first = [0; 1];
    std::io::Read::read_exact(&mut owed.stream, &mut first).unwrap();
    assert_eq!(&first, b"$");
    let stopping = std::thread::spawn(move || server.stop());
    assert_eq!(idle.read_to_end(), b"");
    let rest = owed.read_to_end();
    assert_eq!(rest.len(), value.len() + "20971520\r\n\r\n".len());
    stopping.join().unwrap();
}

/// What a supervisor does with a server that it gives up.
#[test]
fn a_server_that_is_dropped_ends_its_connections() {
    fn sent<F: Future + Send + 'static>(future: F) -> F {
        future
    }
    let listen = Some("127.0.0.1:0".parse().unwrap());
    let server = Server::bind(Config { listen, ..Config::default() }).unwrap();
    let address = server.local_addr().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let running = runtime.spawn(sent(server.run(std::future::pending())));
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    std::io::Read::read_exact(&mut stream, &mut reply).unwrap();
    running.abort();
    assert!(runtime.block_on(running).unwrap_err().is_cancelled());
    assert_eq!(std::io::Read::read(&mut stream, &mut reply).unwrap(), 0);
    assert!(std::net::TcpStream::connect(address).is_err());
}
