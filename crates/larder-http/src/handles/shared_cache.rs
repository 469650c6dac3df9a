//! The handle of a cache that several replicas share, and its options.

use std::fmt;

use http::{HeaderMap, Request, Uri};
use larder::{Reach, SharedView};

use crate::handles::builder::{BuildError, Builder};
use crate::key;
use crate::service::layer::HttpCacheLayer;
use crate::shared::SharedStore;
use crate::shared::replicas::reach_of;
use crate::shared::tags::{self, MAX_PREFIXES};
use crate::status::stats::Stats;
use crate::store::inspect::Inspection;
use crate::store::{HttpCache, PurgeError, parse_absolute};
use crate::stored::purge::PurgeKind;

/// The longest body that is shared, unless the option says otherwise.
const MAX_SHARED_BODY_BYTES: usize = 1 << 20;

impl Builder {
    /// Shares responses with the other replicas through Redis; `view` comes from
    /// [`larder::Cache::shared`]. The last option: it makes a [`SharedHttpCache`], whose purges reach every replica.
    ///
    /// ```no_run
    /// use larder_http::HttpCache;
    /// use std::time::Duration;
    ///
    /// # async fn shop() -> Result<(), Box<dyn std::error::Error>> {
    /// let redis = larder::Cache::builder("shop")
    ///     .ttl(Duration::from_secs(300))
    ///     .redis("redis://127.0.0.1:6379")
    ///     .max_lag(Duration::from_millis(500))
    ///     .build()?;
    /// let cache = HttpCache::builder().max_bytes(256 << 20).shared(redis.shared("http")).build()?;
    /// let layer = cache.layer();
    /// assert!(cache.purge_tag("products").await.is_everywhere());
    /// # Ok(())
    /// # }
    /// ```
    pub fn shared(self, view: SharedView) -> SharedBuilder {
        SharedBuilder { builder: self, view: Some(view), max_body_bytes: MAX_SHARED_BODY_BYTES }
    }
}

/// Options of a [`SharedHttpCache`]. Made by [`Builder::shared`] and [`SharedHttpCache::view`].
#[derive(Debug)]
#[must_use = "a builder does nothing until it is built"]
pub struct SharedBuilder {
    builder: Builder,
    /// `None` for a view of a shared cache, which has that of the cache.
    view: Option<SharedView>,
    max_body_bytes: usize,
}

impl SharedBuilder {
    /// The longest body that other replicas get, in bytes. A longer one stays on its replica, where purges by others
    /// reach it all the same. Without effect on a view of a cache. Any value. Default: 1 MiB.
    pub fn max_shared_body_bytes(mut self, bytes: usize) -> SharedBuilder {
        self.max_body_bytes = bytes;
        self
    }

    /// The other options.
    pub fn options(mut self, change: impl FnOnce(Builder) -> Builder) -> SharedBuilder {
        self.builder = change(self.builder);
        self
    }

    /// Builds the cache.
    ///
    /// # Errors
    /// As [`Builder::build`].
    pub fn build(self) -> Result<SharedHttpCache, BuildError> {
        let mut store = self.builder.store()?;
        if let Some(view) = self.view {
            let (entries, purges) = (store.entries.clone(), store.purges.clone());
            store.shared = Some(SharedStore::new(view, self.max_body_bytes, entries, purges));
        }
        self.builder.build_over(store).map(SharedHttpCache)
    }
}

/// A cache of HTTP responses that replicas share through Redis. Clones share the same cache.
///
/// A response that one replica has stored answers the others without their handlers, and concurrent requests for a cold key
/// call one handler among all replicas. Purges reach every replica: at once here, within
/// [`max_lag`](larder::Builder::max_lag) there. The crate [`larder`](larder#the-promise) has the promise.
#[derive(Clone)]
pub struct SharedHttpCache(HttpCache);

impl SharedHttpCache {
    /// The tower layer that answers from this cache.
    pub fn layer(&self) -> HttpCacheLayer {
        self.0.layer()
    }

    /// Puts this cache in front of the whole `router`; see [`HttpCache::in_front_of`].
    #[cfg(feature = "axum")]
    pub fn in_front_of(&self, router: axum::Router) -> axum::Router {
        self.0.in_front_of(router)
    }

    /// Options of a view; see [`HttpCache::view`].
    pub fn view(&self, name: impl Into<String>) -> SharedBuilder {
        SharedBuilder { builder: self.0.view(name), view: None, max_body_bytes: MAX_SHARED_BODY_BYTES }
    }

    /// The counters of this replica, and its current size.
    pub fn stats(&self) -> Stats {
        self.0.stats()
    }

    /// The present answer of this replica to a request; see [`HttpCache::inspect`].
    pub fn inspect<B: http_body::Body>(&self, request: &Request<B>) -> Inspection {
        self.0.inspect(request)
    }

    /// Purges one URI with all its variants, for every method and body, on every replica; `uri` is absolute and includes
    /// the query.
    ///
    /// After any purge has returned, no response whose handler started before it is served or stored by this replica.
    /// [`Reach::Everywhere`]: the same holds for the others within `max_lag`. [`Reach::HereAndQueued`]: Redis did not
    /// confirm; the purge is queued and replayed until it does. It is queued nowhere in a process that was forked with this
    /// cache, and over a server that [lacks what is needed](larder::Requirement), where replicas share no responses.
    ///
    /// The purge continues if the caller is dropped. Cost: one round trip to Redis.
    ///
    /// # Errors
    /// [`PurgeError`] when `uri` is not an absolute HTTP URI.
    ///
    /// # Panics
    /// Outside a tokio runtime, as every purge.
    pub async fn purge_uri(&self, uri: &str) -> Result<Reach, PurgeError> {
        Ok(self.purge(&self.tags_of_uri(uri)?, PurgeKind::Hard).await)
    }

