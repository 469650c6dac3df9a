//! Resolves slugs through the cache: builds it, loads targets from the store, and invalidates them.
//!
//! An entry has only what a redirect needs, about 200 bytes per link. Absences are cached too: an unknown slug costs the
//! database one query per negative TTL, however often clients request it.

use crate::config::Config;
use crate::error::LinksError;
use crate::model::address::to_location;
use crate::store::{Route, Store, StoreError};
use http::HeaderValue;
use larder::{BuildError, Builder, Cache, FetchError, Fetched, Inspection, Reach, Removal, Schema, View};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

/// Where a slug leads. Entries of another form or version, which a Redis may contain, are misses.
#[derive(Clone, Debug, PartialEq, Eq, Schema, Serialize, Deserialize)]
#[schema(version = 3)]
pub(crate) enum Target {
    Redirect(Redirect),
    /// Nowhere: its link was deleted, and can be restored.
    Deleted,
}

/// What a redirect needs of a link.
#[derive(Clone, Debug, PartialEq, Eq, Schema, Serialize, Deserialize)]
pub(crate) struct Redirect {
    /// Visits count under this id.
    pub(crate) link_id: u64,
    /// In the form of a `Location` header.
    location: String,
    forward_query: bool,
    pub(crate) crawlable: bool,
    /// Most links have none, so that it costs a word.
    pub(crate) limits: Option<Box<Limits>>,
}

/// After which time and how many visits a link no longer redirects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Schema, Serialize, Deserialize)]
pub(crate) struct Limits {
    expires_at: Option<i64>,
    pub(crate) max_visits: Option<u64>,
}

impl Limits {
    pub(crate) fn has_expired(self, now_ms: i64) -> bool {
        self.expires_at.is_some_and(|at| at <= now_ms)
    }
}

impl Redirect {
    /// The value of `Location` for a request with this query; `None` for an address of an older version that no header can
    /// contain.
    pub(crate) fn location(&self, query: Option<&str>) -> Option<HeaderValue> {
        let query = query.filter(|query| self.forward_query && !query.is_empty());
        let forwarded = query.map(|query| with_query(&self.location, query));
        // Some clients send other characters as they are; a header contains them escaped.
        let forwarded = forwarded.map(|to| if to.is_ascii() { to } else { to_location(&to) });
        let forwarded = forwarded.and_then(|to| HeaderValue::from_str(&to).ok());
        forwarded.or_else(|| HeaderValue::from_str(&self.location).ok())
    }
}

/// Adds a query behind that of an address and before its fragment.
fn with_query(address: &str, query: &str) -> String {
    let (address, fragment) = address.split_at(address.find('#').unwrap_or(address.len()));
    let separator = match address.split_once('?') {
        None => "?",
        Some((_, own)) if own.is_empty() || own.ends_with('&') => "",
        Some(_) => "&",
    };
    format!("{address}{separator}{query}{fragment}")
}

impl From<Route> for Target {
    fn from(route: Route) -> Target {
        let Route { link_id, url, expires_at, max_visits, forward_query, is_deleted, crawlable } = route;
        if is_deleted {
            return Target::Deleted;
        }
        let has_limits = expires_at.is_some() || max_visits.is_some();
        let limits = has_limits.then(|| Box::new(Limits { expires_at, max_visits }));
        Target::Redirect(Redirect { link_id, location: to_location(&url), forward_query, crawlable, limits })
    }
}

/// The result of a fetch: a target, or its absence.
pub(crate) type Resolved = Result<Fetched<Option<Target>>, FetchError<StoreError>>;

/// The cache of one database: shorteners of different databases may share a Redis.
pub(crate) fn build(config: &Config, database: &str) -> Result<Cache, LinksError> {
    let namespace = format!("links-{database}");
    let mut builder = Cache::builder(&namespace)
        .memory_bytes(config.cache_bytes)
        .ttl(Duration::from_secs(config.ttl_seconds));
    if let Some(redis) = &config.redis {
        builder = with_redis_options(builder.redis(redis), config).map_err(refused)?;
    }
    builder.build().map_err(refused)
}

