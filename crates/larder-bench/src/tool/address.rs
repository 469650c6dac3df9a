//! Addresses for servers under test.

use anyhow::{Result, ensure};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long to wait before the next attempt to connect.
const PAUSE: Duration = Duration::from_millis(1);

/// An address that nobody listens on now.
pub(crate) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?)
}

/// Waits until a server accepts connections at `address`.
///
/// # Errors
/// If none does within `limit`.
pub(crate) fn await_listener(address: SocketAddr, limit: Duration) -> Result<()> {
    let start = Instant::now();
    while TcpStream::connect(address).is_err() {
        ensure!(start.elapsed() < limit, "nobody listens on {address} after {limit:?}");
        sleep(PAUSE);
    }
    Ok(())
}
