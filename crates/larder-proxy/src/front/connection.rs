//! One connection of a client, from its handshake to its end.

use crate::front::activity::{Activity, RunningBody};
use crate::front::client_stream::{ClientStream, timed};
use crate::front::setup::{Front, FrontLimits};
use crate::service::{ClientConnection, ProxyBody};
use http::{Method, Request, Response};
use hyper::body::Incoming;
use hyper::service::{Service, service_fn};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use hyper_util::server::conn::auto::Builder;
use hyper_util::server::graceful::Watcher;
use larder_http::BoxError;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;

/// Requests that a connection of HTTP/2 may have at a time.
const MAX_STREAMS: u32 = 128;
/// Streams that a client may reset before they are read: more are an attack (CVE-2023-44487).
const MAX_RESETS: usize = 20;
/// What HTTP/2 may keep for a request whose body is not read yet, for a connection, and of a response that is not sent yet, in
/// bytes.
const STREAM_WINDOW: u32 = 256 << 10;
const CONNECTION_WINDOW: u32 = 1 << 20;
const SEND_BUFFER: usize = 64 << 10;
/// A ping notices a client that is gone.
const PING_INTERVAL: Duration = Duration::from_secs(20);
const PING_TIMEOUT: Duration = Duration::from_secs(20);

/// Serves a connection until it ends.
pub(super) async fn serve_connection(
    front: Front,
    stream: TcpStream,
    connection: ClientConnection,
    watcher: Watcher,
) {
    // Without it a short response may wait for the client's delayed acknowledgement of the one before.
    let _ = stream.set_nodelay(true);
    // Boxed, like the connection below: its state would be a part of the task until the connection ends.
    let Some((stream, activity)) = Box::pin(encrypted(&front, stream)).await else { return };
    let (service, watched) = (front.service.clone(), activity.clone());
    let service = service_fn(move |request: Request<Incoming>| {
        let running = watched.begin(request.version());
        let (service, mut connection) = (service.clone(), connection.clone());
        if request.method() == Method::CONNECT {
            // A tunnel goes on after its response.
            connection.stream = Some(Arc::new(watched.begin(request.version())));
        }
        async move {
            let response = service.answer(request, &connection).await;
            Ok::<_, Infallible>(response.map(|body| RunningBody::new(body, running)))
        }
    });
    let mut served = watched_by(watcher, &front.limits, stream, service);
    let ended = tokio::select! {
        ended = &mut served => ended,
        // Nothing runs: what is lost is an idle connection, or one that never sent a request.
        () = activity.ended(front.limits.header, front.limits.keepalive) => Ok(()),
    };
    if let Err(error) = ended {
        tracing::debug!(error, "a connection of a client failed");
    }
}

/// The stream, with TLS if the proxy has a certificate, and its activity from now on. `None` if the handshake failed or took too
/// long.
async fn encrypted(front: &Front, stream: TcpStream) -> Option<(ClientStream, Activity)> {
    let stream = timed(stream, front.limits.write);
    let Some(certificate) = &front.certificate else {
        let activity = Activity::new();
        return Some((ClientStream::tcp(stream, activity.clone()), activity));
    };
    let acceptor = TlsAcceptor::from(certificate.current());
    match timeout(front.limits.header, acceptor.accept(stream)).await {
        Ok(Ok(stream)) => {
            let activity = Activity::new();
            Some((ClientStream::tls(stream, activity.clone()), activity))
        }
        Ok(Err(error)) => {
            tracing::debug!(%error, "a TLS handshake failed");
            None
        }
        Err(_) => {
            tracing::debug!("a TLS handshake took too long");
            None
        }
    }
}

/// The connection, which the watcher ends when the proxy stops.
fn watched_by<S>(
    watcher: Watcher,
    limits: &FrontLimits,
    stream: ClientStream,
    service: S,
) -> Pin<Box<impl Future<Output = Result<(), BoxError>> + use<S>>>
where
    S: Service<Request<Incoming>, Response = Response<RunningBody<ProxyBody>>, Error = Infallible>,
    S: Send + 'static,
    S::Future: Send + 'static,
{
    let builder = builder(limits);
    let served = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    Box::pin(watcher.watch(served.into_owned()))
}

fn builder(limits: &FrontLimits) -> Builder<TokioExecutor> {
    let mut builder = Builder::new(TokioExecutor::new());
    // Without hyper's deadline for heads, which would end idle connections too: see `activity`.
    builder.http1().header_read_timeout(None).max_buf_size(limits.max_head_bytes);
    builder
        .http2()
        .enable_connect_protocol()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .max_pending_accept_reset_streams(MAX_RESETS)
        .max_header_list_size(u32::try_from(limits.max_head_bytes).unwrap_or(u32::MAX))
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .keep_alive_interval(PING_INTERVAL)
        .keep_alive_timeout(PING_TIMEOUT);
    builder
}
