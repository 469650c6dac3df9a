//! Tells whoever keeps what is made from values, such as a cache of responses, how long each value is fresh that a view
//! returns.

use super::fetched::Fetched;
use larder_engine::freshness;

impl<V> Fetched<V> {
    /// Notes that the caller gets the value. Cost where nobody observes the caller: one load.
    #[inline]
    pub(crate) fn note_freshness(&self) {
        freshness::note(|| self.remaining_ttl());
    }
}
