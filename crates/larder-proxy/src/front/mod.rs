//! The side of the clients: accepts connections within limits, makes TLS handshakes, and serves HTTP/1.1 and HTTP/2.

mod accept;
mod activity;
mod client_stream;
mod connection;
pub(crate) mod setup;
