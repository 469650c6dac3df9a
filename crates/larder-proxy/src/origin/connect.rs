//! Connects to an origin: name, TCP and TLS within one deadline, then the protocol that TLS has chosen.

use crate::config::origin_url::{OriginUrl, Scheme};
use crate::origin::lender::LentBody;
use crate::origin::origin_error::OriginError;
use crate::origin::origin_stream::{OriginStream, Received};
use crate::origin::tls::OriginTls;
use http::Uri;
use hyper::client::conn::{http1, http2};
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::pki_types::ServerName;
use std::error::Error;
use std::io;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tower_service::Service;

/// What HTTP/2 may keep for a stream whose body is not read yet, and for a connection, in bytes.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// A ping notices an origin that is gone: nothing else would while a response is awaited.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);
/// When the system looks whether an idle origin is still there.
const TCP_KEEPALIVE: Duration = Duration::from_secs(60);

/// Which protocols a connection may speak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocols {
    /// HTTP/2 if the origin has it by its URL or chooses it, or HTTP/1.1.
    Any,
    /// HTTP/1.1 alone: an upgrade needs a connection of its own.
    Http1,
}

/// A new connection.
pub(super) enum Connected {
    /// HTTP/1.1, for one request at a time.
    Http1(Http1Sender),
    /// HTTP/2, for many.
    Http2(http2::SendRequest<LentBody>),
}

/// Sends requests on a connection of HTTP/1.1.
pub(super) struct Http1Sender {
    pub(super) requests: http1::SendRequest<LentBody>,
    pub(super) received: Received,
}

/// Makes connections to one origin.
#[derive(Clone, Debug)]
pub(super) struct Connector {
    tcp: HttpConnector,
    uri: Uri,
    tls: Option<(OriginTls, ServerName<'static>)>,
    /// Whether the origin has HTTP/2 without encryption.
    is_h2c: bool,
    deadline: Duration,
    max_head_bytes: usize,
}

impl Connector {
    /// For an origin. `tls` is for origins with `https`.
    pub(super) fn new(
        url: &OriginUrl,
        tls: Option<OriginTls>,
        deadline: Duration,
        max_head_bytes: usize,
    ) -> Result<Connector, &'static str> {
        let mut tcp = HttpConnector::new();
        tcp.enforce_http(false);
        // Without it the end of a request may wait for the origin's delayed acknowledgement.
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(TCP_KEEPALIVE));
        let uri = url.to_string().parse().map_err(|_| "a URL")?;
        let tls = match tls {
            Some(tls) => {
                let name = ServerName::try_from(url.host.clone());
                Some((tls, name.map_err(|_| "a host name that a certificate can have")?))
            }
            None => None,
        };
        let is_h2c = url.scheme == Scheme::H2c;
        Ok(Connector { tcp, uri, tls, is_h2c, deadline, max_head_bytes })
    }

    /// Connects.
    ///
    /// # Cancel safety
    /// A dropped call closes what it has opened.
    pub(super) async fn connect(&self, protocols: Protocols) -> Result<Connected, OriginError> {
        let connecting = async {
            let stream = self.open(protocols).await?;
            self.handshake(stream).await
        };
        timeout(self.deadline, connecting).await.unwrap_or(Err(OriginError::ConnectTimeout(self.deadline)))
    }

    async fn open(&self, protocols: Protocols) -> Result<OriginStream, OriginError> {
        let connected = self.tcp.clone().call(self.uri.clone()).await;
        let stream: TcpStream = connected.map_err(|error| of_tcp(&error))?.into_inner();
        let Some((tls, name)) = &self.tls else {
            return Ok(OriginStream::tcp(stream, self.is_h2c && protocols == Protocols::Any));
        };
        let config = match protocols {
            Protocols::Any => tls.any.clone(),
            Protocols::Http1 => tls.http1.clone(),
        };
        let encrypted = TlsConnector::from(config).connect(name.clone(), stream).await;
        Ok(OriginStream::tls(encrypted.map_err(OriginError::Tls)?))
    }

    async fn handshake(&self, stream: OriginStream) -> Result<Connected, OriginError> {
        if stream.is_http2() {
            let (requests, connection) = http2::Builder::new(TokioExecutor::new())
                .timer(TokioTimer::new())
                .initial_stream_window_size(STREAM_WINDOW)
                .initial_connection_window_size(CONNECTION_WINDOW)
                .max_header_list_size(u32::try_from(self.max_head_bytes).unwrap_or(u32::MAX))
                .keep_alive_interval(PING_INTERVAL)
                .keep_alive_timeout(PING_TIMEOUT)
                .handshake(TokioIo::new(stream))
                .await
                .map_err(OriginError::of_exchange)?;
            drive(connection);
            return Ok(Connected::Http2(requests));
        }
        let received = stream.received();
        let (requests, connection) = http1::Builder::new()
            .max_buf_size(self.max_head_bytes)
            .max_header_size(self.max_head_bytes)
            .handshake(TokioIo::new(stream))
            .await
            .map_err(OriginError::of_exchange)?;
        drive(connection.with_upgrades());
        Ok(Connected::Http1(Http1Sender { requests, received }))
    }
}

/// Runs a connection until it ends. Its requests get its errors.
fn drive(connection: impl Future<Output = hyper::Result<()>> + Send + 'static) {
    tokio::spawn(async move {
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection to an origin failed");
        }
    });
}

/// The cause of a failed connection. The connector wraps it once or twice, with the address.
fn of_tcp(error: &(dyn Error + 'static)) -> OriginError {
    let is_name = error.to_string().contains("dns");
    let mut cause = Some(error);
    let mut found = None;
    while let Some(inner) = cause {
        if let Some(error) = inner.downcast_ref::<io::Error>() {
            found = Some(error);
        }
        cause = inner.source();
    }
    let error = match found {
        Some(error) => error
            .raw_os_error()
            .map_or_else(|| io::Error::new(error.kind(), error.to_string()), io::Error::from_raw_os_error),
        None => io::Error::other("the connection failed"),
    };
    if is_name { OriginError::Resolve(error) } else { OriginError::Connect(error) }
}
