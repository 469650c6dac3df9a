//! Integration with axum: [`Cached`] as a response part, [`CacheCtx`] and [`RequestFields`] as extractors, and a cache in
//! front of a router.

use std::convert::Infallible;

use axum::Router;
use axum::body::Body;
use axum::extract::FromRequestParts;
use axum::response::{IntoResponseParts, ResponseParts};
use http::request::Parts;
use tower_layer::Layer;

use crate::policy::cached::Cached;
use crate::policy::ctx::CacheCtx;
use crate::policy::request_fields::RequestFields;
use crate::request::body_key::BodyKey;
use crate::service::layer::HttpCacheLayer;
use crate::service::route::NoteRoute;
use crate::store::HttpCache;

/// `(Cached::ttl(..), body)` is a response. If a response has two such parts, the last one applies.
impl IntoResponseParts for Cached {
    type Error = Infallible;

    fn into_response_parts(self, mut response: ResponseParts) -> Result<ResponseParts, Infallible> {
        response.extensions_mut().insert(self);
        Ok(response)
    }
}

/// Never fails. Without a cache in front of the router, the handle has no effect.
impl<S: Send + Sync> FromRequestParts<S> for CacheCtx {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<CacheCtx, Infallible> {
        Ok(parts.extensions.get::<CacheCtx>().cloned().unwrap_or_default())
    }
}

/// Never fails. Without a cache in front of the router, nothing notes what is read.
impl<S: Send + Sync> FromRequestParts<S> for RequestFields {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<RequestFields, Infallible> {
        let ctx = CacheCtx::from_request_parts(parts, state).await?;
        Ok(RequestFields::new(parts.headers.clone(), ctx))
    }
}

impl HttpCache {
    /// Puts this cache in front of the whole `router`. The result is a router, which you can serve or wrap with
    /// tracing.
    ///
    /// ```
    /// # use {axum::Router, axum::routing::get, larder_http::{Cached, HttpCache}, std::time::Duration};
    /// let router = Router::new().route("/", get(|| async { (Cached::ttl(Duration::from_secs(60)), "hello") }));
    /// let cache = HttpCache::builder().build()?;
    /// let router = cache.in_front_of(router);
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn in_front_of(&self, router: Router) -> Router {
        self.layer().in_front_of(router)
    }
}

impl<K: BodyKey<Body>> HttpCacheLayer<K> {
    /// Puts this layer in front of the whole `router`; see [`HttpCache::in_front_of`].
    ///
    /// ```
    /// # use {axum::Router, axum::routing::post, larder_http::*, std::time::Duration};
    /// let search = |query: String| async move { (Cached::ttl(Duration::from_secs(60)), query) };
    /// let router = Router::new().route("/search", post(search));
    /// let rules = BodyRules::new().route("/search", BodyRule::post());
    /// let router = HttpCache::builder().build()?.layer().body_rules(rules).in_front_of(router);
    /// # Ok::<(), larder_http::BuildError>(())
    /// ```
    pub fn in_front_of(&self, router: Router) -> Router {
        Router::new().fallback_service(self.layer(router.layer(NoteRoute)))
    }
}
