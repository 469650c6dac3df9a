//! The address on which a part listens: the configured one, or the default with a free port if its port is in use.

use crate::output::remark;
use anyhow::{Context, Result};
use socket2::SockRef;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// Connections that the system queues until they are accepted. With the 128 of the standard library, clients of a burst
/// wait a second each until they connect again.
const BACKLOG: i32 = 4096;

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListenAddress {
    pub(crate) address: SocketAddr,
    /// Whether the address is configured and not the default. It is an error if a configured port is in use.
    pub(crate) is_configured: bool,
}

impl ListenAddress {
    /// Binds with `bind`. `is_in_use` returns whether an error means that the port is in use.
    pub(crate) fn bind<L, E>(
        self,
        bind: impl Fn(SocketAddr) -> Result<L, E>,
        is_in_use: impl Fn(&E) -> bool,
    ) -> Result<L, E> {
        match bind(self.address) {
            Err(error) if !self.is_configured && is_in_use(&error) => {
                bind(SocketAddr::new(self.address.ip(), 0)).inspect(|_| {
                    let port = self.address.port();
                    remark(&format!("larder: port {port} is in use, a free port is used instead"));
                })
            }
            bound => bound,
        }
    }

    /// Binds a non-blocking listener, as tokio requires.
    pub(crate) fn tcp(self) -> Result<TcpListener> {
        let listener = self
            .bind(TcpListener::bind, |error| error.kind() == ErrorKind::AddrInUse)
            .with_context(|| format!("cannot bind {}", self.address))?;
        SockRef::from(&listener).listen(BACKLOG)?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpStream;
    use std::time::Duration;

    #[test]
    fn burst_of_connections_is_queued() {
        let any_port = "127.0.0.1:0".parse().expect("an address");
        let listener = ListenAddress { address: any_port, is_configured: true }.tcp().expect("a free port");
        let address = listener.local_addr().expect("an address");
        // Nobody accepts meanwhile.
        let connect = |_| TcpStream::connect_timeout(&address, Duration::from_millis(500)).expect("a place");
        let connections: Vec<_> = (0..400).map(connect).collect();
        assert_eq!(connections.len(), 400);
    }

    #[test]
    fn port_in_use_is_replaced_only_if_it_is_the_default() {
        let occupied = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = occupied.local_addr().expect("an address");
        let replaced = ListenAddress { address, is_configured: false }.tcp().expect("another port");
        assert_ne!(replaced.local_addr().expect("an address").port(), address.port());
        let error = ListenAddress { address, is_configured: true }.tcp().expect_err("in use");
        assert_eq!(
            format!("{error:#}"),
            format!("cannot bind {address}: Address already in use (os error 98)")
        );
    }
}
