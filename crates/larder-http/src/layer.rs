//! The tower layer: it wraps a service with a cache.

use tower_layer::Layer;

use crate::cache::HttpCache;
use crate::service::HttpCacheService;

/// Answers requests from an [`HttpCache`]; made by [`HttpCache::layer`].
///
/// Make it the outermost layer, outside of compression and authorization too: it decides by the headers of a response
/// whether to store it, so it must see all of them. Only tracing and similar layers may be further out.
/// `axum::Router::layer` wraps the routes and not the router; with axum, use `HttpCache::in_front_of` of the feature
/// `axum`.
#[derive(Clone, Debug)]
pub struct HttpCacheLayer {
    cache: HttpCache,
}

impl HttpCache {
    /// The tower layer that answers from this cache.
    pub fn layer(&self) -> HttpCacheLayer {
        HttpCacheLayer { cache: self.clone() }
    }
}

impl<S> Layer<S> for HttpCacheLayer {
    type Service = HttpCacheService<S>;

    fn layer(&self, inner: S) -> HttpCacheService<S> {
        HttpCacheService::new(self.cache.clone(), inner)
    }
}
