//! What the layer learns from a request before it looks anything up: whether it is eligible, and its body if a rule makes that
//! a part of the key.

pub(crate) mod body_key;
pub(crate) mod empty_body;
mod read_body;
pub(crate) mod traits;
