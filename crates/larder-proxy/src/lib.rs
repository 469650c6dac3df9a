//! A reverse proxy that answers from a response cache.
//!
//! ```text
//! client ─ front ─ service ─┬─ fields: refuse, forward ─ rules ─ HttpCache ─┬─ stored response ◄── gate: who may have it
//!          TLS, limits      │                                   └─ bypass ──┴─ Origins ─ connection ─ origin
//!                           └─ upgrade ───────────────────────────── tunnel ─┘
//! ```
//!
//! hyper reads and writes HTTP on both sides. The cache sees the errors of the origins, because they become responses only
//! outside of it: it can serve stale instead.

#![forbid(unsafe_code)]

mod config;
mod error;
mod fields;
mod front;
mod gate;
mod origin;
mod proxy;
mod replicas;
mod rules;
mod service;
mod stats;

pub use config::Config;
pub use error::ProxyError;
pub use origin::origin_error::OriginError;
pub use proxy::Proxy;
pub use replicas::ProxyCache;
pub use rules::config::{GateConfig, RuleBody, RuleConfig, RuleScope, TagConfig, TagField};
pub use stats::{OriginStats, ProxyStats};
