//! The bytes of a client: TCP or TLS, with a deadline for clients that do not read.

use crate::front::activity::Activity;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_io_timeout::TimeoutStream;
use tokio_rustls::server::TlsStream;

/// TCP with a deadline for each write.
pub(super) type TimedTcp = Pin<Box<TimeoutStream<TcpStream>>>;

/// The bytes of a connection, which notes when some came.
#[derive(Debug)]
pub(super) struct ClientStream {
    kind: Kind,
    activity: Activity,
}

#[derive(Debug)]
enum Kind {
    Tcp(TimedTcp),
    Tls(Box<TlsStream<TimedTcp>>),
}

impl ClientStream {
    /// Without encryption.
    pub(super) fn tcp(stream: TimedTcp, activity: Activity) -> ClientStream {
        ClientStream { kind: Kind::Tcp(stream), activity }
    }

    /// Encrypted.
    pub(super) fn tls(stream: TlsStream<TimedTcp>, activity: Activity) -> ClientStream {
        ClientStream { kind: Kind::Tls(Box::new(stream)), activity }
    }
}

/// TCP whose writes fail if the client takes nothing for this long.
pub(super) fn timed(stream: TcpStream, write_timeout: Duration) -> TimedTcp {
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(write_timeout));
    Box::pin(stream)
}

impl AsyncRead for ClientStream {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buffer.filled().len();
        let read = match &mut this.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Kind::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        if buffer.filled().len() > before {
            this.activity.note_read();
        }
        read
    }
}

impl AsyncWrite for ClientStream {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Kind::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write_vectored(context, slices),
            Kind::Tls(stream) => Pin::new(stream).poll_write_vectored(context, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match &self.kind {
            Kind::Tcp(stream) => stream.is_write_vectored(),
            Kind::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Kind::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.get_mut().kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Kind::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
