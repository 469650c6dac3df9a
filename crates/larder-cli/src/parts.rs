//! The parts as the command line runs them: bound at their addresses, served until they are asked to stop.

use crate::files::Shares;
use crate::listen::Listen;
use crate::settings;
use crate::signals;
use crate::supervisor::Stop;
use anyhow::{Context, Result};
use larder_links::{Deps, Links, ServeOptions};
use larder_server::{Server, ServerError, Store};
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

/// How long a client of the dashboard may take to send the head of a request.
const ADMIN_HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// `larder server`.
pub(crate) fn run_server(settings: settings::Server) -> Result<()> {
    runtime()?.block_on(async {
        let stop = signals::requested_to_stop()?;
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

/// Binds the cache server; a default port that is taken is replaced by a free one.
pub(crate) fn bind_server(settings: &settings::Server, store: &Store) -> Result<Server, ServerError> {
    let bind = |listen: Option<SocketAddr>| {
        Server::bind_with(larder_server::Config { listen, ..settings.config.clone() }, store.clone())
    };
    let is_taken = |error: &ServerError| matches!(error, ServerError::Bind { source, .. } if source.kind() == ErrorKind::AddrInUse);
    match settings.listen {
        Some(listen) => listen.bind(|address| bind(Some(address)), is_taken),
        None => bind(None),
    }
}

/// `larder links`.
pub(crate) fn run_links(settings: settings::Links) -> Result<()> {
    runtime()?.block_on(async {
        let stop = signals::requested_to_stop()?;
        let listener = settings.listen.tcp()?;
        let address = listener.local_addr()?;
        let mut config = settings.config;
        let wanted = Shares { server: 0, links: config.max_connections, admin: 0 };
        config.max_connections = Shares::of_process(wanted).links;
        let hint = token_command(&config)?;
        let links = open_links(config)?;
        println!("larder links listens on http://{address}/");
        if !links.is_local_on(address) {
            println!("the API needs a token; make one with: {hint}");
        }
        Ok(links.serve(tokio::net::TcpListener::from_std(listener)?, stop).await?)
    })
}

/// The command that makes a token for a shortener.
pub(crate) fn token_command(config: &larder_links::Config) -> Result<String> {
    let path = config.store_config()?.path;
    // An absolute path works in every folder; one that cannot be found out is shown as it was given.
    let path = std::path::absolute(&path).unwrap_or(path).display().to_string();
    Ok(format!("larder links token add --database '{}'", path.replace('\'', "'\\''")))
}

/// Opens the shortener, and makes the folder of its database.
pub(crate) fn open_links(config: larder_links::Config) -> Result<Links> {
    config.validate()?;
    if let Some(folder) = config.store_config()?.path.parent().filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let deps = Deps::open(&config)?;
    Ok(Links::open(config, deps)?)
}

/// Serves the admin pages until asked to stop. Requests that take longer than `drain` from then on are cut.
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

/// The runtime of a process: it accepts, answers and waits; the cache server has threads of its own beside it.
pub(crate) fn runtime() -> Result<tokio::runtime::Runtime> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build().context("cannot start the runtime")
}

impl Listen {
    /// The same address with the port that was really bound.
    pub(crate) fn bound_to(address: SocketAddr) -> Listen {
        Listen { address, named: true }
    }
}
