//! An HTTP response cache as a tower layer: answers from stored bytes before the router.
//!
//! Nothing is cached unless a handler asks for it, with [`Cached`] beside its response or through the [`CacheCtx`]
//! in the request's extensions. What it asks for is stored once, as the bytes that went over the wire, and replayed
//! with its own status and headers, without a copy, before routing, parsing and whatever else stands behind the
//! layer.
//!
//! ```
//! use std::time::Duration;
//! use bytes::Bytes;
//! use http::{Request, Response};
//! use http_body_util::Full;
//! use larder_http::{Cached, HttpCache};
//! use tower::{Layer, ServiceExt, service_fn};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let handler = service_fn(|_: Request<String>| async {
//!     let mut response = Response::new(Full::new(Bytes::from("[1, 2, 3]")));
//!     response.extensions_mut().insert(Cached::ttl(Duration::from_secs(60)).tag("products"));
//!     Ok::<_, std::convert::Infallible>(response)
//! });
//!
//! let cache = HttpCache::builder().max_bytes(64 << 20).build()?;
//! let service = cache.layer().layer(handler);
//!
//! let ask = || service.clone().oneshot(Request::get("http://shop.example/products").body(String::new()).unwrap());
//! assert_eq!(ask().await?.headers()["cache-status"], "larder; fwd=uri-miss; stored");
//! assert_eq!(ask().await?.headers()["age"], "0");
//! cache.purge_tag("products");
//! assert_eq!(ask().await?.headers()["cache-status"], "larder; fwd=uri-miss; stored");
//! # Ok(())
//! # }
//! ```
//!
//! # What a caller may rely on
//!
//! - **Nothing personal is shared.** Requests with `Authorization` bypass, and so do those with `Cookie` unless the
//!   handler declared cookies meaningless. Responses that set a cookie, are `private` or `no-store`, vary by
//!   credentials, or reflect an origin without saying so are never stored, whatever the handler asked for.
//! - **One key, one response.** Scheme, authority, raw path and raw query are compared in full, and so are the
//!   fields that `Vary` names. What names two authorities, carries a body, or overrides its method bypasses.
//! - **Only whole responses.** A body that ends early, fails, has trailers or exceeds the limit reaches its client
//!   and not the store. A cached 404 stays a 404, and is cached only on demand.
//! - **One handler call per key.** Concurrent misses wait for the first; it runs in its own task, so that its client
//!   may go away. Waiters get its response if it may be stored; else all are let go at once, and for ten seconds
//!   nobody waits for that key.
//! - **A purge is final.** Once it returns, no response whose handler started before it is served or stored,
//!   fills in flight included.
//! - **Nothing is silent.** Every response has a `Cache-Status` (RFC 9211) with the reason, and its body an
//!   [`Outcome`]; [`HttpCache::stats`] counts them.
//!
//! # Cost
//!
//! A hit takes one or two lookups and allocates for the copied header map, `Age` and `Cache-Status`; the key is
//! written into a buffer of the thread. It waits for nothing and runs inside `call`. A miss adds a task, a few small
//! allocations, and a hash of the body for its `ETag` if it has none.

mod body;
mod builder;
mod cache;
mod conditional;
mod control;
mod entry;
#[cfg(feature = "axum")]
mod extract;
mod fill;
mod forward;
mod key;
mod layer;
mod policy;
mod purge;
mod range;
mod service;
mod stats;
mod status;
mod vary;

pub use body::Body;
pub use builder::{BuildError, Builder};
pub use cache::{HttpCache, PurgeError};
pub use larder_engine::{Clock, ManualClock};
pub use layer::HttpCacheLayer;
pub use policy::{CacheCtx, Cached, ForbiddenBecause};
pub use service::{HttpCacheService, ResponseFuture};
pub use stats::Stats;
pub use status::{Outcome, Reason};
