//! The parts of a process: what each reports, what it can be purged by, and what it explains.

mod beginnings;
pub(crate) mod degradation;
mod estimates;
pub(crate) mod explain;
mod merge;
pub(crate) mod purge;
pub(crate) mod registry;
#[cfg(feature = "http")]
pub(crate) mod responses;
pub(crate) mod sample;
#[cfg(feature = "tiers")]
mod tiers;
