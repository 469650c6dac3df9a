//! What the proxy does to the fields of a message on its way: it refuses requests that two servers could understand in two
//! ways, and changes the fields that belong to one connection.

pub(crate) mod arrival;
pub(crate) mod cookies;
pub(crate) mod forwarded;
pub(crate) mod framing;
pub(crate) mod hop_by_hop;
pub(crate) mod max_forwards;
pub(crate) mod refusal;
pub(crate) mod target;
pub(crate) mod via;
pub(crate) mod websocket;
