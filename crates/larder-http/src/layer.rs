//! The tower layer: it wraps a service with a cache.

use tower_layer::Layer;

use crate::cache::HttpCache;
use crate::service::HttpCacheService;

/// Answers requests from an [`HttpCache`]; made by [`HttpCache::layer`].
///
/// It belongs outside of everything that adds to responses or decides on requests, compression and authorization
/// included: it must see all headers that a response has, or it cannot tell what it may store. Only tracing and
/// the like stand further out. `axum::Router::layer` wraps the routes and not the router; for axum there is
/// `HttpCache::in_front_of`, with the feature `axum`.
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
