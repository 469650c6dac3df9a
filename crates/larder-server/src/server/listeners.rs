//! The sockets that a server listens on: those that its options name, or those that somebody else has opened for it.

use std::net::{SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;

use crate::config::Config;
use crate::error::ServerError;
use crate::net::listener::{UnixSocket, bind_tcp, bind_unix};

/// Listening sockets that somebody else has opened, such as a service manager.
#[derive(Debug, Default)]
pub struct Listeners {
    /// For plain connections over TCP.
    pub tcp: Option<TcpListener>,
    /// For connections with TLS, which need `tls_cert` and `tls_key`.
    pub tls: Option<TcpListener>,
    /// For connections over a Unix socket.
    pub unix: Option<UnixListener>,
}

impl Listeners {
    /// Replaces the addresses of the options by those of the sockets.
    pub(super) fn set_addresses(&self, config: &mut Config) {
        let [tcp, tls] = self.addresses();
        config.listen = tcp.or(tls);
        config.tls_only = tcp.is_none() && tls.is_some();
        config.tls_port = tls.map(|address| address.port());
        let unix = self.unix.as_ref().and_then(|listener| listener.local_addr().ok());
        config.unixsocket = unix.and_then(|address| Some(address.as_pathname()?.to_owned()));
    }

    /// An address at which others on the network can connect.
    pub(super) fn exposed(&self) -> Option<SocketAddr> {
        self.addresses().into_iter().flatten().find(|address| !address.ip().is_loopback())
    }

    fn addresses(&self) -> [Option<SocketAddr>; 2] {
        [&self.tcp, &self.tls].map(|listener| listener.as_ref()?.local_addr().ok())
    }

    /// Takes them over for the server, which waits for none of them alone.
    pub(super) fn adopt(self) -> Result<Bound, ServerError> {
        for listener in [&self.tcp, &self.tls].into_iter().flatten() {
            listener.set_nonblocking(true).map_err(ServerError::Thread)?;
        }
        let unix = self.unix.map(UnixSocket::adopt).transpose().map_err(ServerError::Thread)?;
        Bound { tcp: self.tcp, tls: self.tls, unix }.if_any()
    }
}

/// The sockets of a server, which do not block.
pub(super) struct Bound {
    pub(super) tcp: Option<TcpListener>,
    pub(super) tls: Option<TcpListener>,
    pub(super) unix: Option<UnixSocket>,
}

impl Bound {
    /// Binds those that the options name.
    pub(super) fn bind(config: &Config) -> Result<Bound, ServerError> {
        let tcp = config
            .listen
            .filter(|_| !config.tls_only)
            .map(|address| bind_tcp("listen", address))
            .transpose()?;
        let tls = config.listen.zip(config.tls_port).map(|(address, port)| (address.ip(), port).into());
        let tls = tls.map(|address| bind_tcp("tls_port", address)).transpose()?;
        let unix = config.unixsocket.as_deref().map(bind_unix).transpose()?;
        Bound { tcp, tls, unix }.if_any()
    }

    fn if_any(self) -> Result<Bound, ServerError> {
        match self {
            Bound { tcp: None, tls: None, unix: None } => Err(ServerError::NothingToListenOn),
            bound => Ok(bound),
        }
    }
}
