//! The peer: `tower-http-cache`, a response cache as a tower layer, over its store in memory.

use super::bodies::Value;
use super::kind::TTL;
use axum::Router;
use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::http::{HeaderValue, Response};
use bytes::Bytes;
use http_body_util::Full;
use std::convert::Infallible;
use tower::{Layer, ServiceExt, service_fn};
use tower_http_cache::prelude::{CacheLayer, InMemoryBackend};

/// Its store counts entries.
const MAX_ENTRIES: u64 = 1_000;

/// A router with one route, whose responses the peer caches. Its handler is a plain service, since the peer asks for a
/// body that is `Sync`.
pub(super) fn router(value: Value, max_body_bytes: usize) -> Router {
    let layer = CacheLayer::builder(InMemoryBackend::new(MAX_ENTRIES)).ttl(TTL);
    let layer = layer.max_body_size(Some(max_body_bytes)).allow_streaming_bodies(false).build();
    let handler = service_fn(move |_: Request| {
        let value = value.clone();
        async move {
            let mut response = Response::new(Full::new(Bytes::from(value.encode())));
            response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
            Ok::<_, Infallible>(response)
        }
    });
    let cached = layer.layer(handler).map_response(|response| response.map(Body::new));
    let cached = cached.map_err(|error| -> Infallible { unreachable!("its handler never fails: {error}") });
    Router::new().route_service("/body", cached)
}
