//! How a cache is made: the options, and the handle of one that replicas share. That of a cache alone is with its store.

pub(crate) mod builder;
#[cfg(feature = "shared")]
pub(crate) mod shared_cache;
