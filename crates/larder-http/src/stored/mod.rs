//! What is stored, and how it is sent: responses and the records of their variants, bodies in memory and in fills, and the
//! purges that they are checked against.
//!
//! - [`entry`]: a stored response, and its replay; [`record`]: what the variants of a resource differ in.
//! - [`chunks`]: a complete body; [`buffer`]: the body of a running fill; [`body`]: either of them, or that of the handler, as a
//!   client reads it.
//! - `encoding`: the same body in the codings of clients, with the feature `compression`.
//! - [`memory`]: how much all bodies take; [`private`]: how much those of one principal may take.
//! - [`journal`]: a purge, and what is kept of it; [`purge`]: whether an entry was purged, on this replica; [`copy`]: whether the
//!   others still allow it.

pub(crate) mod body;
pub(crate) mod buffer;
pub(crate) mod chunks;
pub(crate) mod copy;
#[cfg(feature = "compression")]
pub(crate) mod encoding;
pub(crate) mod entry;
pub(crate) mod journal;
pub(crate) mod memory;
pub(crate) mod private;
pub(crate) mod purge;
pub(crate) mod record;
