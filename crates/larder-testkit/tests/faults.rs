//! The faults on which other tests depend do happen.

use larder_testkit::{Direction, FlakyProxy, RedisServer, ScriptedProxy};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn connect(url: &str) -> TcpStream {
    let stream = TcpStream::connect(url.trim_start_matches("redis://")).expect("it listens");
    stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    stream
}

/// What arrives for one command, until the line ends or breaks.
fn ask(stream: &mut TcpStream, command: &str) -> String {
    _ = stream.write_all(format!("{command}\r\n").as_bytes());
    let mut reply = [0; 256];
    let length = stream.read(&mut reply).unwrap_or(0);
    String::from_utf8_lossy(&reply[..length]).into_owned()
}

#[test]
fn server_faults_happen_and_end() {
    let Some(mut server) = RedisServer::start() else { return };
    server.command("SET k old");
    server.take_snapshot();
    server.command("SET k new");
    server.restart_from_snapshot();
    assert_eq!(server.command("GET k"), "$3\r\nold\r\n");
    server.set_full(true);
    assert!(server.command("SET k big").starts_with("-OOM"));
    server.set_full(false);
    server.set_read_only(true);
    assert!(server.command("SET k more").starts_with("-READONLY"));
    assert_eq!(server.command("GET k"), "$3\r\nold\r\n");
    server.set_read_only(false);
    assert_eq!(server.command("SET k last"), "+OK\r\n");
    server.restart();
    assert_eq!(server.command("GET k"), "$-1\r\n", "empty");
}

#[test]
fn flaky_proxy_cuts_inside_requests_and_replies() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = FlakyProxy::before(&server, 7);
    let mut line = connect(&proxy.url());
    assert_eq!(ask(&mut line, "SET k 0123456789"), "+OK\r\n", "whole at first");
    proxy.cut_after(Some(0..40));
    let mut broken = 0;
    for _ in 0..40 {
        let mut line = connect(&proxy.url());
        broken += usize::from((0..4).any(|_| ask(&mut line, "GET k") != "$10\r\n0123456789\r\n"));
    }
    assert!(broken >= 20, "{broken} of 40 lines broke");
    assert!(proxy.cuts() >= 20);
    proxy.cut_after(None);
    assert_eq!(ask(&mut connect(&proxy.url()), "GET k"), "$10\r\n0123456789\r\n");
    proxy.refuse(true);
    assert_eq!(ask(&mut connect(&proxy.url()), "GET k"), "");
}

#[tokio::test]
async fn scripted_proxy_orders_drops_and_injects() {
    let Some(server) = RedisServer::start() else { return };
    let proxy = ScriptedProxy::before(&server);
    let (mut one, mut other) = (connect(&proxy.url()), connect(&proxy.url()));
    assert_eq!(ask(&mut one, "PING"), "+PONG\r\n");
    let held = proxy.hold(|frame| frame.is_reply("SET"));
    one.write_all(b"SET k 1\r\n").expect("sent");
    let frame = held.arrival().await;
    assert_eq!((frame.direction, frame.bytes.as_slice()), (Direction::ToClient, b"+OK\r\n".as_slice()));
    assert_eq!(ask(&mut other, "GET k"), "$1\r\n1\r\n", "done already, and others pass");
    held.release_one();
    let mut reply = [0; 5];
    one.read_exact(&mut reply).expect("the reply");
    one.write_all(b"SET k 2\r\n").expect("sent");
    held.arrival().await;
    held.lose_one();
    assert_eq!(one.read(&mut reply).unwrap_or(0), 0, "the line is cut");
    assert_eq!(ask(&mut other, "GET k"), "$1\r\n2\r\n", "after the effect");
    proxy.inject(1, Direction::ToClient, b">1\r\n+hello\r\n");
    let mut push = [0; 12];
    other.read_exact(&mut push).expect("the push");
    assert_eq!(&push, b">1\r\n+hello\r\n");
}
