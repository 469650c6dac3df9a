//! Starts the parts: binds their addresses, and serves until a stop is requested.

pub(crate) mod data_folder;
pub(crate) mod explainers;
pub(crate) mod proxy;
mod redis_copy;
mod redis_reader;
pub(crate) mod redis_source;
pub(crate) mod sources;
pub(crate) mod startup_pages;

use crate::options::option_sources::OptionSources;
use crate::options::settings::{self, AdminPort};
use crate::output::{print, remark};
use crate::process::admin_port;
use crate::process::files::{ADMIN_CONNECTIONS, Shares};
use crate::process::listen::ListenAddress;
use crate::process::service_manager::{PassedSockets, announced};
use crate::process::signals::{self, hangup_reloads, reload_after_hangups};
use crate::process::supervisor::{HealthHandle, Supervisor};
use crate::process::telemetry;
use anyhow::{Context, Error, Result, bail};
use larder_admin::{Registry, Token};
use larder_links::{Deps, Links, LinksError};
use larder_server::{CertificateHandle, Listeners, Server, ServerError, Store};
use redis_source::RedisSource;
use sources::CurrentStats;
use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::Path;

/// `larder server`.
pub(crate) fn run_server(mut settings: settings::Server, from: Option<RedisSource>) -> Result<()> {
    let sources = settings.sources.clone();
    settings.config.validate().map_err(|error| sources.of_server(error))?;
    let admin_port = std::mem::take(&mut settings.admin).port(&sources)?;
    let passed = PassedSockets::take()?;
    runtime()?.block_on(async {
        let reloads = hangup_reloads(settings.config.tls_port.is_some());
        let stop = signals::stop_signal(reloads)?;
        let mut admin = None;
        if let Some(port) = admin_port {
            let requested = Shares { server: settings.config.maxclients, links: 0, admin: ADMIN_CONNECTIONS };
            let shares = Shares::of_process(requested);
            settings.config.maxclients = shares.server.max(1);
            let listener = port.listen.tcp().map_err(|error| sources.unusable("admin", error))?;
            admin = Some((listener, port.hosts, shares.admin));
        }
        let store = open_store(&settings)?;
        let server = match passed {
            Some(sockets) => serve_on(sockets, &settings, &store)?,
            None => bind_server(&settings, &store)?,
        };
        if let Some(source) = from {
            let handle = server.begin_copy(source.copy_source());
            redis_copy::start(source, handle)?;
        }
        if let Some(address) = server.local_addr() {
            print(&format!("larder server listens on {address}\n"))?;
        }
        if let Some(address) = server.tls_addr() {
            print(&format!("larder server listens on {address}, with TLS\n"))?;
        }
        if let Some(path) = server.unix_path() {
            print(&format!("larder server listens on {}\n", path.display()))?;
        }
        let mut supervisor = Supervisor::new();
        let registry = Registry::new();
        sources::register_server(&registry, CurrentStats::new(&server), &HealthHandle::running());
        telemetry::observe(&registry);
        if let Some((listener, hosts, connections)) = admin {
            explainers::of_server(&registry, store.clone());
            print(&format!("the dashboard is on http://{}/\n", listener.local_addr()?))?;
            let pages = admin_port::pages(registry, hosts, None);
            admin_port::start(&mut supervisor, pages, listener, connections);
        }
        startup_pages::release();
        if reloads {
            let certificate = server.certificate_handle();
            reload_after_hangups(move || certificate.iter().for_each(read_again))?;
        }
        let ended = server.run(announced(stop)).await;
        let stopped = supervisor.shut_down(admin_port::DRAIN).await;
        ended?;
        stopped.map(drop)
    })
}

/// Reads the certificate of the cache server again, and says how that went.
pub(crate) fn read_again(certificate: &CertificateHandle) {
    match certificate.reload() {
        Ok(()) => remark("larder server: the certificate was read again"),
        Err(error) => remark(&format!("larder server: the old certificate stays: {error}")),
    }
}

/// The keyspace of the cache server.
pub(crate) fn open_store(settings: &settings::Server) -> Result<Store> {
    let store = Store::new(settings.config.max_memory.map(|size| size.0));
    store.map_err(|error| settings.sources.of_server(error))
}

/// Binds the cache server; if the default port is in use, on a free port.
pub(crate) fn bind_server(settings: &settings::Server, store: &Store) -> Result<Server> {
    let bind = |listen: Option<SocketAddr>| {
        Server::bind_with(larder_server::Config { listen, ..settings.config.clone() }, store.clone())
    };
    let is_in_use = |error: &ServerError| matches!(error, ServerError::Bind { source, .. } if source.kind() == ErrorKind::AddrInUse);
    let server = match settings.listen {
        Some(listen) => listen.bind(|address| bind(Some(address)), is_in_use),
        None => bind(None),
    };
    server.map_err(|error| settings.sources.of_server(error))
}

