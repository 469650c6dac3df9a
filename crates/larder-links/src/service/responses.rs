//! The response cache of the API, and what purges it. `web/responses.rs` says which responses it stores.
//!
//! A change purges its tags before its own response is sent, so its author sees the new state. Visits do not purge: a
//! purge for every redirect would leave nothing in the cache, so visit counts may be as old as the TTL of a response.

use crate::error::LinksError;
use larder_http::HttpCache;

pub(crate) const LIST_TAG: &str = "links";

pub(crate) fn build(max_bytes: u64) -> Result<HttpCache, LinksError> {
    HttpCache::builder().max_bytes(max_bytes).build().map_err(|error| LinksError::Cache(error.into()))
}

/// The response cache in front of the API.
pub(crate) struct Responses {
    cache: HttpCache,
}

impl Responses {
    pub(crate) fn new(cache: HttpCache) -> Responses {
        Responses { cache }
    }

    pub(crate) fn cache(&self) -> &HttpCache {
        &self.cache
    }

    /// Purges every page of the list.
    pub(crate) fn purge_list(&self) {
        self.cache.purge_tag(LIST_TAG);
    }

    /// Purges the stored responses about one link, the list included.
    pub(crate) fn purge_link(&self, slug: &str) {
        self.cache.purge_tag(&link_tag(slug));
        self.purge_list();
    }
}

pub(crate) fn link_tag(slug: &str) -> String {
    format!("link:{slug}")
}
