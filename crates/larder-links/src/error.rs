//! The errors of the service as a whole. What a client gets to see is in `reply.rs`.

use crate::store::StoreError;

/// Why the shortener could not be opened or could not go on serving.
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
        /// What is allowed.
        expected: String,
    },
    /// The database.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// One of the caches could not be built.
    #[error("cannot build the cache: {0}")]
    Cache(#[source] Box<dyn std::error::Error + Send + Sync>),
    /// The socket.
    #[error("cannot serve: {0}")]
    Io(#[from] std::io::Error),
    /// It was stopped before, and its database is closed.
    #[error("the shortener was stopped already")]
    Stopped,
}
