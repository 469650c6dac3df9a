//! The accept loop: a bounded number of connections, and their end when the proxy stops.

use crate::fields::forwarded::Peer;
use crate::front::connection::serve_connection;
use crate::front::setup::Front;
use crate::service::ClientConnection;
use hyper_util::server::graceful::GracefulShutdown;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::time::{sleep, timeout};

/// How long to wait after a failed accept. The usual cause is a lack of file descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

impl Front {
    /// Serves until `shutdown`; then running requests get the drain timeout to end, and tunnels end at once.
    ///
    /// # Cancel safety
    /// A dropped call closes the listener and the tunnels; other connections go on until they end.
    pub(crate) async fn serve(&self, listener: TcpListener, shutdown: impl Future<Output = ()>) {
        let permits = Arc::new(Semaphore::new(self.limits.max_connections));
        let graceful = GracefulShutdown::new();
        let (stop, stopped) = watch::channel(());
        let mut shutdown = pin!(shutdown);
        loop {
            // The permit comes before the accept: further clients wait in the kernel's queue and use none of our memory.
            let next = async {
                let permit = permits.clone().acquire_owned().await.expect("the semaphore is never closed");
                (permit, listener.accept().await)
            };
            let (permit, accepted) = tokio::select! {
                next = next => next,
                () = &mut shutdown => break,
            };
            let (stream, address) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::select! {
                        () = sleep(ACCEPT_PAUSE) => continue,
                        () = &mut shutdown => break,
                    }
                }
            };
            let peer = Peer::new(address.ip(), self.certificate.is_some(), &self.trusted);
            let connection = ClientConnection {
                peer,
                permit: Arc::new(permit),
                stopped: stopped.clone(),
                write_timeout: self.limits.write,
                stream: None,
            };
            tokio::spawn(serve_connection(self.clone(), stream, connection, graceful.watcher()));
        }
        drop((listener, stop, stopped));
        if timeout(self.limits.drain, graceful.shutdown()).await.is_err() {
            let timeout_ms = self.limits.drain.as_millis() as u64;
            tracing::warn!(
                timeout_ms,
                "some requests did not end within the drain timeout and were abandoned"
            );
        }
    }
}
