//! An HTTP/1.1 client with one connection, which it keeps for some requests and replaces then.

use super::connect;
use std::io::{BufRead, BufReader, Error, Read, Result, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// Connections come and go, so that a descriptor which is not closed shows.
const REQUESTS_PER_CONNECTION: u32 = 200;
/// A connection without a request for so long is not used again: the server may be about to close it.
const IDLE_LIMIT: Duration = Duration::from_secs(5);

/// A client of one address.
#[derive(Debug)]
pub(crate) struct Http {
    address: SocketAddr,
    /// With the time of its last response.
    connection: Option<(BufReader<TcpStream>, Instant)>,
    /// How many requests the connection has had.
    requests: u32,
}

/// What a server answers.
#[derive(Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    /// Names in lower case.
    fields: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Response {
    pub(crate) fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }
}

impl Http {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Http { address, connection: None, requests: 0 }
    }

    pub(crate) fn get(&mut self, path: &str) -> Result<Response> {
        self.request("GET", path, &[], "")
    }

    /// Sends a request and reads the response. The `Host` is the address, unless a field has another one.
    pub(crate) fn request(
        &mut self,
        method: &str,
        path: &str,
        fields: &[(&str, &str)],
        body: &str,
    ) -> Result<Response> {
        let mut connection = match self.connection.take() {
            Some((connection, last))
                if self.requests < REQUESTS_PER_CONNECTION && last.elapsed() < IDLE_LIMIT =>
            {
                connection
            }
            _ => {
                self.requests = 0;
                connect(self.address)?
            }
        };
        self.requests += 1;
        let mut request = format!("{method} {path} HTTP/1.1\r\n");
        if !fields.iter().any(|(name, _)| name.eq_ignore_ascii_case("host")) {
            request += &format!("Host: {}\r\n", self.address);
        }
        fields.iter().for_each(|(name, value)| request += &format!("{name}: {value}\r\n"));
        if !body.is_empty() {
            request += &format!("Content-Type: application/json\r\nContent-Length: {}\r\n", body.len());
        }
        connection.get_mut().write_all(format!("{request}\r\n{body}").as_bytes())?;
        let response = read(&mut connection)?;
        if response.field("connection") != Some("close") {
            self.connection = Some((connection, Instant::now()));
        }
        Ok(response)
    }
}

/// Reads a response to a request other than HEAD.
fn read(connection: &mut impl BufRead) -> Result<Response> {
    let status = line(connection)?;
    let status = status.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)?.parse().ok());
    let status: u16 = status.ok_or_else(|| Error::other("the response has no status"))?;
    let mut fields = Vec::new();
    loop {
        let line = line(connection)?;
        let Some((name, value)) = line.split_once(':') else { break };
        fields.push((name.to_ascii_lowercase(), value.trim().to_owned()));
    }
    let mut response = Response { status, fields, body: Vec::new() };
    if status == 204 || status == 304 {
        return Ok(response);
    }
    if response.field("transfer-encoding") == Some("chunked") {
        response.body = chunks(connection)?;
        return Ok(response);
    }
    let length = response.field("content-length").and_then(|length| length.parse().ok());
    let length: usize = length.ok_or_else(|| Error::other("the response has no length"))?;
    response.body.resize(length, 0);
    connection.read_exact(&mut response.body)?;
    Ok(response)
}

fn chunks(connection: &mut impl BufRead) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    loop {
        let size = line(connection)?;
        let size = size.split(';').next().and_then(|size| u64::from_str_radix(size.trim(), 16).ok());
        let size = size.ok_or_else(|| Error::other("a chunk has no size"))?;
        if size == 0 {
            while !line(connection)?.is_empty() {}
            return Ok(body);
        }
        let before = body.len() as u64;
        connection.by_ref().take(size).read_to_end(&mut body)?;
        if body.len() as u64 - before < size || !line(connection)?.is_empty() {
            return Err(Error::other("a chunk is not complete"));
        }
    }
}

fn line(connection: &mut impl BufRead) -> Result<String> {
    let mut line = String::new();
    connection.read_line(&mut line)?;
    let whole = line.strip_suffix('\n').ok_or_else(|| Error::other("the connection was closed"))?;
    Ok(whole.strip_suffix('\r').unwrap_or(whole).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bodies_with_a_length_and_in_chunks_are_read() {
        let text = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nETag: \"a\"\r\n\r\nabc\
                    HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nde\r\n1;x\r\nf\r\n0\r\n\r\n\
                    HTTP/1.1 304 Not Modified\r\n\r\n";
        let mut connection = text.as_bytes();
        let first = read(&mut connection).unwrap();
        assert_eq!((first.status, first.field("etag"), &*first.body), (200, Some("\"a\""), &b"abc"[..]));
        assert_eq!(read(&mut connection).unwrap().body, b"def");
        assert_eq!(read(&mut connection).unwrap().status, 304);
        assert!(read(&mut connection).is_err(), "the connection is closed");
    }

    #[test]
    fn incomplete_bodies_are_errors() {
        for text in ["Content-Length: 3\r\n\r\nab", "Transfer-Encoding: chunked\r\n\r\n3\r\nab", "\r\nab"] {
            assert!(read(&mut format!("HTTP/1.1 200 OK\r\n{text}").as_bytes()).is_err(), "{text:?}");
        }
    }
}
