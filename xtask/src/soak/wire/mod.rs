//! The clients of the load: HTTP/1.1 and RESP over one connection each, with the standard library alone.

mod http;
mod resp;

pub(super) use http::{Http, Response};
pub(super) use resp::{Reply, Resp};

use std::io::{BufReader, Result};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// How long a connection may take: all of them are on this machine.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);
/// Longer than any request takes, also while something that it needs is stopped.
const TIMEOUT: Duration = Duration::from_secs(30);

/// A connection, from which whole lines are read.
fn connect(address: SocketAddr) -> Result<BufReader<TcpStream>> {
    let stream = TcpStream::connect_timeout(&address, CONNECT_TIMEOUT)?;
    stream.set_nodelay(true)?;
    stream.set_read_timeout(Some(TIMEOUT))?;
    stream.set_write_timeout(Some(TIMEOUT))?;
    Ok(BufReader::new(stream))
}
