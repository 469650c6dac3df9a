//! Verdicts that are used again for a while.
//!
//! The whole question is the key: a part that was left out would give the verdict on one client to another one.

use crate::error::ProxyError;
use larder_engine::Cache;
use larder_http::Access;
use std::time::Duration;

/// The memory for verdicts with their keys, in bytes. Beyond it they are evicted, and asked again.
const MAX_BYTES: u64 = 8 << 20;
/// What an entry takes beside its key, about.
const ENTRY_BYTES: u64 = 128;

/// Verdicts by their questions.
pub(super) struct Remembered(Cache<Box<[u8]>, Access>);

impl Remembered {
    /// `None` if nothing is remembered, with a TTL of zero.
    ///
    /// # Errors
    /// The TTL is too long.
    pub(super) fn new(ttl: Duration) -> Result<Option<Remembered>, ProxyError> {
        if ttl.is_zero() {
            return Ok(None);
        }
        let cache = Cache::<Box<[u8]>, Access>::builder().ttl(ttl).weight(MAX_BYTES, |key, access| {
            let principal = if let Access::AllowedAs(principal) = access { principal.len() } else { 0 };
            ENTRY_BYTES + (key.len() + principal) as u64
        });
        let cache = cache.build();
        Ok(Some(Remembered(cache.map_err(larder_http::BuildError::from)?)))
    }

    pub(super) fn get(&self, key: &[u8]) -> Option<Access> {
        self.0.get(key)
    }

    pub(super) fn insert(&self, key: Box<[u8]>, access: Access) {
        self.0.insert(key, access);
    }
}

impl std::fmt::Debug for Remembered {
    // The keys are secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remembered").field("verdicts", &self.0.len()).finish()
    }
}
