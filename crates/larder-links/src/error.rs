//! The errors of the service as a whole. The errors that clients see are in `service/api_error.rs`.

use crate::store::StoreError;

/// Why the shortener cannot be opened or cannot serve.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LinksError {
    /// An option has a value outside its range.
    #[error("{field} is {value}, expected {expected}")]
    Config {
        /// The option.
        field: &'static str,
        /// Its value.
        value: String,
        /// The valid values.
        expected: String,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of the caches cannot be built.
    #[error("cannot build the cache: {0}")]
    Cache(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The socket.
    #[error("cannot serve: {0}")]
    Io(#[from] std::io::Error),
    /// The service was stopped, and its database is closed.
    #[error("the shortener was stopped")]
    Stopped,
}
