//! Dashboard, metrics and JSON of a running Larder.
//!
//! Parts register a [`Source`], of which this crate knows nothing but the plain [`Sample`] that it returns when asked.
//! [`router`] makes the pages of it:
//!
//! | path | what |
//! |---|---|
//! | `/` | the dashboard: three files, compiled in, without any outside request |
//! | `/api/stats` | the same figures as JSON, in the shape of [`api`] |
//! | `/metrics` | the Prometheus text format 0.0.4 |
//! | `/healthz` | `ok` while every part runs, else 503 and the names of those that do not |
//! | `POST /api/purge` | purging, with the token of [`Token`] |
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
//! # Safety from browsers
//!
//! A page on the internet can make a browser send requests to a loopback port, also under a name that it controls
//! (DNS rebinding). So a request is refused with 421 unless its one `Host` is a loopback name or address, or one given
//! to [`Admin::allow_host`]; only GET and HEAD are answered but for purging, which needs the token, a JSON content
//! type, and an `Origin` that is absent or our own.

pub mod api;
mod assets;
mod guard;
mod metrics;
mod purge;
mod registry;
mod router;
mod sample;
mod token;

pub use purge::{PurgeFuture, Purger, Target};
pub use registry::{Registry, Source};
pub use router::{Admin, router};
pub use sample::{Figure, Sample, State, Tier, Unit};
pub use token::{Token, TokenError};
