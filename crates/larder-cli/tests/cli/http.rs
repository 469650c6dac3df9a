//! Plain HTTP/1.1 requests over a socket, without a client library.

use larder_testkit::PATIENCE;
use serde_json::Value;
use std::io::{Error, ErrorKind, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};

/// A response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) body: String,
    head: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{self:?} is not JSON: {error}"))
    }
}

/// A connection with a read timeout.
pub(crate) fn connect(address: SocketAddr) -> Result<TcpStream> {
    let stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    Ok(stream)
}

/// A GET request. Panics without a response.
#[track_caller]
pub(crate) fn get(address: SocketAddr, path: &str) -> Reply {
    request(address, "GET", path, &[], "").expect("an answer")
}

/// A POST request with a JSON body. Panics without a response.
#[track_caller]
pub(crate) fn post(address: SocketAddr, path: &str, body: &Value) -> Reply {
    try_post(address, path, body).expect("an answer")
}

/// A POST request to a server that may have ended.
pub(crate) fn try_post(address: SocketAddr, path: &str, body: &Value) -> Result<Reply> {
    request(address, "POST", path, &[("Content-Type", "application/json")], &body.to_string())
}

/// Any request. A `Host` in `headers` replaces the default one.
pub(crate) fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(&str, &str)],
    body: &str,
) -> Result<Reply> {
    let mut text = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
    if !headers.iter().any(|(name, _)| *name == "Host") {
        text += &format!("Host: {address}\r\n");
    }
    for (name, value) in headers {
        text += &format!("{name}: {value}\r\n");
    }
    if !body.is_empty() {
        text += &format!("Content-Length: {}\r\n", body.len());
    }
    text += "\r\n";
    text += body;
    let mut stream = connect(address)?;
    stream.write_all(text.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    parse(&answer)
        .ok_or_else(|| Error::new(ErrorKind::UnexpectedEof, format!("incomplete response: {answer:?}")))
}

/// Parses a response; `None` if the body does not have the length in the head.
fn parse(answer: &str) -> Option<Reply> {
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.strip_prefix("HTTP/1.1 ")?.get(..3)?.parse().ok()?;
    let reply = Reply { status, body: body.to_owned(), head: head.to_owned() };
    match reply.header("content-length") {
        Some(length) if length.parse() != Ok(body.len()) => None,
        _ => Some(reply),
    }
}
