//! Where a database is, and how it is opened.

#[cfg(feature = "postgres")]
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The address of a database. Its text is for messages.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DatabaseAddress {
    /// A file of SQLite.
    Sqlite(PathBuf),
    /// The URL of a database of PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(String),
}

impl DatabaseAddress {
    /// The file of the database, if it is one.
    pub fn file(&self) -> Option<&Path> {
        match self {
            DatabaseAddress::Sqlite(path) => Some(path),
            #[cfg(feature = "postgres")]
            DatabaseAddress::Postgres(_) => None,
        }
    }
}

impl fmt::Display for DatabaseAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DatabaseAddress::Sqlite(path) => path.display().fmt(f),
            #[cfg(feature = "postgres")]
            DatabaseAddress::Postgres(url) => {
                let (scheme, rest) = url.split_once("://").unwrap_or(("postgres", url));
                // A password can be in front of the host, which may be any text, and in the parameters.
                match rest.split_once('@') {
                    None => write!(f, "{scheme}://{}", without_query(rest)),
                    // Nobody knows where the password ends.
                    Some((_, host)) if host.contains('@') => write!(f, "{scheme}://…"),
                    Some((_, host)) => write!(f, "{scheme}://…@{}", without_query(host)),
                }
            }
        }
    }
}

#[cfg(feature = "postgres")]
fn without_query(url: &str) -> &str {
    url.split_once('?').map_or(url, |(place, _)| place)
}

/// How a [`Store`](super::Store) is opened.
#[derive(Clone, Debug)]
pub struct StoreConfig {
    /// The database. A file and its folder are created if they do not exist.
    pub database: DatabaseAddress,
    /// Reading connections. Default 4, at least 1.
    pub readers: u32,
    /// Writes that can wait for the writer. Default 1,024.
    pub queue: usize,
    /// Writes that share one commit. Default 256.
    pub group: usize,
    /// How long to wait for another program's lock. Default 5 s.
    pub busy_timeout: Duration,
    /// How long a call waits for a place in the queue or for a connection. Default 5 s.
    pub queue_timeout: Duration,
    /// The largest size of the database file, in bytes; writes beyond it fail with [`StoreError::Full`](super::StoreError::Full). Default none.
    pub max_bytes: Option<u64>,
}

impl StoreConfig {
    /// The defaults for a database file.
    pub fn new(path: impl Into<PathBuf>) -> StoreConfig {
        StoreConfig::of(DatabaseAddress::Sqlite(path.into()))
    }

    /// The defaults for a database.
    pub fn of(database: DatabaseAddress) -> StoreConfig {
        StoreConfig {
            database,
            readers: 4,
            queue: 1_024,
            group: 256,
            busy_timeout: Duration::from_secs(5),
            queue_timeout: Duration::from_secs(5),
            max_bytes: None,
        }
    }
}
