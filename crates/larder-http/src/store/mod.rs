//! The store of a cache: its handle, and the purges.
//!
//! - [`core`]: the state of one cache. [`entries`]: what all views of a store share. [`limits`]: the limits and what they bound.
//! - [`location`]: where a response is. [`lookup`]: how it is found. `siblings`: its body in other codings.
//! - [`inspect`]: what an inspection says of it. `tiers`: what becomes of it on disk.

pub(crate) mod core;
pub(crate) mod entries;
pub(crate) mod inspect;
pub(crate) mod limits;
pub(crate) mod location;
pub(crate) mod lookup;
#[cfg(feature = "compression")]
pub(crate) mod siblings;
mod tiers;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::{HeaderMap, Uri};

use crate::key;
use crate::policy::ctx::{CacheCtx, HandlerGuard};
use crate::policy::handler_purges::{HandlerPurges, PurgeTag};
use crate::status::stats::Stats;
use crate::store::core::CacheCore;
use crate::stored::purge::{PurgeKey, PurgeKind};

/// A cache of HTTP responses. Clones share the same cache.
///
/// Make the [`layer`](HttpCache::layer) the outermost around a whole router, and keep a clone for purging:
///
/// ```
/// use larder_http::HttpCache;
///
/// let cache = HttpCache::builder().max_bytes(256 << 20).build()?;
/// let layer = cache.layer();
/// cache.purge_tag("products");
/// cache.purge_uri("http://shop.example/products?page=2")?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct HttpCache(Arc<CacheCore>);

impl HttpCache {
    /// Purges one URI with all its variants, for every method and body; `uri` is absolute and includes the query.
    /// Returns whether a response to GET was stored.
    ///
    /// After any purge has returned, no response whose handler started before the purge is served or stored.
    ///
    /// # Errors
    /// [`PurgeError`] when `uri` is not an absolute HTTP URI.
    pub fn purge_uri(&self, uri: &str) -> Result<bool, PurgeError> {
        self.purge_uri_as(uri, PurgeKind::Hard)
    }

    /// The soft form of [`HttpCache::purge_uri`].
    ///
    /// A softly purged response is stale from now on, and its grace period begins now: within it the response is served stale
    /// while it is refreshed. After it, and without one, it is only of use where the origin can validate it
    /// ([`Profile::Rfc`](crate::Profile::Rfc)), and otherwise as if it had been purged.
    ///
    /// # Errors
    /// As [`HttpCache::purge_uri`].
    pub fn soft_purge_uri(&self, uri: &str) -> Result<bool, PurgeError> {
        self.purge_uri_as(uri, self.soft())
    }

    fn purge_uri_as(&self, uri: &str, kind: PurgeKind) -> Result<bool, PurgeError> {
        let uri = parse_absolute(uri)?;
        let mut was_stored = false;
        key::for_each_uri(&uri, &HeaderMap::new(), &self.0.key_space, |key| {
            was_stored |= self.purge_uri_key(key, kind)
        })
        .map_err(|reason| PurgeError::new(&uri.to_string(), reason.as_str()))?;
        self.0.counters.purges.add(1);
        Ok(was_stored)
    }

    /// Purges the responses with this tag, in all views of the store. Cost: one lock and a few writes, independent of the
    /// number of entries. The memory of a purged entry is freed when it is next looked up, expires or is evicted.
    pub fn purge_tag(&self, tag: &str) {
        PurgeTag::purge_tag(&*self.0, tag);
    }

    /// The soft form of [`HttpCache::purge_tag`]; see [`HttpCache::soft_purge_uri`].
    pub fn soft_purge_tag(&self, tag: &str) {
        self.purge_key(self.0.store.purges.purge_key(tag.as_bytes()), self.soft());
    }

    /// Purges the responses that are private to a principal, in all views of the store; for the end of a session or a
    /// changed role. Cost: as [`HttpCache::purge_tag`].
    pub fn purge_principal(&self, principal: &str) {
        self.purge_key(self.0.store.principal_key(principal), PurgeKind::Hard);
    }

    /// The soft form of [`HttpCache::purge_principal`]; see [`HttpCache::soft_purge_uri`]. Private responses are never served
    /// stale: what can be validated is validated.
    pub fn soft_purge_principal(&self, principal: &str) {
        self.purge_key(self.0.store.principal_key(principal), self.soft());
    }

    fn purge_key(&self, purge_key: PurgeKey, kind: PurgeKind) {
        self.0.counters.purges.add(1);
        self.0.store.purges.purge_by_key(purge_key, kind);
    }

    /// Purges the resources whose URI starts with `prefix`, an absolute URI without a query; its path is compared by bytes,
    /// so `http://h/shop` covers `/shopping` too. Cost: as [`HttpCache::purge_tag`].
    ///
    /// # Errors
    /// [`PurgeError`] when `prefix` is not an absolute HTTP URI, or has a query.
    pub fn purge_prefix(&self, prefix: &str) -> Result<(), PurgeError> {
        self.purge_prefix_as(prefix, PurgeKind::Hard)
    }

