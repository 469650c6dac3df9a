//! The clock, and when entries expire.

pub(crate) mod clock;
pub(crate) mod expiry;
pub(crate) mod timestamps;
