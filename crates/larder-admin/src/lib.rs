//! Dashboard, metrics and JSON of a running Larder.
//!
//! Each part registers a [`Source`], which returns a plain [`Sample`] for each request. [`router`] serves the pages:
//!
//! | path | content |
//! |---|---|
//! | `/` | the dashboard: files that are compiled in, without requests to other hosts |
//! | `/api/stats` | the same figures as JSON, in the shape of [`api`] |
//! | `/api/history` | the activity of the last hour in intervals of five seconds, and events |
//! | `/api/explain` | what the parts would do with a key or a URL, and why |
//! | `/metrics` | the Prometheus text format 0.0.4 |
//! | `/healthz` | liveness: `ok` if every part runs, otherwise 503 and the parts that do not |
//! | `/readyz` | readiness: `ready` if every part answers its requests, otherwise 503; and what each part lacks |
//! | `POST /api/purge` | purges a part; requires the admin token, see [`Token`] |
//!
//! ```
//! use larder_admin::{Registry, Sample, Tier};
//!
//! let registry = Registry::new();
//! registry.register("links", "cache", || {
//!     Sample::running().tier(Tier::new("memory").lookups([("hit", 90), ("miss", 10)]).entries(10).bytes(4096, 65_536))
//! });
//! let router = larder_admin::router(registry);
//! # let _: axum::Router = router;
//! ```
//!
//! With the feature `tiers`, one line registers a cache of the crate `larder`: `registry.register_cache("shop",
//! &cache)`. With the feature `http`, one line registers a response cache of the crate `larder-http`:
//! `registry.register_http("responses", &cache)`.
//!
//! # Protection from web pages
//!
//! A web page can make a browser send requests to a loopback port, also under a host name that it controls (DNS rebinding).
//! A request is therefore refused with 421 unless it has exactly one `Host`, which is a loopback name or address or was
//! allowed by [`Admin::allow_host`]. A loopback name counts only from a loopback address, if the server tells it by
//! `ConnectInfo<SocketAddr>` of axum: other programs can send any name. Only GET and HEAD are allowed, except for a purge,
//! which requires the token, a JSON content type, and an `Origin` that is absent or our own.
//!
//! | feature | default | adds |
//! |---|---|---|
//! | `http` | no | `Registry::register_http`, for response caches of the crate `larder-http` |
//! | `http-shared` | no | the same for response caches that replicas share; it has `http` and `tiers` |
//! | `metrics` | no | `Registry::record`: the figures for the recorder of the facade `metrics` |
//! | `otel` | no | `Registry::observe`: the figures as instruments of an OpenTelemetry meter |
//! | `prometheus-client` | no | `Registry::collector`: the figures in a registry of the crate `prometheus-client` |
//! | `tiers` | no | `Registry::register_cache` and `Sample::with_cache`, for caches of the crate `larder` |

#[cfg(feature = "metrics")]
mod facade;
mod families;
mod history;
mod moment;
mod open_files;
#[cfg(feature = "otel")]
mod otel;
mod parts;
#[cfg(feature = "prometheus-client")]
mod prometheus;
mod routes;
mod token;
mod unwind;

#[cfg(feature = "prometheus-client")]
pub use prometheus::PartsCollector;

pub use parts::degradation::Degradation;
pub use parts::explain::{ExplainFuture, Explainer, Explanation};
pub use parts::purge::{PurgeFuture, Purger, Target, TargetKind};
pub use parts::registry::{Registry, Source};
#[cfg(feature = "http")]
pub use parts::responses::ResponseCache;
pub use parts::sample::{
    Figure, HIT_OUTCOMES, MISS_OUTCOMES, Reasons, Sample, State, Tier, TopEntry, TopList, Unit,
};
pub use routes::api;
pub use routes::router::{Admin, router};
pub use token::{Token, TokenError};

/// The documentation page of this crate, whose examples are tested.
#[cfg(all(doctest, feature = "http", feature = "tiers"))]
#[doc = include_str!("../../../docs/dashboard.md")]
struct Page;