    /// The soft form of [`HttpCache::purge_prefix`]; see [`HttpCache::soft_purge_uri`].
    ///
    /// # Errors
    /// As [`HttpCache::purge_prefix`].
    pub fn soft_purge_prefix(&self, prefix: &str) -> Result<(), PurgeError> {
        self.purge_prefix_as(prefix, self.soft())
    }

    fn purge_prefix_as(&self, prefix: &str, kind: PurgeKind) -> Result<(), PurgeError> {
        let uri = parse_absolute(prefix)?;
        if uri.query().is_some() {
            return Err(PurgeError::new(prefix, "a prefix has no query"));
        }
        let mut origin = Vec::new();
        let (scheme, authority) = (uri.scheme_str().unwrap_or_default(), uri.authority());
        let space = &self.0.key_space;
        key::write_origin(&mut origin, space, scheme, authority.map_or("", |authority| authority.as_str()))
            .map_err(|reason| PurgeError::new(prefix, reason.as_str()))?;
        self.0.counters.purges.add(1);
        self.0.store.purges.purge_prefix(&origin, uri.path().as_bytes(), kind);
        Ok(())
    }

    /// Purges everything, in all views of the store. Cost: proportional to the number of entries; locks one shard after another.
    pub fn purge_all(&self) {
        self.0.counters.purges.add(1);
        self.0.store.purges.purge_all(PurgeKind::Hard);
        self.0.store.entries.clear();
        if let Some(disk) = &self.0.store.disk {
            disk.clear();
        }
    }

    /// The soft form of [`HttpCache::purge_all`]; see [`HttpCache::soft_purge_uri`]. Cost: as [`HttpCache::purge_tag`].
    pub fn soft_purge_all(&self) {
        self.0.counters.purges.add(1);
        self.0.store.purges.purge_all(self.soft());
    }

    /// A soft purge now.
    pub(crate) fn soft(&self) -> PurgeKind {
        PurgeKind::Soft { at_ms: self.0.store.entries.now_ms() }
    }

    /// The counters of the cache, and its current size.
    pub fn stats(&self) -> Stats {
        let store = &self.0.store;
        let disk = store.disk.as_ref().map(|disk| disk.stats());
        self.0.counters.snapshot(&store.entries.stats(), store.memory.charged(), disk)
    }

    pub(crate) fn from_core(core: CacheCore) -> HttpCache {
        HttpCache(Arc::new(core))
    }

    pub(crate) fn core(&self) -> &CacheCore {
        &self.0
    }

    /// The settings of a handler behind the cache. The handler ends when the guard is dropped.
    pub(crate) fn handler_ctx(&self) -> (CacheCtx, HandlerGuard) {
        CacheCtx::of_handler(HandlerPurges::new(self.0.clone(), self.0.store.home_runtime()))
    }

    fn purge_uri_key(&self, uri: &[u8], kind: PurgeKind) -> bool {
        self.0.store.purges.purge_by_key(self.0.store.purges.purge_key(uri), kind);
        let on_disk = self.0.store.disk.as_ref().is_some_and(|disk| disk.may_have(uri));
        match kind {
            PurgeKind::Hard => self.0.store.entries.remove(uri).is_some() || on_disk,
            PurgeKind::Soft { .. } => self.0.store.entries.contains(uri) || on_disk,
        }
    }

    /// Invalidates the URI of an unsafe method. Unlike a purge, this is logged only if there may be something to
    /// invalidate: most targets of POST requests were never cached, and would fill the purge log.
    pub(crate) fn invalidate(&self, uri: &[u8], has_body_keys: bool) {
        // The removal also voids the ticket of a running fill. A fill without a ticket checks the purge log instead, and
        // so do responses that are stored under other keys: to requests with a body, or rewritten ones.
        let stored = self.0.store.entries.remove(uri).is_some() || self.0.store.may_be_on_disk(uri);
        let has_other_keys = has_body_keys || self.0.has_seen_rewritten.load(Ordering::SeqCst);
        if stored || has_other_keys || self.0.store.running.unticketed_fills.load(Ordering::SeqCst) > 0 {
            self.0.counters.purges.add(1);
            self.0.store.purges.purge_by_key(self.0.store.purges.purge_key(uri), PurgeKind::Hard);
        }
        if let Some(shared) = &self.0.store.shared {
            shared.invalidate_uri(uri, self.0.key_space.query_rules.is_some());
        }
    }
}

pub(crate) fn parse_absolute(uri: &str) -> Result<Uri, PurgeError> {
    let parsed: Uri = uri.parse().map_err(|_| PurgeError::new(uri, "not a URI"))?;
    match parsed.scheme_str() {
        Some("http" | "https") => Ok(parsed),
        _ => Err(PurgeError::new(uri, "not an absolute URI of http or https")),
    }
}

/// A URI that cannot be purged.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot purge {uri:?}: {reason}")]
pub struct PurgeError {
    uri: String,
    reason: &'static str,
}

impl PurgeError {
    pub(crate) fn new(uri: &str, reason: &'static str) -> PurgeError {
        PurgeError { uri: uri.chars().take(200).collect(), reason }
    }
}
