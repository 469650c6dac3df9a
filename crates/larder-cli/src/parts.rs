//! Starts the parts: binds their addresses, and serves until a stop is requested.

use crate::files::Shares;
use crate::listen::ListenAddress;
use crate::settings;
use crate::signals;
use crate::supervisor::Stop;
use anyhow::{Context, Result};
use larder_links::{Deps, Links, ServeOptions};
use larder_server::{Server, ServerError, Store};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// The time in which a client of the dashboard must send the head of a request.
const ADMIN_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// `larder server`.
pub(crate) fn run_server(settings: settings::Server) -> Result<()> {
    runtime()?.block_on(async {
        let stop = signals::stop_signal()?;
        let store = Store::new(settings.config.max_memory.map(|size| size.0))?;
        let server = bind_server(&settings, &store)?;
        if let Some(address) = server.local_addr() {
            println!("larder server listens on {address}");
        }
        if let Some(path) = server.unix_path() {
            println!("larder server listens on {}", path.display());
        }
        Ok(server.run(stop).await?)
    })
}

/// Binds the cache server; if the default port is in use, on a free port.
pub(crate) fn bind_server(settings: &settings::Server, store: &Store) -> Result<Server, ServerError> {
    let bind = |listen: Option<SocketAddr>| {
        Server::bind_with(larder_server::Config { listen, ..settings.config.clone() }, store.clone())
    };
    let is_in_use = |error: &ServerError| matches!(error, ServerError::Bind { source, .. } if source.kind() == ErrorKind::AddrInUse);
    match settings.listen {
        Some(listen) => listen.bind(|address| bind(Some(address)), is_in_use),
        None => bind(None),
    }
}

/// `larder links`.
pub(crate) fn run_links(settings: settings::Links) -> Result<()> {
    runtime()?.block_on(async {
        let stop = signals::stop_signal()?;
        let listener = settings.listen.tcp()?;
        let address = listener.local_addr()?;
        let mut config = settings.config;
        let requested = Shares { server: 0, links: config.max_connections, admin: 0 };
        config.max_connections = Shares::of_process(requested).links;
        let hint = token_command(&config)?;
        let links = open_links(config)?;
        println!("larder links listens on http://{address}/");
        if !links.is_local_on(address) {
            println!("the API needs a token; make one with: {hint}");
        }
        Ok(links.serve(tokio::net::TcpListener::from_std(listener)?, stop).await?)
    })
}

/// The command that creates a token for a shortener.
pub(crate) fn token_command(config: &larder_links::Config) -> Result<String> {
    let path = config.store_config()?.path;
    // An absolute path works in every folder. If it cannot be determined, the configured path is shown.
    let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    Ok(format!("larder links token add --database '{}'", path.replace('\'', "'\\''")))
}

/// Opens the shortener, and creates the folder of its database.
pub(crate) fn open_links(config: larder_links::Config) -> Result<Links> {
    config.validate()?;
    if let Some(folder) = config.store_config()?.path.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot create {}", folder.display()))?;
    }
    let deps = Deps::open(&config)?;
    Ok(Links::open(config, deps)?)
}

/// Serves the admin pages until a stop is requested. Connections with requests that last longer than `drain` are then
/// closed.
pub(crate) async fn serve_admin(
    pages: axum::Router,
    listener: &TcpListener,
    stop: Stop,
    max_connections: usize,
    drain: Duration,
) -> Result<()> {
    let listener = tokio::net::TcpListener::from_std(listener.try_clone()?)?;
    let options =
        ServeOptions { max_connections, header_timeout: ADMIN_HEADER_TIMEOUT, drain_timeout: drain };
    larder_links::serve(listener, pages, options, stop.requested()).await;
    Ok(())
}

/// The runtime of the process. The cache server uses its own threads in addition.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

impl ListenAddress {
    /// An address that is bound already, with its actual port.
    pub(crate) fn bound_to(address: SocketAddr) -> ListenAddress {
        ListenAddress { address, is_configured: true }
    }
}
