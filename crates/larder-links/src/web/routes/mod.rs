//! The handlers: the JSON API, sessions, the redirect, and the page with its files.

pub(crate) mod api;
pub(crate) mod events;
pub(crate) mod export;
pub(crate) mod graphql;
pub(crate) mod page;
pub(crate) mod qr;
pub(crate) mod redirect;
pub(crate) mod session;
