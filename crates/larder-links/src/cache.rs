//! From slug to target through the cache: the one place that knows the tiers.
//!
//! Only what a redirect needs is cached, about 200 bytes a link, and the absence of a link as well: a slug that leads
//! nowhere costs the database one question per negative TTL, however often it is asked for.

use crate::address::to_location;
use crate::config::Config;
use crate::error::LinksError;
use crate::store::{Link, Store, StoreError};
use larder::{Cache, FetchError, Fetched, View};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a redirect needs of a link: where to, and whose visit it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Target {
    pub(crate) link_id: u64,
    /// In the form of a `Location` header.
    pub(crate) location: String,
}

impl From<&Link> for Target {
    fn from(link: &Link) -> Target {
        Target { link_id: link.id, location: to_location(&link.url) }
    }
}

/// The result of a lookup: a target, or that there is none.
pub(crate) type Resolved = Result<Fetched<Option<Target>>, FetchError<StoreError>>;

pub(crate) fn build(config: &Config) -> Result<Cache, LinksError> {
    let mut builder =
        Cache::builder("links").memory_bytes(config.cache_bytes).ttl(Duration::from_secs(config.ttl_seconds));
    if let Some(redis) = &config.redis {
        builder = builder.redis(redis);
    }
    builder.build().map_err(|error| LinksError::Cache(error.into()))
}

/// The cache's entries by slug.
pub(crate) struct Targets {
    cache: Cache,
    view: View<str, Option<Target>, StoreError>,
}

impl Targets {
    pub(crate) fn new(cache: Cache, config: &Config) -> Result<Targets, LinksError> {
        let view = cache.view("slug").with_negative_ttl(Duration::from_secs(config.negative_ttl_seconds));
        Ok(Targets { view: view.map_err(|error| LinksError::Cache(error.into()))?, cache })
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Where a slug leads, from the cache or from the store.
    pub(crate) async fn resolve(&self, slug: &str, store: &Store) -> Resolved {
        let load = || {
            let (store, slug) = (store.clone(), slug.to_owned());
            move |_| async move { Ok(store.find(&slug).await?.as_ref().map(Target::from)) }
        };
        self.view.fetch(slug).load(load()).await
    }

    /// Drops the entries of slugs whose links were made, changed or deleted, the remembered absences too.
    ///
    /// Dropped and not overwritten: of two changes at the same time the later one in the database might be the earlier
    /// one here, and what is loaded afterwards is right in either order.
    pub(crate) async fn forget(&self, slugs: impl IntoIterator<Item = String>) {
        let slugs: Vec<String> = slugs.into_iter().collect();
        if let Err(error) = self.view.delete_multi(slugs.iter().map(String::as_str)).await {
            tracing::warn!(%error, links = slugs.len(), "other processes see the old state until Redis is back");
        }
    }
}
