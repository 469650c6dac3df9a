//! What can go wrong, and reaches the caller.

use crate::tier::TierError;
use std::sync::Arc;

/// Why a fetch has no value. Trouble with Redis is never among the reasons.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FetchError<E> {
    /// The loader failed; shared by all who waited for it.
    #[error("the loader failed: {0}")]
    Load(Arc<E>),
    /// The loader panicked.
    #[error("the loader panicked")]
    LoaderPanicked,
    /// The loader took longer than its hard timeout, and there was no old value to give instead.
    #[error("the loader took too long")]
    Timeout,
    /// The loader said that the old value is still right, and there is none.
    #[error("the loader kept an old value that is not there")]
    NothingToKeep,
    /// The bulk loader has no value for this key.
    #[error("the loader returned no value for this key")]
    NotLoaded,
    /// The runtime is shutting down: the load was dropped before it ended.
    #[error("the load was dropped before it ended")]
    Dropped,
}

impl<E> Clone for FetchError<E> {
    fn clone(&self) -> Self {
        match self {
            FetchError::Load(error) => FetchError::Load(error.clone()),
            FetchError::LoaderPanicked => FetchError::LoaderPanicked,
            FetchError::Timeout => FetchError::Timeout,
            FetchError::NothingToKeep => FetchError::NothingToKeep,
            FetchError::NotLoaded => FetchError::NotLoaded,
            FetchError::Dropped => FetchError::Dropped,
        }
    }
}

/// Why a change is not in effect beyond this process, or an answer of Redis is missing.
///
/// A change that failed holds on this node, and is repeated until Redis confirms it: a `write` as a deletion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Redis did not answer. Whether it did what it was asked is not known.
    #[error("redis did not confirm: {0}")]
    Redis(String),
    /// Redis answered that it does not do this: it is full, may not be written to, or does not know the command.
    #[error("redis refused: {0}")]
    Refused(String),
    /// Redis was not asked, because it failed a moment ago.
    #[error("redis is being left alone after an error")]
    Resting,
    /// The value could not be encoded, so it is in no tier.
    #[error(transparent)]
    Encode(crate::EncodeError),
    /// There is no Redis behind this cache, and the operation is about nothing else.
    #[error("the cache has no redis")]
    NoRedis,
}

impl From<TierError> for CacheError {
    fn from(error: TierError) -> Self {
        match error {
            TierError::Refused(reason) => CacheError::Refused(reason),
            other => CacheError::Redis(other.to_string()),
        }
    }
}
