//! The two tiers.

pub(crate) mod memory;
pub(crate) mod redis;
