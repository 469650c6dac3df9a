//! A client of the cache server that sends one command at a time.

use crate::http::connect;
use std::io::{BufRead, BufReader, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};

/// A connection that has received one reply, so that the server has accepted it.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(address: SocketAddr) -> Client {
        let mut client = Client(BufReader::new(connect(address).expect("a connection")));
        let reply = client.call("PING").expect("an answer");
        assert!(reply == "+PONG" || reply.starts_with("-NOAUTH"), "{reply}");
        client
    }

    /// Sends an inline command. The reply is its first line, or the text of a bulk string.
    pub(crate) fn call(&mut self, line: &str) -> Result<String> {
        self.0.get_mut().write_all(format!("{line}\r\n").as_bytes())?;
        let mut head = String::new();
        self.0.read_line(&mut head)?;
        let head = head.trim_end();
        let Some(length) = head.strip_prefix('$').filter(|length| *length != "-1") else {
            return Ok(head.to_owned());
        };
        let mut bulk = vec![0; length.parse::<usize>().expect("a length") + 2];
        self.0.read_exact(&mut bulk)?;
        bulk.truncate(bulk.len() - 2);
        Ok(String::from_utf8(bulk).expect("text"))
    }
}

/// Sends one command on a new connection.
#[track_caller]
pub(crate) fn command(address: SocketAddr, line: &str) -> String {
    Client::connect(address).call(line).expect("an answer")
}

/// A number in the reply to `INFO`.
#[track_caller]
pub(crate) fn info(address: SocketAddr, field: &str) -> u64 {
    let info = command(address, "INFO");
    let value = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    value.and_then(|value| value.parse().ok()).unwrap_or_else(|| panic!("no number {field} in {info}"))
}
