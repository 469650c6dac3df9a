//! The server: bind, run, drain.

mod copy;
mod listeners;
mod snapshots;

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::cmd;
#[cfg(feature = "tls")]
use crate::config::ClientCertificates;
use crate::config::Config;
use crate::db::Store;
use crate::error::ServerError;
use crate::net::accept::accept;
use crate::net::listener::UnixSocket;
use crate::net::worker::Workers;
use crate::state::ServerState;
use crate::stats::{Stats, StatsHandle};
use crate::system::TooFewFiles;
use crate::users::LoadError;
use listeners::Bound;
use snapshots::Loader;

pub use copy::{CopyError, CopyHandle};
pub use listeners::Listeners;

/// A server that is bound and not running yet.
pub struct Server {
    bound: Bound,
    address: Option<SocketAddr>,
    tls_address: Option<SocketAddr>,
    state: Arc<ServerState>,
}

impl Server {
    /// Binds the listeners, with an empty keyspace.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if an option is out of range, an address cannot be bound, the address is not loopback and there is no
    /// password, or no snapshot could be written at the end.
    pub fn bind(config: Config) -> Result<Server, ServerError> {
        let store = Store::new(config.max_memory.map(|size| size.0))?;
        Server::bind_with(config, store)
    }

    /// Binds the listeners to serve an existing keyspace, for example that of a previous server. Ignores
    /// `config.max_memory`: the store has its own limit. It gets the policy of the configuration, if there is one.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](Self::bind).
    pub fn bind_with(config: Config, store: Store) -> Result<Server, ServerError> {
        Server::open(config, store, None)
    }

    /// The same on sockets that somebody else has opened, such as a service manager, and on no others: `listen`, `tls_port` and
    /// `unixsocket` of the configuration have no effect. It removes the file of no Unix socket.
    ///
    /// # Errors
    ///
    /// The errors of [`bind`](Self::bind), as if the configuration had the addresses of the sockets.
    pub fn with_listeners(config: Config, store: Store, listeners: Listeners) -> Result<Server, ServerError> {
        Server::open(config, store, Some(listeners))
    }

    fn open(mut config: Config, store: Store, listeners: Option<Listeners>) -> Result<Server, ServerError> {
        if let Some(listeners) = &listeners {
            listeners.set_addresses(&mut config);
        }
        config.validate()?;
        if let Some(policy) = config.max_memory_policy {
            store.set_policy(policy);
        }
        check_open_files(&config);
        if let Some(path) = &config.snapshot {
            snapshots::check_writable(path)?;
        }
        let stats = Arc::new(Stats::new(config.threads(), cmd::commands()));
        let mut state = ServerState::new(config, store, stats);
        if let Some(listeners) = &listeners {
            state.exposed = listeners.exposed();
        }
        load_certificate(&mut state)?;
        load_users(&state)?;
        let bound = match listeners {
            Some(listeners) => listeners.adopt()?,
            None => Bound::bind(&state.config)?,
        };
        let local = |listener: &std::net::TcpListener| listener.local_addr().ok();
        let (address, tls_address) = (bound.tcp.as_ref().and_then(local), bound.tls.as_ref().and_then(local));
        state.port = address.map_or(0, |address| address.port());
        state.tls_port = tls_address.map_or(0, |address| address.port());
        Ok(Server { bound, address, tls_address, state: Arc::new(state) })
    }

    /// The bound TCP address with its actual port; `None` if the server listens only on a Unix socket.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The bound address for TLS with its actual port, if there is one.
    #[must_use]
    pub fn tls_addr(&self) -> Option<SocketAddr> {
        self.tls_address
    }

    /// A handle that reads the certificate again, if there is one.
    #[must_use]
    pub fn certificate_handle(&self) -> Option<CertificateHandle> {
        self.tls_address.map(|_| CertificateHandle { state: Arc::clone(&self.state) })
    }

    /// The path of the Unix socket, if there is one.
    #[must_use]
    pub fn unix_path(&self) -> Option<&Path> {
        self.bound.unix.as_ref().and(self.state.config.unixsocket.as_deref())
    }

    /// The keyspace. You can pass it to another server after this one has ended.
    #[must_use]
    pub fn store(&self) -> Store {
        self.state.store.clone()
    }

    /// A handle to the statistics, which any thread may read.
    #[must_use]
    pub fn stats_handle(&self) -> StatsHandle {
        StatsHandle { stats: Arc::clone(&self.state.stats), store: self.state.store.clone() }
    }

    /// Reads the snapshot, if there is one and the keyspace is empty, and serves until `shutdown` completes, then drains: the
    /// server accepts no more connections, closes idle ones at once and the others as soon as their replies are sent. It closes
    /// all of them after [`Config::drain_timeout_ms`]. Then it writes the snapshot, if there is to be one.
    ///
    /// `shutdown` is polled first when the server accepts connections.
    ///
    /// Needs a tokio runtime with I/O and time for the acceptor. Connections are served on threads of the server.
    ///
    /// # Errors
    ///
    /// [`ServerError::Thread`] if a thread cannot be started. [`ServerError::ThreadEnded`] if one panics or fails: its
    /// connections are closed, the others drain, and the keyspace can be passed to another server. [`ServerError::Snapshot`]
    /// if the snapshot cannot be written.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future shuts the server down without a drain.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        let Server { bound: Bound { tcp, tls, unix }, state, .. } = self;
        if let Some(path) = &state.config.snapshot {
            snapshots::begin(&state.store, path).await;
        }
        let loader = Loader::start(&state.store).map_err(ServerError::Thread)?;
        let workers = Workers::start(&state).map_err(ServerError::Thread)?;
        let tcp = tcp.map(tokio::net::TcpListener::from_std).transpose().map_err(ServerError::Thread)?;
        let tls = tls.map(tokio::net::TcpListener::from_std).transpose().map_err(ServerError::Thread)?;
        let (unix, _socket_file) = unix.map(UnixSocket::into_parts).unzip();
        let unix = unix.map(tokio::net::UnixListener::from_std).transpose().map_err(ServerError::Thread)?;

