//! The handle of a cache, its builder, and the handles with fewer or untyped calls.

pub(crate) mod builder;
pub(crate) mod cache;
pub mod cached_fn;
mod dynamic;
pub(crate) mod local;
