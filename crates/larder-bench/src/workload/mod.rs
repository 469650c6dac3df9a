//! Requests to the caches, generated from a seed: the same for every cache.

mod keys;
mod pairs;

pub(crate) use keys::{Population, unused_key};
pub(crate) use pairs::Pairs;