        let ended = tokio::select! {
            () = accept(tcp, tls, unix, Arc::clone(&state), &workers) => Ok(()),
            () = shutdown => Ok(()),
            () = workers.one_ended() => Err(ServerError::ThreadEnded),
        };
        state.draining.store(true, Ordering::Release);
        workers.drain().await;
        drop(loader);
        match (&state.config.snapshot, &ended) {
            // Half of a copy is no snapshot.
            (Some(path), Ok(())) if !state.store.is_copying() => snapshots::write(&state.store, path).await,
            _ => ended,
        }
    }
}

/// Reads the certificate of a server again.
#[derive(Clone)]
pub struct CertificateHandle {
    state: Arc<ServerState>,
}

impl CertificateHandle {
    /// Reads the files of the certificate again, for connections that are made later.
    ///
    /// # Errors
    ///
    /// [`ServerError::Tls`] if a file cannot be used: the certificate stays what it was.
    pub fn reload(&self) -> Result<(), ServerError> {
        #[cfg(feature = "tls")]
        if let Some(certificate) = &self.state.certificate {
            return certificate.reload().map_err(|error| of_option(&self.state.config, &error));
        }
        Ok(())
    }

    /// When the certificate expires; `None` if that cannot be read.
    #[must_use]
    pub fn expires(&self) -> Option<std::time::SystemTime> {
        #[cfg(feature = "tls")]
        if let Some(certificate) = &self.state.certificate {
            return certificate.expires();
        }
        None
    }
}

impl std::fmt::Debug for CertificateHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CertificateHandle").field("tls_cert", &self.state.config.tls_cert).finish()
    }
}

/// Reads the certificate of the port for TLS.
#[cfg(feature = "tls")]
fn load_certificate(state: &mut ServerState) -> Result<(), ServerError> {
    use larder_tls::{Certificate, Clients, Files};

    let config = &state.config;
    if let (Some(_), Some(chain), Some(key)) = (config.tls_port, &config.tls_cert, &config.tls_key) {
        let clients = match (&config.tls_ca, config.tls_auth_clients) {
            (None, _) | (_, ClientCertificates::No) => Clients::Anybody,
            (Some(roots), ClientCertificates::Optional) => Clients::Asked(roots.clone()),
            (Some(roots), ClientCertificates::Yes) => Clients::Certified(roots.clone()),
        };
        let loaded = Certificate::load(Files::new(chain, key), clients, &[]);
        state.certificate = Some(loaded.map_err(|error| of_option(config, &error))?);
    }
    Ok(())
}

#[cfg(not(feature = "tls"))]
fn load_certificate(_: &mut ServerState) -> Result<(), ServerError> {
    Ok(())
}

/// The error of a file, with the option that names it.
#[cfg(feature = "tls")]
fn of_option(config: &Config, error: &larder_tls::FileError) -> ServerError {
    let is_that = |file: &Option<std::path::PathBuf>| file.as_ref() == Some(&error.path);
    let option = match config {
        _ if is_that(&config.tls_cert) => "tls_cert",
        _ if is_that(&config.tls_key) => "tls_key",
        _ => "tls_ca",
    };
    ServerError::Tls { option, reason: error.to_string() }
}

fn check_open_files(config: &Config) {
    if let Err(TooFewFiles { allowed, required }) = crate::system::raise_open_files_for(config.maxclients) {
        tracing::warn!(
            allowed,
            required,
            "the limit on open files is too low for maxclients; further clients have to wait"
        );
    }
}

/// Reads the file of users, if there is one. Fails if the address is not loopback and the default user needs no password:
/// anyone on the network could use the cache.
fn load_users(state: &ServerState) -> Result<(), ServerError> {
    if state.users.file().is_some() {
        let password = state.password_text();
        let password = Some(password.as_str()).filter(|password| !password.is_empty());
        if let Err(LoadError::Faults(faults)) = state.users.load(password, false) {
            return Err(ServerError::Users(faults.join("; ")));
        }
    }
    match state.exposed {
        Some(address) if state.users.is_open() => Err(ServerError::Unprotected(address)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;
    use crate::client::Message;

    #[tokio::test]
    async fn thread_that_panics_ends_the_server_and_leaves_the_keyspace() {
        let config =
            Config { listen: Some(([127, 0, 0, 1], 0).into()), threads: Some(2), ..Config::default() };
        let server = Server::bind(config.clone()).expect("a free port");
        let (store, inboxes) = (server.store(), Arc::clone(&server.state.inboxes));
        let running = tokio::spawn(server.run(std::future::pending()));
        inboxes[1].send(Message::Panic);
        let ended = timeout(Duration::from_secs(60), running).await.expect("in time").expect("no panic");
        assert!(matches!(ended, Err(ServerError::ThreadEnded)), "{ended:?}");
        assert!(Server::bind_with(config, store).is_ok());
    }
}
