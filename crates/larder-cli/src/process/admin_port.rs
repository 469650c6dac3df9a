//! The admin port of a process: the dashboard, the metrics and the API of its parts.

use crate::process::supervisor::{Stop, Supervisor};
use anyhow::Result;
use axum::Router;
use larder_admin::{Admin, Registry, Token};
use larder_links::ServeOptions;
use std::net::TcpListener;
use std::time::Duration;

/// How long running requests may take to end when the process stops.
pub(crate) const DRAIN: Duration = Duration::from_secs(3);

/// The time in which a client must send the head of a request.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);
/// The time in which a client must take something of a response.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);

/// The pages of the parts of a registry. Without a token nothing can be purged.
pub(crate) fn pages(registry: Registry, hosts: Vec<String>, token: Option<Token>) -> Router {
    let admin = hosts.into_iter().fold(Admin::new(registry), Admin::allow_host);
    match token {
        Some(token) => admin.token(token).router(),
        None => admin.router(),
    }
}

/// Serves the pages until the supervisor stops.
pub(crate) fn start(
    supervisor: &mut Supervisor,
    pages: Router,
    listener: TcpListener,
    max_connections: usize,
) {
    supervisor.start("admin", move |stop| {
        let (pages, listener) = (pages.clone(), listener.try_clone());
        async move { serve(pages, listener?, stop, max_connections).await }
    });
}

async fn serve(pages: Router, listener: TcpListener, stop: Stop, max_connections: usize) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener)?;
    let options = ServeOptions {
        max_connections,
        header_timeout: HEADER_TIMEOUT,
        write_timeout: WRITE_TIMEOUT,
        drain_timeout: DRAIN,
    };
    larder_links::serve(listener, pages, options, stop.requested()).await;
    Ok(())
}
