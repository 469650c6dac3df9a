//! The socket of a connection with TLS: what is received is decrypted, and what is sent is encrypted.
//!
//! The handshake goes on whenever the socket is read. What the system does not accept stays in the session, so whoever sends
//! has to ask for it with [`TlsSocket::has_pending`], and to flush it before anything else is sent.

use std::io::{self, ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use mio::event::Source;
use mio::net::TcpStream;
use mio::{Interest, Registry, Token};
use rustls::{ServerConfig, ServerConnection};

/// Bytes that are encrypted at a time: those of a record.
const RECORD_BYTES: usize = 16 << 10;
/// The first byte of a client that speaks TLS: that of a record of the handshake.
const HANDSHAKE: u8 = 22;
/// What any other client gets, in the plain protocol that it speaks, perhaps.
const NO_TLS: &[u8] = b"-ERR this port speaks TLS: use rediss://\r\n";
/// Reads of one turn. One reads some kilobytes at least, if they are there.
const MAX_READS: usize = 32;

/// What the session reads from.
struct Encrypted<'a> {
    stream: &'a TcpStream,
    /// Whether the last read has left nothing.
    is_empty: bool,
    /// The first byte of the last read.
    first: Option<u8>,
}

impl Read for Encrypted<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.stream.read(buffer)?;
        // The end of the stream is to be seen by another read.
        self.is_empty = (1..buffer.len()).contains(&read);
        self.first = buffer[..read].first().copied();
        Ok(read)
    }
}

/// A TCP socket with TLS.
pub(crate) struct TlsSocket {
    stream: TcpStream,
    session: ServerConnection,
    /// Whether the client sends nothing more: by TLS, or by the end of the stream.
    has_ended: bool,
    /// Whether the socket may have more to read, although it does not become ready again.
    has_more: bool,
    /// Whether the client has begun a handshake.
    has_begun: bool,
}

impl TlsSocket {
    /// A connection whose handshake begins.
    pub(crate) fn new(stream: TcpStream, config: Arc<ServerConfig>) -> io::Result<Self> {
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        session.set_buffer_limit(Some(4 * RECORD_BYTES));
        Ok(TlsSocket { stream, session, has_ended: false, has_more: false, has_begun: false })
    }

    pub(crate) fn stream(&self) -> &TcpStream {
        &self.stream
    }

    pub(crate) fn is_handshaking(&self) -> bool {
        self.session.is_handshaking()
    }

    /// Whether there is more to read or to report, although the socket does not become ready for it.
    pub(crate) fn has_more(&self) -> bool {
        self.has_ended || self.has_more
    }

    /// Whether encrypted bytes wait for the system.
    pub(crate) fn has_pending(&self) -> bool {
        self.session.wants_write()
    }

    /// Reads and decrypts what has arrived, as far as it fits; 0 bytes at the end. A buffer that is not filled means that the
    /// socket is empty, as with TCP.
    pub(crate) fn receive(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let (mut length, mut reads, mut is_empty) = (0, 0, false);
        self.has_more = false;
        loop {
            match self.session.reader().read(&mut buffer[length..]) {
                Ok(0) => self.has_ended = true,
                Ok(read) => {
                    length += read;
                    // The end of TLS may follow.
                    if length < buffer.len() {
                        continue;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // The stream ends without the end of TLS, as clients do that are closed.
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => self.has_ended = true,
                Err(error) => return Err(error),
            }
            if self.has_ended || length == buffer.len() {
                return Ok(length);
            }
            // One system call less for most requests.
            if is_empty {
                return if length > 0 { Ok(length) } else { Err(ErrorKind::WouldBlock.into()) };
            }
            // A client may send records without content, and a part of a handshake takes long to process.
            if reads == MAX_READS || reads > 0 && self.session.is_handshaking() {
                self.has_more = true;
                return if length > 0 { Ok(length) } else { Err(ErrorKind::WouldBlock.into()) };
            }
            reads += 1;
            let mut source = Encrypted { stream: &self.stream, is_empty: false, first: None };
            let read = self.session.read_tls(&mut source);
            is_empty = source.is_empty;
            if let (false, Some(first)) = (self.has_begun, source.first) {
                if first != HANDSHAKE {
                    // An alert of TLS would be no help to it.
                    _ = self.stream.write(NO_TLS);
                    return Err(io::Error::new(ErrorKind::InvalidData, "the client does not speak TLS"));
                }
                self.has_begun = true;
            }
            match read {
                Ok(0) if self.session.is_handshaking() => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) if error.kind() == ErrorKind::WouldBlock && length > 0 => return Ok(length),
                Err(error) => return Err(error),
            }
            let processed = self.session.process_new_packets();
            // What the handshake says, or why it has failed.
            self.flush()?;
            processed.map_err(|error| io::Error::new(ErrorKind::InvalidData, error))?;
        }
    }

    /// Encrypts and writes as much of `bytes` as the system accepts now.
    pub(crate) fn send(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if !self.flush()? {
            return Err(ErrorKind::WouldBlock.into());
        }
        let accepted = self.session.writer().write(&bytes[..bytes.len().min(4 * RECORD_BYTES)])?;
        self.flush()?;
        Ok(accepted)
    }

    /// Writes what waits for the system. Returns whether that is all.
    pub(crate) fn flush(&mut self) -> io::Result<bool> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut self.stream) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Sends the end of the stream.
    pub(crate) fn shutdown(&mut self) -> io::Result<()> {
        if self.has_begun {
            self.session.send_close_notify();
            // The client may not read any more.
            let _ = self.flush();
        }
        self.stream.shutdown(Shutdown::Write)
    }
}

impl AsFd for TlsSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.stream.as_fd()
    }
}

impl Source for TlsSocket {
    fn register(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.stream.register(registry, token, interests)
    }

    fn reregister(&mut self, registry: &Registry, token: Token, interests: Interest) -> io::Result<()> {
        self.stream.reregister(registry, token, interests)
    }

    fn deregister(&mut self, registry: &Registry) -> io::Result<()> {
        self.stream.deregister(registry)
    }
}
