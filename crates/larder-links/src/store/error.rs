//! Why an operation of the store failed.

use super::address::DatabaseAddress;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;

/// The error of a database, or of the file system.
type Source = Arc<dyn Error + Send + Sync>;

/// Why an operation of the store failed.
///
/// A write that fails changes nothing; only after [`Closed`](StoreError::Closed) and [`Unknown`](StoreError::Unknown) its
/// outcome is unknown. Errors are cheap to clone: all writes of one failed commit get the same.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The database cannot be opened.
    #[error("cannot open the database {database}: {source}")]
    Open {
        /// Where it is.
        database: DatabaseAddress,
        /// The error of the database or the file system.
        source: Source,
    },
    /// A newer program created the database.
    #[error("the database {database} has version {found}, this program knows versions up to {known}")]
    Newer {
        /// Where it is.
        database: DatabaseAddress,
        /// The version in the file.
        found: i64,
        /// The newest version that this program can read.
        known: i64,
    },
    /// An older program created the database, and its user may not migrate it.
    #[error(
        "the database {database} has version {found}, this program needs version {known}, \
         and its user may not migrate it: {source}"
    )]
    Older {
        /// Where it is.
        database: DatabaseAddress,
        /// The version in the database.
        found: i64,
        /// The version of this program.
        known: i64,
        /// The error of the database.
        source: Source,
    },
    /// The copy of the database cannot be written.
    #[error("cannot copy the database to {path}: {source}", path = path.display())]
    Backup {
        /// The file of the copy.
        path: PathBuf,
        /// The error of the database or the file system.
        source: Source,
    },
    /// Another program has the database open.
    #[error("the database {database} is in use by another program; stop it first")]
    InUse {
        /// Where it is.
        database: DatabaseAddress,
    },
    /// The target of a copy has links or tokens.
    #[error("the database {database} is not empty; a copy needs an empty one")]
    NotEmpty {
        /// Where it is.
        database: DatabaseAddress,
    },
    /// The target of a copy is a file.
    #[error("{database} is a file; a copy is from a file to a database of PostgreSQL")]
    NotPostgres {
        /// Where it is.
        database: DatabaseAddress,
    },
    /// PostgreSQL has a program of its own for backups.
    #[error("{database} is not a file; back it up with pg_dump --format=custom --file=FILE URL")]
    NoBackup {
        /// Where it is.
        database: DatabaseAddress,
    },
    /// The disk, or the size allowed for the database, is full.
    #[error("the database is full: {0}")]
    Full(#[source] Source),
    /// The database cannot be written to.
    #[error("the database is read-only: {0}")]
    ReadOnly(#[source] Source),
    /// Another program locks the database longer than the busy timeout.
    #[error("the database is locked by another program: {0}")]
    Locked(#[source] Source),
    /// The server of the database cannot be reached.
    #[error("the database cannot be reached: {0}")]
    Unreachable(#[source] Source),
    /// The connection to the server ended during a commit, which may be stored.
    #[error("the connection to the database ended during a write, which may be stored: {0}")]
    Unknown(#[source] Source),
    /// No place in the queue, or no reader, was free within the queue timeout.
    #[error("the database is busy: {0} was not free in time")]
    Busy(&'static str),
    /// The store was closed, or is closing.
    #[error("the database is closed")]
    Closed,
    /// The writer panicked during this write. It restarts.
    #[error("the database's writer failed and restarts; the write was rolled back")]
    WriterFailed,
    /// The database has the maximum number of tokens.
    #[error("the database has {0} tokens, the maximum; remove one first")]
    TooManyTokens(u64),
    /// Every slug of ten letters is in use.
    #[error("no slug is left")]
    NoSlugLeft,
    /// Any other failure of the database.
    #[error("the database failed: {0}")]
    Failed(#[source] Source),
}
