//! The server as a whole: bound, running, drained.

use std::future::Future;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use tokio::sync::watch;

use crate::accept::accept;
use crate::config::Config;
use crate::db::Store;
use crate::listener::{UnixSocket, bind_tcp, bind_unix};
use crate::shared::Shared;
use crate::stats::{Stats, StatsHandle};
use crate::worker::Worker;
use crate::{ServerError, listener};

/// The most threads that a server may have.
const MAX_THREADS: usize = 256;

/// A server that is bound and waits to be run.
pub struct Server {
    tcp: Option<std::net::TcpListener>,
    unix: Option<UnixSocket>,
    address: Option<SocketAddr>,
    threads: usize,
    shared: Arc<Shared>,
}

impl Server {
    /// Binds the listeners, with an empty keyspace.
    ///
    /// # Errors
    ///
    /// [`ServerError`] if an option is out of range, an address cannot be bound, or one that is not loopback is asked
    /// for without a password.
    pub fn bind(config: Config) -> Result<Server, ServerError> {
        let store = Store::new(config.max_memory.map(|size| size.0))?;
        Server::bind_with(config, store)
    }

    /// Binds the listeners to serve a keyspace that exists already: one that has outlived another server, or is shared
    /// with it. `config.max_memory` is not looked at; the store has its limit.
    ///
    /// # Errors
    ///
    /// As [`bind`](Self::bind).
    pub fn bind_with(config: Config, store: Store) -> Result<Server, ServerError> {
        let threads = threads(&config)?;
        check_protection(&config)?;
        check_open_files(&config);
        let tcp = config.listen.map(bind_tcp).transpose()?;
        let unix = config.unixsocket.as_deref().map(bind_unix).transpose()?;
        if tcp.is_none() && unix.is_none() {
            return Err(ServerError::NothingToListenOn);
        }
        let address = tcp.as_ref().and_then(|listener| listener.local_addr().ok());
        let port = address.map_or(0, |address| address.port());
        let shared = Arc::new(Shared::new(config, store, Arc::new(Stats::new(threads)), port));
        Ok(Server { tcp, unix, address, threads, shared })
    }

    /// The TCP address that was bound, with its real port; `None` if only a Unix socket is listened on.
    #[must_use]
    pub fn local_addr(&self) -> Option<SocketAddr> {
        self.address
    }

    /// The Unix socket that is listened on, if any.
    #[must_use]
    pub fn unix_path(&self) -> Option<&Path> {
        self.unix.as_ref().and(self.shared.config.unixsocket.as_deref())
    }

    /// The keyspace, to hand to another server when this one has ended.
    #[must_use]
    pub fn store(&self) -> Store {
        self.shared.store.clone()
    }

    /// A handle to the server's numbers, which may be polled from anywhere.
    #[must_use]
    pub fn stats_handle(&self) -> StatsHandle {
        StatsHandle { stats: Arc::clone(&self.shared.stats), store: self.shared.store.clone() }
    }

    /// Serves until `shutdown` completes, then drains: no connection is accepted any more, those that owe no reply end
    /// at once, the others as soon as their replies are taken, and all of them when
    /// [`Config::drain_timeout_ms`] is over.
    ///
    /// Needs a tokio runtime with I/O and time, for the acceptor alone; connections are served on threads of its own.
    ///
    /// # Errors
    ///
    /// [`ServerError::Thread`] if a thread cannot be started.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future shuts the server down without waiting for the drain.
    pub async fn run(self, shutdown: impl Future<Output = ()> + Send) -> Result<(), ServerError> {
        let Server { tcp, unix, threads, shared, .. } = self;
        let (stop, stopped) = watch::channel(false);
        let mut workers = (0..threads)
            .map(|index| Worker::start(index, Arc::clone(&shared), stopped.clone()))
            .collect::<Result<Vec<_>, _>>()
            .map_err(ServerError::Thread)?;
        let tcp = tcp.map(tokio::net::TcpListener::from_std).transpose().map_err(ServerError::Thread)?;
        let (unix, _socket_file) = unix.map(listener::UnixSocket::into_parts).unzip();
        let unix = unix.map(tokio::net::UnixListener::from_std).transpose().map_err(ServerError::Thread)?;

        tokio::select! {
            () = accept(tcp, unix, Arc::clone(&shared), &workers) => {}
            () = shutdown => {}
        }
        shared.draining.store(true, Ordering::Release);
        stop.send_replace(true);
        for worker in &mut workers {
            worker.ended().await;
        }
        Ok(())
    }
}

fn threads(config: &Config) -> Result<usize, ServerError> {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = config.threads.unwrap_or(cores.min(MAX_THREADS));
    match (1..=MAX_THREADS).contains(&threads) {
        true => Ok(threads),
        false => Err(ServerError::Range {
            option: "threads",
            value: threads as u64,
            least: 1,
            most: MAX_THREADS as u64,
        }),
    }
}

/// Files that are open beside those of clients.
const OTHER_FILES: u64 = 64;

fn check_open_files(config: &Config) {
    let wanted = config.maxclients as u64 + OTHER_FILES;
    let allowed = crate::system::raise_open_files(wanted);
    if allowed < wanted {
        tracing::warn!(
            allowed,
            wanted,
            "the limit on open files is below maxclients; more clients will have to wait"
        );
    }
}

/// A cache that anyone on the network can read and fill is never what was meant.
fn check_protection(config: &Config) -> Result<(), ServerError> {
    let has_password = config.requirepass.as_ref().is_some_and(|password| !password.is_empty());
    match config.listen {
        Some(address) if !address.ip().is_loopback() && !has_password => {
            Err(ServerError::Unprotected(address))
        }
        _ => Ok(()),
    }
}
