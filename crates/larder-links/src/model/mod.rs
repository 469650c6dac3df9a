//! The values of the service, without I/O: links' addresses, slugs and tags, tokens, clients, times.

pub(crate) mod address;
pub(crate) mod client;
pub(crate) mod count;
pub(crate) mod qr;
pub(crate) mod random;
pub(crate) mod slug;
pub(crate) mod tag;
pub(crate) mod time;
pub(crate) mod token;
