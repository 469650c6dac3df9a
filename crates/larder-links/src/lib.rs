//! A URL shortener that redirects from a cache, with web page, JSON and GraphQL API, visit counts and bulk import.
//!
//! ```text
//!                ┌────────────── responses: response cache of the API, purged by tag   ─────────────┐
//! browser ──►  guard ──► GET /api/links … ──────────────────────────────────────────────► store
//!                  │                                                                        ▲      ▲
//!                  └──► GET /{slug} ──► cache: slug → target, negative entries ──── miss ───┘      │
//!                              └──► visits: summed in memory ──► one write a second ───────────────┘
//! ```
//!
//! | route | response |
//! |---|---|
//! | `GET /{slug}` | the redirect; HEAD as well, without counting; 404 page; 410 page for an expired or deleted link; 503 page if the store fails |
//! | `GET /robots.txt` | whether crawlers may follow the links |
//! | `GET /` | the page to create, find, update and delete links |
//! | `POST /api/links` | `{"url", "slug"?, "title"?, "tags"?, "expires_at"?, "max_visits"?, "forward_query"?, "crawlable"?}` → 201, 409 if the slug is taken |
//! | `GET /api/links?limit&sort&after&q&tag&deleted` | `{"links": […], "next"}`, newest first or by visits |
//! | `GET /api/links/{slug}?tz` | one link, with its visits by day in a time zone |
//! | `PATCH /api/links/{slug}` | the fields to change → 200 |
//! | `DELETE /api/links/{slug}` | 204 |
//! | `DELETE /api/links/{slug}/visits` | 204; the visits of the link are forgotten |
//! | `GET /api/events` | visits and changes as server-sent events |
//! | `POST /api/links/{slug}/restore` | the deleted link → 200, for 30 days |
//! | `GET /api/links/{slug}/qr.svg`, `qr.png` | the QR code of the short link |
//! | `GET /api/export?format=csv` | all links as CSV or JSON, a stream |
//! | `POST /api/links/batch` | up to 1,000 links → `{"results": […]}`; none of them is created twice |
//! | `GET`, `POST`, `QUERY /api/graphql` | the same links as GraphQL, read only |
//! | `GET`, `POST`, `DELETE /api/session` | what this client may do; exchange a token for a session cookie; sign out |
//! | `GET /healthz` | `ok` while the database is open and can be written to |
//!
//! Redirects, the files of the page, `/api/session` and `/healthz` are open to everyone. All else needs an API token or a
//! session, unless service and client are on loopback and no option names a proxy or a public host.
//!
//! Wrong input is a 422 that names field, rule and value; 400, 408, 413 and 415 are for the body as a whole, 401 for a
//! missing or wrong token, 403 for a foreign page or host or a scope that does not suffice, 429 for too many requests, 503
//! for a database that is full, locked, read-only, busy or closed. All of them are JSON: `{"error": {"field"?, "message",
//! "value"?}}`.
//!
//! [`Links`] is the service, [`Config`] its options, [`Store`] the database, [`import`] the bulk import.

mod config;
mod error;
pub mod import;
mod model;
mod service;
pub mod store;
mod web;

pub use config::{Config, VisitDetails, host_names};
pub use error::LinksError;
pub use model::address::{Address, AddressError, MAX_URL_BYTES};
pub use model::slug::{MAX_SLUG_BYTES, SlugCodec, SlugError, check_custom as check_slug};
pub use model::tag::{MAX_TAG_BYTES, MAX_TAGS, Tag, TagError};
pub use model::token::{Scope, Secret, TOKEN_PREFIX, Token, TokenName};
pub use service::export;
pub use service::hosts::OwnAddresses;
pub use service::stats::{LinksStats, MAX_TOP_SLUGS, RedirectStats};
pub use service::visits::VisitStats;
pub use service::{Deps, Links, SlugState};
pub use store::{Store, StoreError, StoreHealth};
pub use web::serve::{ServeOptions, serve};

/// Compiles and runs the examples of the user pages, because this crate uses every library.
#[cfg(doctest)]
mod pages {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/options.md")]
    struct Options;
    #[doc = include_str!("../../../docs/cached.md")]
    struct Cached;
    #[doc = include_str!("../../../docs/scale.md")]
    struct Scale;
    #[doc = include_str!("../../../docs/connections.md")]
    struct Connections;
    #[doc = include_str!("../../../docs/engine.md")]
    struct Engine;
    #[doc = include_str!("../../../docs/engine-design.md")]
    struct EngineDesign;
    #[doc = include_str!("../../../docs/stampede.md")]
    struct Stampede;
    #[doc = include_str!("../../../docs/coherence.md")]
    struct Coherence;
    #[doc = include_str!("../../../docs/tags.md")]
    struct Tags;
    #[doc = include_str!("../../../docs/grace.md")]
    struct Grace;
    #[doc = include_str!("../../../docs/warm.md")]
    struct Warm;
    #[doc = include_str!("../../../docs/keys.md")]
    struct Keys;
    #[doc = include_str!("../../../docs/serialization.md")]
    struct Serialization;
    #[doc = include_str!("../../../docs/testing.md")]
    struct Testing;
    #[doc = include_str!("../../../docs/responses.md")]
    struct Responses;
    #[doc = include_str!("../../../docs/use-sessions.md")]
    struct UseSessions;
    #[doc = include_str!("../../../docs/use-page-cache.md")]
    struct UsePageCache;
    #[doc = include_str!("../../../docs/use-rate-limits.md")]
    struct UseRateLimits;
    #[doc = include_str!("../../../docs/from-moka.md")]
    struct FromMoka;
    #[doc = include_str!("../../../docs/from-redis.md")]
    struct FromRedis;
    #[doc = include_str!("../../../docs/from-rails-cache.md")]
    struct FromRailsCache;
    #[doc = include_str!("../../../docs/from-fusioncache.md")]
    struct FromFusionCache;
}
