//! Where a part listens: at the address that was asked for, or, for a default whose port is taken, at a free one.

use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Listen {
    pub(crate) address: SocketAddr,
    /// Whether somebody asked for this address. A port that was asked for and is taken is an error.
    pub(crate) named: bool,
}

impl Listen {
    /// Binds with `bind`, which says with `is_taken` whether a failure means that the port is taken.
    pub(crate) fn bind<L, E>(
        self,
        bind: impl Fn(SocketAddr) -> Result<L, E>,
        is_taken: impl Fn(&E) -> bool,
    ) -> Result<L, E> {
        match bind(self.address) {
            Err(error) if !self.named && is_taken(&error) => bind(SocketAddr::new(self.address.ip(), 0))
                .inspect(|_| {
                    eprintln!("larder: port {} is taken, a free one is used instead", self.address.port());
                }),
            bound => bound,
        }
    }

    /// Binds a listener for tokio.
    pub(crate) fn tcp(self) -> Result<TcpListener> {
        let listener = self
            .bind(TcpListener::bind, |error| error.kind() == ErrorKind::AddrInUse)
            .with_context(|| format!("cannot bind {}", self.address))?;
        listener.set_nonblocking(true)?;
        Ok(listener)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_taken_port_is_replaced_only_if_nobody_asked_for_it() {
        let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let address = taken.local_addr().expect("an address");
        let replaced = Listen { address, named: false }.tcp().expect("another port");
        assert_ne!(replaced.local_addr().expect("an address").port(), address.port());
        let error = Listen { address, named: true }.tcp().expect_err("taken");
        assert_eq!(
            format!("{error:#}"),
            format!("cannot bind {address}: Address already in use (os error 98)")
        );
    }
}
