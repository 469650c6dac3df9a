//! The errors of the proxy as a whole. Those that clients see are in `service/error_response.rs`.

use std::path::PathBuf;

/// Why the proxy cannot be started, or cannot use a new certificate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProxyError {
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
    /// An option is set without another one that it needs.
    #[error("{missing} is missing, expected {expected}, since {given} is set")]
    Incomplete {
        /// The option that is set.
        given: &'static str,
        /// The option that is not set.
        missing: &'static str,
        /// What it must be.
        expected: &'static str,
    },
    /// A rule is wrong, or contradicts another one.
    #[error("{rule}: {reason}")]
    Rule {
        /// The rule: its number, and which requests it is for.
        rule: String,
        /// What is wrong with it.
        reason: String,
    },
    /// A file of an option cannot be used.
    #[error("{field}: {}: {reason}", path.display())]
    File {
        /// The option.
        field: &'static str,
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// This system has no root certificates to verify an origin with.
    #[error("origin is https, and this system has no root certificates: name some by origin_roots")]
    NoRoots,
    /// The Redis of the replicas cannot be used.
    #[error(transparent)]
    Redis(larder::BuildError),
    /// The cache cannot be built.
    #[error("cannot build the cache: {0}")]
    Cache(#[from] larder_http::BuildError),
    /// The system has no random numbers.
    #[error("cannot choose a name for this proxy: {0}")]
    Random(#[source] getrandom::Error),
}
