//! Purging a part: what can be purged, and the trait of parts that can.

use std::future::Future;
use std::pin::Pin;

/// What to purge.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Target {
    /// Everything with this tag.
    Tag(String),
    /// One resource.
    Uri(String),
    /// All resources whose URI begins with this.
    Prefix(String),
    /// Everything.
    All,
}

/// The outcome of a purge; the error is the response to the client.
pub type PurgeFuture<'a> = Pin<Box<dyn Future<Output = Result<(), String>> + Send + 'a>>;

/// A part that can be purged.
pub trait Purger: Send + Sync {
    /// Purges. Resolves when nothing that is covered is served any more.
    ///
    /// # Errors
    /// One clear sentence: what the part cannot purge, or what went wrong.
    fn purge(&self, target: Target) -> PurgeFuture<'_>;
}
