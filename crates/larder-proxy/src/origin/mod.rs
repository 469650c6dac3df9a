//! The origins: how a request gets to one of them, and its response back.
//!
//! ```text
//! Origins ─ health: which origin ─ Origin ─ pool: idle connection, or connect ─ hyper ─ origin
//!                                     │                                           │
//!                                     └── RequestBody, lent to each attempt       └── OriginBody: returns its connection
//! ```

mod attempt;
mod connect;
mod health;
mod lender;
pub(crate) mod origin_error;
mod origin_stream;
mod origins;
mod pool;
pub(crate) mod request_body;
pub(crate) mod response_body;
mod tls;

pub(crate) use origins::{AskedUpgrade, Origins};
