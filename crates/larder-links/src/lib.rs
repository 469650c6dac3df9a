//! A URL shortener whose redirects come out of the cache: web page, JSON API, counted visits and bulk import.
//!
//! ```text
//!                ┌────────────── responses: stored answers of the API, purged by tag ─────────────┐
//! browser ──►  guard ──► GET /api/links … ──────────────────────────────────────────────► store (SQLite)
//!                  │                                                                        ▲      ▲
//!                  └──► GET /{slug} ──► cache: slug → target, negative entries ──── miss ───┘      │
//!                              └──► visits: added up in memory ──► one write a second ─────────────┘
//! ```
//!
//! [`Links`] is the service, [`Config`] its options, [`Store`] the database, [`import`] the bulk import.

mod address;
mod cache;
mod config;
mod error;
mod hosts;
pub mod import;
mod input;
mod links;
mod reply;
mod responses;
mod router;
mod routes;
mod serve;
mod slug;
mod stats;
pub mod store;
mod visits;

pub use address::{Address, AddressError, MAX_URL_BYTES};
pub use config::Config;
pub use error::LinksError;
pub use links::{Deps, Links};
pub use slug::{MAX_SLUG_BYTES, SlugCodec, SlugError, check_custom as check_slug};
pub use stats::{LinksStats, RedirectStats};
pub use store::{Store, StoreError};
pub use visits::VisitStats;
