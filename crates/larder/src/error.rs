//! What can go wrong, and reaches the caller.

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
    /// The runtime is shutting down: the load was dropped before it ended.
    #[error("the load was dropped before it ended")]
    Dropped,
}

impl<E> Clone for FetchError<E> {
    fn clone(&self) -> Self {
        match self {
            FetchError::Load(error) => FetchError::Load(error.clone()),
            FetchError::LoaderPanicked => FetchError::LoaderPanicked,
            FetchError::Dropped => FetchError::Dropped,
        }
    }
}

/// Why a write or a delete is not in effect beyond this process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// Redis did not confirm. The memory tier of this process has the change; whether Redis has it is not known.
    #[error("redis did not confirm: {0}")]
    Redis(String),
    /// Redis was not asked, because it failed a moment ago. The memory tier of this process has the change.
    #[error("redis is being left alone after an error")]
    Resting,
    /// The value could not be encoded, so it is in no tier.
    #[error(transparent)]
    Encode(crate::EncodeError),
}
