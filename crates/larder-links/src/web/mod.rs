//! The service over HTTP: the accept loop, the guard, the routes and their formats.

mod cursor;
mod error_pages;
mod front;
mod graphql;
mod guard;
mod headers;
pub(crate) mod input;
mod reply;
mod responses;
mod router;
mod routes;
pub(crate) mod serve;
mod view;

use crate::config::Config;
use crate::error::LinksError;
use crate::service::Links;
use axum::Router;
use front::Front;
use serve::ServeOptions;
use std::future::Future;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long a client may take nothing of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

impl Links {
    /// The routes of the service, for [`serve`](Links::serve) or another application.
    ///
    /// Without `ConnectInfo<SocketAddr>` in a request its client is unknown, and the API needs a token.
    pub fn router(&self) -> Router {
        router::build(self.clone())
    }

    /// Connects to Redis and serves connections until `shutdown` completes, gives running requests the drain timeout to
    /// finish, and then [stops](Links::stop).
    ///
    /// # Errors
    /// [`LinksError::Stopped`] after [`stop`](Links::stop), [`LinksError::Io`] if the listener has no address.
    ///
    /// # Cancel safety
    /// A dropped or panicking call leaves store and caches as they are; the service can be served again.
    pub async fn serve(
        &self,
        listener: TcpListener,
        shutdown: impl Future<Output = ()> + Send,
    ) -> Result<(), LinksError> {
        if self.store().is_closed() {
            return Err(LinksError::Stopped);
        }
        self.hosts().add_bound(listener.local_addr()?);
        let cache = self.cache().clone();
        tokio::spawn(async move { cache.connect().await });
        let shutdown = async {
            shutdown.await;
            self.events().close();
        };
        let front = Front::new(self.clone());
        let service_of = |peer| front.clone().service_of(peer);
        serve::serve_each(listener, service_of, serve_options(self.config()), shutdown).await;
        self.stop().await
    }
}

/// How the connections of the service are served.
fn serve_options(config: &Config) -> ServeOptions {
    ServeOptions {
        max_connections: config.max_connections,
        header_timeout: Duration::from_millis(config.header_timeout_ms),
        write_timeout: WRITE_TIMEOUT,
        drain_timeout: Duration::from_millis(config.drain_timeout_ms),
    }
}