/// The cache server on the sockets that the service manager has opened. An address that is configured needs its socket: it would
/// be without effect otherwise.
fn serve_on(sockets: PassedSockets, settings: &settings::Server, store: &Store) -> Result<Server> {
    let PassedSockets { tcp, tls, unix } = sockets;
    let config = &settings.config;
    let configured = [
        (
            "listen",
            settings.listen.is_some_and(|listen| listen.is_configured) && !config.tls_only,
            tcp.is_some(),
        ),
        ("tls_port", config.tls_port.is_some(), tls.is_some()),
        ("unixsocket", config.unixsocket.is_some(), unix.is_some()),
    ];
    if let Some((option, ..)) =
        configured.iter().find(|(_, is_configured, is_there)| *is_configured && !is_there)
    {
        bail!("{option} is set, but the service manager has opened no such socket");
    }
    let server = Server::with_listeners(config.clone(), store.clone(), Listeners { tcp, tls, unix });
    server.map_err(|error| settings.sources.of_server(error))
}

/// `larder links`.
pub(crate) fn run_links(settings: settings::Links) -> Result<()> {
    let sources = settings.sources;
    settings.config.validate().map_err(|error| sources.of_links(error))?;
    let admin_port = settings.admin.port(&sources)?;
    runtime()?.block_on(async {
        let reloads = hangup_reloads(false);
        let stop = signals::stop_signal(reloads)?;
        let listener = settings.listen.tcp().map_err(|error| sources.unusable("listen", error))?;
        let address = listener.local_addr()?;
        // All ports are bound before one is announced.
        let bind_admin = |port: AdminPort| {
            let listener = port.listen.tcp().map_err(|error| sources.unusable("admin", error));
            listener.map(|listener| (listener, port.hosts))
        };
        let admin = admin_port.map(bind_admin).transpose()?;
        let mut config = settings.config;
        let admin_connections = if admin.is_some() { ADMIN_CONNECTIONS } else { 0 };
        let requested = Shares { server: 0, links: config.max_connections, admin: admin_connections };
        let shares = Shares::of_process(requested);
        config.max_connections = shares.links;
        let hint = token_command(&config)?;
        let database = config.store_config()?.database;
        let links = open_links(config, &sources)?;
        print(&format!("larder links listens on http://{address}/\n"))?;
        if !links.is_local_on(address) {
            print(&format!("the API needs a token; make one with: {hint}\n"))?;
        }
        let mut supervisor = Supervisor::new();
        let registry = Registry::new();
        sources::register_links(&registry, &links, &HealthHandle::running());
        telemetry::observe(&registry);
        if let Some((listener, hosts)) = admin {
            explainers::of_links(&registry, &links);
            print(&format!("the dashboard is on http://{}/\n", listener.local_addr()?))?;
            let token =
                Token::load_or_create(database.file().and_then(Path::parent).unwrap_or(Path::new("")))?;
            let pages = admin_port::pages(registry, hosts, Some(token));
            admin_port::start(&mut supervisor, pages, listener, shares.admin);
        }
        startup_pages::release();
        if reloads {
            reload_after_hangups(|| ())?;
        }
        let ended = links.serve(tokio::net::TcpListener::from_std(listener)?, announced(stop)).await;
        let stopped = supervisor.shut_down(admin_port::DRAIN).await;
        ended?;
        stopped.map(drop)
    })
}

/// The command that creates a token for a shortener.
pub(crate) fn token_command(config: &larder_links::Config) -> Result<String> {
    let database = match config.store_config()?.database.file() {
        // An absolute path works in every folder. If it cannot be determined, the configured path is shown.
        Some(path) => std::path::absolute(path).unwrap_or(path.to_owned()).display().to_string(),
        None => config.database.clone(),
    };
    Ok(format!("larder links token add --database '{}'", database.replace('\'', "'\\''")))
}

/// Opens the shortener, and creates the folder of its database.
pub(crate) fn open_links(config: larder_links::Config, sources: &OptionSources) -> Result<Links> {
    let database = config.store_config()?.database;
    let folder = database.file().and_then(Path::parent);
    if let Some(folder) = folder.filter(|folder| !folder.as_os_str().is_empty()) {
        let created = data_folder::create(&mut DirBuilder::new(), folder);
        created.map_err(|error| sources.unusable("database", error))?;
    }
    let deps = Deps::open(&config).map_err(|error| database_error(error, &config, sources))?;
    Links::open(config, deps).map_err(|error| sources.of_links(error))
}

/// The error of the database of a shortener, or of its caches, with the file: SQLite does not name it.
pub(crate) fn database_error(
    error: LinksError,
    config: &larder_links::Config,
    sources: &OptionSources,
) -> Error {
    let is_store = matches!(error, LinksError::Store(_));
    match config.store_config() {
        Ok(store) if is_store && !error.to_string().contains(&store.database.to_string()) => {
            let named = Error::new(error).context(format!("cannot use the database {}", store.database));
            sources.unusable("database", named)
        }
        _ => sources.of_links(error),
    }
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
