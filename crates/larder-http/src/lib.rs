//! An HTTP response cache as a tower layer: answers from stored bytes before the router.
//!
//! A response is cached only if its handler opts in, with [`Cached`] in the response or through the [`CacheCtx`] in
//! the request's extensions. The cache stores the bytes of the response with its status and headers. A hit replays
//! them without copying the body, before routing, parsing and everything else behind the layer.
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
//! let send = || service.clone().oneshot(Request::get("http://shop.example/products").body(String::new()).unwrap());
//! assert_eq!(send().await?.headers()["cache-status"], "larder; fwd=uri-miss; stored");
//! assert_eq!(send().await?.headers()["age"], "0");
//! cache.purge_tag("products");
//! assert_eq!(send().await?.headers()["cache-status"], "larder; fwd=uri-miss; stored");
//! # Ok(())
//! # }
//! ```
//!
//! # Profiles
//!
//! The above is [`Profile::App`], the default. With [`Profile::Rfc`] no handler opts in: the header fields of each response
//! decide, as RFC 9111 says of a shared cache, and expired responses are validated by the handler. That is for a proxy in front of
//! services that know nothing of this cache. What is said below of opting in, of cookies and of `Vary` concerns the default.
//!
//! # Guarantees
//!
//! - **Nothing personal is shared.** Requests with `Authorization` or `Cookie` bypass, unless the handler declared the
//!   [`Scope`] of its response. A [`gate`](Builder::gate) judges each request for a gated or private response, so a revoked
//!   session gets nothing from the cache. Some responses are never stored, even if the handler opts in: responses that set
//!   a cookie, are `no-store`, vary by credentials, or reflect an origin without `Vary: Origin`.
//! - **One key, one response.** Scheme, authority, raw path and raw query are compared in full, as the client sent them, and so
//!   are the fields that `Vary` names. Requests that name two authorities, have a body, or override their
//!   method bypass. POST and QUERY bypass too, except on routes with a [`BodyRule`], whose body is a part of the key.
//! - **Only queries of GraphQL are answered.** On a route with [`BodyRule::graphql`] mutations, subscriptions and requests
//!   that are not understood are forwarded, and responses with `errors` are never stored.
//! - **Only complete responses are stored.** A body that ends early, fails, has trailers or exceeds the limit is sent
//!   to its client and not stored. A 404 is cached only if the handler allows it, and is replayed as a 404.
//! - **One handler call per key.** Concurrent misses follow the first one. If that waits, it continues in its own task, so
//!   its client may disconnect. Followers get its response if it may be stored, and read its body while the handler sends
//!   it. Otherwise each follower calls the handler at once, and for ten seconds requests for that key do not wait for each
//!   other. If a fill fails after a follower got its head, the follower's body ends with [`IncompleteBody`].
//! - **Memory is bounded.** Bodies in the store, in fills and in replies take at most [`Builder::max_bytes`] and
//!   [`Builder::max_fill_bytes`] together, also if clients stop reading.
//! - **A purge is final.** After it has returned, no response whose handler started before it is served or stored.
//!   This includes the fills that are running.
//! - **Every decision is reported.** Every response has a `Cache-Status` field (RFC 9211) with the reason, and its body
//!   has an [`Outcome`]. [`HttpCache::stats`] counts the outcomes.
//!
//! # Replicas
//!
//! With the feature `shared` the replicas of a service share their responses through Redis: a `SharedHttpCache`, made by
//! `Builder::shared`. A purge then reaches every replica, and one handler among all of them fills a cold key.
//!
//! # Cost
//!
//! A hit takes one or two lookups and allocates for the copied header map and `Cache-Status`; the key is written into a
//! buffer of the thread. It runs inside `call`. It waits only for a gate and, in a shared cache, for Redis. A miss adds
//! about forty small allocations, a hash of the body if it has no `ETag`, and a task if the handler waits.

#![forbid(unsafe_code)]

mod disk;
mod fill;
#[cfg(test)]
mod fuzz;
mod graphql;
mod handles;
mod headers;
mod key;
mod policy;
mod request;
mod rfc;
mod service;
mod shared;
mod status;
mod store;
mod stored;

#[cfg(feature = "disk")]
pub use disk::folder::DiskError;
pub use handles::builder::{BuildError, Builder};
#[cfg(feature = "shared")]
pub use handles::shared_cache::{SharedBuilder, SharedHttpCache};
pub use larder_engine::stats::{MissCauses, TopKey};
pub use larder_engine::{Clock, ManualClock};
pub use policy::cached::Cached;
pub use policy::ctx::{CacheCtx, ForbiddenBecause};
pub use policy::gate::Access;
#[cfg(feature = "async-graphql")]
pub use policy::hints::CacheHints;
pub use policy::labels::Labels;
pub use policy::profile::Profile;
pub use policy::request_fields::{RequestFields, UnkeyedField};
pub use policy::scope::Scope;
pub use request::body_key::{BodyKey, BodyRule, BodyRules, NoBodyKey};
pub use service::HttpCacheService;
pub use service::layer::HttpCacheLayer;
pub use service::response_future::ResponseFuture;
pub use status::stats::{DiskStats, MAX_TOP, Stats};
pub use status::{Outcome, Reason};
pub use store::inspect::{Inspection, ResponseInspection};
pub use store::{HttpCache, PurgeError};
pub use stored::body::{Body, BoxError, IncompleteBody};
#[cfg(feature = "compression")]
pub use stored::encoding::Coding;
