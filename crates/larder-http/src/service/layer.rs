//! The tower layer: it wraps a service with a cache.

use tower_layer::Layer;

use crate::request::body_key::{BodyRules, NoBodyKey};
use crate::service::HttpCacheService;
use crate::store::HttpCache;

/// Answers requests from an [`HttpCache`]; made by [`HttpCache::layer`]. `K` says whether request bodies are a part of
/// the key: [`NoBodyKey`] or [`BodyRules`].
///
/// Make it the outermost layer, outside of compression and authorization too: it decides by the headers of a response
/// whether to store it, so it must see all of them. Only tracing and similar layers may be further out.
/// `axum::Router::layer` wraps the routes and not the router; with axum, use `HttpCache::in_front_of` of the feature
/// `axum`.
#[derive(Clone, Debug)]
pub struct HttpCacheLayer<K = NoBodyKey> {
    pub(crate) cache: HttpCache,
    body_key: K,
}

impl HttpCache {
    /// The tower layer that answers from this cache.
    pub fn layer(&self) -> HttpCacheLayer {
        HttpCacheLayer { cache: self.clone(), body_key: NoBodyKey }
    }
}

impl<K> HttpCacheLayer<K> {
    /// Answers POST and QUERY requests from the cache too, where one of the rules applies. The layer reads their bodies
    /// and passes the bytes on, so the body type of its requests must be `From<Bytes>`, as axum's is.
    pub fn body_rules(self, rules: BodyRules) -> HttpCacheLayer<BodyRules> {
        HttpCacheLayer { cache: self.cache, body_key: rules }
    }
}

impl<S, K: Clone> Layer<S> for HttpCacheLayer<K> {
    type Service = HttpCacheService<S, K>;

    fn layer(&self, inner: S) -> HttpCacheService<S, K> {
        HttpCacheService::new(self.cache.clone(), inner, self.body_key.clone())
    }
}
