//! What single header fields mean, as functions of headers: nothing here knows a cache.

pub(crate) mod conditional;
pub(crate) mod control;
pub(crate) mod fields;
pub(crate) mod hop_by_hop;
pub(crate) mod range;
pub(crate) mod vary;
