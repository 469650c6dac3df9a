//! Single requests over HTTP, before a server is measured: to fill it, and to check what it answers.

use anyhow::{Context, Result, ensure};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(10);

/// Sends JSON, and expects status 200.
pub(crate) fn post_json(address: SocketAddr, path: &str, json: &str) -> Result<()> {
    let length = json.len();
    let response = exchange(
        address,
        &format!(
            "POST {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{json}"
        ),
    )?;
    ensure!(response.starts_with("HTTP/1.1 200"), "{path}: {}", response.lines().next().unwrap_or_default());
    Ok(())
}

/// The whole response to a GET, with its head.
pub(crate) fn get(address: SocketAddr, path: &str) -> Result<String> {
    exchange(address, &format!("GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n"))
}

fn exchange(address: SocketAddr, request: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    stream.write_all(request.as_bytes())?;
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).with_context(|| format!("{address} does not answer"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

/// Checks that the response to a GET begins with a status and contains a text.
pub(super) fn check(address: SocketAddr, path: &str, status: u16, text: &str) -> Result<()> {
    let response = get(address, path)?;
    let begin = format!("HTTP/1.1 {status}");
    let is_right = response.starts_with(&begin) && response.contains(text);
    ensure!(is_right, "wrong answer to {path}: {}", response.lines().next().unwrap_or_default());
    Ok(())
}