/// With the options of Redis that the cache has under the same names.
fn with_redis_options(builder: Builder, config: &Config) -> Result<Builder, BuildError> {
    let name = |file: &Option<PathBuf>| file.as_ref().map(|file| file.to_string_lossy().into_owned());
    let options = [
        ("redis_user", config.redis_user.clone()),
        ("redis_password_file", name(&config.redis_password_file)),
        ("redis_roots", name(&config.redis_roots)),
        ("redis_certificate", name(&config.redis_certificate)),
        ("redis_key", name(&config.redis_key)),
    ];
    let mut given = options.into_iter().filter_map(|(option, text)| Some((option, text?)));
    given.try_fold(builder, |builder, (option, text)| builder.option(option, &text))
}

fn refused(error: BuildError) -> LinksError {
    match error {
        BuildError::Option { option, value, expected } => {
            LinksError::Config { field: option, value, expected }
        }
        error => LinksError::Cache(error.into()),
    }
}

/// The cache's entries by slug.
pub(crate) struct Targets {
    cache: Cache,
    view: View<str, Option<Target>, StoreError>,
}

impl Targets {
    pub(crate) fn new(cache: Cache, config: &Config) -> Targets {
        let view = cache
            .view("slug")
            .with_derived_schema()
            .with_negative_ttl(Duration::from_secs(config.negative_ttl_seconds));
        Targets { view, cache }
    }

    pub(crate) fn cache(&self) -> &Cache {
        &self.cache
    }

    /// Fetches the target of a slug from the cache or the store.
    pub(crate) async fn resolve(&self, slug: &str, store: &Store) -> Resolved {
        let load = || {
            let (store, slug) = (store.clone(), slug.to_owned());
            move |_| async move { Ok(store.find_route(&slug).await?.map(Target::from)) }
        };
        self.view.fetch(slug).load(load()).await
    }

    /// What memory has under a slug.
    pub(crate) fn inspect(&self, slug: &str) -> Inspection {
        self.view.inspect(slug)
    }

    /// Invalidates the entries of slugs whose links were created, changed or deleted, negative entries too.
    ///
    /// It does not write the new value: two concurrent changes may arrive here in the other order than in the database.
    /// A load that starts afterwards is correct in either order.
    pub(crate) async fn invalidate(&self, slugs: impl IntoIterator<Item = String>) {
        let slugs: Vec<String> = slugs.into_iter().collect();
        let links = slugs.len();
        match self.view.delete_multi(slugs.iter().map(String::as_str)).await {
            Ok(Removal { reach: Reach::Everywhere, .. }) => {}
            Ok(Removal { reach: Reach::HereAndQueued, .. }) => {
                tracing::warn!(
                    links,
                    "Redis failed; other processes may serve the old targets until it is back"
                );
            }
            Err(error) => tracing::error!(%error, links, "the cache may serve the old targets"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forwarded_query_is_escaped_like_an_address() {
        let location = |query| {
            let redirect = Redirect {
                link_id: 1,
                location: "https://a.example/#top".into(),
                forward_query: true,
                crawlable: false,
                limits: None,
            };
            redirect.location(Some(query)).unwrap().to_str().unwrap().to_owned()
        };
        assert_eq!(location("x=%C3%BC&y='"), "https://a.example/?x=%C3%BC&y='#top");
        assert_eq!(location("x=ü"), "https://a.example/?x=%C3%BC#top");
    }

    #[test]
    fn query_goes_behind_the_own_one_and_before_the_fragment() {
        for (address, expected) in [
            ("https://a.example/", "https://a.example/?x=1"),
            ("https://a.example/?", "https://a.example/?x=1"),
            ("https://a.example/?y=2", "https://a.example/?y=2&x=1"),
            ("https://a.example/?y=2&#top", "https://a.example/?y=2&x=1#top"),
            ("https://a.example/#a?b", "https://a.example/?x=1#a?b"),
        ] {
            assert_eq!(with_query(address, "x=1"), expected);
        }
    }
}
