//! The errors of a server.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

/// A failure of the whole server. A failure of one connection closes only that connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServerError {
    /// An option has a value outside its range.
    #[error("{option} is {value}; it must be from {min} to {max}")]
    Range {
        /// Name of the option.
        option: &'static str,
        /// The invalid value.
        value: u64,
        /// The lowest valid value.
        min: u64,
        /// The highest valid value.
        max: u64,
    },
    /// Neither an address nor a Unix socket was given.
    #[error("nothing to listen on: set listen or unixsocket")]
    NothingToListenOn,
    /// The address is not loopback, and the user `default` needs no password.
    #[error(
        "refusing to listen on {0} without a password: set requirepass or an aclfile with a user default that needs one, or \
         listen on a loopback address"
    )]
    Unprotected(SocketAddr),
    /// An option of TLS needs another one, or its file cannot be used.
    #[error("{option}: {reason}")]
    Tls {
        /// Name of the option.
        option: &'static str,
        /// What is wrong with it.
        reason: String,
    },
    /// The file of users cannot be read, or has lines that are not valid.
    #[error("cannot read the users of aclfile: {0}")]
    Users(String),
    /// The address cannot be bound.
    #[error("cannot bind {address}: {source}")]
    Bind {
        /// The option that names the port: `listen` or `tls_port`.
        option: &'static str,
        /// The configured address.
        address: SocketAddr,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The Unix socket cannot be created.
    #[error("cannot bind {}: {source}", path.display())]
    UnixSocket {
        /// The configured path.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// The keyspace cannot be built.
    #[error("cannot build the keyspace: {0}")]
    Store(#[from] larder_engine::BuildError),
    /// The snapshot cannot be written.
    #[error("cannot write the snapshot {}: {source}", path.display())]
    Snapshot {
        /// The configured path.
        path: PathBuf,
        /// What has failed.
        source: SnapshotError,
    },
    /// A thread cannot be started, or a listener cannot be registered with the runtime.
    #[error("cannot start a thread: {0}")]
    Thread(#[source] io::Error),
    /// A thread that serves connections has panicked, or cannot wait for its connections any more.
    #[error("a thread that serves connections has ended: see the log for its panic or its error")]
    ThreadEnded,
}

/// Why a snapshot is not written or not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The file system has failed.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// It is not a snapshot, or was damaged.
    #[error("it is not a complete snapshot: {0}")]
    Damaged(&'static str),
    /// Another version has written it.
    #[error("it has version {found}, and only version {known} is read")]
    Version {
        /// Its version.
        found: u32,
        /// The version that is read and written.
        known: u32,
    },
    /// It took too long.
    #[error("it was not written in time")]
    TooSlow,
    /// There are more blocks than the format can number.
    #[error("it would have more than {0} blocks")]
    TooManyBlocks(u32),
}
