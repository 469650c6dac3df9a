//! Stored answers of the API: which are kept, for how long, and what drops them.
//!
//! | answer | tags | kept |
//! |---|---|---|
//! | a page of the list | `links` | 1 s |
//! | one link | `link:SLUG` | 1 s |
//!
//! A change purges its tags before it is answered, so whoever made it sees it. Only the visits move without a purge:
//! one at every redirect would leave nothing to keep, so their numbers may be as old as the answers are kept. That is
//! about as long as a visit takes to be written, and short enough that a page which asks every two seconds sees the
//! numbers move. A second is still worth it: however many people look at the list, the database is asked once.

use crate::error::LinksError;
use axum::Router;
use axum::response::{IntoResponse, Response};
use larder_http::{Cached, HttpCache};
use std::time::Duration;

const TTL: Duration = Duration::from_secs(1);
const LIST_TAG: &str = "links";

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

    /// Puts the cache in front of routes.
    pub(crate) fn around(&self, router: Router) -> Router {
        router.layer(self.cache.layer())
    }

    /// Marks a page of the list to be kept.
    pub(crate) fn list(&self, answer: impl IntoResponse) -> Response {
        (kept().tag(LIST_TAG), answer).into_response()
    }

    /// Marks the answer about one link to be kept.
    pub(crate) fn link(&self, slug: &str, answer: impl IntoResponse) -> Response {
        (kept().tag(link_tag(slug)), answer).into_response()
    }

    /// Drops every page of the list.
    pub(crate) fn purge_list(&self) {
        self.cache.purge_tag(LIST_TAG);
    }

    /// Drops what was kept about one link, the list included.
    pub(crate) fn purge_link(&self, slug: &str) {
        self.cache.purge_tag(&link_tag(slug));
        self.purge_list();
    }
}

/// Cookies of other services on the same host come along with every request; nothing here looks at them.
fn kept() -> Cached {
    Cached::ttl(TTL).ignore_cookies()
}

fn link_tag(slug: &str) -> String {
    format!("link:{slug}")
}