    /// The soft form of [`SharedHttpCache::purge_uri`]: what it covers is stale from now on, as
    /// [`HttpCache::soft_purge_uri`] says, on every replica.
    ///
    /// # Errors
    /// As [`SharedHttpCache::purge_uri`].
    ///
    /// # Panics
    /// As every purge.
    pub async fn soft_purge_uri(&self, uri: &str) -> Result<Reach, PurgeError> {
        Ok(self.purge(&self.tags_of_uri(uri)?, self.0.soft()).await)
    }

    fn tags_of_uri(&self, uri: &str) -> Result<Vec<Box<str>>, PurgeError> {
        let parsed = parse_absolute(uri)?;
        let key_space = &self.0.core().key_space;
        let mut tags = Vec::new();
        let add = |key: &[u8]| tags.extend(tags::of_purged_uri(key, key_space.query_rules.is_some()));
        key::for_each_uri(&parsed, &HeaderMap::new(), key_space, add)
            .map_err(|reason| PurgeError::new(uri, reason.as_str()))?;
        tags.sort_unstable();
        tags.dedup();
        Ok(tags)
    }

    /// Purges the responses with this tag, in all views of the store and on every replica, and the values of
    /// [`larder::Cache`] with this tag.
    pub async fn purge_tag(&self, tag: &str) -> Reach {
        self.purge(&[tags::of_tag(tag)], PurgeKind::Hard).await
    }

    /// The soft form of [`SharedHttpCache::purge_tag`].
    pub async fn soft_purge_tag(&self, tag: &str) -> Reach {
        self.purge(&[tags::of_tag(tag)], self.0.soft()).await
    }

    /// Purges the responses that are private to a principal, in all views of the store and on every replica; for the end
    /// of a session or a changed role.
    pub async fn purge_principal(&self, principal: &str) -> Reach {
        self.purge(&[tags::of_principal(principal)], PurgeKind::Hard).await
    }

    /// The soft form of [`SharedHttpCache::purge_principal`]; see [`HttpCache::soft_purge_principal`].
    pub async fn soft_purge_principal(&self, principal: &str) -> Reach {
        self.purge(&[tags::of_principal(principal)], self.0.soft()).await
    }

    /// Purges the resources whose URI starts with `prefix`, on every replica: an absolute URI without a query, whose path
    /// ends with a slash and has at most eight.
    ///
    /// # Errors
    /// [`PurgeError`] for any other prefix: entries have no tag of it.
    pub async fn purge_prefix(&self, prefix: &str) -> Result<Reach, PurgeError> {
        Ok(self.purge(&[self.tag_of_prefix(prefix)?], PurgeKind::Hard).await)
    }

    /// The soft form of [`SharedHttpCache::purge_prefix`].
    ///
    /// # Errors
    /// As [`SharedHttpCache::purge_prefix`].
    pub async fn soft_purge_prefix(&self, prefix: &str) -> Result<Reach, PurgeError> {
        Ok(self.purge(&[self.tag_of_prefix(prefix)?], self.0.soft()).await)
    }

    fn tag_of_prefix(&self, prefix: &str) -> Result<Box<str>, PurgeError> {
        let uri = parse_absolute(prefix)?;
        self.prefix_tag(&uri).map_err(|reason| PurgeError::new(prefix, reason))
    }

    /// Purges everything, in all views of the store and on every replica.
    pub async fn purge_all(&self) -> Reach {
        let core = self.0.core();
        core.counters.purges.add(1);
        let reach = reach_of(self.store().view.clear().await);
        core.store.entries.clear();
        reach
    }

    /// The soft form of [`SharedHttpCache::purge_all`].
    pub async fn soft_purge_all(&self) -> Reach {
        self.purge(&[tags::of_all()], self.0.soft()).await
    }

    async fn purge(&self, tags: &[Box<str>], kind: PurgeKind) -> Reach {
        self.0.core().counters.purges.add(1);
        self.store().invalidate(tags, kind).await
    }

    fn prefix_tag(&self, uri: &Uri) -> Result<Box<str>, &'static str> {
        let path = uri.path();
        if uri.query().is_some() {
            return Err("a prefix has no query");
        }
        if !path.ends_with('/') {
            return Err("a prefix of a shared cache ends with a slash");
        }
        if path.matches('/').count() > MAX_PREFIXES {
            return Err("a prefix of a shared cache has at most 8 slashes");
        }
        let mut origin = Vec::new();
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let scheme = uri.scheme_str().unwrap_or_default();
        key::write_origin(&mut origin, &self.0.core().key_space, scheme, authority)
            .map_err(|reason| reason.as_str())?;
        Ok(tags::of_prefix(&origin, path.as_bytes()))
    }

    fn store(&self) -> &SharedStore {
        self.0.core().store.shared.as_ref().expect("made with a shared store")
    }
}

impl fmt::Debug for SharedHttpCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedHttpCache").finish_non_exhaustive()
    }
}
