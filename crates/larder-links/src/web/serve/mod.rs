//! The accept loop: a bounded number of HTTP/1.1 connections, deadlines for request heads and for clients that do not read,
//! graceful shutdown.
//!
//! It serves any router, so that other parts of a process use the same bounds.

mod timer;

use axum::Router;
use axum::extract::ConnectInfo;
use axum::response::Response;
use hyper::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::Service;
use hyper_util::rt::TokioIo;
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use timer::ConnectionTimer;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::{sleep, timeout};
use tokio_io_timeout::TimeoutStream;

/// How long to wait after a failed accept. The usual cause is a lack of file descriptors; an immediate retry would only
/// use processor time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// The bounds of [`serve`].
#[derive(Clone, Copy, Debug)]
pub struct ServeOptions {
    /// Open connections; further ones wait to be accepted. At least 1.
    pub max_connections: usize,
    /// How long a client may take to send the head of a request.
    pub header_timeout: Duration,
    /// How long a client may take nothing of a response that it has asked for: then its connection is closed.
    pub write_timeout: Duration,
    /// How long running requests may take to end after `shutdown`.
    pub drain_timeout: Duration,
}

/// Serves until `shutdown`, then gives running requests the drain timeout to finish. Handlers find the client's address in
/// `ConnectInfo<SocketAddr>`.
///
/// # Cancel safety
/// A dropped call closes the listener; connections that are open go on until they end.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send,
) {
    let service_of = |peer| WithPeer { peer, inner: TowerToHyperService::new(router.clone()) };
    serve_each(listener, service_of, options, shutdown).await;
}

/// As [`serve`], with a service for each connection, which `service_of` makes from the client's address.
pub(crate) async fn serve_each<S>(
    listener: TcpListener,
    service_of: impl Fn(SocketAddr) -> S,
    options: ServeOptions,
    shutdown: impl Future<Output = ()> + Send,
) where
    S: Service<Request<Incoming>, Response = Response, Error = Infallible> + Send + 'static,
    S::Future: Send,
{
    let permits = Arc::new(Semaphore::new(options.max_connections.max(1)));
    let graceful = GracefulShutdown::new();
    let mut shutdown = pin!(shutdown);
    loop {
        // The permit comes before the accept: further clients wait in the kernel's queue and use none of our memory.
        let next = async {
            let permit = permits.clone().acquire_owned().await;
            (permit, listener.accept().await)
        };
        let (permit, accepted) = tokio::select! {
            next = next => next,
            () = &mut shutdown => break,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                tokio::select! {
                    () = sleep(ACCEPT_PAUSE) => continue,
                    () = &mut shutdown => break,
                }
            }
        };
        // Without it a short response may wait for the client's delayed acknowledgement of the one before.
        let _ = stream.set_nodelay(true);
        let mut stream = TimeoutStream::new(stream);
        stream.set_write_timeout(Some(options.write_timeout));
        let connection = http1::Builder::new()
            // Nearly all responses are heads alone: one buffer is sent with less work than a list of one buffer.
            .writev(false)
            .timer(ConnectionTimer::default())
            .header_read_timeout(options.header_timeout)
            .serve_connection(TokioIo::new(Box::pin(stream)), service_of(peer));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection failed");
            }
            drop(permit);
        });
    }
    drop(listener);
    if timeout(options.drain_timeout, graceful.shutdown()).await.is_err() {
        tracing::warn!(
            timeout_ms = options.drain_timeout.as_millis() as u64,
            "some requests did not finish within the drain timeout and were abandoned"
        );
    }
}

/// Notes the client's address in each request.
struct WithPeer {
    peer: SocketAddr,
    inner: TowerToHyperService<Router>,
}

impl Service<Request<Incoming>> for WithPeer {
    type Response = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Response;
    type Error = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Error;
    type Future = <TowerToHyperService<Router> as Service<Request<Incoming>>>::Future;

    fn call(&self, mut request: Request<Incoming>) -> Self::Future {
        request.extensions_mut().insert(ConnectInfo(self.peer));
        self.inner.call(request)
    }
}
