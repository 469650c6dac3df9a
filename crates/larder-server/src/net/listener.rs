//! The listening sockets. They are bound before the server runs, so that the actual port is known.

use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
#[cfg(feature = "tls")]
use std::sync::Arc;
use std::time::Duration;

use mio::event::Source;
use mio::{Interest, Registry, Token};
use rustix::net::{RecvFlags, SendFlags};
use socket2::{Domain, SockAddr, Socket as RawSocket, TcpKeepalive, Type};

#[cfg(feature = "tls")]
use super::tls_socket::TlsSocket;
use crate::error::ServerError;

/// Connections that the system queues until they are accepted.
const BACKLOG: i32 = 1024;

/// The socket of a connection. It does not block.
pub(crate) enum Socket {
    Tcp(mio::net::TcpStream),
    Unix(mio::net::UnixStream),
    #[cfg(feature = "tls")]
    Tls(Box<TlsSocket>),
}

impl Socket {
    /// A TCP connection.
    pub(crate) fn tcp(stream: TcpStream, keepalive_secs: u64) -> io::Result<Socket> {
        Ok(Socket::Tcp(configure(stream, keepalive_secs)?))
    }

    /// The same with TLS, whose handshake begins.
    #[cfg(feature = "tls")]
    pub(crate) fn tls(
        stream: TcpStream,
        keepalive_secs: u64,
        config: Arc<rustls::ServerConfig>,
    ) -> io::Result<Socket> {
        Ok(Socket::Tls(Box::new(TlsSocket::new(configure(stream, keepalive_secs)?, config)?)))
    }

    pub(crate) fn unix(stream: UnixStream) -> io::Result<Socket> {
        stream.set_nonblocking(true)?;
        Ok(Socket::Unix(mio::net::UnixStream::from_std(stream)))
    }

    /// Reads what has arrived, as far as it fits; 0 bytes at the end. This is the system call itself: in the C library it is
    /// a point at which a thread may be cancelled, which costs as much as the rest of the call.
    #[inline]
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Socket::Tls(socket) = self {
            return socket.receive(buffer);
        }
        Ok(rustix::net::recv(self, buffer, RecvFlags::empty())?.0)
    }

    /// Writes as much as the system accepts now.
    #[inline]
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        #[cfg(feature = "tls")]
        if let Socket::Tls(socket) = self {
            return socket.send(bytes);
        }
        Ok(rustix::net::send(self, bytes, SendFlags::NOSIGNAL)?)
    }

    /// Whether there is more to read, although the socket does not become ready again.
    #[inline]
    pub(crate) fn has_more(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Socket::Tls(socket) = self {
            return socket.has_more();
        }
        false
    }

    /// Whether bytes that were sent wait for the system.
    #[inline]
    pub(crate) fn has_pending(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Socket::Tls(socket) = self {
            return socket.has_pending();
        }
        false
    }

    /// Writes what waits for the system. Returns whether that is all.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        #[cfg(feature = "tls")]
        if let Socket::Tls(socket) = self {
            return socket.flush();
        }
        Ok(true)
    }

    /// Whether it waits for a part of a handshake.
    #[inline]
    pub(crate) fn is_handshaking(&self) -> bool {
        #[cfg(feature = "tls")]
        if let Socket::Tls(socket) = self {
            return socket.is_handshaking();
        }
        false
    }

    /// Sends the end of the stream.
    pub(crate) fn shutdown(&mut self) -> io::Result<()> {
        match self {
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => socket.shutdown(),
            Socket::Tcp(stream) => stream.shutdown(Shutdown::Write),
            Socket::Unix(stream) => stream.shutdown(Shutdown::Write),
        }
    }

    /// The peer address and the local address, as in `CLIENT LIST`.
    pub(crate) fn addresses(&self) -> (String, String) {
        let text =
            |address: io::Result<SocketAddr>| address.map_or_else(|_| "?".to_owned(), |a| a.to_string());
        match self {
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => (text(socket.stream().peer_addr()), text(socket.stream().local_addr())),
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

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Socket::Tcp(stream) => stream.as_fd(),
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => socket.as_fd(),
            Socket::Unix(stream) => stream.as_fd(),
        }
    }
}

impl Source for Socket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.register(registry, token, interests),
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => socket.register(registry, token, interests),
            Socket::Unix(stream) => stream.register(registry, token, interests),
        }
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.reregister(registry, token, interests),
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => socket.reregister(registry, token, interests),
            Socket::Unix(stream) => stream.reregister(registry, token, interests),
        }
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        match self {
            Socket::Tcp(stream) => stream.deregister(registry),
            #[cfg(feature = "tls")]
            Socket::Tls(socket) => socket.deregister(registry),
            Socket::Unix(stream) => stream.deregister(registry),
        }
    }
}

/// No delay for replies, and keepalive probes for idle peers.
fn configure(stream: TcpStream, keepalive_secs: u64) -> io::Result<mio::net::TcpStream> {
    stream.set_nonblocking(true)?;
    stream.set_nodelay(true)?;
    if keepalive_secs > 0 {
        let keepalive = TcpKeepalive::new().with_time(Duration::from_secs(keepalive_secs));
        socket2::SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    }
    Ok(mio::net::TcpStream::from_std(stream))
}

/// Listens on the address of an option.
pub(crate) fn bind_tcp(option: &'static str, address: SocketAddr) -> Result<TcpListener, ServerError> {
    let bind = || {
        let socket = RawSocket::new(Domain::for_address(address), Type::STREAM, None)?;
        socket.set_reuse_address(true)?;
        socket.bind(&address.into())?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(socket.into())
    };
    bind().map_err(|source| ServerError::Bind { option, address, source })
}

/// The listener of a Unix socket, and its file if it is ours.
pub(crate) struct UnixSocket {
    listener: UnixListener,
    file: Option<SocketFile>,
}

impl UnixSocket {
    /// That of somebody else, who also removes its file.
    pub(crate) fn adopt(listener: UnixListener) -> io::Result<UnixSocket> {
        listener.set_nonblocking(true)?;
        Ok(UnixSocket { listener, file: None })
    }

    /// The listener, and the guard that removes its file.
    pub(crate) fn into_parts(self) -> (UnixListener, Option<SocketFile>) {
        (self.listener, self.file)
    }
}

/// Removes the file of a Unix socket when it is dropped, unless another file has taken its place.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Device and inode.
    id: Option<(u64, u64)>,
}

impl SocketFile {
    fn new(path: &Path) -> Self {
        SocketFile { path: path.to_owned(), id: file_id(path) }
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if self.id.is_some() && file_id(&self.path) == self.id {
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// Device and inode of a file itself, not of what a link leads to.
fn file_id(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// Listens on the Unix socket `path`. Replaces the socket file of a server that has ended, but none in use and no other file.
pub(crate) fn bind_unix(path: &Path) -> Result<UnixSocket, ServerError> {
    let bind = || {
        let address = SockAddr::unix(path)?;
        if path.symlink_metadata().is_ok_and(|file| !file.file_type().is_socket()) {
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, "it exists and is no socket"));
        }
        if let Err(error) = UnixStream::connect(path)
            && error.kind() == io::ErrorKind::ConnectionRefused
        {
            std::fs::remove_file(path)?;
        }
        let socket = RawSocket::new(Domain::UNIX, Type::STREAM, None)?;
        socket.bind(&address)?;
        socket.listen(BACKLOG)?;
        socket.set_nonblocking(true)?;
        Ok(UnixSocket { listener: socket.into(), file: Some(SocketFile::new(path)) })
    };
    bind().map_err(|source| ServerError::UnixSocket { path: path.to_owned(), source })
}
