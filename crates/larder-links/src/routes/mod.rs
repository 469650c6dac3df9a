//! The handlers: the JSON API, the redirect, and the page with its files.

pub(crate) mod api;
pub(crate) mod page;
pub(crate) mod redirect;
