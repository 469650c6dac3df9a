//! Whether a response is stored, for how long and for whom: what its handler says ([`cached`], [`ctx`], `hints`), what it is
//! made from ([`value_freshness`]), and the decision ([`decide`]), whose result is a [`plan`]. A response is cached only if its
//! handler or nested code opts in, or, under another [`profile`], if its header fields allow it.
//!
//! - [`scope`], [`gate`]: who may get and fill a response; a request with `Authorization` is judged there.
//! - [`rules`]: the options of a cache that concern this.
//! - [`handler_fields`], [`request_fields`]: what a handler sees of a request, and what it has read.
//! - [`handler_purges`]: what a handler purges; [`home_runtime`]: from any thread.

pub(crate) mod cached;
pub(crate) mod ctx;
pub(crate) mod decide;
pub(crate) mod gate;
pub(crate) mod handler_fields;
pub(crate) mod handler_purges;
#[cfg(feature = "async-graphql")]
pub(crate) mod hints;
pub(crate) mod home_runtime;
pub(crate) mod labels;
pub(crate) mod plan;
pub(crate) mod profile;
pub(crate) mod request_fields;
pub(crate) mod rules;
pub(crate) mod scope;
mod settings;
pub(crate) mod value_freshness;
