//! Requests to the caches, generated from a seed: the same for every cache.

mod keys;
mod pairs;
mod synthetic;

pub(crate) use keys::{Population, unused_key};
pub(crate) use pairs::Pairs;
pub(crate) use synthetic::{HELP as SYNTHETIC_HELP, Synthetic};
