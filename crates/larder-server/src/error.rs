//! Why a server cannot start or go on.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A failure of the server as a whole; failures of one connection stay with it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An option has a value outside its range.
    #[error("{option} is {value}; it must be from {least} to {most}")]
    Range {
        /// Name of the option.
        option: &'static str,
        /// The value given.
        value: u64,
        /// Least value allowed.
        least: u64,
        /// Greatest value allowed.
        most: u64,
    },
    /// Neither an address nor a Unix socket was given.
    #[error("nothing to listen on: set listen or unixsocket")]
    NothingToListenOn,
    /// The address can be reached from other machines and no password is set.
    #[error("refusing to listen on {0} without a password: set requirepass, or listen on a loopback address")]
    Unprotected(SocketAddr),
    /// The address cannot be listened on.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The address asked for.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// The Unix socket cannot be made.
    #[error("cannot bind {}: {source}", path.display())]
    UnixSocket {
        /// The path asked for.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The keyspace cannot be built.
    #[error("cannot build the keyspace: {0}")]
    Store(#[from] larder_engine::BuildError),
    /// A thread, or its part in the network, cannot be started.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
}
