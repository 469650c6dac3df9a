//! Half-sent requests on one port leave file descriptors for the others.

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
const HALF_SENT: usize = 600;

#[test]
fn half_sent_heads_on_one_port_leave_the_other_ports_alone() {
    if needs("a limit of 2000 open files", may_open(2_000)).is_none() {
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let up = Up::start_as(limited(), &folder.path().join("data"));
    let slug = create(up.http, "https://example.com/");
    for attacked in [up.admin, up.http] {
        let half_sent = send_half(attacked);
        assert!(half_sent.len() > 128, "only {} connections were made", half_sent.len());
        let began = Instant::now();
        for round in 0..5 {
            assert_eq!(command(up.resp, &format!("SET key {round}")), "+OK");
            if attacked == up.admin {
                assert_eq!(follow(up.http, &slug), "https://example.com/");
                // A new link needs the database.
                create(up.http, &format!("https://example.com/{round}"));
            } else {
                assert_eq!(get(up.admin, "/healthz").status, 200);
            }
        }
        // Without shares every port waits for the heads to time out, which takes ten seconds.
        assert!(began.elapsed() < Duration::from_secs(8), "{:?}", began.elapsed());
        drop(half_sent);
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

/// Opens connections that each send half of a head, until the port's queue takes no more.
fn send_half(address: SocketAddr) -> Vec<TcpStream> {
    let mut streams = Vec::new();
    let mut refused = 0;
    while streams.len() < HALF_SENT && refused < 5 {
        match TcpStream::connect_timeout(&address, Duration::from_millis(100)) {
            Ok(mut stream) => {
                // The other side may have closed it already.
                _ = stream.write_all(b"GET / HTTP/1.1\r\nHost: loc");
                streams.push(stream);
            }
            Err(_) => refused += 1,
        }
    }
    streams
}
