//! Commands on the own connection and on others: handshake, settings, tracking of keys, publish and subscribe.

pub(crate) mod basic;
pub(crate) mod client;
pub(crate) mod client_kill;
pub(crate) mod client_tracking;
pub(crate) mod handshake;
pub(crate) mod http;
pub(crate) mod pubsub;
