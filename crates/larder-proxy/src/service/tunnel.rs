//! Tunnels: after a switch of protocols, such as to WebSocket, the bytes of both sides are copied.
//!
//! A tunnel has no deadline of its own, because its protocol may be silent for long; a peer that is gone is noticed by TCP. It
//! ends when either side fails, when both have ended, or when the proxy stops.

use crate::fields::forwarded::Peer;
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
use std::sync::Arc;
use tokio::io::copy_bidirectional;
use tokio::sync::{OwnedSemaphorePermit, watch};
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
    tokio::spawn(run(client, origin, body, connection.clone()));
    Ok(Response::from_parts(head, ProxyBody::text("")))
}

/// Copies until the tunnel ends. `lease` is the place of the tunnel among the requests of its origin.
async fn run(
    client: upgrade::OnUpgrade,
    origin: upgrade::OnUpgrade,
    lease: OriginBody,
    mut connection: ClientConnection,
) {
    let copied = async {
        let (client, origin) = tokio::try_join!(client, origin)?;
        copy_bidirectional(&mut TokioIo::new(client), &mut TokioIo::new(origin)).await?;
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
    drop((lease, connection.permit));
}
