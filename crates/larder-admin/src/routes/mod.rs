//! The pages over HTTP: the table of routes, their guard, and the shape of every answer.

pub mod api;
mod assets;
mod explain;
mod guard;
mod health;
mod history_api;
mod metrics;
mod purge_route;
mod query;
pub(crate) mod router;
pub(crate) mod state;
