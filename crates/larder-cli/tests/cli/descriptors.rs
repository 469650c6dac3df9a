//! Incomplete requests on one port do not exhaust the file descriptors of the others.

use crate::http::get;
use crate::process::{Up, larder};
use crate::resp::command;
use crate::shortener::{create, follow};
use larder_testkit::{may_open, needs};
use std::io::Write;
use std::net::{SocketAddr, TcpStream};
use std::process::Command;
use std::time::{Duration, Instant};

const FILES: u64 = 512;
const INCOMPLETE_REQUESTS: usize = 600;

#[test]
fn incomplete_requests_on_one_port_do_not_block_the_others() {
    if needs("a limit of 2000 open files", may_open(2_000)).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start_as(limited(), &folder.path().join("data"));
    let slug = create(up.http, "https://example.com/");
    for attacked in [up.admin, up.http] {
        let incomplete = send_incomplete_requests(attacked);
        assert!(incomplete.len() > 128, "only {} connections were opened", incomplete.len());
        let start = Instant::now();
        for round in 0..5 {
            assert_eq!(command(up.resp, &format!("SET key {round}")), "+OK");
            if attacked == up.admin {
                assert_eq!(follow(up.http, &slug), "https://example.com/");
                // Creating a link needs the database.
                create(up.http, &format!("https://example.com/{round}"));
            } else {
                assert_eq!(get(up.admin, "/healthz").status, 200);
            }
        }
        // Without shares every port would be blocked until the incomplete heads time out after ten seconds.
        assert!(start.elapsed() < Duration::from_secs(8), "{:?}", start.elapsed());
        drop(incomplete);
        assert_eq!(get(attacked, "/healthz").status, 200);
    }
    up.stop();
}

/// `larder up` under a low limit on open files.
fn limited() -> Command {
    let inner = larder(["up"]);
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -n {FILES} && exec \"$@\""), "sh"]);
    command.arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}

/// Opens connections and sends half of a request head on each, until the queue of the port is full.
fn send_incomplete_requests(address: SocketAddr) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    let mut refused = 0;
    while streams.len() < INCOMPLETE_REQUESTS && refused < 5 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            Ok(mut stream) => {
                // The server may have closed the connection already.
                _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
                streams.push(stream);
            }
            Err(_) => refused += 1,
        }
    }
    streams
}
