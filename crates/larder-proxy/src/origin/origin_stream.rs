//! A connection to an origin: TCP or TLS, which notes whether anything came back.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio_rustls::client::TlsStream;

/// Whether the origin has sent anything since the last request began. A request that got no byte back can be repeated.
#[derive(Clone, Debug, Default)]
pub(super) struct Received(Arc<AtomicBool>);

impl Received {
    /// A request begins.
    pub(super) fn clear(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether anything came since then.
    pub(super) fn is_any(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The bytes of a connection.
#[derive(Debug)]
pub(super) struct OriginStream {
    kind: Kind,
    is_http2: bool,
    received: Received,
}

#[derive(Debug)]
enum Kind {
    Tcp(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl OriginStream {
    /// A connection that is not encrypted, and whose protocol is known.
    pub(super) fn tcp(stream: TcpStream, is_http2: bool) -> OriginStream {
        OriginStream { kind: Kind::Tcp(stream), is_http2, received: Received::default() }
    }

    /// One whose protocol the handshake of TLS has chosen.
    pub(super) fn tls(stream: TlsStream<TcpStream>) -> OriginStream {
        let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
        OriginStream { kind: Kind::Tls(Box::new(stream)), is_http2, received: Received::default() }
    }

    pub(super) fn received(&self) -> Received {
        self.received.clone()
    }

    /// Whether the origin speaks HTTP/2 here.
    pub(super) fn is_http2(&self) -> bool {
        self.is_http2
    }
}

impl AsyncRead for OriginStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let read = match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_read(context, buffer),
            Kind::Tls(stream) => Pin::new(stream).poll_read(context, buffer),
        };
        ready!(read)?;
        if buffer.filled().len() > before {
            self.received.0.store(true, Ordering::Relaxed);
        }
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for OriginStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_write(context, bytes),
            Kind::Tls(stream) => Pin::new(stream).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match &mut self.kind {
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

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_flush(context),
            Kind::Tls(stream) => Pin::new(stream).poll_flush(context),
        }
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.kind {
            Kind::Tcp(stream) => Pin::new(stream).poll_shutdown(context),
            Kind::Tls(stream) => Pin::new(stream).poll_shutdown(context),
        }
    }
}
