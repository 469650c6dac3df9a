//! What the layer learns from a request before it looks anything up: whether it is eligible, and its body if a rule makes that
//! a part of the key.

pub(crate) mod body_key;
mod read_body;
pub(crate) mod traits;
