//! The handle of a cache, its builder, and the handles with fewer or untyped calls.

pub(crate) mod builder;
pub(crate) mod cache;
pub mod cached_fn;
mod dynamic;
mod fn_views;
pub(crate) mod local;
