//! The listening sockets. They are bound before the server runs, so that the actual port is known.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::Duration;

use socket2::{Domain, SockAddr, Socket as RawSocket, TcpKeepalive, Type};

use crate::ServerError;

/// Connections that the system queues until they are accepted.
const BACKLOG: i32 = 1024;

/// An accepted connection that is not registered with a runtime yet.
pub(crate) enum Socket {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Socket {
    /// Configures a TCP connection: no delay for replies, and keepalive probes for idle peers.
    pub(crate) fn tcp(stream: TcpStream, keepalive_secs: u64) -> io::Result<Socket> {
        stream.set_nodelay(true)?;
        if keepalive_secs > 0 {
            let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(keepalive_secs));
            socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
        }
        Ok(Socket::Tcp(stream))
    }

    /// The peer address and the local address, as in `CLIENT LIST`.
    pub(crate) fn addresses(&self) -> (String, String) {
        let text =
            |address: io::Result<SocketAddr>| address.map_or_else(|_| "?".to_owned(), |a| a.to_string());
        match self {
            Socket::Tcp(stream) => (text(stream.peer_addr()), text(stream.local_addr())),
            Socket::Unix(stream) => {
                let path =
                    stream.local_addr().ok().and_then(|a| Some(a.as_pathname()?.display().to_string()));
                let address = format!("{}:0", path.unwrap_or_default());
                (address.clone(), address)
            }
        }
    }
}

/// Listens on `address`.
pub(crate) fn bind_tcp(address: SocketAddr) -> Result<TcpListener, ServerError> {
    let bind = || {
        let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bind().map_err(|source| ServerError::Bind { address, source })
}

/// The listener of a Unix socket, and its file.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    file: SocketFile,
}

impl UnixSocket {
    /// The listener, and the guard that removes its file.
    pub(crate) fn into_parts(self) -> (UnixListener, SocketFile) {
        (self.listener, self.file)
    }
}

/// Removes the file of a Unix socket when it is dropped.
pub(crate) struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens on the Unix socket `path`. Replaces the socket file of a server that has ended, but not one in use.
pub(crate) fn bind_unix(path: &Path) -> Result<UnixSocket, ServerError> {
    let bind = || {
        let address = SockAddr::unix(path)?;
        if let Err(error) = UnixStream::connect(path)
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            std::fs::remove_file(path)?;
        }
        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&address)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(UnixSocket { listener: socket.into(), file: SocketFile(path.to_owned()) })
    };
    bind().map_err(|source| ServerError::UnixSocket { path: path.to_owned(), source })
}
