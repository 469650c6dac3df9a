//! What callers and operators are told: errors, events, statistics, and how far a mutation has come.

pub(crate) mod error;
pub(crate) mod events;
pub(crate) mod reach;
pub(crate) mod stats;
