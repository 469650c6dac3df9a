//! Why a snapshot is not written or not read.

use std::io;

use super::WRITE_LIMIT;

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
    #[error("it was not written within {} s", WRITE_LIMIT.as_secs())]
    TooSlow,
    /// There are more blocks than the format can number.
    #[error("it would have more than {0} blocks")]
    TooManyBlocks(u32),
}
