//! The service over HTTP: the accept loop, the guard, the routes and their formats.

mod cursor;
pub(crate) mod error_pages;
pub(crate) mod front;
mod graphql;
mod guard;
pub(crate) mod input;
pub(crate) mod reply;
pub(crate) mod responses;
pub(crate) mod router;
mod routes;
pub(crate) mod serve;
mod view;
