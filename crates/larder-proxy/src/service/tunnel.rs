//! Tunnels: after a switch of protocols, such as to WebSocket, the bytes of both sides are copied.
//!
//! A tunnel has no deadline of its own, because its protocol may be silent for long; a peer that is gone is noticed by TCP. It
//! ends when either side fails, when both have ended, or when the proxy stops.
//!
//! Over HTTP/2 a tunnel is one stream of a connection that goes on, so TCP tells nothing of it: a client that takes nothing ends it,
//! and so does, after a while, the end of either side. WebSocket closes by messages, after which neither side has anything to say.

use crate::fields::forwarded::Peer;
use crate::fields::websocket::{self, Handshake, WEBSOCKET};
use crate::origin::AskedUpgrade;
use crate::origin::origin_error::OriginError;
use crate::origin::request_body::RequestBody;
use crate::origin::response_body::OriginBody;
use crate::service::body::ProxyBody;
use crate::service::ruled_origins::RuledOrigins;
use http::header::CONNECTION;
use http::{HeaderValue, Request, Response, StatusCode};
use hyper::upgrade;
use hyper_util::rt::TokioIo;
use std::any::Any;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, copy, copy_bidirectional, split};
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;
use tokio_io_timeout::TimeoutWriter;
use tower_service::Service;

/// A connection of a client. Cheap to clone; a tunnel has a clone until it ends.
#[derive(Clone, Debug)]
pub(crate) struct ClientConnection {
    /// Who is connected.
    pub(crate) peer: Peer,
    /// Its place among the open connections.
    pub(crate) permit: Arc<OwnedSemaphorePermit>,
    /// Closed when the proxy stops.
    pub(crate) stopped: watch::Receiver<()>,
    /// For a client that takes nothing of its stream.
    pub(crate) write_timeout: Duration,
    /// Keeps the connection open while a tunnel is one of its streams.
    pub(crate) stream: Option<Arc<dyn Any + Send + Sync>>,
}

/// Asks an origin to switch to a protocol, and opens the tunnel if it does. Otherwise its response is an ordinary one.
pub(super) async fn open(
    mut origins: RuledOrigins,
    mut request: Request<RequestBody>,
    protocol: HeaderValue,
    connection: &ClientConnection,
) -> Result<Response<ProxyBody>, OriginError> {
    let client = upgrade::on(&mut request);
    request.extensions_mut().insert(AskedUpgrade(protocol));
    let mut response = origins.call(request).await?;
    if response.status() != StatusCode::SWITCHING_PROTOCOLS {
        return Ok(response.map(|body| ProxyBody::Direct { body }));
    }
    let origin = upgrade::on(&mut response);
    let (mut head, body) = response.into_parts();
    head.headers.insert(CONNECTION, HeaderValue::from_static("upgrade"));
    tokio::spawn(run(client, origin, body, connection.clone(), Copying::Connections));
    Ok(Response::from_parts(head, ProxyBody::text("")))
}

/// The same for the CONNECT of a client of HTTP/2 (RFC 8441). What is a success for that client opens a tunnel, so another success
/// of the origin than a switch is an error.
pub(super) async fn open_websocket(
    mut origins: RuledOrigins,
    mut request: Request<RequestBody>,
    connection: &ClientConnection,
) -> Result<Response<ProxyBody>, OriginError> {
    let client = upgrade::on(&mut request);
    let handshake = Handshake::begin(request.headers_mut());
    request.extensions_mut().insert(AskedUpgrade(WEBSOCKET));
    let mut response = origins.call(request).await?;
    match response.status() {
        StatusCode::SWITCHING_PROTOCOLS if handshake.is_accepted_by(response.headers()) => {}
        status if status.is_informational() || status.is_success() => return Err(OriginError::FailedUpgrade),
        _ => return Ok(response.map(|body| ProxyBody::Direct { body })),
    }
    let origin = upgrade::on(&mut response);
    let (mut head, body) = response.into_parts();
    head.status = StatusCode::OK;
    websocket::remove_upgrade(&mut head.headers);
    let copying = Copying::Stream { patience: connection.write_timeout };
    tokio::spawn(run(client, origin, body, connection.clone(), copying));
    Ok(Response::from_parts(head, ProxyBody::text("")))
}

/// What is copied.
#[derive(Clone, Copy, Debug)]
enum Copying {
    /// Two connections.
    Connections,
    /// A stream of HTTP/2 and a connection. The client is waited for no longer than that to take what it is sent, and either side to
    /// end once the other one has.
    Stream { patience: Duration },
}

/// Copies until the tunnel ends. `lease` is the place of the tunnel among the requests of its origin.
async fn run(
    client: upgrade::OnUpgrade,
    origin: upgrade::OnUpgrade,
    lease: OriginBody,
    mut connection: ClientConnection,
    copying: Copying,
) {
    let copied = async {
        let (client, origin) = tokio::try_join!(client, origin)?;
        let (mut client, mut origin) = (TokioIo::new(client), TokioIo::new(origin));
        match copying {
            Copying::Connections => _ = copy_bidirectional(&mut client, &mut origin).await?,
            Copying::Stream { patience } => copy_stream(client, origin, patience).await?,
        }
        Ok::<_, Box<dyn std::error::Error + Send + Sync>>(())
    };
    tokio::select! {
        ended = copied => {
            if let Err(error) = ended {
                tracing::debug!(%error, "a tunnel failed");
            }
        }
        _ = connection.stopped.changed() => {}
    }
    drop((lease, connection.permit, connection.stream));
}

async fn copy_stream<S>(client: S, origin: S, patience: Duration) -> io::Result<()>
where
    S: AsyncRead + AsyncWrite,
{
    let (from_client, to_client) = split(client);
    let (from_origin, to_origin) = split(origin);
    let mut to_client = TimeoutWriter::new(to_client);
    to_client.set_timeout(Some(patience));
    let mut upwards = pin!(copy_to_end(from_client, to_origin));
    let mut downwards = pin!(copy_to_end(from_origin, to_client));
    tokio::select! {
        ended = &mut upwards => {
            ended?;
            timeout(patience, downwards).await?
        }
        ended = &mut downwards => {
            ended?;
            timeout(patience, upwards).await?
        }
    }
}

async fn copy_to_end(mut from: impl AsyncRead + Unpin, to: impl AsyncWrite) -> io::Result<()> {
    let mut to = pin!(to);
    copy(&mut from, &mut to).await?;
    to.shutdown().await
}
